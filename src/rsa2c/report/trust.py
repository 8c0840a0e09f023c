"""Reasons to trust a page and reasons to be careful: residuals, explanation quality, familiarity of the states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rsa2c.attribution import quality

if TYPE_CHECKING:
    from rsa2c.attribution import Explanation
    from rsa2c.report.embedded import Embedded
    from rsa2c.report.episodes import Episode

MOST_STATES, STEPS, DRAWS, BACKGROUND = 128, 8, 6, 32
QUALITY_WORK = 4_000_000_000
"""Budget for deletion and insertion: centres x features x evaluations."""
SENSITIVITY_STATES = 6
SENSITIVITY_RADIUS = 0.02
"""Relative to each feature's standard deviation over visited states."""


def residuals(explained: dict[str, Explanation]) -> list[dict[str, Any]]:
    """The largest efficiency residual of each output, in its units and relative to the largest f(s) - E f."""
    rows = []
    for one in explained.values():
        for number, name in enumerate(one.output_names):
            largest = float(np.abs(one.efficiency_residual[:, number]).max())
            size = float(np.abs(one.values[..., number].sum(axis=1)).max())
            rows.append({"output": name, "residual": largest, "relative": largest / size if size else None})
    return rows


def measures(embedded: Embedded, explained: dict[str, Explanation]) -> list[dict[str, Any]]:
    """Deletion and insertion areas, infidelity and sensitivity of the first output of each function.

    The curves are 1 - |v(C) - f(s)| / |v(none) - f(s)|, means over states: 1 with all features, 0 without any. A good
    ranking has a small area when its features are deleted and a large one when they are inserted.
    """
    rows = []
    background = embedded.background[:BACKGROUND]
    for name, function in embedded.functions.items():
        affordable = QUALITY_WORK // (function.centres.size * len(background) * 6 * STEPS)
        one = explained[name][: max(8, min(MOST_STATES, affordable))]
        rng = np.random.default_rng(0)
        curves = quality.deletion_insertion(function, one, background, rng, steps=STEPS)
        spread = embedded.agent.background.std(axis=0)
        states = one.data[:SENSITIVITY_STATES]
        moved = quality.sensitivity_max(
            lambda s, name=name: embedded.explain(name, s),  # type: ignore[misc]
            states,
            rng,
            SENSITIVITY_RADIUS * spread,
            DRAWS,
        )
        rows.append(
            {
                "output": one.output_names[0],
                # the usual way round: of what the features say, the share that is left
                "deletion": {ranking: 1.0 - area for ranking, area in curves.deletion_area.items()},
                "insertion": {ranking: 1.0 - area for ranking, area in curves.insertion_area.items()},
                "infidelity": quality.infidelity(function, one, background, rng, draws=DRAWS),
                "sensitivity": float(moved.max()),
            }
        )
    return rows


def familiarity(embedded: Embedded, recorded: list[Episode]) -> dict[str, Any]:
    """How often the recorded episodes visited states unlike any remembered one."""
    steps = np.concatenate([np.array(episode.observations) for episode in recorded])
    nearest = embedded.agent.familiarity(steps)
    return {
        "threshold": embedded.familiar,
        "share": float(np.mean(nearest < embedded.familiar)),
        "lowest": float(nearest.min()),
        "steps": len(steps),
    }

"""The paper's claims, each with our statistic, its interval and a verdict.

A claim says that its subject is higher, lower or similar than what it is compared with. A *gain* is written so that
positive is what the paper says. A claim holds when every comparison's interval lies on its side, does not hold when
one lies on the other side (for "similar": when the size of the effect exceeds the margin with its whole interval), and
cannot be said otherwise, or when we have no runs for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rsa2c import paper, statistics
from rsa2c.paper import Claim
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.tables import NOTHING, THRESHOLDS, UNSTABLE, Selection, Table, number
from rsa2c.statistics import Estimate

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be said"
MARGIN = 0.1
"""What still counts as similar, as a share of the size of what it is compared with."""
LARGEST_NOISE = 0.01
"""The largest variance of the paper's main noise tables."""

Measure = Callable[[Record], float]


@dataclass(frozen=True)
class Finding:
    """A claim's verdict under one preset on one environment, with the comparisons behind it."""

    claim: Claim
    environment: str
    preset: str
    comparisons: list[tuple[str, Estimate]]
    """What was compared, and the effect in the claim's direction (positive: as the paper says)."""
    verdict: str


def judge(study: Selection, claim: Claim, environment: str, preset: str) -> Finding:
    """One claim against our runs of one environment and preset."""
    if claim.statistic == "importance_order":
        comparisons = _orders(study, claim, environment, preset)
        return Finding(claim, environment, preset, comparisons, _order_verdict(comparisons))
    measure = MEASURES.get(claim.statistic)
    comparisons = []
    size = 1.0
    if measure is not None:
        of = {name: _values(study, environment, preset, name, measure) for name in (*claim.subject, *claim.against)}
        pairs = [(one, other) for one in claim.subject for other in claim.against if of[one] and of[other]]
        sign = -1.0 if claim.direction == "lower" else 1.0
        summarise = SUMMARIES.get(claim.statistic, np.mean)
        for one, other in pairs:
            effect = statistics.difference([of[one]], [of[other]], summarise, study.rng)
            comparisons.append((f"{one} - {other}", _signed(effect, sign)))
            size = max(size, abs(float(summarise(np.array(of[other]), axis=0))))
        if not claim.against:
            for one in claim.subject:
                if of[one]:
                    comparisons.append((one, statistics.estimate([of[one]], summarise, study.rng)))
                    returns = [item.mean for item in _runs(study, environment, preset, one)]
                    size = max(size, abs(float(np.mean(returns))))
    return Finding(claim, environment, preset, comparisons, _verdict(claim, comparisons, MARGIN * size))


def claims_table(study: Selection, environments: Sequence[str], presets: Sequence[str] = ("paper", "default")) -> Table:
    """Every claim about these environments, with verdicts under both presets."""
    rows = []
    for claim in paper.claims():
        for environment in claim.environments:
            if environment not in environments:
                continue
            for preset in presets:
                finding = judge(study, claim, environment, preset)
                shown = "; ".join(
                    f"{name}: {number(item.value)} [{number(item.low)}, {number(item.high)}]"
                    for name, item in finding.comparisons
                )
                rows.append([f"“{claim.quote}” ({claim.where})", environment, preset, claim.statistic,
                             shown or NOTHING, finding.verdict])  # fmt: skip
    columns = ["the paper says", "environment", "preset", "statistic", "effect in the claimed direction", "verdict"]
    notes = [
        "Effects are written so that positive is what the paper says, with 95% bootstrap intervals over seeds; for "
        f"claims of similarity they are plain differences, and within {MARGIN:.0%} of what is compared is similar."
    ]
    return Table("claims", "The paper's claims", columns, rows, notes)


def _verdict(claim: Claim, comparisons: list[tuple[str, Estimate]], margin: float) -> str:
    items = [item for _, item in comparisons]
    if not items or any(np.isnan([item.value, item.low, item.high]).any() for item in items):
        return OPEN
    if claim.direction == "similar":
        if all(-margin <= item.low and item.high <= margin for item in items):
            return HOLDS
        return FAILS if any(item.low > margin or item.high < -margin for item in items) else OPEN
    if all(item.low > 0 for item in items):
        return HOLDS
    return FAILS if any(item.high < 0 for item in items) else OPEN


def _orders(study: Selection, claim: Claim, environment: str, preset: str) -> list[tuple[str, Estimate]]:
    """Share of runs whose importances have the claimed order."""
    found = []
    for name in claim.subject:
        runs = [item for item in _runs(study, environment, preset, name) if item.importances]
        stage = claim.stage or "late"
        if not runs or stage not in runs[0].importances:
            continue
        features = list(runs[0].importances[stage])
        if not set(claim.order) <= set(features):
            continue
        shares = np.array([[item.importances[stage][feature] for feature in features] for item in runs])
        hits = statistics.follows_order(shares, [features.index(feature) for feature in claim.order])
        found.append((f"{name}, share of seeds", statistics.estimate([hits.astype(float)], np.mean, study.rng)))
    return found


def _order_verdict(comparisons: list[tuple[str, Estimate]]) -> str:
    if not comparisons:
        return OPEN
    if all(item.low > 0.5 for _, item in comparisons):
        return HOLDS
    return FAILS if any(item.high < 0.5 for _, item in comparisons) else OPEN


def _runs(study: Selection, environment: str, preset: str, algorithm: str) -> list[Record]:
    own = "rl-zoo" if algorithm in ("sac", "ppo") else preset
    return study.of(environment=environment, preset=own, algorithm=algorithm)


def _values(study: Selection, environment: str, preset: str, algorithm: str, measure: Measure) -> list[float]:
    values = [measure(item) for item in _runs(study, environment, preset, algorithm)]
    return [value for value in values if not np.isnan(value)]


def _signed(item: Estimate, sign: float) -> Estimate:
    return item if sign > 0 else Estimate(-item.value, -item.high, -item.low)


def _to_threshold(item: Record) -> float:
    levels = THRESHOLDS.get(item.environment)
    if not levels:
        return float("nan")
    steps = statistics.steps_to_threshold(item.curve.returns, levels[0])
    return min(steps, 2.0 * item.steps)  # a run that never arrived counts as twice its length


def _seconds(item: Record) -> float:
    steps = _to_threshold(item)
    if np.isnan(steps):
        return steps
    rate = item.seconds / item.steps
    return float(np.interp(steps, item.curve.steps, item.curve.seconds)) if steps <= item.steps else steps * rate


def _early(item: Record) -> float:
    steps, means = item.curve.returns
    return float(np.mean(means[: max(1, len(steps) // 5)]))


def _roughness(item: Record) -> float:
    steps, means = item.curve.returns
    grid = np.linspace(steps[0], steps[-1], 20)
    return float(statistics.roughness(statistics.aligned([(steps, means)], grid))[0])


def _drop(item: Record) -> float:
    if LARGEST_NOISE not in item.returns:
        return float("nan")
    return item.returns[0.0][0] - item.returns[LARGEST_NOISE][0]


def _noisy(item: Record) -> float:
    return item.returns[LARGEST_NOISE][0] if LARGEST_NOISE in item.returns else float("nan")


def _sparsity(item: Record) -> float:
    late = item.importances.get("late")
    return 1.0 - float(statistics.evenness(list(late.values()))) if late else float("nan")


def _change(item: Record) -> float:
    early, late = item.importances.get("early"), item.importances.get("late")
    if not early or not late:
        return float("nan")
    return float(np.abs(np.array(list(early.values())) - np.array(list(late.values()))).sum())


def _spread(values: ArrayLike, axis: int = -1) -> object:
    return np.std(np.asarray(values, dtype=np.float64), axis=axis)


MEASURES: dict[str, Measure] = {
    "return_difference": lambda item: item.mean,
    "probability_of_improvement": lambda item: item.mean,
    "seed_spread": lambda item: item.mean,
    "noise_spread": _noisy,
    "noise_drop": _drop,
    "steps_to_threshold": _to_threshold,
    "time_to_solution": _seconds,
    "early_return": _early,
    "curve_roughness": _roughness,
    "attribution_sparsity": _sparsity,
    "attribution_change": _change,
    "epoch_time": lambda item: item.epoch_ms,
    "lqr_gap": lambda item: min(item.gap, UNSTABLE),
}
"""What is measured of a run; what only a whole study shows (cost against size, the fitted rate) is in other tables."""
SUMMARIES: dict[str, Callable[..., object]] = {
    "seed_spread": _spread,
    "noise_spread": _spread,
    "steps_to_threshold": np.median,
    "time_to_solution": np.median,
    "lqr_gap": np.median,
}

"""What the agent looks at: importances and kernel weights over training, Shapley values over visited states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rsa2c.config import AgreementGuidance
from rsa2c.statistics.words import MOST_NAMED

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.attribution import Explanation
    from rsa2c.report.embedded import Embedded
    from rsa2c.runs.data import AgentData

STATES, FEWEST_STATES, MOST_VALUES = 200, 60, 600_000
"""States that are explained: fewer where features times outputs are so many that their values would make the page
large."""
TRAINING_COLUMNS = 120


def training_log(data: AgentData) -> dict[str, Any] | None:
    """Importances and kernel weights over epochs, thinned to fit a screen; None if nothing guided the kernel."""
    log = data.attributions
    if log is None or not len(log["epoch"]):
        return None
    every = -(-len(log["epoch"]) // TRAINING_COLUMNS)
    return {
        "epochs": log["epoch"][::every].tolist(),
        "features": [str(name) for name in log["feature_names"]],
        "importances": log["phi"][::every].astype(np.float32),
        "weights": log["weights"][::every].astype(np.float32),
    }


def reasons(agent: RSA2C) -> str | None:
    """Why features count, in a sentence; None where the rule of guidance does not ask."""
    rule = agent.config.guidance
    if not isinstance(rule, AgreementGuidance) or not agent.importances.updates:
        return None
    moved, repeats = (each >= 0.5 for each in agent.importances.reasons(rule.moment_decay))
    alone = [agent.feature_names[i] for i in np.flatnonzero(repeats & ~moved)]
    neither = int(np.sum(~(moved | repeats)))
    parts = [f"Actions move {int(moved.sum())} of {len(moved)} features"]
    if alone:
        shown = ", ".join(alone[:MOST_NAMED]) + (", ..." if len(alone) > MOST_NAMED else "")
        parts.append(f"{len(alone)} count{'s' if len(alone) == 1 else ''} by attributions that repeat ({shown})")
    if neither:
        parts.append(f"{neither} count{'s' if neither == 1 else ''} for neither reason")
    return "; ".join(parts) + "."


def explanations(embedded: Embedded) -> dict[str, Explanation]:
    """Explanations of every function at visited states."""
    values = len(embedded.agent.feature_names) * len(embedded.output_names)
    states = embedded.agent.background[: min(STATES, max(FEWEST_STATES, MOST_VALUES // values))]
    return {name: embedded.explain(name, states) for name in embedded.functions}


def fidelity(embedded: Embedded, explained: dict[str, Explanation]) -> dict[str, Any]:
    """Whether rankings of the features describe each function, those that guided and their own: a row for each
    ranking, with a cell for each function."""
    found = {name: embedded.agent.fidelity(one, name) for name, one in explained.items()}
    rankings = next(iter(found.values()))
    return {
        "functions": list(found),
        "rows": [
            {
                "ranking": ranking,
                "cells": [
                    {key: None if np.isnan(number) else number for key, number in vars(of[ranking]).items()}
                    for of in found.values()
                ],
            }
            for ranking in rankings
        ],
    }


def swarm(embedded: Embedded, explained: dict[str, Explanation]) -> dict[str, Any]:
    """Values (states, features, outputs) of all functions side by side, in the units shown."""
    first = next(iter(explained.values()))
    values = [embedded.in_units(name, one) for name, one in explained.items()]
    return {
        "states": first.data.astype(np.float32),
        "values": np.concatenate(values, axis=2).astype(np.float32),
        "outputs": [name for one in explained.values() for name in one.output_names],
    }

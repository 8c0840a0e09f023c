"""What the agent looks at: importances and kernel weights over training, Shapley values over visited states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
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

"""What the agent looks at: importances and kernel weights over training, Shapley values over visited states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rsa2c.attribution import Explanation
    from rsa2c.report.embedded import Embedded
    from rsa2c.runs.data import AgentData

STATES = 200
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
    return {name: embedded.explain(name, embedded.agent.background[:STATES]) for name in embedded.functions}


def swarm(embedded: Embedded, explained: dict[str, Explanation]) -> dict[str, Any]:
    """Values (states, features, outputs) of all functions side by side, in the units shown."""
    first = next(iter(explained.values()))
    values = [embedded.in_units(name, one) for name, one in explained.items()]
    return {
        "states": first.data.astype(np.float32),
        "values": np.concatenate(values, axis=2).astype(np.float32),
        "outputs": [name for one in explained.values() for name in one.output_names],
    }

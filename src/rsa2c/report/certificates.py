"""The page's table of certificates: proven bounds on how far observation errors can move the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C

EPSILONS = (0.01, 0.05, 0.1)
"""Lengths of the perturbation in standard deviations of the features."""
STATES = 40


def table(agent: RSA2C) -> list[dict[str, Any]]:
    """Certified deviations at visited states for each perturbation length: median and maximum over states."""
    half = agent.policy.bounds.half
    rows = []
    for epsilon in EPSILONS:
        found = agent.certify(agent.background[:STATES], epsilon, units="normalised")
        moved, of_value = found.deviation, found.value_deviation
        rows.append(
            {
                "epsilon": epsilon,
                "median": np.median(moved, axis=0).tolist(),
                "largest": moved.max(axis=0).tolist(),
                "share": float((moved / (2 * half)).max(axis=1).mean()),
                "total_variation": float(np.median(found.total_variation)),
                "value": None if of_value is None else float(np.median(of_value)),
            }
        )
    return rows

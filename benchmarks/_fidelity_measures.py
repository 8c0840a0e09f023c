"""What the fidelity benchmark measures: numbers about trained agents, each a pure function of their explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c import RSA2C
from rsa2c.attribution import Explanation
from rsa2c.attribution.quality import MOST_STATES, OWN, RANDOM
from rsa2c.envs.lqr import riccati
from rsa2c.statistics import rank_agreement
from rsa2c.trained import MEASURED, WEIGHTS

Array = NDArray[np.float64]
STATES, BACKGROUND = 200, 200
"""States that all agents of a task explain, and the background of all, as many from each agent's visited states."""
FUNCTIONS = ("value", "action")


def quadratic_values(matrix: Array, states: Array, background: Array) -> Array:
    """Interventional Shapley values (T, d) of s^T P s for symmetric P, against a background x.

    phi_i = P_ii (s_i^2 - E x_i^2) + sum_{j != i} P_ij (s_i s_j + s_i E x_j - s_j E x_i - E x_i x_j): a square is a
    feature of its own, and each feature of a product has half of what it adds alone and half of what it adds last.
    """
    mean, second = background.mean(axis=0), background.T @ background / len(background)
    diagonal = np.diag(matrix)
    cross = matrix - np.diag(diagonal)
    with_others = states @ cross
    alone = diagonal * (states**2 - np.diag(second))
    return alone + states * (with_others + cross @ mean) - mean * with_others - (cross * second).sum(axis=1)


def linear_values(gain: Array, states: Array, background: Array) -> Array:
    """Interventional Shapley values (T, d) of g s: g_i (s_i - E x_i)."""
    return gain * (states - background.mean(axis=0))


def true_values(of: str, states: Array, background: Array) -> Array:
    """(T, 4): Shapley values of the LQR's optimal value -s^T P3 s, or of its optimal control -K s."""
    p3, gain = riccati()
    return quadratic_values(-p3, states, background) if of == "value" else linear_values(-gain[0], states, background)


def shared(agents: Sequence[RSA2C]) -> tuple[Array, Array]:
    """States to explain and a background, of different visited states, as many of each agent's."""
    each = [np.random.default_rng(0).permutation(agent.background) for agent in agents]
    count, rest = STATES // len(agents), BACKGROUND // len(agents)
    return np.vstack([rows[:count] for rows in each]), np.vstack([rows[count : count + rest] for rows in each])


def explained(agents: Sequence[RSA2C], of: str) -> list[Explanation]:
    """Explanations of the same states against the same background, by every agent."""
    states, background = shared(agents)
    return [agent.explain(states, of=of, background=background) for agent in agents]


def against_truth(agents: Sequence[RSA2C], of: str) -> dict[str, list[float]]:
    """How far explanations of the LQR's value or policy are from the true ones, a number for each agent."""
    states, background = shared(agents)
    truth = true_values(of, states, background)
    importance = np.abs(truth).mean(axis=0)
    rows = [_against(agent, one, truth) for agent, one in zip(agents, explained(agents, of), strict=True)]
    for row, agent in zip(rows, agents, strict=True):
        row |= {f"rank of {name}": rank_agreement(guide, importance) for name, guide in agent.guided_by.items()}
    return {name: [row[name] for row in rows] for name in rows[0]}


def _against(agent: RSA2C, one: Explanation, truth: Array) -> dict[str, float]:
    """Values of one explanation against the true ones. What is off is relative to the size of what is true; the
    function's own error, f - E f against its truth, is the sum of those of its values."""
    phi = one.values[..., 0]
    whole, right = phi.sum(axis=1), truth.sum(axis=1)
    states = [np.corrcoef(a, b)[0, 1] for a, b in zip(phi, truth, strict=True)]
    return {
        "function": float(np.linalg.norm(whole - right) / np.linalg.norm(right)),
        "values": float(np.linalg.norm(phi - truth) / np.linalg.norm(truth)),
        "correlation": float(np.corrcoef(phi.ravel(), truth.ravel())[0, 1]),
        "correlation within a state": float(np.mean(states)),
        "rank": rank_agreement(np.abs(phi).mean(axis=0), np.abs(truth).mean(axis=0)),
    }


def ignored_shares(agent: RSA2C, ignored: Sequence[int], output: int) -> dict[str, float]:
    """Share of each importance that features have which the reward ignores; half of the features are such."""
    at = agent.background
    found = {of: agent.explain(at, of=of).importances for of in FUNCTIONS}
    importances = {"value": found["value"][:, 0], "action": found["action"][:, output]}
    guides = {MEASURED: np.sqrt(agent.guided_by[MEASURED]), WEIGHTS: agent.kernel_weights}
    return {name: share(numbers, ignored) for name, numbers in (importances | guides).items()}


def share(importances: Array, features: Sequence[int]) -> float:
    """Share of the sum that these features have."""
    return float(importances[list(features)].sum() / importances.sum())


def guide_and_explained(agent: RSA2C, of: str) -> dict[str, float]:
    """Rank agreement of what guided with what is explained, and the deletion areas of all rankings."""
    found = agent.fidelity(agent.explain(agent.background[:MOST_STATES], of=of), of)
    agreement = {f"agreement {name}": found[name].agreement for name in (MEASURED, WEIGHTS)}
    return agreement | {f"deletion {name}": found[name].deletion for name in (OWN, MEASURED, WEIGHTS, RANDOM)}


def across_seeds(agents: Sequence[RSA2C]) -> dict[str, list[float]]:
    """For every pair of agents: correlation of local values and rank agreement of global importances of each function,
    the mean over its outputs, and rank agreement of what guided."""
    numbers: dict[str, list[float]] = {}
    for of in FUNCTIONS:
        found = explained(agents, of)
        numbers[f"{of}: local"] = of_pairs([one.values for one in found], _correlation)
        numbers[f"{of}: global"] = of_pairs([one.importances for one in found], _agreement)
    for name in (MEASURED, WEIGHTS):
        numbers[name] = of_pairs([agent.guided_by[name] for agent in agents], rank_agreement)
    return numbers


def of_pairs(items: Sequence[Any], measure: Callable[[Any, Any], float]) -> list[float]:
    """A measure of every pair of two different items."""
    return [measure(a, b) for a, b in combinations(items, 2)]


def _correlation(first: Array, second: Array) -> float:
    """Of values (T, d, m) over states and features, the mean over outputs."""
    outputs = range(first.shape[2])
    return float(np.mean([np.corrcoef(first[..., o].ravel(), second[..., o].ravel())[0, 1] for o in outputs]))


def _agreement(first: Array, second: Array) -> float:
    """Of importances (d, m), the mean over outputs."""
    return float(np.mean([rank_agreement(a, b) for a, b in zip(first.T, second.T, strict=True)]))

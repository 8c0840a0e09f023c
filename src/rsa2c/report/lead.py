"""The page's first line: what the agent does, in words that the data support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rsa2c.envs.known import find
from rsa2c.evaluation import EvaluationResult
from rsa2c.statistics.words import leading

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.attribution import Explanation


def lead(agent: RSA2C, result: EvaluationResult | None, explained: dict[str, Explanation] | None) -> dict[str, Any]:
    """The parts of the line: what it can do, its score, and the feature that counts most."""
    return {
        "skill": None if result is None else skill(agent.env_id, result),
        "mean": None if result is None else result.mean,
        "episodes": None if result is None else len(result.returns),
        **_feature(agent, explained),
    }


def skill(env_id: str, result: EvaluationResult) -> str | None:
    """What the environment's file says a good policy does, if these episodes prove it."""
    known = find(env_id)
    if known is None or known.skill is None or result.returns.min() < known.skill.worst_return:
        return None
    whole = bool(np.all(result.lengths >= known.episode_limit))
    return known.skill.words if whole or not known.skill.whole_episodes else None


def _feature(agent: RSA2C, explained: dict[str, Explanation] | None) -> dict[str, Any]:
    """The feature with the largest Shapley values of the actions, each action counted equally; without an explanation,
    the one with the largest kernel weight, where no other has it. Weights say what guided, which can be another."""
    if explained is not None:
        sizes = np.abs(explained["action"].values).mean(axis=0)
        shares = (sizes / np.maximum(sizes.sum(axis=0), np.finfo(float).tiny)).sum(axis=1)
        return {"verb": "responds most to", "feature": agent.feature_names[int(shares.argmax())]}
    weights = agent.kernel_weights
    if len(leading(weights)) == 1:
        return {"verb": "looks most at", "feature": agent.feature_names[int(weights.argmax())]}
    return {"verb": None, "feature": None}

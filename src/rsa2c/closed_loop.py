"""Explanations that need an environment: of any policy, by a surrogate, and of what hiding features costs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.explaining import explain
from rsa2c.attribution.game import spread
from rsa2c.attribution.surrogate import SEGMENTS, PolicyExplanation, fit_surrogate
from rsa2c.envs import EnvLike, action_names, feature_names, make_single
from rsa2c.envs.modules import use_module
from rsa2c.errors import ConfigError, DataError
from rsa2c.evaluation import evaluate

Array = NDArray[np.float64]
EXPLAINED_STATES = 64
"""Visited states that are explained unless others are given."""


def explain_policy(
    policy: Any,
    env: EnvLike,
    states: ArrayLike | None = None,
    *,
    steps: int = 4000,
    centres: int = 512,
    background: int = 100,
    minimum_r2: float = 0.9,
    seed: int = 0,
    **options: Any,
) -> PolicyExplanation:
    """Explain a policy by a kernel surrogate of its deterministic actions.

    `policy` has Stable-Baselines3's `predict` or is a function from an observation to an action; `env` is
    what `evaluate` takes, in which it visits `steps` states. `states` (T, d) are explained, 64 visited ones
    unless given, against `background` visited ones. An action whose held-out R^2 is under `minimum_r2` is an
    error. Options are those of `rsa2c.attribution.explain`.
    """
    if steps < 10 * SEGMENTS:
        raise ConfigError(f"explain_policy needs at least {10 * SEGMENTS} steps to fit and to check, got {steps}.")
    if centres < 1 or background < 1:
        raise ConfigError(f"centres and background must be at least 1, got {centres} and {background}.")
    rng = np.random.default_rng(seed)
    visited, actions, names, outputs = _visit(policy, env, steps, seed)
    surrogate, r2 = fit_surrogate(visited, actions, outputs, centres, rng)
    if not np.all(r2 >= minimum_r2):
        found = ", ".join(f"{name} {r:.3f}" for name, r in zip(outputs, r2, strict=True))
        raise DataError(
            f"the surrogate's held-out R^2 must be at least {minimum_r2}, got {found}: its explanation would not be "
            "the policy's. Give more steps or centres, or pass minimum_r2 to accept less."
        )
    some = spread(len(visited), EXPLAINED_STATES)
    rows = rng.choice(len(visited), min(background, len(visited)), replace=False)
    chosen = visited[some] if states is None else states
    explanation = explain(surrogate, chosen, visited[rows], feature_names=names, **options)
    return PolicyExplanation(explanation, surrogate, r2, visited)


def _visit(policy: Any, env: EnvLike, steps: int, seed: int) -> tuple[Array, Array, tuple[str, ...], tuple[str, ...]]:
    """States a policy visits (N, d), its deterministic actions there (N, m), and the names of both."""
    act = _acting(policy)
    use_module(env)
    single = make_single(env)
    try:
        states, actions = [], []
        observation, _ = single.reset(seed=seed)
        for _ in range(steps):
            action = np.asarray(act(observation), dtype=np.float64).reshape(single.action_space.shape)
            states.append(np.array(observation, dtype=np.float64))
            actions.append(action.ravel())
            observation, _, terminated, truncated, _ = single.step(action.astype(single.action_space.dtype))
            if terminated or truncated:
                observation, _ = single.reset()
        d, m = len(states[0]), len(actions[0])
        return np.array(states), np.array(actions), feature_names(single, d), action_names(single, m)
    finally:
        single.close()


def _acting(policy: Any) -> Callable[[Any], Any]:
    if hasattr(policy, "predict"):
        return lambda observation: policy.predict(observation, deterministic=True)[0]
    if callable(policy):
        return policy
    raise ConfigError(
        f"a policy is a function from observation to action or has a method predict, got {type(policy).__name__}."
    )


class MaskedPolicy:
    """A policy that sees fixed numbers in place of some features."""

    def __init__(self, policy: Any, features: Sequence[int], fill: ArrayLike) -> None:
        self.policy, self.features, self.fill = policy, list(features), np.asarray(fill, dtype=np.float64)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], Any]:
        """The policy's prediction for the masked observation or batch."""
        masked = np.array(observation)
        masked[..., self.features] = self.fill[self.features]
        result: tuple[NDArray[Any], Any] = self.policy.predict(masked, state, episode_start, deterministic)
        return result


def masked_returns(
    policy: Any,
    env: Any,
    importances: ArrayLike,
    fill: ArrayLike,
    counts: Sequence[int] = (0, 1, 2, 3),
    episodes: int = 20,
    seed: int = 0,
) -> dict[int, Array]:
    """Closed-loop returns (episodes,) when the k most important features are hidden, for each k in `counts`.

    `importances` (d,) ranks the features, `fill` (d,) is what the policy sees instead, the background's mean
    for example. Every k runs the same episodes.
    """
    order = np.argsort(-np.asarray(importances), kind="stable")
    if max(counts) > len(order) or min(counts) < 0:
        raise ConfigError(f"counts must be between 0 and {len(order)}, the number of features, got {tuple(counts)}.")
    return {
        k: evaluate(MaskedPolicy(policy, order[:k].tolist(), fill), env, episodes=episodes, seed=seed).returns
        for k in counts
    }

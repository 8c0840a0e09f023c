"""Explanations of any policy: a kernel surrogate of its actions, its held-out fidelity, and its exact Shapley values.

The surrogate is regressed on states the policy itself visits, h(s) = offset + sum_j k(s, s_j) c_j with ridge,
c = (Phi^T Phi / N + lambda K_DD)^-1 Phi^T u / N; length scale and lambda are those that predict a validation part
best, and what is reported is R^2 on a third part that took no part in either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.explaining import explain
from rsa2c.attribution.explanation import Explanation
from rsa2c.envs import action_names, feature_names, make_single
from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.linalg import solve_positive
from rsa2c.kernel.rkhs import Normaliser, RKHSFunction

Array = NDArray[np.float64]
WIDTHS = (0.25, 0.5, 1.0, 2.0)
RIDGES = (1e-8, 1e-6, 1e-4, 1e-2)
ADMISSION = 1e-5
SEGMENTS = 50


@dataclass(frozen=True)
class PolicyExplanation:
    """The explanation, the surrogate it explains, its held-out R^2 for each action, and the visited states."""

    explanation: Explanation
    surrogate: RKHSFunction
    r2: Array
    visited: Array

    def __str__(self) -> str:
        fidelity = ", ".join(f"{n} {r:.3f}" for n, r in zip(self.surrogate.output_names, self.r2, strict=True))
        return f"surrogate of {self.surrogate.dictionary.size} states, held-out R^2: {fidelity}"


def explain_policy(
    policy: Any,
    env: str | Callable[[], Any],
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

    `policy` has Stable-Baselines3's `predict` or is a function from an observation to an action; `env` is a
    Gymnasium id or a factory, in which it visits `steps` states. `states` (T, d) are explained, 64 visited ones
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
    chosen = visited[np.linspace(0, len(visited) - 1, 64).astype(int)] if states is None else states
    rows = rng.choice(len(visited), min(background, len(visited)), replace=False)
    explanation = explain(surrogate, chosen, visited[rows], feature_names=names, **options)
    return PolicyExplanation(explanation, surrogate, r2, visited)


def fit_surrogate(
    states: Array, actions: Array, output_names: tuple[str, ...], centres: int, rng: np.random.Generator
) -> tuple[RKHSFunction, Array]:
    """The surrogate and its held-out R^2, (m,); parts are whole segments of time, so neighbours stay together."""
    part = rng.permutation(np.arange(SEGMENTS) % 5)[np.arange(len(states)) * SEGMENTS // len(states)]
    train, choose, held = part < 3, part == 3, part == 4
    normaliser = Normaliser.fitted(states[train])
    x = normaliser(states)
    offset = actions[train].mean(axis=0)
    spread = actions[train].std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    targets = (actions - offset) / spread
    width = np.sqrt(np.maximum(x[train].var(axis=0).sum(), 1e-12))
    best: tuple[float, Dictionary, Array] | None = None
    for factor in WIDTHS:
        kernel = RBF(factor * width, np.ones(x.shape[1]))
        dictionary = Dictionary.empty(kernel).grown(x[train], ADMISSION, centres)
        features = kernel(x, dictionary.centres)
        inner = features[train].T @ features[train] / train.sum()
        right = features[train].T @ targets[train] / train.sum()
        for ridge in RIDGES:
            metric = inner + ridge * (dictionary.gram + 1e-6 * np.eye(dictionary.size))
            coefficients = solve_positive(metric, right, "the surrogate", "Visit more states, or fewer centres")
            error = float(np.square(features[choose] @ coefficients - targets[choose]).mean())
            if best is None or error < best[0]:
                best = (error, dictionary, coefficients)
    assert best is not None
    surrogate = RKHSFunction(best[1], best[2] * spread, normaliser, output_names, offset)
    missed = np.square(surrogate(states[held]) - actions[held]).sum(axis=0)
    varied = np.square(actions[held] - actions[held].mean(axis=0)).sum(axis=0)
    # An action that never varies is explained by the offset alone.
    constant = varied <= 1e-20 * held.sum()
    right_constant = np.where(missed <= 1e-12 * held.sum(), 1.0, 0.0)
    return surrogate, np.where(constant, right_constant, 1 - missed / np.where(constant, 1, varied))


def _visit(
    policy: Any, env: str | Callable[[], Any], steps: int, seed: int
) -> tuple[Array, Array, tuple[str, ...], tuple[str, ...]]:
    """States a policy visits, its deterministic actions there, and the names of both."""
    act = _acting(policy)
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

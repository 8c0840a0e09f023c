"""A learned adversary: an attack that was trained to lower a policy's return.

The perturbations that do most harm over an episode are the solution of a control problem (Zhang et al. 2021): the
adversary sees the true state, its action is the perturbation of what the policy sees, and its reward is the negative of
the policy's. RSA2C learns it like any other; how strong the attack is depends on how long. Attacks that look one step
ahead are in `robustness/attacks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rsa2c.agent import RSA2C
from rsa2c.envs import EnvLike
from rsa2c.envs.single import make_single
from rsa2c.evaluation import Policy
from rsa2c.robustness.regions import Region, Units, unit_scale

Array = NDArray[np.float64]


class Attacked(gymnasium.Env[Any, Any]):
    """The environment of an adversary: its action, in [-1, 1] for each feature, perturbs what the policy sees."""

    def __init__(self, env: gymnasium.Env[Any, Any], policy: Policy, size: Array) -> None:
        self.env, self.policy, self.size = env, policy, size
        self.observation_space = env.observation_space
        self.action_space = Box(-1.0, 1.0, size.shape, np.float64)
        self._true, self._state, self._first = np.zeros_like(size), None, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._true, info = self.env.reset(seed=seed, options=options)
        self._state, self._first = None, True
        return self._true, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen = self._true + self.size * action
        move, self._state = self.policy.predict(seen, self._state, self._first, deterministic=True)
        self._first = False
        self._true, reward, terminated, truncated, info = self.env.step(move)
        return self._true, -float(reward), terminated, truncated, info

    def close(self) -> None:
        self.env.close()


@dataclass(frozen=True, eq=False)
class LearnedAttack:
    """What an adversary does to observations: each feature is moved by at most `size`, (d,) in raw units."""

    adversary: RSA2C
    size: Array

    def __call__(self, observations: NDArray[Any], rngs: Sequence[np.random.Generator]) -> Array:
        perturbation, _ = self.adversary.predict(observations, deterministic=True)
        return observations + self.size * perturbation


def learn_attack(
    policy: Policy,
    env: EnvLike,
    epsilon: float,
    *,
    units: Units = "raw",
    total_timesteps: int = 300_000,
    seed: int = 0,
    **settings: Any,
) -> LearnedAttack:
    """An attack on `policy` in `env`, learned in `total_timesteps` environment steps.

    Every feature is perturbed by at most `epsilon`, in raw units or in standard deviations of the agent's metric.
    `settings` are the adversary's, as in `RSA2C`.
    """
    with make_single(env) as single:
        assert single.observation_space.shape is not None, "make_single checked it"
        region = Region(epsilon, "linf", unit_scale(policy, units))
        size = np.broadcast_to(np.float64(region.epsilon) * region.scale, single.observation_space.shape).copy()
    adversary = RSA2C(lambda: Attacked(make_single(env), policy, size), seed=seed, **settings)
    try:
        return LearnedAttack(adversary.learn(total_timesteps), size)
    finally:
        adversary.close()

"""Environments with the functional interface of Brax and MuJoCo Playground, each copy as one of Gymnasium's.

`reset(key)` and `step(state, action)` are functions of arrays and return a state with `obs`, `reward` and `done`;
actions lie in [-1, 1]. `done` terminates an episode, and the attribute `episode_limit` truncates it. Wrappers that end
or reset episodes themselves are to be left out.
"""

from __future__ import annotations

from inspect import getattr_static
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from rsa2c.errors import EnvError, require

INTERFACE = ("reset", "step", "observation_size", "action_size")
EPISODE_LIMIT = 1000
"""Steps after which an episode is truncated where the environment has no attribute `episode_limit`."""


def is_functional(env: Any) -> bool:
    """Whether an object is an environment with the functional interface, and none of Gymnasium's.

    Properties are not asked for their values: Brax resets an environment to find the size of its observations.
    """
    known = (getattr_static(env, name, None) is not None for name in INTERFACE)
    return not isinstance(env, gym.Env | VectorEnv | type) and all(known)


class Functional:
    """Such an environment: its sizes, and its functions, which are compiled once for all copies."""

    def __init__(self, env: Any) -> None:
        self.env, self.name = env, type(env).__name__
        self.features, self.actions = env.observation_size, env.action_size
        if not isinstance(self.features, int):
            raise EnvError(f"observations of {self.name} must be one vector, got the sizes {self.features}.")
        self.episode_limit: int | None = getattr(env, "episode_limit", EPISODE_LIMIT)
        self.jax: Any = require("jax", "gpu", f"{self.name}, which has a functional interface,")
        self.reset, self.step = self.jax.jit(env.reset), self.jax.jit(env.step)

    def __reduce__(self) -> tuple[Any, ...]:
        return Functional, (self.env,)

    def single(self) -> gym.Env[Any, Any]:
        """One copy, for Gymnasium."""
        single = FunctionalEnv(self)
        return single if self.episode_limit is None else TimeLimit(single, self.episode_limit)


class FunctionalEnv(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One copy, stepped on its own on JAX's default device: what evaluations, reports and trainings on `cpu` step."""

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self, functional: Functional) -> None:
        self.functional, self.state, self.env_id = functional, None, functional.name
        self.observation_space = spaces.Box(-np.inf, np.inf, (functional.features,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (functional.actions,), np.float32)
        self.observation_names = getattr(functional.env, "observation_names", None)
        self.action_names = getattr(functional.env, "action_names", None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        key = self.functional.jax.random.PRNGKey(int(self.np_random.integers(2**31)))
        self.state = self.functional.reset(key)
        return self._observed(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        state: Any = self.functional.step(self.state, np.asarray(action, np.float32))
        self.state = state
        return self._observed(), float(state.reward), bool(state.done), False, {}

    def _observed(self) -> NDArray[np.float32]:
        state: Any = self.state
        return np.asarray(state.obs, np.float32)

"""An environment of the device as one of Gymnasium's: what evaluations and reports step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from rsa2c.gpu.environments import Environment, Functional


class SingleEnv(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One copy, stepped on its own on JAX's default device."""

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self, env: Environment) -> None:
        self.environment, self.state = env, None
        self.observation_space = spaces.Box(-np.inf, np.inf, (env.features,), np.float32)
        self.action_space = spaces.Box(env.low.astype(np.float32), env.high.astype(np.float32))
        self._reset, self._step, self._observe = jax.jit(env.reset), jax.jit(env.step), jax.jit(env.observe)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self._reset(jax.random.PRNGKey(int(self.np_random.integers(2**31))))
        return np.asarray(self._observe(self.state), np.float32), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.state, reward, terminated, truncated = self._step(self.state, np.asarray(action, np.float32))
        observation = np.asarray(self._observe(self.state), np.float32)
        return observation, float(reward), bool(terminated), bool(truncated), {}


class SingleFactory:
    """Makes such copies of an environment with the functional interface, and has it for the device."""

    def __init__(self, env: Any) -> None:
        self.environment = Functional(env)
        self.kind = type(type(env).__name__, (SingleEnv,), {})  # its name is what runs and files are called by

    def __call__(self) -> gym.Env[Any, Any]:
        single, limit = self.kind(self.environment), self.environment.episode_limit
        return single if limit is None else TimeLimit(single, limit)

"""Small environments whose every observation and reward is known beforehand."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class Counter(gym.Env):
    """Observes (episode number, step in the episode); step k of episode e pays 100 e + k.

    Episodes last as many steps as `lengths` says in turn; they terminate where `terminates` says so, else
    truncate.
    """

    def __init__(self, lengths: tuple[int, ...] = (3, 5), terminates: tuple[bool, ...] = (True, False)) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.lengths, self.terminates = lengths, terminates
        self.episode, self.step_number = -1, 0

    def observe(self) -> np.ndarray:
        return np.array([self.episode, self.step_number], dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.episode = 0 if seed is not None else self.episode + 1
        self.step_number = 0
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.step_number += 1
        over = self.step_number >= self.lengths[self.episode % len(self.lengths)]
        terminates = over and self.terminates[self.episode % len(self.terminates)]
        reward = 100.0 * self.episode + self.step_number
        return self.observe(), reward, terminates, over and not terminates, {}


class Forgetful(Counter):
    """Does not forget: a private count of all steps ever taken shows in its reward, whatever the reset."""

    def __init__(self) -> None:
        super().__init__(lengths=(4,), terminates=(False,))
        self.total = 0

    def step(self, action):
        self.total += 1
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(self.total), terminated, truncated, info


class Broken(Counter):
    """A Counter that goes wrong after `good` steps: `what` is "observation", "reward" or "shape"."""

    def __init__(self, what: str, value: float = np.nan, good: int = 3) -> None:
        super().__init__(lengths=(10,), terminates=(False,))
        self.what, self.value, self.good = what, value, good

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self.step_number > self.good:
            if self.what == "observation":
                observation[1] = self.value
            elif self.what == "reward":
                reward = self.value
        return observation, reward, terminated, truncated, info


class Spaces(gym.Env):
    """An environment that has nothing but its spaces."""

    def __init__(self, observation_space: gym.Space, action_space: gym.Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def counters(n: int, mode: AutoresetMode, **arguments: Any) -> SyncVectorEnv:
    """n Counters in one of Gymnasium's autoreset modes; the i-th has episode lengths of its own."""
    lengths = arguments.pop("lengths", ((3, 5), (4, 2), (7, 1)))
    return SyncVectorEnv(
        [lambda i=i: Counter(lengths[i % len(lengths)], **arguments) for i in range(n)], autoreset_mode=mode
    )


def rollout(env, steps: int, seed: int, scale: float = 1.0) -> list[np.ndarray]:
    """Observations, rewards and endings of a vector environment under actions drawn from the seed."""
    rng = np.random.default_rng(seed)
    observations, _ = env.reset(seed=seed)
    out = [[observations], [], [], []]
    for _ in range(steps):
        action = scale * rng.uniform(-1, 1, (env.num_envs, *env.single_action_space.shape))
        step = env.step(action.astype(env.single_action_space.dtype))
        for series, value in zip(out, step[:4], strict=True):
            series.append(np.array(value))
    return [np.array(series) for series in out]


class Extreme(gym.Env):
    """Features of 1e12 and 1e-12, a constant, two that are nearly equal; rewards of any size."""

    def __init__(self, reward: float, dtype: type, still: bool = False) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), dtype)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.reward, self.dtype, self.still = reward, dtype, still
        self.x, self.steps = 0.0, 0

    def _observe(self) -> np.ndarray:
        x = 0.0 if self.still else self.x
        return np.array([1e12 * x, 1e-12 * x, 3.0, x, x * (1 + 1e-9)], dtype=self.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.steps = float(self.np_random.uniform(-1, 1)), 0
        return self._observe(), {}

    def step(self, action):
        self.x, self.steps = 0.9 * self.x + 0.2 * float(action[0]), self.steps + 1
        return self._observe(), -self.reward * self.x**2, abs(self.x) > 2, self.steps >= 12, {}

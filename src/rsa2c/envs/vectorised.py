"""Small environments stepped as arrays, many at once: what the pendulum and the LQR benchmark have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rsa2c.envs.known import Known

PARTIAL_RESET = "partial_reset"
"""Metadata key of vector environments that reset a subset on `options={"reset_mask": mask}`, in any autoreset mode."""


class VectorisedEnv(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """n copies of an environment whose states are the rows of one array.

    A subclass defines the start distribution, the dynamics and the observation; this class owns generators, clock,
    truncation at the episode limit and autoreset (NEXT_STEP: the step after an end resets and ignores its action). As
    in `SyncVectorEnv`, `reset(seed=s)` gives environment i its own generator with seed s + i, and
    `reset(options={"reset_mask": mask})` resets only those environments.
    """

    known: Known
    start_high: NDArray[np.float64]  # starts are uniform in +-start_high

    def __init__(self, num_envs: int, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.num_envs = num_envs
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, PARTIAL_RESET: True}
        self.spec = gym.spec(self.known.id)
        self.states = np.zeros((num_envs, len(self.start_high)))
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._never = np.zeros(num_envs, dtype=bool)
        self._never.setflags(write=False)
        self._ended = self._never
        self._any_ended = True
        self._generators: list[np.random.Generator] = []

    def observe(self) -> NDArray[Any]:
        """Observations (n, d) of the current states."""
        raise NotImplementedError

    def advance(self, actions: NDArray[Any]) -> NDArray[np.float64]:
        """Advance every state by one step and return the rewards (n,)."""
        raise NotImplementedError

    def escaped(self) -> NDArray[np.bool_]:
        """Environments to truncate before the episode limit (n,)."""
        return self._never

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        if seeds is not None or not self._generators:
            # PCG64 seeded with an integer is what gymnasium.utils.seeding.np_random makes
            self._generators = [np.random.Generator(np.random.PCG64(s)) for s in (seeds or [None] * self.num_envs)]
        mask = None if options is None else options.get("reset_mask")
        self._restart(np.ones(self.num_envs, dtype=bool) if mask is None else mask)
        self._ended = self._never if mask is None else self._ended & ~mask
        self._any_ended = bool(self._ended.any())
        return self.observe(), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        fresh = self._ended
        rewards = self.advance(actions)
        self._steps += 1
        truncated = (self._steps >= self.known.episode_limit) | self.escaped()
        if self._any_ended:
            self._restart(fresh)
            rewards[fresh] = 0.0
            truncated &= ~fresh
        self._ended = truncated
        self._any_ended = bool(truncated.any())
        return self.observe(), rewards, self._never.copy(), truncated.copy(), {}

    def _restart(self, mask: NDArray[np.bool_]) -> None:
        for i in np.flatnonzero(mask):
            self.states[i] = self._generators[i].uniform(-self.start_high, self.start_high)
        self._steps[mask] = 0

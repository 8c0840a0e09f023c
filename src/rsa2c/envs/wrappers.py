"""Disturbed observations: noise on every feature, and features that mean nothing.

A disturbance defines once what happens to an observation; `ObservationNoise` and `Distractors` apply it to one
environment, `VectorDisturbed` to a vector environment. Each has its own generator, seeded at `reset(seed=...)`, so that
equal seeds give equal noise and the environment's own randomness does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rsa2c.errors import ConfigError


class Disturbance(Protocol):
    """A random change of observations (..., d) and of the space they live in."""

    stream: int  # keeps the generators of different disturbances apart under one seed

    def space(self, space: spaces.Box) -> spaces.Box: ...

    def __call__(self, observations: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]: ...


class AddedNoise:
    """x_i + N(0, variance), independently for every feature, in raw observation units.

    The variance is one number, or one number per feature.
    """

    stream = 1

    def __init__(self, variance: float | NDArray[Any]) -> None:
        if not np.all(np.isfinite(variance) & (np.asarray(variance) >= 0.0)):
            raise ConfigError(f"The noise variance must be finite and >= 0, got {np.asarray(variance).tolist()}.")
        self.std = np.sqrt(np.asarray(variance, dtype=np.float64))

    def space(self, space: spaces.Box) -> spaces.Box:
        if self.std.shape not in ((), space.shape):
            raise ConfigError(f"{self.std.size} noise variances given for {space.shape[0]} features.")
        return _unbounded(space.shape[0], space)

    def __call__(self, observations: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        noisy = observations + self.std * rng.standard_normal(observations.shape)
        return noisy.astype(observations.dtype, copy=False)


class AppendedNoise:
    """k independent standard normal features after the d true ones, drawn afresh at every step."""

    stream = 2

    def __init__(self, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
            raise ConfigError(f"The number of distractors must be a whole number >= 0, got {k!r}.")
        self.k = int(k)

    def space(self, space: spaces.Box) -> spaces.Box:
        return _unbounded(space.shape[0] + self.k, space)

    def __call__(self, observations: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        extra = rng.standard_normal((*observations.shape[:-1], self.k)).astype(observations.dtype, copy=False)
        return np.concatenate([observations, extra], axis=-1)


def _unbounded(d: int, like: spaces.Box) -> spaces.Box:
    dtype: Any = like.dtype if np.issubdtype(like.dtype, np.floating) else np.dtype(np.float64)
    return spaces.Box(-np.inf, np.inf, shape=(d,), dtype=dtype.type)


class _Disturbed(gym.Wrapper[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]], RecordConstructorArgs):
    """One environment whose observations pass through a disturbance."""

    def __init__(self, env: gym.Env[Any, Any], disturbance: Disturbance) -> None:
        gym.Wrapper.__init__(self, env)
        self.disturbance = disturbance
        space: Any = env.observation_space
        self.observation_space = disturbance.space(space)
        self._rng: np.random.Generator | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._rng = _generator(self.disturbance, seed, self._rng)
        return self.disturbance(observation, self._rng), info

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], Any, bool, bool, dict[str, Any]]:
        assert self._rng is not None, "step before reset"
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.disturbance(observation, self._rng), reward, terminated, truncated, info


class ObservationNoise(_Disturbed):
    """Adds N(0, variance) to every raw feature of one environment; the reward does not see it."""

    def __init__(self, env: gym.Env[Any, Any], variance: float | NDArray[Any]) -> None:
        RecordConstructorArgs.__init__(self, variance=variance)
        super().__init__(env, AddedNoise(variance))


class Distractors(_Disturbed):
    """Appends k features noise_1 ... noise_k of pure standard normal noise, fresh at every step."""

    def __init__(self, env: gym.Env[Any, Any], k: int) -> None:
        RecordConstructorArgs.__init__(self, k=k)
        super().__init__(env, AppendedNoise(k))


class VectorDisturbed(VectorWrapper[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]):
    """A vector environment whose observations, including final ones, pass through a disturbance.

    As in `SyncVectorEnv`, `reset(seed=s)` seeds environment i with s + i: each has the noise it would have alone.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], disturbance: Disturbance) -> None:
        super().__init__(env)
        self.disturbance = disturbance
        space: Any = env.single_observation_space
        self.single_observation_space = disturbance.space(space)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._rngs: list[np.random.Generator | None] = [None] * env.num_envs
        self._last: NDArray[Any] = np.empty(0)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        seeds: Sequence[int | None] = [None] * self.num_envs
        if seed is not None:
            seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        self._rngs = [_generator(self.disturbance, s, rng) for s, rng in zip(seeds, self._rngs, strict=True)]
        mask = None if options is None else options.get("reset_mask")
        return self._disturbed(observations, mask), infos

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        observations = self._disturbed(observations)
        if "final_obs" in infos:
            finals = infos["final_obs"].copy()
            for i in np.flatnonzero(infos["_final_obs"]):
                finals[i] = self.disturbance(np.asarray(finals[i]), self._of(int(i)))
            infos = {**infos, "final_obs": finals}
        return observations, rewards, terminated, truncated, infos

    def _disturbed(self, observations: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """With new noise in the environments of the mask; the others keep what they had."""
        if mask is None:
            self._last = np.stack([self.disturbance(row, self._of(i)) for i, row in enumerate(observations)])
            return self._last
        self._last = self._last.copy()
        for i in np.flatnonzero(mask):
            self._last[i] = self.disturbance(observations[i], self._of(int(i)))
        return self._last

    def _of(self, i: int) -> np.random.Generator:
        rng = self._rngs[i]
        assert rng is not None, "step before reset"
        return rng


def _generator(
    disturbance: Disturbance, seed: int | None, present: np.random.Generator | None
) -> np.random.Generator:
    if seed is None:
        return np.random.default_rng() if present is None else present
    return np.random.default_rng([disturbance.stream, int(seed)])

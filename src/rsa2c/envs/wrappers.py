"""Disturbed observations: noise on every feature, and features that mean nothing (`distractors.py`).

A disturbance defines once what happens to observations; `ObservationNoise` and `Distractors` apply it to one
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
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rsa2c.envs.checks import autoreset_mode
from rsa2c.envs.distractors import distractors_of, unbounded
from rsa2c.envs.source import Source
from rsa2c.errors import ConfigError


class Disturbance(Protocol):
    """A random change of the observations (n, d) of n environments, and of the space they live in.

    After `ready`, `first` is called where episodes begin and `next` once a step for all environments, with what `draw`
    returned for each of them from a generator of its own: a disturbance may remember, and forgets with `ready`.
    """

    @property
    def stream(self) -> int:
        """Keeps the generators of different disturbances apart under one seed."""

    def space(self, space: spaces.Box) -> spaces.Box: ...

    def ready(self, n: int, seed: int) -> None: ...

    def draw(self, d: int, rng: np.random.Generator) -> NDArray[Any]: ...

    def first(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]: ...

    def next(self, observations: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]: ...

    def close(self) -> None: ...


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
        return unbounded(space.shape[0], space)

    def ready(self, n: int, seed: int) -> None:
        """Nothing to forget."""

    def draw(self, d: int, rng: np.random.Generator) -> NDArray[Any]:
        return rng.standard_normal(d)

    def first(self, observations: NDArray[Any], noise: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
        return self.next(observations, noise)

    def next(self, observations: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
        return (observations + self.std * noise).astype(observations.dtype, copy=False)

    def close(self) -> None:
        """Nothing to close."""


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
        if seed is not None or self._rng is None:
            [self._rng] = _generators(self.disturbance, [seed])
        row, noise = self._drawn(observation, self._rng)
        return self.disturbance.first(row, noise, np.zeros(1, dtype=np.intp))[0], info

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], Any, bool, bool, dict[str, Any]]:
        assert self._rng is not None, "step before reset"
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.disturbance.next(*self._drawn(observation, self._rng))[0], reward, terminated, truncated, info

    def _drawn(self, observation: Any, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        row = np.asarray(observation)[None]
        return row, self.disturbance.draw(row.shape[1], rng)[None]

    def close(self) -> None:
        self.disturbance.close()
        super().close()


class ObservationNoise(_Disturbed):
    """Adds N(0, variance) to every raw feature of one environment; the reward does not see it."""

    def __init__(self, env: gym.Env[Any, Any], variance: float | NDArray[Any]) -> None:
        RecordConstructorArgs.__init__(self, variance=variance)
        super().__init__(env, AddedNoise(variance))


class Distractors(_Disturbed):
    """Appends k useless features to the observation of one environment.

    `kind` says what they show: `noise` (standard normal, fresh at every step), `drift` (as slow as the true features),
    `copies` (true features with noise on them), `permuted` (true features at another time), `twin` (the state of
    another instance of the environment) or `jumps` (constants that jump now and then). Further instances, which some
    kinds need, come from `source`, by default the environment's own spec.
    """

    def __init__(self, env: gym.Env[Any, Any], k: int, kind: str = "noise", source: Source | None = None) -> None:
        RecordConstructorArgs.__init__(self, k=k, kind=kind)
        super().__init__(env, distractors_of(kind, k, Source.of(env) if source is None else source))


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
        self._resets_next = autoreset_mode(env) is AutoresetMode.NEXT_STEP
        self._rngs: list[np.random.Generator] = []
        self._shown: NDArray[Any] = np.zeros(0)
        self._ended = np.zeros(env.num_envs, dtype=bool)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        mask = None if options is None else options.get("reset_mask")  # the environment may take it out of its options
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        if seed is not None or not self._rngs:
            seeds: Any = [None] * self.num_envs if seed is None else seed
            if isinstance(seed, int | np.integer):
                seeds = [seed + i for i in range(self.num_envs)]
            self._rngs = _generators(self.disturbance, seeds)
        rows = np.arange(self.num_envs) if mask is None else np.flatnonzero(mask)
        shown = self.disturbance.first(observations[rows], self._drawn(observations, rows), rows)
        self._shown = shown if mask is None else _replaced(self._shown, rows, shown)
        self._ended = _replaced(self._ended, rows, False)
        return self._shown, infos

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        assert self._rngs, "step before reset"
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        noise = self._drawn(observations, np.arange(self.num_envs))
        last, last_noise, fresh = observations, noise, np.flatnonzero(self._ended)
        if "final_obs" in infos:
            fresh = np.flatnonzero(infos["_final_obs"])
            last = _replaced(observations, fresh, [np.asarray(infos["final_obs"][i]) for i in fresh])
            last_noise = _replaced(noise, fresh, self._drawn(observations, fresh))
        shown = self.disturbance.next(last, last_noise)
        if "final_obs" in infos:
            finals = infos["final_obs"].copy()
            for i in fresh:
                finals[i] = shown[i].copy()
            infos = {**infos, "final_obs": finals}
        if len(fresh):
            shown[fresh] = self.disturbance.first(observations[fresh], noise[fresh], fresh)
        self._shown = shown
        if self._resets_next:
            self._ended = np.asarray(terminated | truncated)
        return shown, rewards, terminated, truncated, infos

    def _drawn(self, observations: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
        """(r, ...): random numbers for environments `rows`, each from its own generator."""
        d = observations.shape[1]
        return np.array([self.disturbance.draw(d, self._rngs[i]) for i in rows])

    def close(self, **kwargs: Any) -> None:
        self.disturbance.close()
        super().close(**kwargs)


def _replaced(rows: NDArray[Any], which: NDArray[np.intp], by: Any) -> NDArray[Any]:
    """A copy in which some rows are others."""
    copy = rows.copy()
    if len(which):
        copy[which] = by
    return copy


def _generators(disturbance: Disturbance, seeds: Sequence[int | None]) -> list[np.random.Generator]:
    """A generator for each environment; the disturbance forgets what it remembers of them."""
    first = np.random.default_rng().integers(2**31) if seeds[0] is None else seeds[0]
    disturbance.ready(len(seeds), int(first))
    keys = [None if seed is None else [disturbance.stream, int(seed)] for seed in seeds]
    return [np.random.default_rng(key) for key in keys]

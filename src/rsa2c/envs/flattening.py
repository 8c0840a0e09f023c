"""Dict observations as one vector of features, named after their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rsa2c.errors import EnvError

Path = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Layout:
    """Which entries of a Dict observation stand where in the vector (d,): one stretch for each path of keys."""

    paths: tuple[Path, ...]
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    """(d,): `key` of a single number, `key[0]`, `key[1]`, ... of several; inner keys after a slash."""
    space: spaces.Box

    @classmethod
    def of(cls, space: spaces.Dict, env: str) -> Layout:
        """The layout of a Dict of Box spaces, which may be nested; `env` is its environment's name in errors."""
        leaves = list(_leaves(space, (), env))
        names = tuple(name for path, box in leaves for name in _names("/".join(path), box.shape))
        low, high = (
            np.concatenate([np.ravel(getattr(box, bound)) for _, box in leaves]).astype(np.float64)
            for bound in ("low", "high")
        )
        dtype: Any = np.result_type(*(box.dtype for _, box in leaves))
        dtype = dtype if np.issubdtype(dtype, np.floating) else np.dtype(np.float64)
        flat = spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
        return cls(tuple(path for path, _ in leaves), tuple(int(np.prod(b.shape)) for _, b in leaves), names, flat)

    def one(self, observation: Mapping[str, Any]) -> NDArray[Any]:
        """(d,): one observation."""
        parts = [
            np.asarray(_at(observation, path), dtype=self.space.dtype).reshape(size)
            for path, size in zip(self.paths, self.sizes, strict=True)
        ]
        return np.concatenate(parts)

    def many(self, observations: Mapping[str, Any]) -> NDArray[Any]:
        """(n, d): observations whose entries are stacked, as vector environments return them."""
        parts = [
            np.asarray(_at(observations, path), dtype=self.space.dtype).reshape(-1, size)
            for path, size in zip(self.paths, self.sizes, strict=True)
        ]
        return np.concatenate(parts, axis=1)


def _leaves(space: spaces.Dict, path: Path, env: str) -> Iterator[tuple[Path, spaces.Box]]:
    for key, inner in space.spaces.items():
        here = (*path, str(key))
        if isinstance(inner, spaces.Dict):
            yield from _leaves(inner, here, env)
        elif isinstance(inner, spaces.Box) and len(inner.shape) < 3:
            yield here, inner
        else:
            raise EnvError(
                f"{env} has a Dict observation whose entry {'/'.join(here)!r} is {inner}; rsa2c flattens entries that "
                "are Box spaces of numbers or vectors. Turn that entry into numbers in a wrapper of your own, or leave "
                "it out with gymnasium.wrappers.FilterObservation."
            )


def _names(key: str, shape: tuple[int, ...]) -> list[str]:
    if int(np.prod(shape)) == 1:
        return [key]
    return [f"{key}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def _at(observation: Any, path: Path) -> Any:
    for key in path:
        observation = observation[key]
    return observation


class FlatObservation(gym.ObservationWrapper[NDArray[Any], Any, Any], RecordConstructorArgs):
    """One environment whose Dict observations become vectors."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ObservationWrapper.__init__(self, env)
        assert isinstance(env.observation_space, spaces.Dict), "the caller checked it"
        self.layout = Layout.of(env.observation_space, type(env.unwrapped).__name__)
        self.observation_space = self.layout.space

    def observation(self, observation: Any) -> NDArray[Any]:
        return self.layout.one(observation)


class VectorFlat(VectorWrapper[NDArray[Any], Any, Any, Any, Any]):
    """A vector environment whose Dict observations, final ones included, become vectors."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.single_observation_space, spaces.Dict), "the caller checked it"
        self.layout = Layout.of(env.single_observation_space, type(env.unwrapped).__name__)
        self.single_observation_space = self.layout.space
        self.observation_space = batch_space(self.layout.space, env.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=options)
        return self.layout.many(observations), infos

    def step(self, actions: Any) -> tuple[NDArray[Any], Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        if "final_obs" in infos:
            finals = np.empty(self.num_envs, dtype=object)
            for i in np.flatnonzero(infos["_final_obs"]):
                finals[i] = self.layout.one(infos["final_obs"][i])
            infos = {**infos, "final_obs": finals}
        return self.layout.many(observations), rewards, terminated, truncated, infos

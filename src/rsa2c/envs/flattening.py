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

from rsa2c.errors import DataError, EnvError

Path = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """Which entries of a Dict observation stand where in the vector (d,): one stretch for each path of keys."""

    paths: tuple[Path, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float64"

    @classmethod
    def of(cls, space: spaces.Dict, env: str) -> Layout:
        """The layout of a Dict of Box and MultiBinary spaces, which may be nested; `env` is a name for errors."""
        leaves = list(_leaves(space, (), env))
        dtype = np.result_type(*(box.dtype for _, box in leaves))
        kind = dtype.name if np.issubdtype(dtype, np.floating) else "float64"
        return cls(tuple(path for path, _ in leaves), tuple(box.shape for _, box in leaves), kind)

    @property
    def entries(self) -> list[tuple[Path, tuple[int, ...]]]:
        """Path and shape of each entry."""
        return list(zip(self.paths, self.shapes, strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """(d,): `key` of a single number, `key[0]`, `key[1]`, ... of several; inner keys after a slash."""
        return tuple(name for path, shape in self.entries for name in _names("/".join(path), shape))

    def space(self, space: gym.Space[Any]) -> spaces.Box:
        """The Box of the vectors that stand for this Dict."""
        assert isinstance(space, spaces.Dict), "it has a layout"
        boxes = [box for _, box in _leaves(space, (), "")]
        low, high = (
            np.concatenate([np.ravel(getattr(box, bound)) for box in boxes]).astype(self.dtype)
            for bound in ("low", "high")
        )
        return spaces.Box(low, high, dtype=np.dtype(self.dtype).type)

    def one(self, observation: Mapping[str, Any]) -> NDArray[Any]:
        """(d,): one observation."""
        return np.concatenate([part.ravel() for part in self._parts(observation, ())])

    def many(self, observations: Mapping[str, Any]) -> NDArray[Any]:
        """(n, d): observations whose entries are stacked, as vector environments return them."""
        n = len(_at(observations, self.paths[0]))
        return np.concatenate([part.reshape(n, -1) for part in self._parts(observations, (n,))], axis=1)

    def __call__(self, observation: Mapping[str, Any]) -> NDArray[Any]:
        """One observation (d,) or several (n, d), whichever it is."""
        stacked = np.ndim(_at(observation, self.paths[0])) > len(self.shapes[0])
        return self.many(observation) if stacked else self.one(observation)

    def _parts(self, observation: Mapping[str, Any], several: tuple[int, ...]) -> list[NDArray[Any]]:
        parts = []
        for path, shape in self.entries:
            part = np.asarray(_at(observation, path), dtype=self.dtype)
            if part.shape != several + shape:
                expected = several + shape
                raise DataError(f"the observation's {'/'.join(path)} has the shape {part.shape}, expected {expected}.")
            parts.append(part)
        return parts


def as_vector(observation: Any, layout: Layout | None) -> Any:
    """An observation, or a batch of them, as a vector agent takes it; `layout` is that of the Dicts it learned from."""
    if isinstance(observation, Mapping):
        if layout is None:
            raise DataError("the agent learned from vectors of features, not from a Dict of them.")
        return layout(observation)
    if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], Mapping):
        raise DataError("predict takes an observation, got a pair of it and infos. Write obs, info = env.reset().")
    return observation


def _leaves(space: spaces.Dict, path: Path, env: str) -> Iterator[tuple[Path, spaces.Box]]:
    for key, inner in space.spaces.items():
        here = (*path, str(key))
        if isinstance(inner, spaces.Dict):
            yield from _leaves(inner, here, env)
        elif isinstance(inner, spaces.MultiBinary):
            yield here, spaces.Box(0, 1, inner.shape, np.int8)
        elif isinstance(inner, spaces.Box) and len(inner.shape) < 3:
            yield here, inner
        else:
            raise EnvError(
                f"{env} has a Dict observation whose entry {'/'.join(here)!r} is {inner}; rsa2c flattens entries that "
                "are Box or MultiBinary spaces. Turn that entry into numbers in a wrapper of your own, or leave "
                "it out with gymnasium.wrappers.FilterObservation."
            )


def _names(key: str, shape: tuple[int, ...]) -> list[str]:
    if int(np.prod(shape)) == 1:
        return [key]
    return [f"{key}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def _at(observation: Any, path: Path) -> Any:
    for key in path:
        try:
            observation = observation[key]
        except (KeyError, TypeError, IndexError) as error:
            raise DataError(f"the observation has no entry {'/'.join(path)!r}.") from error
    return observation


class FlatObservation(gym.ObservationWrapper[NDArray[Any], Any, Any], RecordConstructorArgs):
    """One environment whose Dict observations become vectors."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ObservationWrapper.__init__(self, env)
        assert isinstance(env.observation_space, spaces.Dict), "the caller checked it"
        self.layout = Layout.of(env.observation_space, type(env.unwrapped).__name__)
        self.observation_space = self.layout.space(env.observation_space)

    def observation(self, observation: Any) -> NDArray[Any]:
        return self.layout.one(observation)


class VectorFlat(VectorWrapper[NDArray[Any], Any, Any, Any, Any]):
    """A vector environment whose Dict observations, final ones included, become vectors."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.single_observation_space, spaces.Dict), "the caller checked it"
        self.layout = Layout.of(env.single_observation_space, type(env.unwrapped).__name__)
        self.single_observation_space = self.layout.space(env.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

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

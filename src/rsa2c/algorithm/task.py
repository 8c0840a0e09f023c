"""What an agent was made for, and how a file holds it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rsa2c.envs.flattening import Layout

Metadata = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """An environment and the names of its numbers."""

    env_id: str
    is_id: bool
    """Whether `env_id` and `env_kwargs` make the environment; a factory or a VectorEnv has to be given again."""
    episode_limit: int | None
    feature_names: tuple[str, ...]
    action_names: tuple[str, ...]
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout | None = None
    """How the Dict observations of the environment become vectors; None if they are vectors."""

    def metadata(self) -> Metadata:
        """The part of a file's JSON that is the task."""
        found: Metadata = {
            "env_id": self.env_id,
            "env_is_id": self.is_id,
            "episode_limit": self.episode_limit,
            "feature_names": list(self.feature_names),
            "action_names": list(self.action_names),
        }
        if self.env_kwargs:
            found["env_kwargs"] = dict(self.env_kwargs)
        if self.layout is not None:
            found["layout"] = [[list(path), list(shape)] for path, shape in self.layout.entries]
        return found

    @classmethod
    def of(cls, metadata: Metadata) -> Task:
        """What `metadata` was given; anything unusable is an error."""
        features, limit = names_of(metadata, "feature_names"), metadata.get("episode_limit")
        kwargs = metadata.get("env_kwargs", {})
        if not isinstance(kwargs, dict):
            raise ValueError(f"env_kwargs must be a mapping, got {kwargs!r}")
        return cls(
            str(metadata["env_id"]),
            bool(metadata["env_is_id"]),
            None if limit is None else count(limit, "episode_limit"),  # the first files of version 1 have none
            features,
            names_of(metadata, "action_names"),
            kwargs,
            _layout(metadata.get("layout"), len(features)),
        )


def _layout(entries: Any, d: int) -> Layout | None:
    if entries is None:
        return None
    paths = tuple(tuple(str(key) for key in path) for path, _ in entries)
    shapes = tuple(tuple(count(size, "layout") for size in shape) for _, shape in entries)
    if not paths or sum(math.prod(shape) for shape in shapes) != d:
        raise ValueError(f"layout does not have {d} features")
    return Layout(paths, shapes)


def names_of(metadata: Metadata, key: str) -> tuple[str, ...]:
    """A list of names in a file's metadata."""
    names = metadata[key]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} is not a list of names")
    return tuple(names)


def count(value: Any, name: str) -> int:
    """A non-negative whole number in a file's metadata."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be a non-negative whole number, got {value!r}")
    return value

"""Identity of an environment, and what its numbers are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from rsa2c.envs.known import find

AnyEnv = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]


def feature_names(env: AnyEnv | str, d: int, distractors: int = 0) -> tuple[str, ...]:
    """Names of the d features of an environment or id; x0, x1, ... if they are not known.

    If `Distractors` wraps the environment, the last ones are noise_1, noise_2, ...; for an id, `distractors` gives
    their number.
    """
    k = distractors if isinstance(env, str) else _appended(env)
    known = find(env if isinstance(env, str) else env_id(env))
    names = () if known is None else tuple(feature.name for feature in known.features)
    true = names if len(names) == d - k else tuple(f"x{i}" for i in range(d - k))
    return (*true, *(f"noise_{i}" for i in range(1, k + 1)))


def action_names(env: AnyEnv | str, m: int) -> tuple[str, ...]:
    """Names of the m actions of an environment or id; a0, a1, ... if they are not known."""
    known = find(env if isinstance(env, str) else env_id(env))
    names = () if known is None else tuple(action.name for action in known.actions)
    return names if len(names) == m else tuple(f"a{i}" for i in range(m))


def units(env_id: str, names: Sequence[str]) -> list[str]:
    """The unit of each named feature or action; empty if it has none or is not known."""
    known = find(env_id)
    table = {} if known is None else dict((*known.features, *known.actions))
    return [table.get(name, "") for name in names]


def env_id(env: AnyEnv) -> str:
    """The Gymnasium id of an environment or vector environment, or its class name if it has no id."""
    spec = _spec(env)
    if spec is not None:
        return str(spec.id)
    base: Any = env.unwrapped
    inside = getattr(base, "envs", None)
    return str(getattr(base, "env_id", type(inside[0].unwrapped if inside else base).__name__))


def episode_limit(env: AnyEnv) -> int | None:
    """Steps after which the environment truncates an episode, or None if it never does."""
    limit = getattr(env.unwrapped, "episode_limit", None)
    if limit is None:
        spec = _spec(env)
        limit = None if spec is None else spec.max_episode_steps
    return None if limit is None else int(limit)


def _spec(env: AnyEnv) -> Any:
    """The environment's spec; a vector environment without one has that of its first environment."""
    if env.spec is not None:
        return env.spec
    inside = getattr(env.unwrapped, "envs", None)
    return inside[0].spec if inside else None


def _appended(env: Any) -> int:
    """Number of distractor features added by the wrappers around an environment."""
    k = 0
    while env is not None:
        k += getattr(getattr(env, "disturbance", None), "k", 0)
        inside = env.__dict__.get("envs")
        env = inside[0] if inside else env.__dict__.get("env")
    return k

"""Identity of an environment, its episode limit, and what its numbers are called."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, VectorEnv
from gymnasium.wrappers import FlattenObservation, TimeLimit

from rsa2c.envs.flattening import Layout
from rsa2c.envs.known import find
from rsa2c.errors import DataError, EnvError, NotFoundError, notice
from rsa2c.files import read_yaml

Names = Sequence[str] | Mapping[str, str | None] | str | os.PathLike[str]
AnyEnv = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]


def feature_names(env: AnyEnv | str, d: int, distractors: int = 0) -> tuple[str, ...]:
    """Names of the d features of an environment or id: its own `observation_names`, the keys of its Dict observations,
    the ones known for its id; x0, x1, ... otherwise.

    If `Distractors` wraps the environment, the last ones are noise_1, noise_2, ..., or what else its kind calls them;
    for an id, `distractors` gives the number of those of pure noise.
    """
    appended = [] if isinstance(env, str) else _appended(env)
    own = d - distractors if isinstance(env, str) else d - sum(each.k for each in appended)
    names = _declared(env, "observation_names", own) or _known(env, "features", own, "x")
    for each in appended:
        names = (*names, *each.names(names))
    return (*names, *(f"noise_{i}" for i in range(1, d - len(names) + 1)))


def action_names(env: AnyEnv | str, m: int) -> tuple[str, ...]:
    """Names of the m actions of an environment or id: its own `action_names`, or known ones; a0, a1, ... otherwise."""
    return _declared(env, "action_names", m) or _known(env, "actions", m, "a")


def _known(env: AnyEnv | str, what: str, count: int, letter: str) -> tuple[str, ...]:
    known = find(env if isinstance(env, str) else env_id(env))
    names = () if known is None else tuple(quantity.name for quantity in getattr(known, what))
    return names if len(names) == count else tuple(f"{letter}{i}" for i in range(count))


def _declared(env: AnyEnv | str, attribute: str, count: int) -> tuple[str, ...]:
    """The names that an environment or a wrapper of it has in this attribute, the outermost first."""
    if isinstance(env, str):
        return ()
    keys = _keys(env) if attribute == "observation_names" else ()
    for each in chain(env):
        names = getattr(each, attribute, None)
        if names is None or isinstance(names, str):
            continue
        if len(names) == count:
            return tuple(map(str, names))
        what = "observations" if attribute == "observation_names" else "actions"
        notice(
            f"{env_id(env)} has {len(names)} {attribute}, but {what} of {count} numbers, so they are not used. "
            "A wrapper that changes the numbers can have the attribute itself."
        )
        break
    return keys if len(keys) == count else ()


def _keys(env: AnyEnv) -> tuple[str, ...]:
    """The names that the keys of Dict observations give, whether we flatten them or Gymnasium's wrapper does."""
    if (layout := layout_of(env)) is not None:
        return tuple(layout.names)
    inside = (each.env.observation_space for each in chain(env) if isinstance(each, FlattenObservation))
    space = next(inside, None)
    try:
        return Layout.of(space, "").names if isinstance(space, gym.spaces.Dict) else ()
    except EnvError:  # an entry that Gymnasium flattens in its own way
        return ()


def layout_of(env: AnyEnv) -> Any:
    """The `Layout` of an environment whose Dict observations were flattened; None of any other."""
    found = (getattr(each, "layout", None) for each in chain(env))
    return next((layout for layout in found if layout is not None), None)


def given_names(names: Names) -> tuple[str, ...]:
    """Names of features as a user gives them: a list, a mapping from name to unit, or a YAML file with either.

    A unit becomes part of the name: `temperature [K]`.
    """
    if isinstance(names, str | os.PathLike):
        if not os.path.exists(names):
            rule = "a list of names, a mapping from name to unit, or a YAML file with either"
            raise NotFoundError(f"feature_names must be {rule}; there is no file {str(names)!r}.")
        source, names = f"the names in {names}", read_yaml(names, "Correct it")
    else:
        source = "feature_names"
    rule = f"{source} must be a list of names or a mapping from name to unit"
    if isinstance(names, Mapping):
        for name, unit in names.items():
            if not isinstance(unit, str | int | float | None):
                raise DataError(f"{rule}, and a unit is text; got {unit!r} for {name!r}.")
        return tuple(f"{name} [{unit}]" if unit not in (None, "") else str(name) for name, unit in names.items())
    if not isinstance(names, Sequence) or isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{rule}, got {names!r}.")
    return tuple(names)


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
    if (name := getattr(base, "env_id", None)) is not None:
        return str(name)
    *_, innermost = chain(env)
    return type(getattr(innermost, "unwrapped", innermost)).__name__


def episode_limit(env: AnyEnv) -> int | None:
    """Steps after which the environment truncates an episode, or None if it never does.

    It may stand anywhere: in a TimeLimit or a spec at any depth, in dm_control's environment, or in an attribute
    `episode_limit` or `max_episode_steps`; the shortest counts.
    """
    limits = [limit for each in chain(env) for limit in _limits(each)]
    return min(limits) if limits else None


def _limits(env: Any) -> Iterator[int]:
    spec = _spec(env) if isinstance(env, gym.Env | VectorEnv) else None
    candidates: list[Any] = [
        getattr(env, "_max_episode_steps", None) if isinstance(env, TimeLimit) else None,
        None if spec is None else getattr(spec, "max_episode_steps", None),
        getattr(env, "episode_limit", None),
        getattr(env, "max_episode_steps", None),
        getattr(vars(env).get("_env"), "_step_limit", None),  # dm_control's Environment inside an adapter
    ]
    for limit in candidates:
        number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if number and math.isfinite(limit) and limit > 0:
            yield math.ceil(limit)


def _spec(env: AnyEnv) -> Any:
    """The environment's spec; a vector environment without one has that of its first environment."""
    if isinstance(getattr(env, "spec", None), gym.envs.registration.EnvSpec):
        return env.spec
    inside = getattr(env.unwrapped, "envs", None)
    if inside:
        return inside[0].spec
    if isinstance(env.unwrapped, AsyncVectorEnv) and not env.unwrapped.closed:
        return env.unwrapped.get_attr("spec")[0]
    return None


def chain(env: Any) -> Iterator[Any]:
    """An environment and everything it wraps, the outermost first; of several side by side, the first."""
    while env is not None:
        yield env
        # Not getattr: some wrappers pass on what they do not have
        inner = vars(env)
        inside = inner.get("envs")
        env = inside[0] if isinstance(inside, list | tuple) and inside else inner.get("env", inner.get("venv"))


def _appended(env: Any) -> list[Any]:
    """The distractors that wrappers around an environment append, the innermost first."""
    found = (getattr(each, "disturbance", None) for each in chain(env))
    return [each for each in found if getattr(each, "k", 0)][::-1]

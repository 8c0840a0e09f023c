"""Where environments come from: an id, `module:Name`, an instance, a class, a factory, or several in one object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property, partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

from rsa2c.envs.functional import Functional, is_functional
from rsa2c.envs.names import chain, env_id
from rsa2c.envs.pool import DM_CONTROL, is_pool, pool_source
from rsa2c.envs.vecenv import SB3Vector, is_vecenv
from rsa2c.errors import ConfigError, EnvError

Factory = Callable[..., gym.Env[Any, Any]]
EnvLike = Any
"""What `Source.of` takes."""
KINDS = (
    "an id such as 'Pendulum-v1', 'module:Id', a gymnasium.Env or an environment of Brax or MuJoCo Playground, a class "
    "or function that makes one, a VectorEnv, SB3's VecEnv, or a pool of EnvPool"
)


class Source:
    """What a user gave as the environment.

    `id` is a name that makes it (with `kwargs`), `factory` makes one environment, and `vector` is the caller's own
    vector environment. With `alone` the factory always returns the one environment that there is.
    """

    functional: Functional | None = None
    """What it made, if that has the functional interface: all its environments are copies of it."""

    def __init__(
        self,
        id: str | None = None,
        factory: Factory | None = None,
        vector: VectorEnv[Any, Any, Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        alone: bool = False,
    ) -> None:
        self.id, self.factory, self.vector, self.alone = id, factory, vector, alone
        self.kwargs = dict(kwargs or {})

    @classmethod
    def of(cls, env: EnvLike, kwargs: Mapping[str, Any] | None = None) -> Source:
        """The source that any of `KINDS` is; `kwargs` are arguments of an id, a class or a factory."""
        if isinstance(env, Source):
            return env
        if not isinstance(kwargs, Mapping | None):
            raise ConfigError(f"env_kwargs must map arguments to values, as {{'g': 9.8}} does; got {kwargs!r}.")
        functional = is_functional(env)
        if isinstance(env, str):
            return cls(id=env.removeprefix(DM_CONTROL) if env.startswith(DM_CONTROL) else env, kwargs=kwargs)
        if callable(env) and not functional and not isinstance(env, gym.Env | VectorEnv):
            return cls(factory=partial(env, **kwargs) if kwargs else env, kwargs=kwargs)
        if kwargs:
            raise ConfigError(f"env_kwargs are arguments of an id, a class or a factory; {_kind(env)} is made already.")
        if functional:
            return cls(factory=partial(_itself, env))
        if is_pool(env):
            name, changed = pool_source(env)
            return _Fixed(env.config["num_envs"], id=name, kwargs=changed)
        if is_vecenv(env):
            return cls(vector=SB3Vector(env), factory=_one_of(env))
        if isinstance(env, VectorEnv):
            return cls(vector=env, factory=_one_of(env))
        if isinstance(env, gym.Env):
            return _instance(env)
        raise EnvError(f"an environment is {KINDS}; got {_kind(env)}.")

    @cached_property
    def name(self) -> str:
        """The id, or the id or class of what the factory makes."""
        if self.id is not None:
            return self.id
        if self.vector is not None:
            return env_id(self.vector)
        from rsa2c.envs.single import make_single

        single = make_single(self)
        try:
            return env_id(single)
        finally:
            single.close()

    @property
    def is_id(self) -> bool:
        """Whether the name and the keyword arguments are all that a file has to hold."""
        return self.id is not None and _is_plain(self.kwargs)

    @property
    def n_envs(self) -> int | None:
        """Number of environments, if it cannot be chosen."""
        return 1 if self.alone else None if self.vector is None else self.vector.num_envs

    def check_number(self, n_envs: int) -> None:
        """Refuse another number of environments than an agent trains in, where it cannot be chosen."""
        if self.n_envs not in (None, n_envs):
            raise EnvError(
                f"the agent trains in {n_envs} environments side by side, {self.name} was given as {self.n_envs}. "
                f"Give {n_envs}, or a function that makes one."
            )

    def check_single(self, what: str) -> None:
        """Refuse to `what` where no further environment can be made."""
        if self.id is None and self.factory is None:
            raise EnvError(
                f"{self.name} was given as a vector environment from which no single one can be made, which is needed "
                f"to {what}. Give a function that makes one environment."
            )


class _Fixed(Source):
    """An id whose number of environments was chosen with it."""

    def __init__(self, count: int, **options: Any) -> None:
        super().__init__(**options)
        self.count = count

    @property
    def n_envs(self) -> int | None:
        return self.count


def _itself(env: Any) -> Any:
    return env


def _kind(env: Any) -> str:
    return type(env).__name__


def _is_plain(kwargs: Mapping[str, Any]) -> bool:
    try:
        return json.loads(json.dumps(kwargs)) == dict(kwargs)
    except (TypeError, ValueError):
        return False


def _one_of(several: Any) -> Factory | None:
    """What makes one more of the environments in a vector environment; None if wrappers around it, or other processes,
    keep that from being known."""
    if isinstance(several, SyncVectorEnv):
        return several.env_fns[0]
    inside = vars(several).get("envs")
    one = _instance(inside[0]) if inside else None
    if one is None or one.alone:
        return None
    return one.factory or partial(gym.make, str(one.id), disable_env_checker=True, **one.kwargs)


def _instance(env: gym.Env[Any, Any]) -> Source:
    """An instance by its spec: the same as its id where nothing was added, else made again with its wrappers. One that
    has no spec, or a wrapper that cannot be made again, is the only one there is."""
    spec = deepcopy(env.spec)
    if spec is not None:
        spec.kwargs.pop("render_mode", None)
        limits = [each._max_episode_steps for each in chain(env) if isinstance(each, TimeLimit)]
        spec.max_episode_steps = min(limits, default=None)
        # Monitor and the checker observe, and change nothing
        wrappers = tuple(each for each in spec.additional_wrappers if each.name not in ("Monitor", "PassiveEnvChecker"))
        spec.additional_wrappers = wrappers
        kwargs = _arguments(spec)
        if kwargs is not None:
            return Source(id=spec.id, kwargs=kwargs)
        if all(each.kwargs is not None for each in wrappers):
            return Source(factory=partial(gym.make, spec, disable_env_checker=True))
    return Source(factory=partial(_Borrowed, env), alone=True)


def _arguments(spec: Any) -> dict[str, Any] | None:
    """The arguments of `gymnasium.make` that lead from a registered id to this spec; None if none do."""
    registered = gym.registry.get(spec.id)
    if registered is None or spec.additional_wrappers != registered.additional_wrappers:
        return None
    if spec.entry_point != registered.entry_point:
        return None
    usual = {name: value for name, value in registered.kwargs.items() if name != "render_mode"}
    if set(usual) - set(spec.kwargs):
        return None
    changed = {name: value for name, value in spec.kwargs.items() if name not in usual or not _same(usual[name], value)}
    if spec.max_episode_steps != registered.max_episode_steps:
        changed["max_episode_steps"] = -1 if spec.max_episode_steps is None else spec.max_episode_steps
    return changed if _is_plain(changed) else None


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and _is_plain({"a": a}) and a == b)


class _Borrowed(gym.Wrapper[Any, Any, Any, Any]):
    """The caller's own environment, which the caller closes."""

    def close(self) -> None:
        """Nothing."""

"""`make_env`: vector environments from whatever a user has, on the fastest backend that can run them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, get_args

from gymnasium import spaces
from gymnasium.vector import VectorEnv

from rsa2c.envs.checks import check_count, check_spaces, warn_of_normalisation
from rsa2c.envs.distractors import distractors_of
from rsa2c.envs.flattening import VectorFlat
from rsa2c.envs.known import find, known_ids
from rsa2c.envs.names import env_id
from rsa2c.envs.pool import EnvPoolVector, only_pool_has, pool_has
from rsa2c.envs.single import FreshSyncVectorEnv, make_single
from rsa2c.envs.source import EnvLike, Source
from rsa2c.envs.vectorised import VectorisedEnv
from rsa2c.envs.wrappers import AddedNoise, VectorDisturbed
from rsa2c.errors import ConfigError, EnvError

Backend = Literal["auto", "arrays", "envpool", "gymnasium"]


def make_env(
    env: EnvLike,
    n_envs: int | None = None,
    *,
    backend: Backend = "auto",
    seed: int | None = None,
    noise_variance: float = 0.0,
    distractors: int = 0,
    threads: int = 1,
    env_kwargs: Mapping[str, Any] | None = None,
    distractor_kind: str = "noise",
) -> VectorEnv[Any, Any, Any]:
    """A vector environment of `n_envs` copies of `env` (1 by default).

    `env` is a Gymnasium id, an instance (made again by its spec), a class or function that returns a `gymnasium.Env`,
    both with the arguments `env_kwargs`, or several environments in one object (a `VectorEnv`, SB3's `VecEnv`, a pool
    of EnvPool), used unchanged. Dict observations become vectors.
    `backend="auto"` takes the fastest available: our own arrays for Pendulum-v1 and rsa2c/LQR-v0, EnvPool (with
    `threads` threads) if it is installed and has the id, and otherwise Gymnasium's own environments.

    After `reset(seed=...)`, everything depends on the seed and the actions alone. If `seed` is given, the environments
    are reset with it once. `distractors` useless features of a kind (`Distractors`) are appended first; then noise of
    variance `noise_variance` is added to all features.
    """
    if backend not in get_args(Backend):
        raise ConfigError(f"backend must be one of {', '.join(get_args(Backend))}, got {backend!r}.")
    check_count("n_envs", n_envs)
    check_count("threads", threads)
    source = Source.of(env, env_kwargs)
    added, appended = AddedNoise(noise_variance), distractors_of(distractor_kind, distractors, source)
    _check_number(source, n_envs)
    vector = source.vector
    if vector is None:
        vector = _vector_of(source, n_envs or source.n_envs or 1, backend, threads)
    if isinstance(vector.single_observation_space, spaces.Dict):
        vector = VectorFlat(vector)
    check_spaces(vector.single_observation_space, vector.single_action_space, env_id(vector))
    warn_of_normalisation(vector)
    if appended.k:
        vector = VectorDisturbed(vector, appended)
    if added.std.any():
        vector = VectorDisturbed(vector, added)
    if seed is not None:
        vector.reset(seed=seed)
    return vector


def _check_number(source: Source, n_envs: int | None) -> None:
    if n_envs is None or n_envs == source.n_envs or (source.vector is None and not source.alone):
        return
    if source.alone:
        raise ConfigError(
            f"n_envs is {n_envs}, but {source.name} was given as an object that cannot be made again (it has no spec, "
            "or a wrapper that does not record its arguments). Leave n_envs out, or give a function that makes one."
        )
    raise ConfigError(
        f"n_envs is {n_envs}, but the VectorEnv given has {source.n_envs} environments. Leave n_envs out."
    )


def backend_of(vector: VectorEnv[Any, Any, Any]) -> Backend:
    """The backend that steps a vector environment made by `make_env`."""
    if isinstance(vector.unwrapped, VectorisedEnv):
        return "arrays"
    return "envpool" if isinstance(vector.unwrapped, EnvPoolVector) else "gymnasium"


def _vector_of(source: Source, n: int, backend: str, threads: int) -> VectorEnv[Any, Any, Any]:
    name, kwargs = source.id, source.kwargs
    if name is not None:
        known = find(name)
        usual = backend == "auto" and not kwargs  # arguments are Gymnasium's, and the fast backends have others
        if (usual or backend == "arrays") and known is not None and known.vector is not None:
            if kwargs:
                raise EnvError(f"backend='arrays' takes no env_kwargs, got {', '.join(kwargs)}. Use backend='auto'.")
            return known.vector(n)
        if backend == "arrays":
            raise EnvError(f"backend='arrays' has {', '.join(_with_arrays())}, not {name!r}. Use backend='auto'.")
        if backend == "envpool" or only_pool_has(name) or (usual and pool_has(name)):
            return EnvPoolVector(name, n, threads, kwargs)
    elif backend in ("arrays", "envpool"):
        raise EnvError(f"backend={backend!r} needs an environment id, got a factory. Use backend='gymnasium'.")
    return FreshSyncVectorEnv(partial(make_single, source), n)


def _with_arrays() -> list[str]:
    return [one for one in known_ids() if (known := find(one)) is not None and known.vector is not None]

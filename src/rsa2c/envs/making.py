"""`make_env`: vector environments from whatever a user has, on the fastest backend that can run them."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, get_args

from gymnasium.vector import VectorEnv

from rsa2c.envs.checks import check_count, check_spaces
from rsa2c.envs.known import find, known_ids
from rsa2c.envs.names import env_id
from rsa2c.envs.pool import EnvPoolVector, pool_has
from rsa2c.envs.single import Factory, FreshSyncVectorEnv, make_single
from rsa2c.envs.vectorised import VectorisedEnv
from rsa2c.envs.wrappers import AddedNoise, AppendedNoise, VectorDisturbed
from rsa2c.errors import ConfigError, EnvError

Backend = Literal["auto", "arrays", "envpool", "gymnasium"]
EnvLike = str | Factory | VectorEnv[Any, Any, Any]


def make_env(
    env: EnvLike,
    n_envs: int | None = None,
    *,
    backend: Backend = "auto",
    seed: int | None = None,
    noise_variance: float = 0.0,
    distractors: int = 0,
    threads: int = 1,
) -> VectorEnv[Any, Any, Any]:
    """A vector environment of `n_envs` copies of `env` (1 by default).

    `env` is a Gymnasium id, a factory that returns a `gymnasium.Env`, or a `VectorEnv`, which is used unchanged.
    `backend="auto"` takes the fastest available: our own arrays for Pendulum-v1 and rsa2c/LQR-v0, EnvPool (with
    `threads` threads) if it is installed and has the id, and otherwise Gymnasium's own environments.

    After `reset(seed=...)`, everything depends on the seed and the actions alone. If `seed` is given, the environments
    are reset with it once. `distractors` pure-noise features are appended first; then noise of variance
    `noise_variance` is added to all features.
    """
    if backend not in get_args(Backend):
        raise ConfigError(f"backend must be one of {', '.join(get_args(Backend))}, got {backend!r}.")
    check_count("n_envs", n_envs)
    check_count("threads", threads)
    added, appended = AddedNoise(noise_variance), AppendedNoise(distractors)

    if isinstance(env, VectorEnv):
        if n_envs is not None and n_envs != env.num_envs:
            raise ConfigError(
                f"n_envs is {n_envs}, but the VectorEnv given has {env.num_envs} environments. Leave n_envs out."
            )
        vector = env
    else:
        vector = _vector_of(env, n_envs or 1, backend, threads)
    check_spaces(vector.single_observation_space, vector.single_action_space, env_id(vector))
    if appended.k:
        vector = VectorDisturbed(vector, appended)
    if added.std.any():
        vector = VectorDisturbed(vector, added)
    if seed is not None:
        vector.reset(seed=seed)
    return vector


def backend_of(vector: VectorEnv[Any, Any, Any]) -> Backend:
    """The backend that steps a vector environment made by `make_env`."""
    if isinstance(vector.unwrapped, VectorisedEnv):
        return "arrays"
    return "envpool" if isinstance(vector.unwrapped, EnvPoolVector) else "gymnasium"


def _vector_of(env: str | Factory, n: int, backend: str, threads: int) -> VectorEnv[Any, Any, Any]:
    if isinstance(env, str):
        known = find(env)
        if backend in ("auto", "arrays") and known is not None and known.vector is not None:
            return known.vector(n)
        if backend == "arrays":
            raise EnvError(f"backend='arrays' has {', '.join(_with_arrays())}, not {env!r}. Use backend='auto'.")
        if backend == "envpool" or (backend == "auto" and pool_has(env)):
            return EnvPoolVector(env, n, threads)
    elif callable(env) and backend in ("arrays", "envpool"):
        raise EnvError(f"backend={backend!r} needs an environment id, got a factory. Use backend='gymnasium'.")
    return FreshSyncVectorEnv(partial(make_single, env), n)


def _with_arrays() -> list[str]:
    return [one for one in known_ids() if (known := find(one)) is not None and known.vector is not None]

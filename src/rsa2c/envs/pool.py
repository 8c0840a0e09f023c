"""EnvPool's C++ environments behind Gymnasium's interfaces, Gymnasium's own and dm_control's."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rsa2c.envs.flattening import Layout
from rsa2c.envs.vectorised import PARTIAL_RESET
from rsa2c.errors import ConfigError, EnvError, did_you_mean, require

DM_CONTROL = "dm:"
"""Prefix by which a user may mark dm_control's tasks: `dm:CheetahRun-v1` is EnvPool's CheetahRun-v1."""
_OURS = ("num_envs", "batch_size", "num_threads", "thread_affinity_offset", "base_path", "seed", "env_seed",
         "gym_reset_return_info", "max_num_players")  # fmt: skip
"""EnvPool's settings that belong to a pool and not to its environments."""


def pool_has(env_id: str) -> bool:
    """Whether EnvPool is installed and has this environment."""
    return find_spec("envpool") is not None and env_id in _envpool().list_all_envs()


def only_pool_has(env_id: str) -> bool:
    """Whether EnvPool has an id that Gymnasium does not have, such as those of dm_control's tasks."""
    return env_id not in gym.registry and pool_has(env_id)


def _envpool() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return require("envpool", "fast", "backend='envpool'")


def is_pool(env: Any) -> bool:
    """Whether an object is a pool that `envpool.make` returned."""
    return hasattr(env, "all_env_ids") and hasattr(getattr(env, "spec", None), "config")


def pool_source(pool: Any) -> tuple[str, dict[str, Any]]:
    """EnvPool's id of a pool and the keyword arguments of `envpool.make` that make its environments again."""
    registry = require("envpool.registration", "fast").registry
    config, name = dict(pool.config), type(pool).__name__
    for env_id, interfaces in registry.envpools.items():
        if interfaces["gymnasium"][1] != name or env_id not in registry.specs:
            continue
        usual = _described(env_id)[2]
        fixed = registry.specs[env_id][2]
        if all(config.get(key) == value for key, value in fixed.items() if key not in (*_OURS, "max_episode_steps")):
            changed = {key: value for key, value in config.items() if key not in _OURS and value != usual.get(key)}
            return env_id, changed
    if "dm" in name.lower() and not isinstance(pool, gym.Env):
        raise EnvError(f"{name} has dm_env's interface. Make it with: envpool.make(..., env_type='gymnasium')")
    raise EnvError(f"EnvPool's registry has no entry for {name}. Give its id instead of a pool.")


def _described(env_id: str, kwargs: Mapping[str, Any] | None = None) -> tuple[Any, Any, dict[str, Any]]:
    """Spaces of observations and actions of an environment, and its configuration."""
    with warnings.catch_warnings():
        # EnvPool declares float64 bounds for float32 boxes, which Gymnasium warns about
        warnings.simplefilter("ignore")
        try:
            spec = _envpool().make_spec(env_id, **(kwargs or {}))
        except (TypeError, ValueError, AssertionError) as error:
            raise ConfigError(f"EnvPool does not make {env_id} with {dict(kwargs or {})}: {error}") from error
        return spec.observation_space, spec.action_space, spec.config._asdict()


class EnvPoolVector(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """n environments of an EnvPool pool; Dict observations are flattened.

    EnvPool seeds a pool once, when it is made, so `reset(seed=...)` makes a new one. As in Gymnasium's NEXT_STEP mode,
    the last step of an episode returns the final observation, and the step after it resets and ignores its action.
    """

    def __init__(
        self, env_id: str, num_envs: int = 1, threads: int = 1, kwargs: Mapping[str, Any] | None = None
    ) -> None:
        envpool = _envpool()
        if env_id not in envpool.list_all_envs():
            raise EnvError(
                f"EnvPool has no environment {env_id!r}.{did_you_mean(env_id, envpool.list_all_envs())} "
                "Use backend='gymnasium' for Gymnasium's own."
            )
        self.env_id, self.num_envs, self.threads, self.kwargs = env_id, num_envs, threads, dict(kwargs or {})
        space, self.single_action_space, config = _described(env_id, self.kwargs)
        space = _without_bounds(space)
        self.layout = Layout.of(space, env_id) if isinstance(space, spaces.Dict) else None
        self.single_observation_space = space if self.layout is None else self.layout.space(space)
        self._make = envpool.make
        self._max_episode_steps = int(config["max_episode_steps"])
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, PARTIAL_RESET: True}
        self.spec = gym.spec(env_id) if env_id in gym.registry else None
        self._pool: Any = None
        self._observations: NDArray[Any] = np.zeros(0)

    @property
    def episode_limit(self) -> int:
        return self._max_episode_steps

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        if seed is not None or self._pool is None:
            self._pool = self._new_pool(secrets.randbits(31) if seed is None else int(seed))
        mask = None if options is None else options.get("reset_mask")
        if mask is None:
            some, infos = self._pool.reset()
            self._observations = self._flat(some)
        else:
            some, infos = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
            self._observations = self._observations.copy()
            self._observations[mask] = self._flat(some)
        return self._observations, infos

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        actions = np.ascontiguousarray(actions, dtype=self.single_action_space.dtype)
        observations, rewards, terminated, truncated, infos = self._pool.step(actions)
        self._observations = self._flat(observations)
        return self._observations, rewards.astype(np.float64), terminated, truncated, infos

    def _flat(self, observations: Any) -> NDArray[Any]:
        return observations if self.layout is None else self.layout.many(observations)

    def close_extras(self, **kwargs: Any) -> None:
        self._pool = None

    def _new_pool(self, seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # EnvPool keeps seed + i of environment i in 32 signed bits
            pool = self._make(
                self.env_id,
                env_type="gymnasium",
                num_envs=self.num_envs,
                num_threads=self.threads,
                seed=seed % (2**31 - self.num_envs),
                **self.kwargs,
            )
            _ = pool.observation_space, pool.action_space  # made here, where their warnings are silenced
            return pool


class EnvPoolSingle(gym.Env[NDArray[Any], NDArray[Any]]):
    """One environment of EnvPool, for ids that only EnvPool has, such as dm_control's tasks."""

    def __init__(self, env_id: str, kwargs: Mapping[str, Any] | None = None) -> None:
        self.vector = EnvPoolVector(env_id, 1, 1, kwargs)
        self.env_id, self.episode_limit, self.layout = env_id, self.vector.episode_limit, self.vector.layout
        self.observation_space = self.vector.single_observation_space
        self.action_space = self.vector.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], dict]:
        super().reset(seed=seed)
        observations, _ = self.vector.reset(seed=seed)
        return observations[0], {}

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        observations, rewards, terminated, truncated, _ = self.vector.step(np.asarray(action)[None])
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def close(self) -> None:
        self.vector.close()


def _without_bounds(space: gym.Space[Any]) -> gym.Space[Any]:
    """The space without EnvPool's bounds, some of which are placeholders (BipedalWalker's lower bound is 1e-38)."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _without_bounds(inner) for key, inner in space.spaces.items()})
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return space
    return spaces.Box(-np.inf, np.inf, shape=space.shape, dtype=space.dtype.type)  # type: ignore[union-attr]

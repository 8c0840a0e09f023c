"""EnvPool's C++ environments behind Gymnasium's vector interface."""

from __future__ import annotations

import secrets
import warnings
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rsa2c.envs.vectorised import PARTIAL_RESET
from rsa2c.errors import EnvError, did_you_mean, require


def pool_has(env_id: str) -> bool:
    """Whether EnvPool is installed and has this environment."""
    return find_spec("envpool") is not None and env_id in _envpool().list_all_envs()


def _envpool() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return require("envpool", "fast", "backend='envpool'")


class EnvPoolVector(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """n environments of an EnvPool pool.

    EnvPool seeds a pool once, when it is made, so `reset(seed=...)` makes a new one. As in Gymnasium's NEXT_STEP mode,
    the last step of an episode returns the final observation, and the step after it resets and ignores its action.
    """

    def __init__(self, env_id: str, num_envs: int = 1, threads: int = 1) -> None:
        envpool = _envpool()
        if env_id not in envpool.list_all_envs():
            raise EnvError(
                f"EnvPool has no environment {env_id!r}.{did_you_mean(env_id, envpool.list_all_envs())} "
                "Use backend='gymnasium' for Gymnasium's own."
            )
        self.env_id = env_id
        self.num_envs = num_envs
        self.threads = threads
        with warnings.catch_warnings():
            # EnvPool declares float64 bounds for float32 boxes, which Gymnasium warns about
            warnings.simplefilter("ignore")
            pool_spec = envpool.make_spec(env_id)
            self.single_observation_space = _without_bounds(pool_spec.observation_space)
            self.single_action_space = pool_spec.action_space
        self._make = envpool.make
        self._max_episode_steps = int(pool_spec.config.max_episode_steps)
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
            self._observations, infos = self._pool.reset()
        else:
            some, infos = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
            self._observations = self._observations.copy()
            self._observations[mask] = some
        return self._observations, infos

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        actions = np.ascontiguousarray(actions, dtype=self.single_action_space.dtype)
        self._observations, rewards, terminated, truncated, infos = self._pool.step(actions)
        return self._observations, rewards.astype(np.float64), terminated, truncated, infos

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
            )
            _ = pool.observation_space, pool.action_space  # made here, where their warnings are silenced
            return pool


def _without_bounds(space: gym.Space[Any]) -> gym.Space[Any]:
    """The space without EnvPool's bounds, some of which are placeholders (BipedalWalker's lower bound is 1e-38)."""
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return space
    return spaces.Box(-np.inf, np.inf, shape=space.shape, dtype=space.dtype.type)  # type: ignore[union-attr]

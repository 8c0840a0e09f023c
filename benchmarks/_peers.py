"""Peers on any simulator that rsa2c trains on: Stable-Baselines3's agents, and SBX's, which are the same in JAX."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from rsa2c.baselines.policy import Baseline, baseline_config, baseline_env, resolved
from rsa2c.envs import make_env

MISSING = {"sbx": ("use_sde", "sde_sample_freq")}
"""Arguments of RL-Zoo that a library accepts and does not implement: SBX's PPO has no state-dependent exploration."""


class SimulatorVecEnv(VecEnv):
    """EnvPool's environments, or ours, as SB3 wants them: one is reset in the step that ends its episode."""

    def __init__(self, env_id: str, n: int, seed: int, backend: Any) -> None:
        self.env = make_env(env_id, n, backend=backend)
        super().__init__(n, self.env.single_observation_space, self.env.single_action_space)
        self.first_seed, self.render_mode = seed, None
        self.actions = np.zeros((n, *self.action_space.shape), np.float32)  # type: ignore[misc]

    def reset(self) -> Any:
        return self.env.reset(seed=self.first_seed)[0].astype(np.float32)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        observations, rewards, over, out_of_time, _ = self.env.step(self.actions)
        observations = observations.astype(np.float32)
        ended = over | out_of_time
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ended.any():
            for i in np.flatnonzero(ended):
                infos[i] = {"terminal_observation": observations[i], "TimeLimit.truncated": bool(out_of_time[i])}
            observations = self.env.reset(options={"reset_mask": ended})[0].astype(np.float32)
        return observations, rewards.astype(np.float32), ended, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def build_peer(library: str, name: str, env_id: str, seed: int, simulator: str) -> Baseline:
    """An untrained `name` (ppo or sac) of `library` (stable_baselines3 or sbx) with RL-Zoo's settings."""
    config = baseline_config(name, env_id, seed=seed)
    env: VecEnv
    if simulator == "gymnasium":
        env = make_vec_env(partial(baseline_env, env_id, config), n_envs=config.n_envs, seed=seed)
    else:
        env = SimulatorVecEnv(env_id, config.n_envs, seed, simulator)
    if config.normalise:
        env = VecNormalize(env, gamma=config.arguments.get("gamma", 0.99))
    arguments = {key: value for key, value in resolved(config.arguments).items() if key not in MISSING.get(library, ())}
    algorithm = getattr(import_module(library), name.upper())
    model = algorithm("MlpPolicy", env, seed=seed, device="cpu", **arguments)
    return Baseline(name, env_id, config, model, env if config.normalise else None)

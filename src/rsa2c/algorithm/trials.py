"""Episodes without exploration noise, in environments side by side."""

from __future__ import annotations

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.sensors import EXACT, Sensors
from rsa2c.envs import env_id
from rsa2c.envs.checks import autoreset_mode, check_observations, check_rewards
from rsa2c.envs.watchdog import watching
from rsa2c.kernel.rowwise import rowwise


def first_episodes(
    policy: GaussianPolicy,
    env: VectorEnv,
    steps: int,
    seed: int,
    step_timeout: float | None,
    sensors: Sensors = EXACT,
) -> tuple[NDArray[np.float64], int]:
    """The policy's return without exploration noise in the first episode of each environment, (n,), at most `steps`
    long, and the length of the longest; it sees observations by `sensors`."""
    mode = autoreset_mode(env)
    shape, kind = (env.num_envs, policy.mean.kernel.dimension), env.single_action_space.dtype
    mean, metric = rowwise(policy.mean), policy.mean.kernel.metric
    returns, running, t = np.zeros(env.num_envs), np.ones(env.num_envs, dtype=bool), 0
    with watching(env_id(env), env.unwrapped, step_timeout) as watch:
        with watch(0):
            observations, _ = env.reset(seed=seed)
        check_observations(env, observations, shape, 0)
        for t in range(1, steps + 1):
            seen = sensors.every(observations, np.full(env.num_envs, t == 1))
            action = policy.bounds.action(mean(metric(seen))).astype(kind, copy=False)
            with watch(t):
                observations, reward, over, out_of_time, _ = env.step(action)
            check_observations(env, observations, shape, t)
            check_rewards(env, reward, env.num_envs, t)
            returns += np.where(running, reward, 0.0)
            ended = np.asarray(over) | np.asarray(out_of_time)
            running &= ~ended
            if not running.any():
                break
            if mode is AutoresetMode.DISABLED and ended.any():
                with watch(t):
                    starts, _ = env.reset(options={"reset_mask": ended})
                observations = np.where(ended[:, None], starts, observations)
    return returns, t

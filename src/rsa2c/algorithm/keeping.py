"""The policy that acts after training: the best so far, by episodes that nothing was learned from.

Late policies wander, and one that has learned to run may fall again. So the policy is tried now and then without its
exploration noise. One that does better than the policy kept so far is tried again in further episodes, and kept if it
still does better: its score then has no part in why it was chosen.
"""

from __future__ import annotations

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.rollout import autoreset_mode
from rsa2c.algorithm.state import KEEP, Kept, TrainingState, environment_seed, generator
from rsa2c.config import Config
from rsa2c.envs import env_id, episode_limit
from rsa2c.envs.checks import check_observations, check_rewards
from rsa2c.envs.watchdog import watching

STEPS_BETWEEN_TRIALS = 50_000
"""Training steps between two trials."""
FIRST_EPISODES, FURTHER_EPISODES = 4, 12
"""Episodes of a trial, and of its confirmation: trials cost about a tenth of the training's time."""


def keep_best(state: TrainingState, steps_before: int, env: VectorEnv, config: Config) -> Kept | None:
    """The policy to act with after an epoch that began at `steps_before`: the one kept so far, or the newest."""
    if config.keep == "last" or state.steps // STEPS_BETWEEN_TRIALS == steps_before // STEPS_BETWEEN_TRIALS:
        return state.kept
    rng = generator(config, state.epoch, KEEP)
    steps = episode_limit(env) or Sizes.of(config).horizon
    if state.kept is not None and _score(state.policy, env, FIRST_EPISODES, steps, config, rng) <= state.kept.score:
        return state.kept
    score = _score(state.policy, env, FURTHER_EPISODES, steps, config, rng)
    if state.kept is not None and score <= state.kept.score:
        return state.kept
    return Kept(state.policy, state.value, state.advantage, state.background, state.epoch, state.steps, score)


def _score(
    policy: GaussianPolicy, env: VectorEnv, episodes: int, steps: int, config: Config, rng: np.random.Generator
) -> float:
    """Mean return of at least so many episodes."""
    rounds = -(-episodes // env.num_envs)
    seeds = [environment_seed(rng) for _ in range(rounds)]
    return float(np.mean([first_episodes(policy, env, steps, seed, config.step_timeout) for seed in seeds]))


def first_episodes(
    policy: GaussianPolicy, env: VectorEnv, steps: int, seed: int, step_timeout: float | None
) -> NDArray[np.float64]:
    """(n,): the policy's return without noise in the first episode of each environment, at most `steps` long."""
    mode = autoreset_mode(env)
    shape, kind = (env.num_envs, policy.mean.kernel.dimension), env.single_action_space.dtype
    returns, running = np.zeros(env.num_envs), np.ones(env.num_envs, dtype=bool)
    with watching(env_id(env), env.unwrapped, step_timeout) as watch:
        with watch(0):
            observations, _ = env.reset(seed=seed)
        check_observations(env, observations, shape, 0)
        for t in range(1, steps + 1):
            action = policy.bounds.action(policy.mean(observations)).astype(kind, copy=False)
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
    return returns

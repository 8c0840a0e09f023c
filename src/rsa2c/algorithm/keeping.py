"""The policy that acts after training: the best so far, by episodes that nothing was learned from.

Late policies wander, and one that has learned to run may fall again. So the policy is tried now and then without its
exploration noise. One that does better than the policy kept so far is tried again, as often as that one has
been, and kept if it does better all along: its score then has no part in why it was chosen, and luck in a dozen
episodes does not beat a policy that fell in one of fifty. The policy kept so far is tried again each time too, and its
score is the mean of all its episodes. A policy that is made for errors of measurement is tried with them.

On a GPU dozens of episodes of both policies take hardly longer than one. One trial then has them all, from the same
starts, and the newest policy is kept if it does better in both halves of its episodes. These are its first score, so
luck has a part in that until it is tried again. Trainings there may last seconds or minutes, so the first trials come
early, each after twice the steps of the one before, and where a training ends its last policy is tried too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import schedules
from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.robust import trial_errors
from rsa2c.algorithm.state import KEEP, Kept, TrainingState, environment_seed, generator
from rsa2c.algorithm.workers import Workers
from rsa2c.config import Config

STEPS_BETWEEN_TRIALS = 50_000
"""Training steps between two trials."""
FIRST_EPISODES, FURTHER_EPISODES = 4, 12
"""Least episodes of a trial, for the newest policy and the one kept alike, and of a confirmation."""
STEPS_PER_EPISODE = 900
"""A trial goes on until it has so many steps for each of its least episodes: where episodes are short, more of them
cost nothing, and show what goes wrong in one of twenty. Trials cost about a tenth of the training's time."""


def keep_best(state: TrainingState, steps_before: int, workers: Workers, config: Config) -> Kept | None:
    """The policy to act with after an epoch that began at `steps_before`: the one kept so far, or the newest."""
    if config.keep == "last" or _trials(state.steps, workers) == _trials(steps_before, workers):
        return state.kept
    return _tried(state, workers, config)


def concluded(state: TrainingState, steps_before: int, workers: Workers, config: Config) -> TrainingState:
    """The state where a training ends with an epoch that began at `steps_before`: on a device its policy is tried too,
    if that was not due. Elsewhere trials take too long for that, and most trainings end with one."""
    due = _trials(state.steps, workers) > _trials(steps_before, workers)
    if config.keep == "last" or due or not workers.tries_side_by_side:
        return state
    return replace(state, kept=_tried(state, workers, config))


def _trials(steps: int, workers: Workers) -> int:
    """How many trials are due by then."""
    every = workers.steps_between_trials or STEPS_BETWEEN_TRIALS
    return schedules.doubling(steps, workers.first_trial or every, every)


def _tried(state: TrainingState, workers: Workers, config: Config) -> Kept:
    """The policy kept so far, or the newest, after a trial of both."""
    rng = generator(config, state.epoch, KEEP)
    steps = workers.episode_limit or Sizes.of(config).horizon
    errors = trial_errors(config, state.policy, workers.n_envs)
    kept = state.kept
    if workers.tries_side_by_side:
        both = [state.policy, (kept or state).policy]
        return _of_two(state, workers.side_by_side(both, steps, environment_seed(rng), errors))
    if kept is not None:
        kept = _tried_again(kept, _returns(kept.policy, workers, FIRST_EPISODES, steps, rng, errors))
        if _returns(state.policy, workers, FIRST_EPISODES, steps, rng, errors).mean() <= kept.score:
            return kept
    returns = _returns(state.policy, workers, FURTHER_EPISODES, steps, rng, errors)
    if kept is not None:
        for _ in range(_trials(state.steps, workers) - _trials(kept.steps, workers)):
            if returns.mean() > kept.score:
                returns = np.append(returns, _returns(state.policy, workers, FIRST_EPISODES, steps, rng, errors))
        if returns.mean() <= kept.score:
            return kept
    return _newest(state, returns)


def _newest(state: TrainingState, returns: NDArray[np.float64]) -> Kept:
    """The newest policy, with the returns that speak for it."""
    policy, value, advantage, score = state.policy, state.value, state.advantage, float(returns.mean())
    return Kept(policy, value, advantage, state.background, state.epoch, state.steps, score, len(returns))


def _of_two(state: TrainingState, returns: NDArray[np.float64]) -> Kept:
    """The newest policy or the one kept so far, by returns (2, n) of both in episodes from the same starts."""
    newest, other = returns
    if state.kept is not None:
        kept = _tried_again(state.kept, other)
        if min(newest[::2].mean(), newest[1::2].mean()) <= kept.score:
            return kept
    return _newest(state, newest)


def _tried_again(kept: Kept, returns: NDArray[np.float64]) -> Kept:
    """With further returns in its score."""
    episodes = kept.episodes + len(returns)
    return replace(kept, score=kept.score + float(np.sum(returns - kept.score)) / episodes, episodes=episodes)


def _returns(
    policy: GaussianPolicy,
    workers: Workers,
    episodes: int,
    steps: int,
    rng: np.random.Generator,
    errors: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Returns of at least so many episodes."""
    returns: list[float] = []
    spent = 0
    while len(returns) < episodes or spent < episodes * STEPS_PER_EPISODE:
        found, length = workers.first_episodes(policy, steps, environment_seed(rng), errors)
        returns.extend(found)
        spent += length * workers.n_envs
    return np.array(returns)

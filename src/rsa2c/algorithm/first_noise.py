"""The exploration noise that a training begins with, where it is "auto": its size, and its correlation in time.

Both are found in the warm-up, by rollouts of a policy that has learned nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.batch import Batch
from rsa2c.algorithm.shares import Rollout
from rsa2c.algorithm.state import WARMUP, environment_seed, generator
from rsa2c.algorithm.workers import Workers
from rsa2c.config import Config, LearnedSigma

USUAL_SIGMA, GENTLER_SIGMAS = 0.7, (0.4, 0.2, 0.1)
"""Standard deviation of the first epoch, and those to take instead where it fells what would stand. Walkers on two legs
fall anyway, and with less noise they learn more slowly; robots on four legs stand until noise makes them fall, and then
learn that falling is what happens. Ant-v5 after 1 M steps: 1,983 with 0.7, 2,785 with 0.4."""
CORRELATION = 0.9
"""Correlation of the noise where it is correlated: on MountainCarContinuous-v0 0.7 to 0.98 find the goal, white noise
does not. On most robots it costs: three quarters of the return on Walker2d-v5 and HalfCheetah-v5."""
SILENT_SHARE, SILENT_RESIDUAL = 0.99, 1e-6
"""Share of the rewards that say nothing about states where rewards are silent, and the share of their variance that
actions may leave unexplained. White noise stumbles on FingerSpin-v1's reward in one step of two thousand and ended at
a return of 1.4; with correlated noise it has hundreds."""
SLOW_STEPS, SLOW_AUTOCORRELATION, FAST_SHARE = 10, 0.8, 0.1
"""States are slow if after so many steps, as many as correlated noise lasts, the autocorrelation of all but a tenth of
the features is above the second: 0.89 on CartpoleSwingup-v1, 0.65 for two tanks, below 0.2 on robots."""
WORTHWHILE = 0.5
"""Gain of the mean reward under correlated noise, in standard deviations of the rewards: 0.86 on CartpoleSwingup-v1,
which then swings up (879 after 300 k steps, with white noise 299). Where something is to be held, it loses."""


@dataclass(frozen=True)
class FirstRollouts:
    """What the warm-up found: the settled configuration, the rollout to begin with and its transitions, and the number
    of rollouts that it took."""

    config: Config
    plan: Rollout
    batch: Batch
    count: int

    @classmethod
    def made(
        cls,
        untrained: GaussianPolicy,
        workers: Workers,
        steps: int,
        episode: int,
        config: Config,
        rng: np.random.Generator,
    ) -> FirstRollouts:
        """Roll out `steps` steps of each environment, as often as it takes; `episode` is how long an episode can be."""
        found = _of_settled_size(untrained, workers, steps, episode, config, rng)
        return found._with_settled_correlation(workers)

    def _with_settled_correlation(self, workers: Workers) -> FirstRollouts:
        """With white noise, or correlated noise where rewards are silent, or states slow and correlated noise earns
        more."""
        rule, batch = self.config.exploration, self.batch
        if not isinstance(rule, LearnedSigma) or rule.noise_correlation != "auto":
            return self
        white, correlated = (self.config.updated(noise_correlation=each) for each in (0.0, CORRELATION))
        if batch.terminated.any():
            return replace(self, config=white)
        if silent(self.plan.policy.bounds.action(batch.latents), batch.rewards):
            return replace(self, config=correlated)
        if not slow(batch):
            return replace(self, config=white)
        policy, steps, rng = self.plan.policy, self.plan.steps, generator(self.config, 0, WARMUP, 2)
        other = workers.roll_out(Rollout.drawn(rng, policy, steps, correlation=CORRELATION)).gathered()
        return replace(self, config=correlated if pays(batch.rewards, other.rewards) else white, count=self.count + 1)


def _of_settled_size(
    untrained: GaussianPolicy, workers: Workers, steps: int, episode: int, config: Config, rng: np.random.Generator
) -> FirstRollouts:
    """With the first standard deviation settled.

    Where a policy would stand without noise and does not with the usual one, the largest with which it stands is taken.
    Rollouts too short to tell leave the usual one.
    """
    asked = config.exploration.sigma_initial
    sigma = USUAL_SIGMA if asked == "auto" else float(asked)
    plan = Rollout.drawn(rng, untrained.with_sigma(sigma), steps)
    found = FirstRollouts(config.updated(sigma_initial=sigma), plan, workers.roll_out(plan).gathered(), 1)
    half, again = episode // 2, generator(config, 0, WARMUP, 1)
    if asked != "auto" or steps < half or stands(found.batch, half):
        return found
    if workers.first_episodes(untrained, half, environment_seed(again))[1] < half:
        return found
    for count, sigma in enumerate(GENTLER_SIGMAS, start=2):
        plan = Rollout.drawn(again, untrained.with_sigma(sigma), steps)
        batch = workers.roll_out(plan).gathered()
        if stands(batch, half):
            return FirstRollouts(config.updated(sigma_initial=sigma), plan, batch, count)
    return replace(found, count=count)


def stands(batch: Batch, length: int) -> bool:
    """Whether episodes last so long on average before they terminate."""
    return batch.n >= length * int(batch.terminated.sum())


def silent(actions: NDArray, rewards: NDArray) -> bool:
    """Whether rewards (N,) say nothing about states: all but the few that fit worst are a quadratic function of the
    action (N, m). Noise that averages out over a few steps will not find what would tell one state from another."""
    terms = np.column_stack([np.ones(len(rewards)), actions, actions**2])
    usual = np.argsort(_unexplained(terms, rewards) ** 2, kind="stable")[: math.ceil(SILENT_SHARE * len(rewards))]
    terms, rewards = terms[usual], rewards[usual]
    scale = np.finfo(np.float64).eps * float(np.mean(rewards**2)) + SILENT_RESIDUAL * float(rewards.var())
    return bool(_unexplained(terms, rewards).var() <= scale)


def _unexplained(terms: NDArray, rewards: NDArray) -> NDArray:
    """Residuals (N,) of least squares."""
    return rewards - terms @ np.linalg.lstsq(terms, rewards, rcond=None)[0]


def slow(batch: Batch) -> bool:
    """Whether states hardly change in as many steps as correlated noise lasts."""
    found = autocorrelation(batch, SLOW_STEPS)
    return len(found) > 0 and bool(np.quantile(found, FAST_SHARE) > SLOW_AUTOCORRELATION)


def autocorrelation(batch: Batch, lag: int) -> NDArray[np.float64]:
    """Of each feature that varies, after `lag` steps, about its mean in each segment."""
    number = np.repeat(np.arange(batch.segment[-1] + 1), np.bincount(batch.segment) + 1)
    means = np.array([np.bincount(number, column) for column in batch.raw.T]) / np.bincount(number)
    away = batch.raw - means.T[number]
    variance = np.mean(away**2, axis=0)
    varies = variance > np.finfo(np.float64).eps * np.mean(batch.raw**2, axis=0)
    same = number[lag:] == number[:-lag]
    if not same.any():
        return np.empty(0)
    return np.mean((away[lag:] * away[:-lag])[same], axis=0)[varies] / variance[varies]


def pays(white: NDArray, correlated: NDArray) -> bool:
    """Whether rewards (N,) under correlated noise are worth it."""
    spread = float(np.concatenate([white, correlated]).std())
    return float(correlated.mean() - white.mean()) > WORTHWHILE * spread

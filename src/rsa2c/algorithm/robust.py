"""Robust training: what is done so that errors of measurement do less harm.

With robust="scale" the kernel's standard deviations include those of the errors, so that a feature which hardly varies
is not what errors move most. With robust="noise" and robust="smooth" they do where the scale follows. With "noise" the
observations of an epoch have noise on them, in a mixture of levels: policy and critics see it, rewards do not change.
With "smooth" the actor's objective has a penalty rho / (2 sigma_j^2) E|h_j(s + delta) - h_j(s)|^2 for each action
dimension j. It is quadratic in the coefficients c_j, with the gradient rho M c_j / sigma_j^2 and M = E[(k_D(s + delta)
- k_D(s)) (k_D(s + delta) - k_D(s))^T], so it enters the natural step in closed form. Errors that leave the kernel's
reach would only make it shrink the policy; on BipedalWalker-v3, whose lidar has a standard deviation of 0.01, an error
of 0.1 is such a one without the wider scale. With robust="filter" policy and critics see the observations through a
low-pass filter (`sensors.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import schedules
from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.samples import Block, Samples
from rsa2c.algorithm.state import SMOOTH, generator
from rsa2c.config import (
    Config,
    FilteredMeasurements,
    GrowingErrors,
    MeasurementErrors,
    NoisyTraining,
    SmoothPolicy,
)
from rsa2c.errors import notice
from rsa2c.kernel.dictionary import Dictionary

CLEAN_TRIALS = 0.5
"""Share of the environments without noise in trials of the policy, where training has no such share."""
SEEDS = 2**63
"""Perturbed copies of a batch are seeded by a number below this one."""


def deviations(rule: MeasurementErrors, std: NDArray[np.float64]) -> NDArray[np.float64]:
    """(d,): largest standard deviations of the errors, in raw units, where the features have the deviations `std`."""
    normalised = isinstance(rule, GrowingErrors) and rule.robust_units == "normalised"
    return rule.robust_noise * (std if normalised else np.ones_like(std))


def _std(policy: GaussianPolicy) -> NDArray[np.float64]:
    return policy.mean.kernel.metric.std


def widened(variance: NDArray[np.float64], config: Config) -> NDArray[np.float64]:
    """(d,): variances of the visited states, plus those of the errors that a policy is made for."""
    rule = config.robust
    if not isinstance(rule, MeasurementErrors):
        return variance
    return variance + deviations(rule, np.sqrt(variance)) ** 2


def filter_weight(config: Config) -> float | None:
    """Weight of the newest measurement in the filter in front of the policy; None without a filter."""
    return config.robust.robust_filter if isinstance(config.robust, FilteredMeasurements) else None


def tell_short_ramp(config: Config, steps: int) -> None:
    """Say so where training ends, after `steps` environment steps, before the errors have grown to their full size."""
    rule = config.robust
    if isinstance(rule, GrowingErrors) and steps < rule.robust_ramp:
        reached = schedules.linear(0.0, 1.0, steps, rule.robust_ramp)
        notice(
            f"robust_ramp is {rule.robust_ramp:,} environment steps and training ends after {steps:,}: errors only "
            f"reach {reached:.0%} of their size. Set robust_ramp to half of the steps, {max(1, steps // 2):,}."
        )


def noise_levels(n_envs: int, clean: float, offset: float) -> NDArray[np.float64]:
    """(n_envs,): shares of the largest level, zero for the clean environments and (1 - offset) / k, (2 - offset) / k,
    ... for the k others. With an offset uniform in [0, 1) a level is uniform in (0, 1]."""
    noisy = n_envs - round(clean * n_envs)
    levels = np.zeros(n_envs)
    levels[n_envs - noisy :] = (np.arange(1, noisy + 1) - offset) / max(noisy, 1)
    return levels


def training_errors(
    config: Config, policy: GaussianPolicy, n_envs: int, steps: int, rng: np.random.Generator
) -> NDArray[np.float64] | None:
    """(n_envs, d): standard deviations of the noise in an epoch that begins after `steps` environment steps; which
    environment has which level is drawn. None without noise."""
    rule = config.robust
    if not isinstance(rule, NoisyTraining):
        return None
    share = schedules.linear(0.0, 1.0, steps, rule.robust_ramp)
    levels = noise_levels(n_envs, rule.robust_clean, rng.random())[rng.permutation(n_envs)]
    return share * np.outer(levels, deviations(rule, _std(policy)))


def trial_errors(config: Config, policy: GaussianPolicy, n_envs: int) -> NDArray[np.float64] | None:
    """The same for trials of a policy that is made for errors. Levels are at their full size from the first trial on,
    and always the same ones, so that the scores of policies can be compared whenever they were tried. In normalised
    units they follow the deviations of the visited states, and scores of distant trials compare less well."""
    rule = config.robust
    if not isinstance(rule, MeasurementErrors):
        return None
    clean = rule.robust_clean if isinstance(rule, NoisyTraining) else CLEAN_TRIALS
    return np.outer(noise_levels(n_envs, clean, 0.5), deviations(rule, _std(policy)))


@dataclass(frozen=True, eq=False)
class Smoothness:
    """The penalty of an epoch: its weight rho, the standard deviations (d,) of delta, and the seed of delta."""

    weight: float
    deviations: NDArray[np.float64]
    seed: int

    @classmethod
    def of(cls, config: Config, policy: GaussianPolicy, epoch: int, steps: int) -> Smoothness | None:
        """That of an epoch which began after `steps` environment steps; None without a penalty."""
        rule = config.robust
        if not isinstance(rule, SmoothPolicy):
            return None
        weight = schedules.linear(0.0, rule.robust_penalty, steps, rule.robust_ramp)
        seed = int(generator(config, epoch, SMOOTH).integers(SEEDS))
        return cls(weight, deviations(rule, _std(policy)), seed)

    def gradient(self, policy: GaussianPolicy, samples: Samples) -> NDArray[np.float64]:
        """(q, m): rho M C Sigma^-1, the penalty's gradient; the Advantage Critic was fitted to the samples."""
        mean = policy.mean
        total = samples.reduce(changed_features, mean.dictionary, mean.coefficients, self.deviations, self.seed)
        return self.weighted(total.astype(np.float64) / samples.n, policy)

    def weighted(self, changes: NDArray[np.float64], policy: GaussianPolicy) -> NDArray[np.float64]:
        """(q, m): rho M C Sigma^-1 from M C."""
        return self.weight * changes / policy.sigma**2


def changed_features(
    block: Block, dictionary: Dictionary, coefficients: NDArray, deviations: NDArray, seed: int
) -> NDArray:
    """(q, m): the block's part of N M C, from one perturbed copy of its states. The block has their features, and draws
    from a stream of its own."""
    batch, phi = block.batch, block.features
    assert phi is not None, "the advantage was fitted"
    states, rng = batch.raw_states, np.random.default_rng([seed, block.number])
    perturbed = dictionary.kernel.metric(states + deviations * rng.standard_normal(states.shape))
    change = dictionary.features(phi.dtype.type)(perturbed.astype(phi.dtype)) - phi
    return change.T @ (change @ coefficients.astype(phi.dtype))

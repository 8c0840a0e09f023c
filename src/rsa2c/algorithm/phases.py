"""The smaller phases of an epoch, each a function of what it uses; `epoch.py` has their order.

Growing dictionaries is in `admission.py`, attribution and the change of kernel weights in `reweighting.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import released, schedules
from rsa2c.algorithm.actor import GaussianPolicy, kl_step_size, largest_kl, mean_kl, step_direction
from rsa2c.algorithm.critics import (
    AdvantageFit,
    AdvantageSums,
    LSTDSums,
    advantage_solution,
    advantage_sums,
    lstd_solution,
    lstd_sums,
)
from rsa2c.algorithm.estimates import advantages, discounted_returns
from rsa2c.algorithm.observing import Observe
from rsa2c.algorithm.samples import Block, Samples
from rsa2c.algorithm.shares import Rollout
from rsa2c.algorithm.state import dtype_of
from rsa2c.algorithm.sums import Largest, Moments
from rsa2c.algorithm.workers import Workers
from rsa2c.config import LSTD, Config, KLStep, LearnedSigma, NoValue, ReleasedAdvantage, ScheduledSigma
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.rkhs import RKHSFunction

ROUNDING_POWER = 0.6
"""Advantages that vary less than this power of machine epsilon, relative to the values, are the fit's rounding."""


SPREAD_RATE = 0.6
"""Speed at which standard deviations are learned, relative to the mean's: at full speed they shrink too early."""


def explore(policy: GaussianPolicy, config: Config, epoch: int) -> GaussianPolicy:
    """The policy with the standard deviations it explores with; those that are learned it has already."""
    rule = config.exploration
    if isinstance(rule, ScheduledSigma):
        return policy.with_sigma(schedules.linear(rule.sigma_initial, rule.sigma_final, epoch, rule.sigma_epochs))
    return policy


def roll_out(
    policy: GaussianPolicy,
    workers: Workers,
    horizon: int,
    config: Config,
    rng: np.random.Generator,
    observe: Observe | None = None,
) -> Samples:
    """Roll out the policy from fresh environments, `horizon` steps in each."""
    correlation = config.exploration.noise_correlation if isinstance(config.exploration, LearnedSigma) else 0.0
    plan = Rollout.drawn(rng, policy, horizon, dtype_of(config), float(correlation), config.restart_p)
    return workers.roll_out(plan, observe)


def fit_value(value: RKHSFunction | None, samples: Samples, config: Config, epoch: int) -> RKHSFunction | None:
    """The Value Critic fitted to the samples; None without one."""
    if samples.fits is not None:
        return samples.fits.fit_value(value, config, epoch)
    fit, gamma = config.value, float(config.gamma)
    if value is None or isinstance(fit, NoValue):
        return None
    constant = 0.0
    if isinstance(fit, LSTD):
        damping = fit.value_damping if epoch > 0 else 0.0
        sums = samples.reduce(_value_sums, value, gamma, fit.value_lambda, damping > 0)
        weights, constant = lstd_solution(sums, gamma, fit.value_ridge, value.dictionary.gram, damping)
    else:
        batch = samples.gathered()
        phi = value.dictionary.features(batch.points.dtype.type)(batch.points)
        weights = released.sweep_value(phi, batch, value.coefficients[:, 0], fit, config, epoch)
    return replace(value, coefficients=weights[:, None], offset=np.array([constant]))


def _value_sums(block: Block, value: RKHSFunction, gamma: float, lam: float, damped: bool) -> LSTDSums:
    """The block's sums for LSTD; it keeps the features, from which its values follow."""
    batch = block.batch
    phi = block.features = value.dictionary.features(batch.points.dtype.type)(batch.points)
    previous = (phi @ value.coefficients[:, 0].astype(phi.dtype) + value.offset)[batch.state_index] if damped else None
    return lstd_sums(phi, batch, gamma, lam, previous)


@dataclass(frozen=True)
class Estimate:
    """What is known of all advantages and returns together; each block holds its own."""

    mean: float
    """Of the advantages, in reward units."""
    spread: float
    """Their standard deviation; 0 where they vary by no more than rounding, and then all advantages count as 0."""
    explained: float
    """Share of the returns' variance that the Value Critic explains; NaN where they do not vary."""
    episodes: int
    """Number of episodes that ended by themselves."""
    episode_return: float
    """Their mean return; NaN where there are none."""
    episode_length: float


def estimate_advantage(value: RKHSFunction | None, samples: Samples, config: Config) -> Estimate:
    """GAE(lambda) on the Value Critic, or without one the returns themselves; every block keeps its own."""
    if samples.fits is not None:
        return samples.fits.estimate_advantage(config)
    weights = None if value is None else (value.coefficients[:, 0], value.offset)
    dictionary = None if value is None or isinstance(config.value, LSTD) else value.dictionary
    arguments = weights, dictionary, float(config.gamma), config.advantage.gae_lambda
    advantage, largest, returns, rest, count, total, length = samples.reduce(_estimated, *arguments)
    spread, rounding = float(np.sqrt(advantage.variance)), 0.0
    if value is not None:
        rounding = float(np.finfo(dtype_of(config)).eps) ** ROUNDING_POWER * largest.value
    varies = float(returns.variance)
    return Estimate(
        mean=float(advantage.mean),
        spread=spread if spread > rounding else 0.0,
        explained=1.0 - float(rest.variance) / varies if varies > 0 else float("nan"),
        episodes=count,
        episode_return=total / count if count else float("nan"),
        episode_length=length / count if count else float("nan"),
    )


def _estimated(
    block: Block,
    value: tuple[NDArray, NDArray] | None,
    dictionary: Dictionary | None,
    gamma: float,
    lam: float,
) -> tuple[Any, ...]:
    """The block's values and advantages, and what `Estimate` needs of them. `value` has coefficients (q,) and offset;
    the block has the features of LSTD already, other fits bring their dictionary."""
    batch = block.batch
    if value is None:
        block.values = np.zeros(len(batch.points))
        block.advantage = discounted_returns(batch, None, gamma)
    else:
        phi = block.features
        if dictionary is not None:
            phi = dictionary.features(batch.points.dtype.type)(batch.points)
        assert phi is not None, "the value was fitted"
        block.features = None  # nobody needs them after this, and they are the largest array there is
        block.values = (phi @ value[0].astype(phi.dtype)).astype(np.float64) + value[1]
        block.advantage = advantages(batch, block.values, gamma, lam)
    returns = discounted_returns(batch, block.values, gamma)
    rest = returns - block.values[batch.state_index]
    largest = Largest(float(np.abs(block.values).max()))
    episodes = len(batch.episode_returns), float(batch.episode_returns.sum()), float(batch.episode_lengths.sum())
    return Moments.of(block.advantage), largest, Moments.of(returns), Moments.of(rest), *episodes


def standard_advantage(block: Block, index: NDArray | slice, estimate: Estimate) -> NDArray[np.float64]:
    """Advantages with mean zero and unit spread over all blocks; zero where nothing varies."""
    assert block.advantage is not None, "advantages were estimated"
    if estimate.spread == 0:
        return np.zeros_like(block.advantage[index])
    return (block.advantage[index] - estimate.mean) / estimate.spread


def fit_advantage_critic(policy: GaussianPolicy, samples: Samples, estimate: Estimate, config: Config) -> AdvantageFit:
    """The Advantage Critic on the actor's dictionary, in closed form."""
    if samples.fits is not None:
        return samples.fits.fit_advantage(policy, estimate, config)
    rule, dictionary, covariance = config.advantage, policy.mean.dictionary, policy.covariance
    clipped = rule if isinstance(rule, ReleasedAdvantage) else None
    sums = samples.reduce(_advantage_sums, dictionary, covariance, estimate, clipped)
    fit = advantage_solution(sums, dictionary.gram, covariance, rule.advantage_ridge)
    if isinstance(rule, ReleasedAdvantage) and rule.smooth_advantage:
        fit = released.smoothed(fit, samples, covariance)
    return fit


def _advantage_sums(
    block: Block, dictionary: Dictionary, covariance: NDArray, estimate: Estimate, rule: ReleasedAdvantage | None
) -> AdvantageSums:
    """The block's sums for the advantage fit; it keeps the features."""
    batch, target = block.batch, standard_advantage(block, slice(None), estimate)
    block.features = dictionary.features(batch.points.dtype.type)(batch.states)
    if rule is not None:
        target = released.clipped_advantage(target, rule)
    return advantage_sums(block.features, batch.latents - batch.means, target, covariance)


def _largest_kl(block: Block, direction: NDArray, covariance: NDArray) -> Largest:
    assert block.features is not None, "the advantage was fitted"
    return Largest(largest_kl(direction, block.features, covariance))


def step_actor(
    policy: GaussianPolicy, fit: AdvantageFit, samples: Samples, config: Config, epoch: int, steps: int
) -> tuple[GaussianPolicy, float]:
    """The policy after a step of its mean in an epoch that began after `steps` environment steps, and the step's mean
    KL."""
    direction, rule = step_direction(fit, policy.mean.dictionary, config.metric), config.step
    if isinstance(rule, KLStep):
        first = float(rule.kl)
        kl = schedules.linear(first, rule.kl_final or first, epoch, rule.kl_epochs)
        if rule.kl_halving is not None:
            kl /= 1 + steps / rule.kl_halving
        policy = policy.shrunk(rule.policy_decay)
        spread = SPREAD_RATE * fit.spread if isinstance(config.exploration, LearnedSigma) else None
        size = kl_step_size(direction, fit.second_moment, policy.covariance, kl, spread)
        if rule.kl_largest is not None and size > 0:  # where the policy seldom is, a step of small mean KL may leap
            largest = samples.reduce(_largest_kl, direction, policy.covariance).value
            size = min(size, (rule.kl_largest / largest) ** 0.5)
    else:
        spread = None
        direction, size = released.step_of(direction, rule, epoch)
    divergence = mean_kl(size * direction, fit.second_moment, policy.covariance)
    stepped = policy.step(direction, size)
    if spread is None:
        return stepped, divergence
    return stepped.spread(size * spread), divergence + float(np.sum((size * spread) ** 2))

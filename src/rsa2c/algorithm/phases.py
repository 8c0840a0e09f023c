"""The smaller phases of an epoch, each a function of what it uses; `epoch.py` has their order.

Growing dictionaries is in `admission.py`, the critics' fits in `fits.py`, attribution and the change of kernel weights
in `reweighting.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import released, schedules
from rsa2c.algorithm.actor import GaussianPolicy, kl_step_size, largest_kl, mean_kl, step_direction
from rsa2c.algorithm.critics import AdvantageFit
from rsa2c.algorithm.fits import Estimate
from rsa2c.algorithm.observing import Observe
from rsa2c.algorithm.robust import training_errors
from rsa2c.algorithm.samples import Block, Samples
from rsa2c.algorithm.shares import Rollout
from rsa2c.algorithm.state import TrainingState, dtype_of
from rsa2c.algorithm.sums import Largest
from rsa2c.algorithm.workers import Workers
from rsa2c.config import Config, KLStep, LearnedSigma, ScheduledSigma

SPREAD_RATE = 0.6
"""Speed at which standard deviations are learned, relative to the mean's: at full speed they shrink too early."""


def explore(policy: GaussianPolicy, config: Config, epoch: int) -> GaussianPolicy:
    """The policy with the standard deviations it explores with; those that are learned it has already."""
    rule = config.exploration
    if isinstance(rule, ScheduledSigma):
        first = float(rule.sigma_initial)
        return policy.with_sigma(schedules.linear(first, rule.sigma_final, epoch, rule.sigma_epochs))
    return policy


def roll_out(
    policy: GaussianPolicy,
    workers: Workers,
    horizon: int,
    config: Config,
    rng: np.random.Generator,
    observe: Observe | None = None,
    steps: int = 0,
) -> Samples:
    """Roll out the policy, `horizon` steps in each environment, in an epoch that begins after `steps` environment
    steps: from fresh environments, on a device from where they are."""
    plan = Rollout.drawn(rng, policy, horizon, dtype_of(config), config.correlation, config.restart_p)
    plan = replace(plan, errors=training_errors(config, policy, workers.n_envs, steps, rng))
    return workers.roll_out(plan, observe)


def _largest_kl(block: Block, direction: NDArray, covariance: NDArray) -> Largest:
    assert block.features is not None, "the advantage was fitted"
    return Largest(largest_kl(direction, block.features, covariance))


def step_actor(
    policy: GaussianPolicy,
    fit: AdvantageFit,
    samples: Samples,
    estimate: Estimate,
    config: Config,
    state: TrainingState,
) -> tuple[GaussianPolicy, float]:
    """The policy after a step of its mean in the epoch that began from `state`, and the step's mean KL."""
    direction, rule = step_direction(fit, policy.mean.dictionary, config.metric), config.step
    if isinstance(rule, KLStep):
        first = float(rule.kl)
        kl = schedules.linear(first, rule.kl_final or first, state.epoch, rule.kl_epochs)
        if rule.kl_halving is not None:
            kl /= 1 + state.steps / rule.kl_halving
        policy = policy.shrunk(rule.policy_decay)
        spread = SPREAD_RATE * fit.spread if isinstance(config.exploration, LearnedSigma) else None
        size = kl_step_size(direction, fit.second_moment, policy.covariance, kl, spread)
        if rule.kl_largest is not None and size > 0:  # where the policy seldom is, a step of small mean KL may leap
            largest = samples.reduce(_largest_kl, direction, policy.covariance).value
            size = min(size, (float(rule.kl_largest) / largest) ** 0.5)
    else:
        spread = None
        direction, size = released.step_of(direction, rule, state.epoch)
    change = size * direction
    newcomers = released.newcomers(policy, state.policy, fit, samples, estimate, config)
    if newcomers is not None:
        change = change + released.newcomers_share(config, size, len(change), samples.n) * newcomers
    divergence = mean_kl(change, fit.second_moment, policy.covariance)
    stepped = policy.step(change, 1.0)
    if spread is None:
        return stepped, divergence
    return stepped.spread(size * spread), divergence + float(np.sum((size * spread) ** 2))

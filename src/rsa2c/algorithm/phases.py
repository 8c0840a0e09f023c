"""The smaller phases of an epoch, each a function of what it uses; `epoch.py` has their order.

Growing dictionaries is in `admission.py`, attribution and the change of kernel weights in `reweighting.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm import released, schedules
from rsa2c.algorithm.actor import GaussianPolicy, kl_step_size, largest_kl, mean_kl, step_direction
from rsa2c.algorithm.critics import AdvantageFit, fit_advantage, lstd
from rsa2c.algorithm.estimates import advantages, discounted_returns
from rsa2c.algorithm.observing import Observe
from rsa2c.algorithm.rollout import Batch, collect
from rsa2c.algorithm.state import dtype_of, environment_seed
from rsa2c.config import LSTD, Config, KLStep, LearnedSigma, NoValue, ReleasedAdvantage, ScheduledSigma
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
    env: VectorEnv,
    horizon: int,
    config: Config,
    rng: np.random.Generator,
    observe: Observe | None = None,
) -> Batch:
    """Roll out the policy from fresh environments, `horizon` steps in each."""
    correlation = config.exploration.noise_correlation if isinstance(config.exploration, LearnedSigma) else 0.0
    act = policy.sampler(rng, dtype_of(config), float(correlation))
    seed = environment_seed(rng)
    return collect(
        env,
        act,
        policy.mean.kernel.metric,
        horizon,
        seed,
        rng,
        restart_p=config.restart_p,
        dtype=dtype_of(config),
        step_timeout=config.step_timeout,
        observe=observe,
    )


def fit_value(
    value: RKHSFunction | None, batch: Batch, config: Config, epoch: int
) -> tuple[RKHSFunction | None, NDArray[np.float64]]:
    """The Value Critic fitted to the batch, and its value at every point of the batch, (N + S,); zeros without one."""
    fit = config.value
    if value is None or isinstance(fit, NoValue):
        return None, np.zeros(len(batch.points))
    phi = value.dictionary.features(batch.points.dtype.type)(batch.points)
    constant = 0.0
    if isinstance(fit, LSTD):
        previous = None
        if fit.value_damping > 0 and epoch > 0:
            previous = (phi @ value.coefficients[:, 0].astype(phi.dtype) + value.offset)[batch.state_index]
        gram = value.dictionary.gram
        weights, constant = lstd(
            phi, batch, float(config.gamma), fit.value_lambda, fit.value_ridge, gram, previous, fit.value_damping
        )
    else:
        weights = released.sweep_value(phi, batch, value.coefficients[:, 0], fit, config, epoch)
    offset = np.array([constant])
    fitted = replace(value, coefficients=weights[:, None], offset=offset)
    return fitted, (phi @ weights.astype(phi.dtype)).astype(np.float64) + offset


def estimate_advantage(batch: Batch, values: NDArray, config: Config) -> NDArray[np.float64]:
    """GAE(lambda) on the Value Critic, or without one the returns themselves; in reward units, (N,)."""
    if not config.has_value:
        return discounted_returns(batch, None, float(config.gamma))
    estimate = advantages(batch, values, float(config.gamma), config.advantage.gae_lambda)
    rounding = float(np.finfo(batch.points.dtype).eps) ** ROUNDING_POWER * float(np.abs(values).max())
    return estimate if estimate.std() > rounding else np.zeros_like(estimate)


def standardised(advantage: NDArray) -> NDArray[np.float64]:
    """Mean zero and unit spread; zero where nothing varies."""
    spread = float(advantage.std())
    return (advantage - advantage.mean()) / spread if spread > 0 else np.zeros_like(advantage)


def fit_advantage_critic(
    policy: GaussianPolicy, batch: Batch, advantage: NDArray, config: Config
) -> AdvantageFit:
    """The Advantage Critic on the actor's dictionary, in closed form."""
    rule, dictionary, covariance = config.advantage, policy.mean.dictionary, policy.covariance
    phi = dictionary.features(batch.points.dtype.type)(batch.states)
    noise = batch.latents - batch.means
    target = standardised(advantage)
    if isinstance(rule, ReleasedAdvantage):
        target = released.clipped_advantage(target, rule)
    fit = fit_advantage(phi, noise, target, dictionary.gram, covariance, rule.advantage_ridge)
    if isinstance(rule, ReleasedAdvantage) and rule.smooth_advantage:
        fit = released.smoothed(fit, phi, noise, covariance)
    return fit


def step_actor(
    policy: GaussianPolicy, fit: AdvantageFit, config: Config, epoch: int, steps: int
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
            size = min(size, (rule.kl_largest / largest_kl(direction, fit.features, policy.covariance)) ** 0.5)
    else:
        spread = None
        direction, size = released.step_of(direction, rule, epoch)
    divergence = mean_kl(size * direction, fit.second_moment, policy.covariance)
    stepped = policy.step(direction, size)
    if spread is None:
        return stepped, divergence
    return stepped.spread(size * spread), divergence + float(np.sum((size * spread) ** 2))

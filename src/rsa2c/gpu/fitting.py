"""The fits of an epoch where its transitions are: on the device.

Each agrees with its twin in `algorithm/fits.py` on the same transitions (`tests/test_gpu.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.critics import AdvantageFit, check_horizon, require_finite
from rsa2c.algorithm.fits import Estimate, Fits, rounding_of
from rsa2c.algorithm.influence import LAGS, influence
from rsa2c.algorithm.plausible import plausible, range_of_rewards, ridges
from rsa2c.algorithm.robust import Smoothness
from rsa2c.algorithm.samples import Samples
from rsa2c.algorithm.sums import Moments, Range
from rsa2c.config import LSTD, Config
from rsa2c.gpu import fits
from rsa2c.gpu.arrays import Centres, Coordinates, padded
from rsa2c.gpu.device import computing
from rsa2c.gpu.samples import DeviceSamples
from rsa2c.kernel.rkhs import RKHSFunction


class DeviceFits(Fits):
    """The fits in JAX, of samples on a device; these keep values and advantages."""

    def value(self, value: RKHSFunction | None, samples: Samples, config: Config, epoch: int) -> RKHSFunction:
        """The Value Critic by LSTD(lambda)."""
        rule = config.value
        assert isinstance(samples, DeviceSamples) and value is not None and isinstance(rule, LSTD), "`check` saw to it"
        old = np.append(padded(value.coefficients[:, 0], samples.capacity), value.offset)
        damping, gamma, grid = rule.value_damping if epoch > 0 else 0.0, float(config.gamma), samples.batch.grid
        terminated = np.asarray(grid.terminated)
        check_horizon(gamma, bool(terminated.any()))
        rewards = range_of_rewards(np.asarray(grid.rewards), terminated)
        with computing(samples.device, double=True):
            for ridge in ridges(rule.value_ridge):
                constants = gamma, rule.value_lambda, ridge, damping
                fit = fits.fit_value(grid, *_on(samples, value), *constants, old)
                require_finite(np.append(fit.weights, fit.constant), "the LSTD solution", "raise value_ridge")
                reached, known = Range.of(np.asarray(fit.reached)), Range.of(np.asarray(fit.known))
                if plausible(reached, rewards, known if damping > 0 else None, gamma):
                    break
            weights, constant = np.asarray(fit.weights)[: value.dictionary.size], np.asarray(fit.constant)
        samples.values = fit
        return replace(value, coefficients=weights[:, None], offset=constant[None])

    def estimate(self, value: RKHSFunction | None, samples: Samples, config: Config) -> Estimate:
        """GAE(lambda) on the Value Critic that was fitted last."""
        assert isinstance(samples, DeviceSamples) and samples.values is not None, "the value was fitted"
        gamma, grid, found = float(config.gamma), samples.batch.grid, samples.values
        with computing(samples.device, double=True):
            samples.advantage = np.asarray(fits.advantages(grid, found, gamma, config.advantage.gae_lambda))
            returns, values = np.asarray(fits.returns(grid, found, gamma)), np.asarray(found.values)
            largest = max(float(np.abs(values).max()), float(np.abs(np.asarray(found.following)).max()))
        totals, lengths = samples.batch.episode_returns, samples.batch.episode_lengths
        advantage, varied, rest = (Moments.of(each.ravel()) for each in (samples.advantage, returns, returns - values))
        episodes = len(totals), float(totals.sum()), float(lengths.sum())
        return Estimate.of(advantage, varied, rest, rounding_of(largest, np.float64), episodes)

    def advantage(
        self,
        policy: GaussianPolicy,
        samples: Samples,
        estimate: Estimate,
        config: Config,
        penalty: Smoothness | None = None,
    ) -> AdvantageFit:
        """The Advantage Critic on the actor's dictionary, and what a penalty takes from the step."""
        assert isinstance(samples, DeviceSamples) and samples.advantage is not None, "advantages were estimated"
        target, q = estimate.standardised(samples.advantage), policy.mean.dictionary.size
        grid, where = samples.batch.grid, _on(samples, policy.mean)
        with computing(samples.device, double=True):
            against = None
            if penalty is not None:
                coefficients = padded(policy.mean.coefficients, samples.capacity)
                key = jax.random.PRNGKey(penalty.seed)
                changed = fits.penalty(grid, *where, coefficients, penalty.deviations, key)
                against = penalty.weighted(np.asarray(changed), policy)
            found = fits.fit_advantage(grid, *where, target, policy.sigma, config.advantage.advantage_ridge, against)
            moment, gradient, weights, spread = map(np.asarray, found[:4])
        require_finite(weights, "the advantage fit", "raise advantage_ridge")
        fit = AdvantageFit(moment[:q, :q], gradient[:q], weights[:q], spread)
        if against is None:
            return fit
        return replace(fit, penalty=against[:q], damped_penalty=np.asarray(found[4])[:q])

    def attributed(
        self, samples: Samples, positions: NDArray[np.int64], estimate: Estimate, guide: str
    ) -> tuple[NDArray[Any], list[NDArray[Any]]]:
        """What attribution critics are fitted to, in one request to the device."""
        assert isinstance(samples, DeviceSamples) and samples.advantage is not None, "advantages were estimated"
        metric, grid = Coordinates.on(samples.metric), samples.batch.grid
        with computing(samples.device, double=True):
            found = fits.attributed(grid, samples.values, positions, metric)
            x, values, means, noise = map(np.asarray, found)
        advantage = samples.advantage.ravel()[positions]
        targets = [(values + advantage if estimate.spread > 0 else values)[:, None]]
        if guide == "value+advantage":
            targets.append(noise * estimate.standardised(advantage)[:, None])
        elif guide == "value+policy":
            targets.append(means)
        return x, targets

    def influence(self, samples: Samples, policy: GaussianPolicy, config: Config) -> NDArray[np.float64]:
        """What the noise of actions does to each feature."""
        assert isinstance(samples, DeviceSamples), "`check` saw to it"
        metric, grid = Coordinates.on(samples.metric), samples.batch.grid
        with computing(samples.device, double=True):
            arguments = grid, metric, policy.sigma, config.correlation
            found = tuple(tuple(map(np.asarray, fits.influence_sums(*arguments, lag))) for lag in LAGS)
        return influence(found)


def _on(samples: DeviceSamples, function: RKHSFunction) -> tuple[Centres, Coordinates]:
    return Centres.of(function.dictionary, samples.capacity), Coordinates.of(function.kernel)

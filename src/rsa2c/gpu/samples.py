"""The transitions of an epoch on the device, and the fits of an epoch where they are.

Each fit agrees with its twin in `algorithm/phases.py` on the same transitions (`tests/test_gpu.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.batch import Batch, Coordinates
from rsa2c.algorithm.critics import AdvantageFit, require_finite
from rsa2c.algorithm.phases import ROUNDING_POWER, Estimate
from rsa2c.algorithm.samples import Block, BlockFunction, Samples
from rsa2c.algorithm.sums import Moments
from rsa2c.config import LSTD, Config
from rsa2c.gpu import fits
from rsa2c.gpu.arrays import Centres, padded
from rsa2c.gpu.arrays import Coordinates as DeviceCoordinates
from rsa2c.gpu.batch import DeviceBatch
from rsa2c.gpu.device import computing
from rsa2c.kernel.rkhs import RKHSFunction

if TYPE_CHECKING:
    from rsa2c.gpu.workers import DeviceWorkers


class DeviceSamples(Samples):
    """A rollout on the device: single rows are fetched, everything else is computed there."""

    def __init__(self, workers: DeviceWorkers, batch: DeviceBatch, metric: Coordinates) -> None:
        self.workers, self.batch, self.metric, self.points = workers, batch, metric, 2 * batch.n
        self.algebra, self.device, self.capacity = workers.algebra, workers.device, workers.capacity
        self.fits = self
        self.values: fits.ValueFit | None = None
        self.advantage: NDArray[np.float64] | None = None

    @property
    def n(self) -> int:
        return self.batch.n

    def reduce(self, function: BlockFunction, *arguments: Any) -> Any:
        """For what has no twin on the device: everything in one block here."""
        return function(Block(self.gathered()), *arguments)

    def take(self, function: BlockFunction, positions: NDArray[np.int64], *arguments: Any) -> NDArray[Any]:
        block = Block(self.batch.some(positions, self.metric))
        if self.values is not None and self.advantage is not None:
            both = (np.asarray(each).ravel()[positions] for each in (self.values.values, self.values.following))
            block.values, block.advantage = np.stack(list(both), axis=1).ravel(), self.advantage.ravel()[positions]
        return function(block, np.arange(len(positions)), *arguments)

    def measure(self, metric: Coordinates) -> None:
        self.metric = metric

    def moments(self) -> Moments:
        with computing(self.device, double=True):
            mean, variance = map(np.asarray, fits.moments(self.batch.grid.states))
        return Moments(self.n, mean, variance * self.n)

    def gathered(self) -> Batch:
        return self.batch.whole(self.metric)

    def _on(self, function: RKHSFunction) -> tuple[Centres, DeviceCoordinates]:
        return Centres.of(function.dictionary, self.capacity), DeviceCoordinates.of(function.kernel)

    def fit_value(self, value: RKHSFunction | None, config: Config, epoch: int) -> RKHSFunction:
        """The Value Critic by LSTD(lambda)."""
        rule = config.value
        assert value is not None and isinstance(rule, LSTD), "the workers saw to it"
        old = np.append(padded(value.coefficients[:, 0], self.capacity), value.offset)
        damping = rule.value_damping if epoch > 0 else 0.0
        constants = float(config.gamma), rule.value_lambda, rule.value_ridge, damping
        with computing(self.device, double=True):
            self.values = fits.fit_value(self.batch.grid, *self._on(value), *constants, old)
            weights = np.asarray(self.values.weights)[: value.dictionary.size]
            constant = np.asarray(self.values.constant)
        require_finite(weights, "the LSTD solution", "raise value_ridge")
        return replace(value, coefficients=weights[:, None], offset=constant[None])

    def estimate_advantage(self, config: Config) -> Estimate:
        """GAE(lambda) on the Value Critic that was fitted last."""
        assert self.values is not None, "the value was fitted"
        gamma, grid = float(config.gamma), self.batch.grid
        with computing(self.device, double=True):
            self.advantage = np.asarray(fits.advantages(grid, self.values, gamma, config.advantage.gae_lambda))
            returns, values = np.asarray(fits.returns(grid, self.values, gamma)), np.asarray(self.values.values)
            largest = max(float(np.abs(values).max()), float(np.abs(np.asarray(self.values.following)).max()))
        spread, varies = float(self.advantage.std()), float(returns.var())
        rounding = float(np.finfo(np.float64).eps) ** ROUNDING_POWER * largest
        totals, lengths = self.batch.episode_returns, self.batch.episode_lengths
        return Estimate(
            mean=float(self.advantage.mean()),
            spread=spread if spread > rounding else 0.0,
            explained=1.0 - float((returns - values).var()) / varies if varies > 0 else float("nan"),
            episodes=len(totals),
            episode_return=float(totals.mean()) if len(totals) else float("nan"),
            episode_length=float(lengths.mean()) if len(totals) else float("nan"),
        )

    def fit_advantage(self, policy: GaussianPolicy, estimate: Estimate, config: Config) -> AdvantageFit:
        """The Advantage Critic on the actor's dictionary."""
        assert self.advantage is not None, "advantages were estimated"
        target, q = np.zeros_like(self.advantage), policy.mean.dictionary.size
        if estimate.spread > 0:
            target = (self.advantage - estimate.mean) / estimate.spread
        arguments = target, policy.sigma, config.advantage.advantage_ridge
        with computing(self.device, double=True):
            found = fits.fit_advantage(self.batch.grid, *self._on(policy.mean), *arguments)
            moment, gradient, weights, spread = map(np.asarray, found)
        require_finite(weights, "the advantage fit", "raise advantage_ridge")
        return AdvantageFit(moment[:q, :q], gradient[:q], weights[:q], spread)

"""The transitions of an epoch on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.batch import Batch
from rsa2c.algorithm.samples import Block, BlockFunction, Samples, steps_around
from rsa2c.algorithm.sums import Moments
from rsa2c.gpu import fits
from rsa2c.gpu.batch import DeviceBatch
from rsa2c.gpu.device import computing
from rsa2c.kernel.metric import Metric

if TYPE_CHECKING:
    from rsa2c.gpu.workers import DeviceWorkers


class DeviceSamples(Samples):
    """A rollout on the device: single rows are fetched, everything else is computed there."""

    def __init__(self, workers: DeviceWorkers, batch: DeviceBatch, metric: Metric) -> None:
        self.workers, self.batch, self.metric, self.points = workers, batch, metric, 2 * batch.n
        self.algebra, self.device, self.capacity = workers.algebra, workers.device, workers.capacity
        self.ended = list(zip(batch.episode_returns.tolist(), batch.episode_lengths.tolist(), strict=True))
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

    def first_half(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        environments = self.batch.grid.rewards.shape[1]
        if environments == 1:
            return super().first_half(positions)
        return positions % environments < environments // 2

    def around(self, position: int) -> NDArray[np.int64]:
        return steps_around(self.gathered().ends, np.array([position]))[0]

    def raw_states(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Without what else is known of these transitions, which would be fetched one array at a time."""
        return self.batch.states(positions)

    def measure(self, metric: Metric) -> None:
        self.metric = metric

    def moments(self) -> Moments:
        with computing(self.device, double=True):
            mean, variance = map(np.asarray, fits.moments(self.batch.grid.states))
        return Moments(self.n, mean, variance * self.n)

    def gathered(self) -> Batch:
        return self.batch.whole(self.metric)

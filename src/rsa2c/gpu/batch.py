"""The transitions of an epoch where they were made: on the device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.batch import Batch, Coordinates
from rsa2c.gpu.arrays import Array
from rsa2c.gpu.fits import Grid
from rsa2c.gpu.rollout import Ended


@dataclass(frozen=True, eq=False)
class DeviceBatch:
    """A rollout on the device. Transition i is step i // n of environment i % n; `Batch` has another order."""

    grid: Grid
    ended: Ended

    @property
    def n(self) -> int:
        """Number of transitions."""
        return self.grid.rewards.size

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self.grid.states.shape[-1]

    @cached_property
    def episode_returns(self) -> NDArray[np.float64]:
        """Returns of the episodes that ended."""
        return np.asarray(self.ended.totals, np.float64)[np.asarray(self.ended.which)]

    @cached_property
    def episode_lengths(self) -> NDArray[np.int64]:
        """Their lengths."""
        return np.asarray(self.ended.lengths, np.int64)[np.asarray(self.ended.which)]

    def states(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Raw states of some transitions."""
        return np.asarray(self.grid.states[np.divmod(rows, self.grid.rewards.shape[1])], np.float64)

    def whole(self, metric: Coordinates) -> Batch:
        """All of it, in the layout of `Batch`: environment after environment."""
        steps, n = self.grid.rewards.shape
        order = np.arange(steps * n).reshape(steps, n).T.ravel()
        over = np.asarray(self.grid.terminated | self.grid.truncated).T.ravel()
        cut = np.zeros((n, steps), bool)
        cut[:, -1] = True
        return self._batch(order, over | cut.ravel(), metric)

    def some(self, rows: NDArray[np.int64], metric: Coordinates) -> Batch:
        """Some transitions, each a segment of its own."""
        return self._batch(rows, np.ones(len(rows), bool), metric)

    def _batch(self, rows: NDArray[np.int64], ends: NDArray[np.bool_], metric: Coordinates) -> Batch:
        steps, who = np.divmod(rows, self.grid.rewards.shape[1])

        def taken(array: Array, kind: type) -> NDArray:
            return np.asarray(array[steps, who], kind)

        segment: NDArray[np.int64] = np.cumsum(ends) - ends
        state = np.arange(len(rows)) + segment
        raw = np.empty((len(rows) + int(ends.sum()), self.dimension))
        raw[state] = taken(self.grid.states, np.float64)
        raw[state[ends] + 1] = np.asarray(self.grid.after[steps[ends], who[ends]], np.float64)
        terminated, truncated = taken(self.grid.terminated, bool), taken(self.grid.truncated, bool)
        return Batch(
            points=metric(raw),
            raw=raw,
            segment=segment,
            latents=taken(self.grid.latents, np.float64),
            means=taken(self.grid.means, np.float64),
            rewards=taken(self.grid.rewards, np.float64),
            terminated=terminated,
            truncated=truncated,
            cut=ends & ~(terminated | truncated),
            episode_returns=self.episode_returns,
            episode_lengths=self.episode_lengths,
        )

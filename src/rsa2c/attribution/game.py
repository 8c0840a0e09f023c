"""What every attribution method is given: a kernel expansion, the states to explain, and a background.

    f(x) = sum_j coefficients_j k(x, centres_j)

Features, or groups of features, are players. A coalition C of players keeps the state's features; each method fills in
the others from the background in its own way: independently of C (`kme.py`), or conditionally on C (`cme.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.kernel.kernels import ProductKernel

Array = NDArray[np.float64]
Players = Sequence[NDArray[np.intp]]
"""The features of each player; every feature belongs to exactly one."""
BLOCK_BYTES = 60_000_000


@dataclass(frozen=True, eq=False)
class Game:
    """T states and B background states of d features, and an expansion on q centres with m outputs.

    All are in the kernel's own coordinates. Without `players` every feature is a player.
    """

    states: Array
    """(T, d)"""
    background: Array
    """(B, d)"""
    centres: Array
    """(q, d)"""
    coefficients: Array
    """(q, m)"""
    kernel: ProductKernel
    players: Players | None = None

    @property
    def player_count(self) -> int:
        """Number of players: d, or the number of groups."""
        return self.states.shape[1] if self.players is None else len(self.players)

    @property
    def outputs(self) -> int:
        """Number of outputs m."""
        return self.coefficients.shape[1]

    def at(self, states: Array) -> Game:
        """The same game at other states."""
        return replace(self, states=states)

    def thinned(self, background: int, centres: int) -> Game:
        """The game with at most this many background states and centres, evenly spread."""
        b, c = spread(len(self.background), background), spread(len(self.centres), centres)
        return replace(self, background=self.background[b], centres=self.centres[c], coefficients=self.coefficients[c])

    def function(self, x: Array) -> Array:
        """(N, m): f at x (N, d), computed in blocks of bounded memory."""
        size = max(1, BLOCK_BYTES // (16 * max(1, len(self.centres))))
        blocks = (x[n : n + size] for n in range(0, len(x), size))
        return np.concatenate([self.kernel(block, self.centres) @ self.coefficients for block in blocks])


def spread(count: int, wanted: int) -> NDArray[np.intp]:
    """At most `wanted` of `count` positions, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, wanted)).round().astype(np.intp))

"""Random numbers of environments that stand side by side, a stream for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

AHEAD = 64
"""Steps whose noise is drawn at a time: one call for each environment and step would be slow."""


class Streams:
    """Generators of the environments `first` ... `first + count - 1`, seeded by (seed, number of the environment).

    What an environment draws does not depend on which others are beside it.
    """

    def __init__(self, seed: int, first: int, count: int) -> None:
        self._seed, self._numbers = seed, range(first, first + count)
        self._noise = [np.random.default_rng([seed, i]) for i in self._numbers]
        self._restarts: list[np.random.Generator] | None = None
        self._drawn: NDArray[np.float64] = np.empty(0)
        self._next = AHEAD

    def standard_normal(self, size: Any, /) -> NDArray[np.float64]:
        """(count, m): the next noise of every environment."""
        if self._next == AHEAD:
            self._drawn = np.stack([each.standard_normal((AHEAD, size[1])) for each in self._noise], axis=1)
            self._next = 0
        self._next += 1
        return self._drawn[self._next - 1]

    def random(self, size: int, /) -> NDArray[np.float64]:
        """(count,): uniform numbers, from streams apart from those of the noise."""
        if self._restarts is None:
            self._restarts = [np.random.default_rng([self._seed, i, 1]) for i in self._numbers]
        return np.array([each.random() for each in self._restarts])

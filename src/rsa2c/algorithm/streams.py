"""Random numbers of environments that stand side by side, a stream for each."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

AHEAD = 64
"""Steps whose noise is drawn at a time: one call for each environment and step would be slow."""
RESTARTS, SENSORS, SINGLE = 1, 2, 3
"""Streams of an environment apart from that of its exploration noise."""


class Streams:
    """Generators of the environments `first` ... `first + count - 1`, seeded by (seed, number of the environment).

    What an environment draws does not depend on which others are beside it.
    """

    def __init__(self, seed: int, first: int, count: int) -> None:
        self._seed, self._numbers = seed, range(first, first + count)
        self._exploration = _Ahead(self._generators())

    def standard_normal(self, size: Any, /) -> NDArray[np.float64]:
        """(count, m): the next exploration noise of every environment."""
        return self._exploration.next(size[1])

    def random(self, size: int, /) -> NDArray[np.float64]:
        """(count,): uniform numbers, from streams apart from those of the noise."""
        return np.array([each.random() for each in self._restarts])

    def sensor_noise(self, width: int) -> NDArray[np.float64]:
        """(count, width): standard normal numbers for what is seen of every environment at the next step."""
        return self._sensors.next(width)

    def single_noise(self, which: NDArray[np.int64], width: int) -> NDArray[np.float64]:
        """(k, width): the same for what is seen of some environments besides."""
        return np.stack([self._single[i].standard_normal(width) for i in which])

    @cached_property
    def _restarts(self) -> list[np.random.Generator]:
        return self._generators(RESTARTS)

    @cached_property
    def _sensors(self) -> _Ahead:
        return _Ahead(self._generators(SENSORS))

    @cached_property
    def _single(self) -> list[np.random.Generator]:
        return self._generators(SINGLE)

    def _generators(self, *stream: int) -> list[np.random.Generator]:
        return [np.random.default_rng([self._seed, i, *stream]) for i in self._numbers]


class _Ahead:
    """Standard normal numbers of some generators, drawn for several steps at a time."""

    def __init__(self, generators: list[np.random.Generator]) -> None:
        self._generators = generators
        self._drawn: NDArray[np.float64] = np.empty(0)
        self._next = AHEAD

    def next(self, width: int) -> NDArray[np.float64]:
        """(generators, width)."""
        if self._next == AHEAD:
            self._drawn = np.stack([each.standard_normal((AHEAD, width)) for each in self._generators], axis=1)
            self._next = 0
        self._next += 1
        return self._drawn[self._next - 1]

"""Sums over blocks of transitions, in an order that does not depend on who adds them.

Floating-point sums depend on their order. Here it is that of a binary tree over the numbers of the blocks: 0 + 1,
2 + 3, then (0 + 1) + (2 + 3), and so on. Whoever holds some of the blocks adds what is complete within them, and the
rest is added where the parts meet: the result has the same bytes however the blocks are spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Nodes = dict[tuple[int, int], Any]
"""Sums of complete subtrees: (level, number) covers the blocks number * 2^level ... (number + 1) * 2^level - 1."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and sum of squared deviations of numbers, or of the columns of an array; `+` joins two samples."""

    count: int
    mean: NDArray[np.float64]
    squared: NDArray[np.float64]

    @classmethod
    def of(cls, sample: NDArray) -> Moments:
        """Those of the rows of a sample."""
        mean = np.asarray(np.mean(sample, axis=0, dtype=np.float64))
        return cls(len(sample), mean, np.sum((sample - mean) ** 2, axis=0, dtype=np.float64))

    @property
    def variance(self) -> NDArray[np.float64]:
        """The mean squared deviation."""
        return self.squared / self.count

    def __add__(self, other: Moments) -> Moments:
        count, apart = self.count + other.count, other.mean - self.mean
        mean = self.mean + apart * (other.count / count)
        squared = self.squared + other.squared + apart**2 * (self.count * other.count / count)
        return Moments(count, mean, squared)


@dataclass(frozen=True)
class Largest:
    """A number of which the largest counts; `+` takes it."""

    value: float

    def __add__(self, other: Largest) -> Largest:
        return self if self.value >= other.value else other


@dataclass(frozen=True)
class Range:
    """The lowest and the highest of some numbers; `+` is the range of both."""

    low: float
    high: float

    @classmethod
    def of(cls, *samples: NDArray) -> Range:
        """That of all numbers in some arrays."""
        return cls(min(float(np.min(each)) for each in samples), max(float(np.max(each)) for each in samples))

    def __add__(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


class TreeSum:
    """Collects the sums of subtrees, in any order."""

    def __init__(self) -> None:
        self.nodes: Nodes = {}

    def add(self, level: int, number: int, value: Any) -> None:
        """Take the sum of a subtree, and join what has become complete."""
        while (beside := (level, number ^ 1)) in self.nodes:
            other = self.nodes.pop(beside)
            value = _added(other, value) if number & 1 else _added(value, other)
            level, number = level + 1, number >> 1
        self.nodes[level, number] = value

    def total(self) -> Any:
        """The sum of everything; a subtree that has nothing beside it joins the one before it."""
        (_, total), *rest = sorted(self.nodes.items())  # the last blocks are in the smallest subtree
        for _, value in rest:
            total = _added(value, total)
        return total


def _added(first: Any, second: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(_added(a, b) for a, b in zip(first, second, strict=True))
    if first is None:
        return None
    if isinstance(first, np.ndarray):
        return np.add(first, second, out=first)  # a sum that nobody else holds
    return first + second

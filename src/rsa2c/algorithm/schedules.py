"""Schedules over epochs, or over environment steps.

They run on absolute numbers, never on a total, so that training further is the same as having trained longer.
"""

from __future__ import annotations


def linear(start: float, end: float, epoch: int, epochs: int) -> float:
    """From `start` to `end` over `epochs`, then constant."""
    return start + (end - start) * min(1.0, epoch / epochs)


def geometric(start: float, end: float, epoch: int, epochs: int) -> float:
    """The same on a logarithmic scale."""
    return float(start * (end / start) ** min(1.0, epoch / epochs))


def doubling(steps: int, first: int, every: int) -> int:
    """How many of `first`, 2 `first`, 4 `first`, ... below `every`, and of the multiples of `every`, are at most
    `steps`."""
    return (min(steps, every - 1) // first).bit_length() + steps // every


def polynomial(start: float, power: float, epoch: int) -> float:
    """start (t+1)^-power: 3/4 for the actor and 1/2 for the critic in the paper's theorem."""
    return start * (epoch + 1.0) ** -power

"""Values that the rewards allow, and the ridges that lead to such values.

A value is a discounted sum of rewards, so it lies between the lowest and the highest reward times 1 / (1 - gamma). LSTD
does not know that. Where states spread out in the course of an episode, those at its end are in the batch as what
followed only: their value rests on itself, and the fit may put it anywhere. A motor whose rewards were all negative had
values of +18,000 where it was furthest from its set point, and learned to run away. A larger ridge ties such values to
those of states that are known.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.sums import Range

SLACK = 0.25
"""How far values may lie beyond what rewards allow, as a share of that range or of their own, whichever is wider: a
constant added to all rewards changes nothing. Fits that serve are beyond it by 0.17 of that range at most, and those
that sent a motor and a reactor off by 1.3 to 7."""
ROUNDING = 1e-9
"""Share of the values that counts as rounding, where neither they nor rewards vary."""
RIDGE_FACTOR, LARGEST_RIDGE = 10.0, 1.0
"""Each ridge is so many times the one before; with the largest the values hardly differ from a constant."""


def ridges(first: float) -> Iterator[float]:
    """The ridge to begin with, and those to try where its values are not plausible."""
    yield first
    while (first := first * RIDGE_FACTOR) <= LARGEST_RIDGE:
        yield first


def range_of_rewards(rewards: NDArray, terminated: NDArray) -> Range:
    """That of the rewards, with 0 where an episode terminates, after which nothing is earned."""
    found = Range.of(rewards)
    return found + Range(0.0, 0.0) if np.any(terminated) else found


def plausible(values: Range, rewards: Range, known: Range | None, gamma: float) -> bool:
    """Whether no value is beyond the known ones, towards which the fit is damped, and beyond what rewards allow by more
    than the slack."""
    if gamma == 1:
        return True
    low, high = rewards.low / (1 - gamma), rewards.high / (1 - gamma)
    slack = SLACK * max(high - low, values.high - values.low) + ROUNDING * max(abs(low), abs(high))
    allowed = Range(low - slack, high + slack)
    if known is not None:
        allowed += known
    return allowed.low <= values.low and values.high <= allowed.high

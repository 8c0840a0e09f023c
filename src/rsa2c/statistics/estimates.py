"""Estimates with intervals that have a formula: means, standard deviations and shares of runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rsa2c.errors import DataError
from rsa2c.statistics.checks import Array, check_level, checked_runs

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number and the bounds of its interval: a bootstrap percentile one unless its function says otherwise.

    A single run has no interval: its bounds are NaN.
    """

    value: float
    low: float
    high: float

    @classmethod
    def alone(cls, value: float) -> Estimate:
        """An estimate without an interval."""
        return cls(value, math.nan, math.nan)

    @property
    def has_interval(self) -> bool:
        return not (math.isnan(self.low) or math.isnan(self.high))

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, -self.high, -self.low)

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]" if self.has_interval else f"{self.value:.4g} [-]"


def mean_std(scores: ArrayLike) -> tuple[float, float]:
    """Mean and standard deviation over runs, as the paper's tables print them (divisor n, NumPy's default)."""
    array = checked_runs(scores, "scores")
    return float(array.mean()), float(array.std())


def mean(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Mean over runs with Student's interval, of no width if all runs are equal.

    A percentile bootstrap of it misses the truth 15% of the time with 5 runs where it promises 5%, 9% with 10.
    """
    array = checked_runs(scores, "scores")
    check_level(level)
    if len(array) < 2:
        return Estimate.alone(float(array.mean()))
    return _student(float(array.mean()), _square_error(array), len(array) - 1, level)


def mean_of(value: float, std: float, count: int, level: float = LEVEL) -> Estimate:
    """A mean of `count` numbers with Student's interval, from the mean and the standard deviation (divisor n)."""
    check_level(level)
    if count < 2:
        return Estimate.alone(value)
    return _student(value, std**2 / (count - 1), count - 1, level)


def mean_difference(scores: ArrayLike, other: ArrayLike, level: float = LEVEL) -> Estimate:
    """mean(scores) - mean(other) with Welch's interval."""
    ours, theirs = checked_runs(scores, "scores"), checked_runs(other, "scores of the other method")
    check_level(level)
    value = float(ours.mean() - theirs.mean())
    if min(len(ours), len(theirs)) < 2:
        return Estimate.alone(value)
    squares = np.array([_square_error(ours), _square_error(theirs)])
    total = float(squares.sum())
    # Welch and Satterthwaite's degrees of freedom
    freedom = total**2 / float((squares**2 / [len(ours) - 1, len(theirs) - 1]).sum()) if total > 0 else 1.0
    return _student(value, total, freedom, level)


def share(successes: ArrayLike, level: float = LEVEL) -> Estimate:
    """Share of runs of which something is true (1, else 0), with Clopper and Pearson's interval."""
    from scipy.stats import binomtest

    array = checked_runs(successes, "successes")
    check_level(level)
    if len(array) < 2:
        return Estimate.alone(float(array.mean()))
    found = binomtest(int(array.sum()), len(array)).proportion_ci(level)
    return Estimate(float(array.mean()), float(found.low), float(found.high))


def std(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Standard deviation over runs (divisor n - 1) with the chi-square interval of normal scores.

    A percentile bootstrap of it covers the truth 58% of the time with 5 runs where it promises 95%.
    """
    from scipy.stats import chi2

    array = checked_runs(scores, "scores")
    free = len(array) - 1
    if free < 1:
        raise DataError("a standard deviation needs at least two runs, got one.")
    check_level(level)
    value = float(array.std(ddof=1))
    low, high = (value * np.sqrt(free / chi2.ppf((1 + side * level) / 2, free)) for side in (1, -1))
    return Estimate(value, float(low), float(high))


def std_difference(scores: ArrayLike, other: ArrayLike, level: float = LEVEL) -> Estimate:
    """std(scores) - std(other), its interval recovered from theirs (MOVER; Zou and Donner, 2008)."""
    ours, theirs = std(scores, level), std(other, level)
    value = ours.value - theirs.value
    low = value - np.hypot(ours.value - ours.low, theirs.high - theirs.value)
    high = value + np.hypot(ours.high - ours.value, theirs.value - theirs.low)
    return Estimate(value, float(low), float(high))


def _square_error(array: Array) -> float:
    """Squared standard error of the mean of at least two runs."""
    return float(array.var(ddof=1)) / len(array)


def _student(value: float, square_error: float, free: float, level: float) -> Estimate:
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, free)) * square_error**0.5 if square_error > 0 else 0.0
    return Estimate(value, value - half, value + half)

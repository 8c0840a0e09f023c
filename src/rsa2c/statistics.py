"""Statistics of experiments: pure functions on arrays of runs, computing apart from drawing.

Scores are given as strata: a sequence with one array a task, which holds one number a run (seed). A bootstrap draws
runs with replacement within each task, so no task gains or loses weight; tasks are pooled, so scores of several tasks
must be on one scale. Curves are pairs of arrays, environment steps and the value at each. Random draws come from a
passed generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import ConfigError, DataError

Array = NDArray[np.float64]
Strata = Sequence[ArrayLike]
Statistic = Callable[..., Any]
"""Takes an array and an `axis`, over which it is computed."""
Curve = tuple[ArrayLike, ArrayLike]
REPETITIONS = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number and the bounds of its interval: a bootstrap percentile one unless its function says otherwise."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def mean_std(scores: ArrayLike) -> tuple[float, float]:
    """Mean and standard deviation over runs, as the paper's tables print them (divisor n, NumPy's default)."""
    array = _runs(scores, "scores")
    return float(array.mean()), float(array.std())


def iqm(scores: ArrayLike, axis: int = -1) -> Any:
    """Interquartile mean: floor(n / 4) runs dropped at each end, as in rliable; fewer than four keep all."""
    array = np.sort(np.asarray(scores, dtype=np.float64), axis=axis)
    cut = array.shape[axis] // 4
    kept = np.take(array, np.arange(cut, array.shape[axis] - cut), axis=axis)
    return kept.mean(axis=axis)


def bootstrap(strata: Strata, statistic: Statistic, rng: np.random.Generator, repetitions: int = REPETITIONS) -> Array:
    """(repetitions,): the statistic of resampled runs, drawn within each task and pooled."""
    arrays = _strata(strata)
    _check_repetitions(repetitions)
    samples = [array[rng.integers(len(array), size=(repetitions, len(array)))] for array in arrays]
    return np.asarray(statistic(np.concatenate(samples, axis=1), axis=1), dtype=np.float64)


def percentile_interval(replicates: Array, level: float = LEVEL) -> tuple[float, float]:
    """The central interval that holds the share `level` of the replicates."""
    _check_level(level)
    # Replicates may be infinite (a threshold never reached): order statistics need no interpolation between them.
    method: Literal["linear", "inverted_cdf"] = "linear" if np.all(np.isfinite(replicates)) else "inverted_cdf"
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2], method=method)
    return float(low), float(high)


def estimate(
    strata: Strata,
    statistic: Statistic,
    rng: np.random.Generator,
    level: float = LEVEL,
    repetitions: int = REPETITIONS,
) -> Estimate:
    """The statistic of the pooled runs with its stratified bootstrap interval."""
    value = float(statistic(np.concatenate(_strata(strata)), axis=0))
    return Estimate(value, *percentile_interval(bootstrap(strata, statistic, rng, repetitions), level))


def difference(
    strata: Strata,
    other: Strata,
    statistic: Statistic,
    rng: np.random.Generator,
    level: float = LEVEL,
    repetitions: int = REPETITIONS,
) -> Estimate:
    """statistic(strata) - statistic(other), runs of the two methods drawn independently."""
    _check_same_tasks(strata, other)
    value = statistic(np.concatenate(_strata(strata)), axis=0) - statistic(np.concatenate(_strata(other)), axis=0)
    replicates = bootstrap(strata, statistic, rng, repetitions) - bootstrap(other, statistic, rng, repetitions)
    return Estimate(float(value), *percentile_interval(replicates, level))


def mean(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Mean over runs with Student's interval; a point where there is but one run, or all are alike.

    A percentile bootstrap of it leaves the truth out 15% of the time with 5 runs where it says 5%, 9% with 10.
    """
    array = _runs(scores, "scores")
    return _student(float(array.mean()), _square_error(array), len(array) - 1, level)


def mean_difference(scores: ArrayLike, other: ArrayLike, level: float = LEVEL) -> Estimate:
    """mean(scores) - mean(other) with Welch's interval."""
    ours, theirs = _runs(scores, "scores"), _runs(other, "scores of the other method")
    squares = np.array([_square_error(ours), _square_error(theirs)])
    free = np.maximum([len(ours) - 1, len(theirs) - 1], 1)
    total = float(squares.sum())
    # Welch and Satterthwaite's degrees of freedom
    freedom = total**2 / float((squares**2 / free).sum()) if total > 0 else 1.0
    return _student(float(ours.mean() - theirs.mean()), total, freedom, level)


def share(successes: ArrayLike, level: float = LEVEL) -> Estimate:
    """Share of runs of which something is true (1, else 0), with Clopper and Pearson's interval."""
    array = _runs(successes, "successes")
    _check_level(level)
    found = scipy.stats.binomtest(int(array.sum()), len(array)).proportion_ci(level)
    return Estimate(float(array.mean()), float(found.low), float(found.high))


def std(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Standard deviation over runs (divisor n - 1) with the chi-square interval of normal scores.

    A percentile bootstrap of it covers the truth 58% of the time with 5 runs where it says 95%.
    """
    array = _runs(scores, "scores")
    free = len(array) - 1
    if free < 1:
        raise DataError("a standard deviation needs at least two runs, got one.")
    _check_level(level)
    value = float(array.std(ddof=1))
    low, high = (value * np.sqrt(free / scipy.stats.chi2.ppf((1 + side * level) / 2, free)) for side in (1, -1))
    return Estimate(value, float(low), float(high))


def std_difference(scores: ArrayLike, other: ArrayLike, level: float = LEVEL) -> Estimate:
    """std(scores) - std(other), its interval recovered from theirs (MOVER; Zou and Donner, 2008)."""
    ours, theirs = std(scores, level), std(other, level)
    value = ours.value - theirs.value
    low = value - np.hypot(ours.value - ours.low, theirs.high - theirs.value)
    high = value + np.hypot(ours.high - ours.value, theirs.value - theirs.low)
    return Estimate(value, float(low), float(high))


def probability_of_improvement(
    strata: Strata,
    other: Strata,
    rng: np.random.Generator,
    level: float = LEVEL,
    repetitions: int = REPETITIONS,
) -> Estimate:
    """P(a run scores higher than a run of the other method), ties half, averaged over tasks.

    A resampled task is a vector of counts, so each replicate is a quadratic form of the table of wins.
    """
    _check_same_tasks(strata, other)
    _check_repetitions(repetitions)
    value, replicates = 0.0, np.zeros(repetitions)
    tasks = list(zip(_strata(strata), _strata(other), strict=True))
    for ours, theirs in tasks:
        gap = ours[:, None] - theirs[None, :]
        wins = (np.sign(gap) + 1.0) / 2.0
        value += float(wins.mean()) / len(tasks)
        counts = [
            rng.multinomial(len(runs), np.full(len(runs), 1.0 / len(runs)), size=repetitions)
            for runs in (ours, theirs)
        ]
        replicates += np.einsum("ri,ri->r", counts[0] @ wins, counts[1]) / (wins.size * len(tasks))
    return Estimate(value, *percentile_interval(replicates, level))


def common_grid(curves: Sequence[Curve], points: int = 101) -> Array:
    """(points,): steps that every curve covers, evenly spaced."""
    checked = [_curve(curve) for curve in curves]
    if not checked:
        raise DataError("a common grid needs at least one curve, got none.")
    first, last = max(steps[0] for steps, _ in checked), min(steps[-1] for steps, _ in checked)
    if first > last:
        raise DataError(f"the curves share no steps: one begins at {first:g}, another ends at {last:g}.")
    return np.linspace(first, last, points)


def aligned(curves: Sequence[Curve], grid: ArrayLike) -> Array:
    """(runs, points): each curve interpolated at the steps of `grid`, NaN before its first and after its last."""
    steps = np.asarray(grid, dtype=np.float64)
    return np.stack([np.interp(steps, *_curve(curve), left=np.nan, right=np.nan) for curve in curves])


def curve_interval(
    values: ArrayLike,
    rng: np.random.Generator,
    statistic: Statistic = np.mean,
    level: float = LEVEL,
    repetitions: int = 2_000,
) -> tuple[Array, Array, Array]:
    """Statistic over runs at every point of aligned curves (runs, points), and its bootstrap bounds, (points,) each."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or not len(array):
        raise DataError(f"aligned curves must have the shape (runs, points), got {array.shape}.")
    _check_repetitions(repetitions)
    chosen = rng.integers(len(array), size=(repetitions, len(array)))
    bounds = np.empty((2, array.shape[1]))
    for point in range(array.shape[1]):
        bounds[:, point] = percentile_interval(np.asarray(statistic(array[chosen, point], axis=1)), level)
    return np.asarray(statistic(array, axis=0)), bounds[0], bounds[1]


def steps_to_threshold(curve: Curve, threshold: float, before: bool = False) -> float:
    """First step of the curve at which its value is at least `threshold`; infinite if it never is.

    What lies between two points of the curve is not known: with `before` it is the point before, which was too early
    (zero for the first).
    """
    steps, values = _curve(curve)
    reached = np.flatnonzero(values >= threshold)
    if not len(reached):
        return np.inf
    first = int(reached[0]) - before
    return float(steps[first]) if first >= 0 else 0.0


def median_steps(
    steps: ArrayLike, rng: np.random.Generator, level: float = LEVEL, repetitions: int = REPETITIONS
) -> Estimate:
    """Median over runs of `steps_to_threshold`, with its bootstrap interval.

    A run that never reached the threshold counts as later than every run that did, whenever it was stopped: the
    median, or a bound, is infinite where half of the runs never did.
    """
    array = np.asarray(steps, dtype=np.float64)
    if array.ndim != 1 or not len(array) or np.any(np.isnan(array)):
        raise DataError(f"steps must be a vector without NaN, infinite for a run that never arrived; got {steps!r}.")
    _check_repetitions(repetitions)
    samples = array[rng.integers(len(array), size=(repetitions, len(array)))]
    return Estimate(float(_median(array)), *percentile_interval(_median(samples), level))


def total_variation(values: ArrayLike, axis: int = -1) -> Any:
    """Sum of the absolute changes along a curve. It grows with the number of points: align curves first."""
    return np.abs(np.diff(np.asarray(values, dtype=np.float64), axis=axis)).sum(axis=axis)


def roughness(values: ArrayLike, axis: int = -1) -> Any:
    """Total variation beyond the net change: zero for a curve that only rises, or only falls."""
    array = np.asarray(values, dtype=np.float64)
    net = np.take(array, -1, axis=axis) - np.take(array, 0, axis=axis)
    return total_variation(array, axis) - np.abs(net)


def evenness(importances: ArrayLike, axis: int = -1) -> Any:
    """exp(entropy) / d of importances |phi| normalised to sum one: 1 all alike, 1/d a single feature; NaN for none."""
    array = np.abs(np.asarray(importances, dtype=np.float64))
    totals = array.sum(axis=axis, keepdims=True)
    shares = np.divide(array, totals, out=np.full_like(array, np.nan), where=totals > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares != 0)
    return np.exp(-(shares * logs).sum(axis=axis)) / array.shape[axis]


def follows_order(importances: ArrayLike, order: Sequence[int]) -> NDArray[np.bool_]:
    """(runs,): whether the features `order` are a run's most important (runs, d), in that order, no two alike."""
    array = np.abs(np.atleast_2d(np.asarray(importances, dtype=np.float64)))
    named = array[:, list(order)]
    rest = np.delete(array, list(order), axis=1).max(axis=1, initial=-np.inf, keepdims=True)
    return np.all(np.diff(np.concatenate([named, rest], axis=1), axis=1) < 0, axis=1)


def _square_error(array: Array) -> float:
    """Squared standard error of the mean of runs; none where it cannot be told."""
    return float(array.var(ddof=1)) / len(array) if len(array) > 1 else 0.0


def _student(value: float, square_error: float, free: float, level: float) -> Estimate:
    _check_level(level)
    half = float(scipy.stats.t.ppf((1 + level) / 2, free)) * square_error**0.5 if square_error > 0 else 0.0
    return Estimate(value, value - half, value + half)


def _median(array: Array) -> Any:
    """Median over the last axis that infinities pass through."""
    ordered, n = np.sort(array, axis=-1), array.shape[-1]
    low, high = ordered[..., (n - 1) // 2], ordered[..., n // 2]
    return np.where(low == high, low, low / 2 + high / 2)


def _runs(scores: ArrayLike, name: str) -> Array:
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise DataError(f"{name} must be a vector with one number a run, got the shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise DataError(f"{name} must be finite, got {array}. Leave out runs that have no result.")
    return array


def _strata(strata: Strata) -> list[Array]:
    if not len(strata):
        raise DataError("scores must hold at least one task, got none.")
    if np.ndim(strata[0]) == 0:
        raise DataError("scores must be a sequence of tasks, each a vector of runs; wrap one task as [scores].")
    return [_runs(stratum, f"scores of task {number}") for number, stratum in enumerate(strata)]


def _check_same_tasks(strata: Strata, other: Strata) -> None:
    if len(strata) != len(other):
        raise DataError(f"both methods need the same tasks, got {len(strata)} and {len(other)}.")


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level must lie between 0 and 1, got {level}.")


def _check_repetitions(repetitions: int) -> None:
    if repetitions < 1:
        raise ConfigError(f"repetitions must be positive, got {repetitions}.")


def _curve(curve: Curve) -> tuple[Array, Array]:
    steps, values = (np.asarray(part, dtype=np.float64) for part in curve)
    if steps.ndim != 1 or steps.shape != values.shape or not len(steps):
        raise DataError(f"a curve is two vectors of one length, steps and values; got {steps.shape}, {values.shape}.")
    if not np.all(np.isfinite(steps)) or np.any(np.diff(steps) <= 0):
        raise DataError("the steps of a curve must increase.")
    return steps, values

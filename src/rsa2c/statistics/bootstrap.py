"""Estimates whose intervals are stratified percentile bootstraps: runs are drawn with replacement within each task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rsa2c.errors import DataError
from rsa2c.statistics.checks import Array, Strata, check_level, check_repetitions, check_same_tasks, checked_strata
from rsa2c.statistics.estimates import LEVEL, Estimate

Statistic = Callable[..., Any]
"""Takes an array and an `axis`, over which it is computed."""
REPETITIONS = 10_000


def iqm(scores: ArrayLike, axis: int = -1) -> Any:
    """Interquartile mean: floor(n / 4) runs dropped at each end, as in rliable; fewer than four keep all."""
    array = np.sort(np.asarray(scores, dtype=np.float64), axis=axis)
    cut = array.shape[axis] // 4
    kept = np.take(array, np.arange(cut, array.shape[axis] - cut), axis=axis)
    return kept.mean(axis=axis)


def bootstrap(strata: Strata, statistic: Statistic, rng: np.random.Generator, repetitions: int = REPETITIONS) -> Array:
    """(repetitions,): the statistic of resampled runs, drawn within each task and pooled."""
    arrays = checked_strata(strata)
    check_repetitions(repetitions)
    samples = [array[rng.integers(len(array), size=(repetitions, len(array)))] for array in arrays]
    return np.asarray(statistic(np.concatenate(samples, axis=1), axis=1), dtype=np.float64)


def percentile_interval(replicates: Array, level: float = LEVEL) -> tuple[float, float]:
    """The central interval that holds the share `level` of the replicates."""
    check_level(level)
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
    value = float(statistic(np.concatenate(checked_strata(strata)), axis=0))
    if _has_single_run(strata):
        return Estimate.alone(value)
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
    check_same_tasks(strata, other)
    ours, theirs = (float(statistic(np.concatenate(checked_strata(each)), axis=0)) for each in (strata, other))
    value = ours - theirs
    if _has_single_run(strata) or _has_single_run(other):
        return Estimate.alone(value)
    replicates = bootstrap(strata, statistic, rng, repetitions) - bootstrap(other, statistic, rng, repetitions)
    return Estimate(value, *percentile_interval(replicates, level))


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
    check_same_tasks(strata, other)
    check_repetitions(repetitions)
    value, replicates = 0.0, np.zeros(repetitions)
    tasks = list(zip(checked_strata(strata), checked_strata(other), strict=True))
    for ours, theirs in tasks:
        gap = ours[:, None] - theirs[None, :]
        wins = (np.sign(gap) + 1.0) / 2.0
        value += float(wins.mean()) / len(tasks)
        counts = [
            rng.multinomial(len(runs), np.full(len(runs), 1.0 / len(runs)), size=repetitions) for runs in (ours, theirs)
        ]
        replicates += np.einsum("ri,ri->r", counts[0] @ wins, counts[1]) / (wins.size * len(tasks))
    if _has_single_run(strata) or _has_single_run(other):
        return Estimate.alone(value)
    return Estimate(value, *percentile_interval(replicates, level))


def median_steps(
    steps: ArrayLike, rng: np.random.Generator, level: float = LEVEL, repetitions: int = REPETITIONS
) -> Estimate:
    """Median over runs of `steps_to_threshold`, with its bootstrap interval.

    A run that never reached the threshold counts as later than every run that did, whenever it was stopped: the
    median, or a bound, is infinite if half of the runs never did.
    """
    array = np.asarray(steps, dtype=np.float64)
    if array.ndim != 1 or not len(array) or np.any(np.isnan(array)):
        raise DataError(f"steps must be a vector without NaN, infinite for a run that never arrived; got {steps!r}.")
    check_repetitions(repetitions)
    if len(array) < 2:
        return Estimate.alone(float(array[0]))
    samples = array[rng.integers(len(array), size=(repetitions, len(array)))]
    return Estimate(float(_median(array)), *percentile_interval(_median(samples), level))


def _has_single_run(strata: Strata) -> bool:
    """Whether some task has one run only, whose spread nobody knows."""
    return any(np.size(stratum) < 2 for stratum in strata)


def _median(array: Array) -> Any:
    """Median over the last axis that infinities pass through."""
    ordered, n = np.sort(array, axis=-1), array.shape[-1]
    low, high = ordered[..., (n - 1) // 2], ordered[..., n // 2]
    return np.where(low == high, low, low / 2 + high / 2)

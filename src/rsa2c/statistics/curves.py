"""Learning curves: pairs of arrays, environment steps and the value at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rsa2c.errors import DataError
from rsa2c.statistics.bootstrap import Statistic, percentile_interval
from rsa2c.statistics.checks import Array, Curve, check_repetitions, checked_curve
from rsa2c.statistics.estimates import LEVEL


def common_grid(curves: Sequence[Curve], points: int = 101) -> Array:
    """(points,): steps that every curve covers, evenly spaced."""
    checked = [checked_curve(curve) for curve in curves]
    if not checked:
        raise DataError("a common grid needs at least one curve, got none.")
    first, last = max(steps[0] for steps, _ in checked), min(steps[-1] for steps, _ in checked)
    if first > last:
        raise DataError(f"the curves share no steps: one begins at {first:g}, another ends at {last:g}.")
    return np.linspace(first, last, points)


def aligned(curves: Sequence[Curve], grid: ArrayLike) -> Array:
    """(runs, points): each curve interpolated at the steps of `grid`, NaN before its first and after its last."""
    steps = np.asarray(grid, dtype=np.float64)
    return np.stack([np.interp(steps, *checked_curve(curve), left=np.nan, right=np.nan) for curve in curves])


def curve_interval(
    values: ArrayLike,
    rng: np.random.Generator,
    statistic: Statistic = np.mean,
    level: float = LEVEL,
    repetitions: int = 2_000,
) -> tuple[Array, Array, Array]:
    """Statistic over runs at every point of aligned curves (runs, points), and its bootstrap bounds, (points,) each.

    The bounds of a single run are NaN.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or not len(array):
        raise DataError(f"aligned curves must have the shape (runs, points), got {array.shape}.")
    check_repetitions(repetitions)
    if len(array) < 2:
        return np.asarray(statistic(array, axis=0)), *np.full((2, array.shape[1]), np.nan)
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
    steps, values = checked_curve(curve)
    reached = np.flatnonzero(values >= threshold)
    if not len(reached):
        return np.inf
    first = int(reached[0]) - before
    return float(steps[first]) if first >= 0 else 0.0


def total_variation(values: ArrayLike, axis: int = -1) -> Any:
    """Sum of the absolute changes along a curve. It grows with the number of points: align curves first."""
    return np.abs(np.diff(np.asarray(values, dtype=np.float64), axis=axis)).sum(axis=axis)


def roughness(values: ArrayLike, axis: int = -1) -> Any:
    """Total variation beyond the net change: zero for a curve that only rises, or only falls."""
    array = np.asarray(values, dtype=np.float64)
    net = np.take(array, -1, axis=axis) - np.take(array, 0, axis=axis)
    return total_variation(array, axis) - np.abs(net)

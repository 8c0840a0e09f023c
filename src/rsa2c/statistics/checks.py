"""What every statistic refuses: scores that are not numbers of runs, curves that are not curves, odd levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import ConfigError, DataError

Array = NDArray[np.float64]
Strata = Sequence[ArrayLike]
Curve = tuple[ArrayLike, ArrayLike]


def checked_runs(scores: ArrayLike, name: str) -> Array:
    """(runs,): finite scores, at least one."""
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise DataError(f"{name} must be a vector with one number per run, got the shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise DataError(f"{name} must be finite, got {array}. Leave out runs that have no result.")
    return array


def checked_strata(strata: Strata) -> list[Array]:
    """The scores of each task."""
    if not len(strata):
        raise DataError("scores must have at least one task, got none.")
    if np.ndim(strata[0]) == 0:
        raise DataError("scores must be a sequence of tasks, each a vector of runs; wrap one task as [scores].")
    return [checked_runs(stratum, f"scores of task {number}") for number, stratum in enumerate(strata)]


def checked_curve(curve: Curve) -> tuple[Array, Array]:
    """Steps and values of a curve, each (points,)."""
    steps, values = (np.asarray(part, dtype=np.float64) for part in curve)
    if steps.ndim != 1 or steps.shape != values.shape or not len(steps):
        raise DataError(
            f"a curve is two vectors of one length, steps and values; got the shapes {steps.shape} and {values.shape}."
        )
    if not np.all(np.isfinite(steps)) or np.any(np.diff(steps) <= 0):
        raise DataError("the steps of a curve must increase.")
    return steps, values


def check_same_tasks(strata: Strata, other: Strata) -> None:
    if len(strata) != len(other):
        raise DataError(f"both methods need the same tasks, got {len(strata)} and {len(other)}.")


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level must lie between 0 and 1, got {level}.")


def check_repetitions(repetitions: int) -> None:
    if repetitions < 1:
        raise ConfigError(f"repetitions must be positive, got {repetitions}.")

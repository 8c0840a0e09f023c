"""How importances of features are spread over them, and whether two rank them alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import DataError


def evenness(importances: ArrayLike, axis: int = -1) -> Any:
    """exp(entropy) / d of importances |phi| normalised to sum one: 1 all alike, 1/d a single feature; NaN for none."""
    array = np.abs(np.asarray(importances, dtype=np.float64))
    totals = array.sum(axis=axis, keepdims=True)
    shares = np.divide(array, totals, out=np.full_like(array, np.nan), where=totals > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares != 0)
    return np.exp(-(shares * logs).sum(axis=axis)) / array.shape[axis]


def rank_agreement(importances: ArrayLike, other: ArrayLike) -> float:
    """Spearman's correlation of two rankings of the same features (d,): 1 the same order, -1 the reverse.

    Features that are alike share the mean of their ranks. NaN where either ranking tells no features apart.
    """
    from scipy.stats import rankdata

    first, second = (rankdata(np.asarray(each, dtype=np.float64).ravel()) for each in (importances, other))
    if len(first) != len(second):
        raise DataError(f"two rankings must be of the same features, got {len(first)} and {len(second)} of them.")
    first, second = first - first.mean(), second - second.mean()
    size = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / size if size > 0 else float("nan")


def follows_order(importances: ArrayLike, order: Sequence[int]) -> NDArray[np.bool_]:
    """(runs,): whether the features `order` are a run's most important (runs, d), in that order, no two alike."""
    array = np.abs(np.atleast_2d(np.asarray(importances, dtype=np.float64)))
    named = array[:, list(order)]
    rest = np.delete(array, list(order), axis=1).max(axis=1, initial=-np.inf, keepdims=True)
    return np.all(np.diff(np.concatenate([named, rest], axis=1), axis=1) < 0, axis=1)

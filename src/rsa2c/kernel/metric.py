"""How a kernel measures raw observations: centred, scaled, clipped, and weighted feature by feature."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import DataError
from rsa2c.kernel.linalg import ROUNDING

Array = NDArray[np.float64]
SMALLEST_STD = 1e-3
"""Standard deviation under which a feature counts as constant."""


@dataclass(frozen=True, eq=False)
class Metric:
    """Coordinates x = clip((s - mean) / std) of raw observations s, and the squared distance sum_i w_i (x_i - y_i)^2.

    `mean`, `std` and `weights` w are (d,); `clip` bounds |x_i|, so that a heavy tail is no distance of its own.
    """

    mean: Array
    std: Array
    clip: float
    weights: Array

    def __post_init__(self) -> None:
        for name in ("mean", "std", "weights"):
            array = np.array(getattr(self, name), dtype=np.float64)
            positive = name == "mean" or bool(np.all(array > 0))
            if array.ndim != 1 or not np.all(np.isfinite(array)) or not positive:
                kind = "numbers" if name == "mean" else "positive numbers"
                raise DataError(f"the metric's {name} must be a vector of finite {kind}, got {getattr(self, name)!r}.")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if not len(self.mean) == len(self.std) == len(self.weights):
            sizes = f"{len(self.mean)}, {len(self.std)} and {len(self.weights)}"
            raise DataError(f"the metric's mean, std and weights must have one entry per feature, got {sizes}.")
        if not self.clip > 0:
            raise DataError(f"the metric's clip must be positive, got {self.clip}.")

    @classmethod
    def weighted(cls, weights: ArrayLike) -> Metric:
        """Observations as they are, with these feature weights (d,)."""
        d = np.size(weights)
        return cls(np.zeros(d), np.ones(d), np.inf, np.asarray(weights))

    @classmethod
    def fitted(cls, observations: NDArray, clip: float = 10.0) -> Metric:
        """Mean and standard deviation of raw observations (N, d), and equal weights."""
        mean, std = observations.mean(axis=0, dtype=np.float64), observations.std(axis=0, dtype=np.float64)
        return cls.weighted(np.ones(len(mean))).rescaled(mean, std, clip)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return len(self.weights)

    def __call__(self, observations: NDArray) -> Array:
        """x, the coordinates of raw observations (..., d)."""
        return np.clip((observations - self.mean) / self.std, -self.clip, self.clip)

    def slope(self, observations: NDArray) -> Array:
        """dx/ds, feature by feature, (..., d); zero where clipped."""
        inside = np.abs((observations - self.mean) / self.std) < self.clip
        return inside / self.std

    def reweighted(self, weights: NDArray) -> Metric:
        """The same coordinates with other feature weights."""
        return replace(self, weights=weights)

    def rescaled(self, mean: NDArray, std: NDArray, clip: float) -> Metric:
        """The same weights on coordinates with other means and standard deviations.

        The scale of a feature that hardly varies, or by no more than the rounding of its mean, is one.
        """
        least = np.maximum(SMALLEST_STD, ROUNDING * np.finfo(np.float64).eps * np.abs(mean))
        return replace(self, mean=mean, std=np.where(std < least, 1.0, std), clip=clip)

    def between(self, other: Metric, share: float) -> Metric:
        """A share of the way to another metric: means and weights linearly, standard deviations by their logarithms."""
        if share == 1.0:
            return other
        return Metric(
            self.mean + share * (other.mean - self.mean),
            self.std * (other.std / self.std) ** share,
            other.clip,
            self.weights + share * (other.weights - self.weights),
        )

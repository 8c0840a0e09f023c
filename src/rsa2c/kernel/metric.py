"""How a kernel measures raw observations: centred, scaled, with bounded tails, and weighted feature by feature."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import DataError
from rsa2c.kernel.linalg import ROUNDING

Array = NDArray[np.float64]
SMALLEST_STD = 1e-9
"""Standard deviation under which a feature counts as constant. Flows in m^3/s or displacements in m may vary by 1e-6
only; what simulators leave on features that stand still is below 1e-12."""


def smallest_std(mean: NDArray) -> Array:
    """(d,): the standard deviation under which a feature of this mean does not vary, or by rounding only."""
    return np.maximum(SMALLEST_STD, ROUNDING * np.finfo(np.float64).eps * np.abs(mean))


@dataclass(frozen=True, eq=False)
class Metric:
    """Coordinates x of raw observations s, and the squared distance sum_i w_i (x_i - y_i)^2.

    With z = (s - mean) / std, clipped at +-`clip`, x is z itself, or with a `knee` b it is b asinh(z / b): about z
    within the knee and b sign(z) log |2 z / b| far beyond it. So contact forces of a hundred standard deviations are no
    distance of their own, and states far from the usual ones still differ. `mean`, `std` and `weights` w are (d,).
    """

    mean: Array
    std: Array
    clip: float
    weights: Array
    knee: float | None = None

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
        if self.knee is not None and not 0 < self.knee < np.inf:
            raise DataError(f"the metric's knee must be None or a positive number, got {self.knee!r}.")
        if not self.clip > 0:
            raise DataError(f"the metric's clip must be positive, got {self.clip}.")

    @classmethod
    def weighted(cls, weights: ArrayLike) -> Metric:
        """Observations as they are, with these feature weights (d,)."""
        d = np.size(weights)
        return cls(np.zeros(d), np.ones(d), np.inf, np.asarray(weights))

    @classmethod
    def fitted(cls, observations: NDArray, clip: float = 10.0, knee: float | None = None) -> Metric:
        """Mean and standard deviation of raw observations (N, d), and equal weights."""
        mean, std = observations.mean(axis=0, dtype=np.float64), observations.std(axis=0, dtype=np.float64)
        return cls(mean, np.ones(len(mean)), clip, np.ones(len(mean)), knee).rescaled(mean, std)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return len(self.weights)

    def __call__(self, observations: NDArray) -> Array:
        """x, the coordinates of raw observations (..., d)."""
        z = np.clip((observations - self.mean) / self.std, -self.clip, self.clip)
        return z if self.knee is None else self.knee * np.arcsinh(z / self.knee)

    def slope(self, observations: NDArray) -> Array:
        """dx/ds, feature by feature, (..., d); zero where clipped, and nowhere more than 1 / std."""
        z = (observations - self.mean) / self.std
        slope = (np.abs(z) < self.clip) / self.std
        return slope if self.knee is None else slope / np.sqrt(1.0 + (z / self.knee) ** 2)

    def equals(self, other: Metric) -> bool:
        """Whether both measure every observation alike."""
        arrays = all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("mean", "std", "weights"))
        return arrays and (self.clip, self.knee) == (other.clip, other.knee)

    def reweighted(self, weights: NDArray) -> Metric:
        """The same coordinates with other feature weights."""
        return replace(self, weights=weights)

    def rescaled(self, mean: NDArray, std: NDArray) -> Metric:
        """The same weights and knee on coordinates with other means and standard deviations.

        The scale of a feature that hardly varies is one.
        """
        return replace(self, mean=mean, std=np.where(std < smallest_std(mean), 1.0, std))

    def between(self, other: Metric, share: float) -> Metric:
        """A share of the way to another metric: means and weights linearly, standard deviations by their logarithms."""
        if share == 1.0:
            return other
        return Metric(
            self.mean + share * (other.mean - self.mean),
            self.std * (other.std / self.std) ** share,
            other.clip,
            self.weights + share * (other.weights - self.weights),
            other.knee,
        )

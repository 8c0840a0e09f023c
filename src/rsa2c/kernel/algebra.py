"""Operations on dictionaries and functions whose cost grows with the square of the dictionary, in one place.

`Algebra` computes them with NumPy; `gpu/algebra.py` has the same on a device.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rsa2c.kernel.dictionary import Dictionary, cheapest_removals
from rsa2c.kernel.linalg import ridge_regression, second_moment
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction


class Algebra:
    """The operations, with NumPy."""

    def grown(self, dictionary: Dictionary, states: NDArray, threshold: float, limit: int) -> Dictionary:
        """`Dictionary.grown`."""
        return dictionary.grown(states, threshold, limit)

    def readmitted(self, dictionary: Dictionary, metric: Metric, threshold: float) -> tuple[Dictionary, NDArray]:
        """`Dictionary.readmitted`."""
        return dictionary.readmitted(metric, threshold)

    def pruned(self, function: RKHSFunction, candidates: NDArray, count: int) -> RKHSFunction:
        """The function without the `count` states whose removal changes it least at raw candidates (N, d)."""
        dictionary = function.dictionary
        moment = second_moment(dictionary.kernel(function.coordinates(candidates), dictionary.centres))
        return function.prune(cheapest_removals(dictionary, function.coefficients, count, moment))

    def projected(
        self, function: RKHSFunction, dictionary: Dictionary, states: NDArray, ridge: float, start: NDArray
    ) -> RKHSFunction:
        """`RKHSFunction.project`."""
        return function.project(dictionary, states, ridge, start)

    def regressed(
        self, dictionary: Dictionary, x: NDArray, targets: NDArray, ridge: float, name: str, remedy: str
    ) -> tuple[NDArray[np.float64], NDArray]:
        """`ridge_regression` of targets (N, m) at coordinates x (N, d): coefficients (q, m), and what they give at x,
        (N, m)."""
        phi = dictionary.features(x.dtype)(x)
        coefficients = ridge_regression(phi, targets, dictionary.gram, ridge, name, remedy)
        return coefficients, phi @ coefficients.astype(phi.dtype)

    def values(self, function: RKHSFunction, states: NDArray) -> NDArray[np.float64]:
        """(N, m): the function at raw states (N, d)."""
        return function(states)


NUMPY = Algebra()

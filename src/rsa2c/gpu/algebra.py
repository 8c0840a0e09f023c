"""Dictionaries and functions on the device: the operations of `kernel/algebra.py` in JAX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from rsa2c.errors import DataError
from rsa2c.gpu import fits
from rsa2c.gpu.arrays import Centres, Coordinates, padded
from rsa2c.gpu.device import computing
from rsa2c.kernel.algebra import Algebra
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction


def _rounded(count: int, least: int = 64) -> int:
    """The next power of two, `least` at least: arrays of few different lengths need few compiled programs."""
    return max(least, 1 << max(count - 1, 0).bit_length())


class DeviceAlgebra(Algebra):
    """The operations on a device, for dictionaries of at most `capacity` states."""

    def __init__(self, device: Any, capacity: int) -> None:
        self.device, self.capacity = device, capacity
        self._placed: list[tuple[NDArray, Any]] = []

    def grown(self, dictionary: Dictionary, states: NDArray, threshold: float, limit: int) -> Dictionary:
        limit = min(limit, len(states))
        if limit <= 0:
            return dictionary
        x = dictionary.kernel.metric(states)
        chosen, errors = self._pivots(dictionary, x, threshold, limit)
        return dictionary.joined(states[chosen], x[chosen], errors)

    def readmitted(self, dictionary: Dictionary, metric: Metric, threshold: float) -> tuple[Dictionary, NDArray]:
        kernel, x = dictionary.kernel.on(metric), metric(dictionary.states)
        found = self._pivots(Dictionary.empty(kernel), x, threshold, dictionary.size, self.capacity)
        return dictionary.selected(kernel, x, *found)

    def _pivots(
        self, dictionary: Dictionary, x: NDArray, threshold: float, limit: int, room: int = 0
    ) -> tuple[NDArray, NDArray]:
        """`Dictionary._pivots`; programs have room for `room` candidates and positions at least."""
        rows = padded(x * dictionary.kernel.scales, _rounded(max(len(x), room)))
        # an empty dictionary needs no room for its factor
        centres = Centres.of(dictionary, self.capacity if dictionary.size else 1)
        with computing(self.device, double=True):
            found = fits.pivots(rows, len(x), centres, threshold, limit, limit=_rounded(max(limit, room)))
        positions, errors = map(np.asarray, found)
        count = int(np.sum(positions >= 0))
        return positions[:count].astype(np.intp), errors[:count]

    def pruned(self, function: RKHSFunction, candidates: NDArray, count: int) -> RKHSFunction:
        dictionary = function.dictionary
        x = function.coordinates(candidates) * dictionary.kernel.scales
        centres, coefficients = Centres.of(dictionary, self.capacity), padded(function.coefficients, self.capacity)
        with computing(self.device, double=True):
            positions, after = fits.removals(x, centres, coefficients, count, limit=_rounded(count))
        without = np.sort(np.asarray(positions)[:count])
        kept = np.setdiff1d(np.arange(dictionary.size), without)
        return replace(function, dictionary=dictionary.without(without), coefficients=np.asarray(after)[kept])

    def projected(
        self, function: RKHSFunction, dictionary: Dictionary, states: NDArray, ridge: float, start: NDArray
    ) -> RKHSFunction:
        targets = self.values(replace(function, offset=np.zeros(1)), states)
        rows, length = self._rows(states), _rounded(len(states))
        weights, aims = (padded(each, length) for each in (np.ones(len(states)), targets))
        centres, metric = Centres.of(dictionary, self.capacity), Coordinates.of(dictionary.kernel)
        with computing(self.device, double=True):
            found = fits.projected(rows, weights, aims, centres, metric, padded(start, self.capacity), ridge)
        coefficients = np.asarray(found)[: dictionary.size]
        if not np.all(np.isfinite(coefficients)):
            raise DataError("the re-projection has no finite solution. Raise admission_threshold.")
        return replace(function, dictionary=dictionary, coefficients=coefficients)

    def regressed(
        self, dictionary: Dictionary, x: NDArray, targets: NDArray, ridge: float, name: str, remedy: str
    ) -> tuple[NDArray[np.float64], NDArray]:
        length, q = _rounded(len(x)), dictionary.size
        rows, weights, aims = (padded(each, length) for each in (x, np.ones(len(x)), targets))
        centres, scales = Centres.of(dictionary, _rounded(q)), Coordinates.of(dictionary.kernel).scales
        with computing(self.device, double=True):
            coefficients, fitted = map(np.asarray, fits.regressed(rows, weights, aims, centres, scales, ridge))
        if not np.all(np.isfinite(coefficients)):
            raise DataError(f"{name} is not finite. {remedy}.")
        return coefficients[:q], fitted[: len(x)]

    def values(self, function: RKHSFunction, states: NDArray) -> NDArray[np.float64]:
        rows = self._rows(states)
        centres, metric = Centres.of(function.dictionary, self.capacity), Coordinates.of(function.kernel)
        with computing(self.device, double=True):
            found = fits.values(rows, centres, metric, padded(function.coefficients, self.capacity))
        return np.asarray(found)[: len(states)] + function.offset

    def _rows(self, states: NDArray) -> Any:
        """Padded states on the device, where those asked for last are already: the trust region of a change of metric
        asks for the same two samples again and again."""
        for known, rows in self._placed:
            if known is states:
                return rows
        with computing(self.device, double=True):
            rows = jax.device_put(padded(np.asarray(states, np.float64), _rounded(len(states))), self.device)
        self._placed = [*self._placed[-1:], (states, rows)]
        return rows

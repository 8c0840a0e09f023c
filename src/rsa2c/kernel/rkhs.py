"""Functions in a reproducing-kernel Hilbert space.

`RKHSFunction` is the single type behind the actor's mean, the value and the advantage, and the single thing
that attribution, certificates, export and the report need to understand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import DataError
from rsa2c.kernel.dictionary import Dictionary, removed
from rsa2c.kernel.kernels import Features, ProductKernel
from rsa2c.kernel.linalg import ridge_regression


@dataclass(frozen=True, eq=False)
class RKHSFunction:
    """f(s) = offset + sum_j k(x, x_j) c_j on a dictionary of states s_j, where x = metric(s) and x_j = metric(s_j).

    Coefficients are (q, m), one column per output. Called with raw states (N, d) it gives (N, m), with one
    state (d,) it gives (m,).
    """

    dictionary: Dictionary
    coefficients: NDArray[np.float64]
    output_names: tuple[str, ...]
    offset: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", np.broadcast_to(self.offset, (len(self.output_names),)))
        if self.coefficients.shape != (self.dictionary.size, len(self.output_names)):
            raise DataError(
                f"coefficients must have the shape (dictionary size, outputs) = "
                f"{(self.dictionary.size, len(self.output_names))}, got {self.coefficients.shape}."
            )

    def __getstate__(self) -> dict[str, object]:
        """Without the compiled map, which stays in its process."""
        return {name: value for name, value in vars(self).items() if name != "_features"}

    @classmethod
    def zero(cls, dictionary: Dictionary, output_names: tuple[str, ...]) -> RKHSFunction:
        """The zero function on a dictionary."""
        return cls(dictionary, np.zeros((dictionary.size, len(output_names))), output_names)

    @property
    def kernel(self) -> ProductKernel:
        """The dictionary's kernel."""
        return self.dictionary.kernel

    @property
    def centres(self) -> NDArray[np.float64]:
        """(q, d): remembered states in the metric's coordinates."""
        return self.dictionary.centres

    @property
    def remembered_states(self) -> NDArray[np.float64]:
        """(q, d): remembered states in raw observation units."""
        return self.dictionary.states

    def __repr__(self) -> str:
        kind, d, q = type(self.kernel).__name__, self.kernel.dimension, self.dictionary.size
        return f"RKHSFunction({d} features -> {', '.join(self.output_names)}; {q} states, {kind} kernel)"

    def __call__(self, states: ArrayLike) -> NDArray[np.float64]:
        states, single = self._checked(states)
        values = self._features(self.coordinates(states)) @ self.coefficients + self.offset
        return values[0] if single else values

    @cached_property
    def _features(self) -> Features:
        """x -> k_D(x), bound once: a controller calls the function with one state at a time."""
        return self.dictionary.features()

    def coordinates(self, states: NDArray) -> NDArray[np.float64]:
        """(N, d): raw states (N, d) in the coordinates of the kernel's metric."""
        return self.kernel.metric(states)

    def at(self, x: NDArray) -> NDArray:
        """(N, m): values at coordinates x (N, d)."""
        return self.kernel(x, self.centres) @ self.coefficients + self.offset

    def norm(self) -> NDArray[np.float64]:
        """(m,): RKHS norm sqrt(c^T K_DD c) of each output, without its offset."""
        squared = np.einsum("im,ij,jm->m", self.coefficients, self.dictionary.gram, self.coefficients, optimize=True)
        return np.sqrt(np.maximum(squared, 0.0))

    def gradient(self, states: ArrayLike) -> NDArray[np.float64]:
        """(N, m, d), or (m, d) for one state: derivative with respect to the raw state."""
        states, single = self._checked(states)
        gradient = self.kernel.gradient(self.coordinates(states), self.centres, self.coefficients)
        gradient = gradient * self.kernel.metric.slope(states)[:, None, :]
        return gradient[0] if single else gradient

    def grow(self, dictionary: Dictionary) -> RKHSFunction:
        """The same function on a dictionary that has this one's states first."""
        added = dictionary.size - self.dictionary.size
        first = dictionary.states[: self.dictionary.size]
        if added < 0 or dictionary.kernel is not self.kernel or not np.array_equal(first, self.remembered_states):
            raise DataError("grow needs a dictionary that begins with this function's states; use project instead.")
        padding = np.zeros((added, self.coefficients.shape[1]))
        return replace(self, dictionary=dictionary, coefficients=np.vstack([self.coefficients, padding]))

    def prune(self, positions: NDArray) -> RKHSFunction:
        """The closest function, in RKHS norm, without the states at these positions."""
        return replace(
            self,
            dictionary=self.dictionary.without(positions),
            coefficients=removed(self.dictionary, self.coefficients, positions),
        )

    def project(
        self, dictionary: Dictionary, states: NDArray, ridge: float = 1e-6, start: NDArray | None = None
    ) -> RKHSFunction:
        """The function on another dictionary or kernel that agrees best with this one at raw states (N, d).

        In correction form, c' = c + (Phi'^T Phi' / N + ridge K')^-1 Phi'^T (Phi c - Phi' c) / N from a first
        guess c = `start`, so that nothing moves when nothing changed: a ridge towards zero would shrink the
        function each time.
        """
        states = np.asarray(states, dtype=np.float64)
        start = np.zeros((dictionary.size, self.coefficients.shape[1])) if start is None else start
        targets = self.kernel(self.coordinates(states), self.centres) @ self.coefficients
        features = dictionary.kernel(dictionary.kernel.metric(states), dictionary.centres)
        error = targets - features @ start
        correction = ridge_regression(features, error, dictionary.gram, ridge, "the re-projection", "Raise its ridge")
        return replace(self, dictionary=dictionary, coefficients=start + correction)

    def _checked(self, states: ArrayLike) -> tuple[NDArray[np.float64], bool]:
        d = self.kernel.dimension
        try:
            array = np.asarray(states, dtype=np.float64)
        except (TypeError, ValueError) as error:
            got = f"{type(states).__name__} ({error})"
            raise DataError(f"states must be numbers of the shape ({d},) or (N, {d}), got {got}.") from error
        if array.ndim not in (1, 2) or array.shape[-1] != d:
            raise DataError(f"states must have the shape ({d},) or (N, {d}), got {array.shape}.")
        if not np.isfinite(array).all():
            raise DataError("states must be finite, got NaN or infinity.")
        return np.atleast_2d(array), array.ndim == 1

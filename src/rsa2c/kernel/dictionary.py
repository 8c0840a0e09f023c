"""Sparse dictionaries of remembered states, kept by approximate linear dependence.

A dictionary D owns its states, their coordinates and the Cholesky factor of K_DD. The residual
1 - k_D(x)^T K_DD^-1 k_D(x) is the squared RKHS distance of k(., x) to the span of D; a state is admitted
while its residual exceeds a threshold, the largest one first (greedy pivoted Cholesky). Functions on the
dictionary (`rkhs.py`) refer to it; a dictionary is never changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dpstrf, dtrtri

from rsa2c.errors import DataError
from rsa2c.kernel.kernels import Features, ProductKernel
from rsa2c.kernel.metric import Metric

JITTER = 1e-10
"""Added to the diagonal of K_DD: an admitted residual is at least the threshold, so this only absorbs rounding."""
MATRICES = ("gram", "cholesky", "inverse_factor", "inverse")
"""What a dictionary computes when it is first needed, and then keeps: (q, q) each."""


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Raw states (q, d) and, for each, the residual at which it was admitted."""

    kernel: ProductKernel
    states: NDArray[np.float64]
    errors: NDArray[np.float64]

    @classmethod
    def empty(cls, kernel: ProductKernel) -> Dictionary:
        """A dictionary without states."""
        return cls(kernel, np.empty((0, kernel.dimension)), np.empty(0))

    @property
    def size(self) -> int:
        """Number of states q."""
        return len(self.states)

    @cached_property
    def centres(self) -> NDArray[np.float64]:
        """(q, d): the states in the coordinates of the kernel's metric."""
        return self.kernel.metric(self.states)

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """K_DD, (q, q)."""
        return self.kernel(self.centres, self.centres)

    @cached_property
    def cholesky(self) -> NDArray[np.float64]:
        """Lower factor L of K_DD + jitter."""
        factor, info = dpotrf(self.gram + JITTER * np.eye(self.size), lower=1)
        if info:
            raise DataError(
                f"the dictionary's Gram matrix is not positive definite at state {info} of {self.size}: states nearly "
                "coincide under this kernel. Admit them again (Dictionary.readmitted) or raise admission_threshold."
            )
        return factor

    @cached_property
    def inverse_factor(self) -> NDArray[np.float64]:
        """L^-1, lower: a product with it takes half the time of a forward substitution."""
        inverse, info = dtrtri(self.cholesky, lower=1)
        assert info == 0, "a Cholesky factor has a positive diagonal"
        return inverse

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """K_DD^-1 = L^-T L^-1, for removal costs, which need its diagonal and columns."""
        return self.inverse_factor.T @ self.inverse_factor

    def __getstate__(self) -> dict[str, object]:
        """Without what can be computed again, which is much larger than the rest."""
        return {name: value for name, value in vars(self).items() if name not in MATRICES}

    def equals(self, other: Dictionary) -> bool:
        """Whether both have the same states, admitted at the same residuals, under the same kernel."""
        if self is other:
            return True
        same = np.array_equal(self.states, other.states) and np.array_equal(self.errors, other.errors)
        return same and self.kernel.equals(other.kernel)

    def features(self, dtype: np.dtype | type = np.float64) -> Features:
        """The map from coordinates x to k_D(x), compiled for repeated use."""
        return self.kernel.bind(self.centres, dtype)

    def solve(self, right: NDArray) -> NDArray:
        """K_DD^-1 right."""
        return cho_solve((self.cholesky, True), right)

    def residuals(self, x: NDArray) -> NDArray[np.float64]:
        """(N,): squared RKHS distance of each k(., x_n), at coordinates x (N, d), to the span of the dictionary."""
        projected = self._projected(x)
        return 1.0 - np.einsum("nj,nj->n", projected, projected)

    def _projected(self, x: NDArray) -> NDArray[np.float64]:
        """(N, q): L^-1 k_D(x_n), the coordinates of k(., x_n)'s projection in an orthonormal basis of the span."""
        features = self.kernel(x, self.centres).astype(np.float64, copy=False)
        return dtrmm(1.0, self.inverse_factor, features.T, lower=1, overwrite_b=1).T

    def grown(self, states: NDArray, threshold: float, limit: int) -> Dictionary:
        """Old states first, then those of raw `states` (N, d) whose residual exceeds `threshold`, at most `limit`."""
        x = self.kernel.metric(states)
        chosen, errors = self._pivots(x, threshold, limit)
        return self.joined(states[chosen], x[chosen], errors)

    def joined(self, states: NDArray, x: NDArray, errors: NDArray) -> Dictionary:
        """Old states first, then raw `states` with coordinates x and these residuals at admission."""
        if not len(states):
            return self
        grown = Dictionary(self.kernel, np.vstack([self.states, states]), np.append(self.errors, errors))
        return grown._at(np.vstack([self.centres, x]))

    def without(self, removed: NDArray) -> Dictionary:
        """The dictionary without the states at these positions."""
        kept = np.setdiff1d(np.arange(self.size), removed)
        return Dictionary(self.kernel, self.states[kept], self.errors[kept])._at(self.centres[kept])

    def readmitted(self, metric: Metric, threshold: float) -> tuple[Dictionary, NDArray]:
        """The dictionary admitted again under a new metric, without redundant states, and the positions kept.

        A dictionary admitted under an old metric can be nearly singular under a new one. All of its states are
        candidates, so that this is LAPACK's pivoted Cholesky factorisation, which stops at the threshold.
        """
        kernel, x = self.kernel.on(metric), metric(self.states)
        factor, order, rank, _ = dpstrf(kernel(x, x), lower=1, tol=threshold)
        return self.selected(kernel, x, order[:rank] - 1, np.diag(factor)[:rank] ** 2)

    def selected(self, kernel: ProductKernel, x: NDArray, kept: NDArray, errors: NDArray) -> tuple[Dictionary, NDArray]:
        """The states at positions `kept`, in their old order, on a kernel under which x are all states' coordinates
        and `errors` the residuals of those that are kept; and these positions."""
        order = np.argsort(kept)
        kept = kept[order]
        return Dictionary(kernel, self.states[kept], errors[order])._at(x[kept]), kept

    def _at(self, centres: NDArray) -> Dictionary:
        """Itself, with coordinates that are known already."""
        vars(self)["centres"] = centres
        return self

    def _pivots(self, x: NDArray, threshold: float, limit: int) -> tuple[NDArray, NDArray]:
        """Greedy pivoted Cholesky: positions in coordinates x and residuals at admission, largest residual first.

        O(N q^2) for the projection on the old states, then O(N (q + d)) per admitted state.
        """
        limit = min(limit, len(x))
        if limit <= 0:
            return np.empty(0, dtype=np.intp), np.empty(0)
        q = self.size
        basis = np.empty((len(x), q + limit))  # coordinates in a basis that grows with each admitted state
        if q:
            basis[:, :q] = self._projected(x)
        residual = 1.0 - np.einsum("nj,nj->n", basis[:, :q], basis[:, :q])
        positions: list[int] = []
        errors: list[float] = []
        for column in range(q, q + limit):
            pivot = int(residual.argmax())
            error = residual[pivot]
            if error <= threshold:
                break
            new = self.kernel(x, x[pivot : pivot + 1])[:, 0]
            new -= basis[:, :column] @ basis[pivot, :column]
            new /= np.sqrt(error)
            basis[:, column] = new
            residual -= new**2
            residual[pivot] = 0.0
            positions.append(pivot)
            errors.append(error)
        return np.array(positions, dtype=np.intp), np.array(errors)


def removed(dictionary: Dictionary, coefficients: NDArray, positions: NDArray) -> NDArray:
    """(q - r, m): coefficients after removing the states at `positions` and re-projecting in RKHS norm.

    For one state, c_i <- c_i - ([K^-1]_ij / [K^-1]_jj) c_j.
    """
    inverse = dictionary.inverse
    kept = np.setdiff1d(np.arange(dictionary.size), positions)
    share = np.linalg.solve(inverse[np.ix_(positions, positions)], coefficients[positions])
    return coefficients[kept] - inverse[np.ix_(kept, positions)] @ share


def cheapest_removals(dictionary: Dictionary, coefficients: NDArray, count: int, second_moment: NDArray) -> NDArray:
    """(count,): positions to remove one after the other, each the cheapest on the batch once those before it are gone.

    Removing j maps K^-1 to E K^-1 and K^-1 G K^-1 to E (K^-1 G K^-1) E^T with E = I - K^-1 e_j e_j^T / [K^-1]_jj:
    O(q^2) per removal. Of two states that can replace each other either is cheap to remove, but not both.
    """
    inverse = dictionary.inverse.copy()
    effect = inverse @ second_moment @ inverse
    coefficients = coefficients.copy()
    alive = np.ones(dictionary.size, dtype=bool)
    positions = np.empty(count, dtype=np.intp)
    for k in range(count):
        diagonal = np.where(alive, np.diag(inverse), 1.0)
        squared = np.einsum("jm,jm->j", coefficients, coefficients)
        j = int(np.where(alive, squared * np.diag(effect) / diagonal**2, np.inf).argmin())
        direction = inverse[:, j] / inverse[j, j]
        coefficients -= np.outer(direction, coefficients[j])
        inverse -= np.outer(direction, inverse[j])
        effect -= np.outer(direction, effect[j])
        effect -= np.outer(effect[:, j], direction)
        alive[j] = False
        positions[k] = j
    return positions

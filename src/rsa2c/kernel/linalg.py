"""Positive definite systems: second moments, a checked solve, and the ridge regression made of both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from rsa2c.errors import DataError

ROUNDING = 16.0
"""Rounding error of sums over a batch, in multiples of machine epsilon. Second moments in single precision were seen to
be off by 3 to 6, and then they are not positive semidefinite."""


ROWS = 256
"""Rows of a matrix that are copied at a time: few enough that the copy stays in a core's cache."""


def second_moment(phi: NDArray) -> NDArray[np.float64]:
    """Phi^T Phi / N, multiplied in the precision of phi, with that precision's rounding added to the diagonal."""
    return moment_of(phi.T @ phi, len(phi))


def moment_of(products: NDArray, count: int) -> NDArray[np.float64]:
    """Phi^T Phi / N from the sum Phi^T Phi, in the precision in which it was added, over N rows."""
    moment = products.astype(np.float64) / count
    moment[np.diag_indices_from(moment)] += ROUNDING * np.finfo(products.dtype).eps * moment.diagonal().max(initial=0.0)
    return moment


def precise_product(phi: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """(N,): Phi w in double precision, for weights (q,) and Phi (N, q) in any.

    The product of a matrix in single precision with a vector in double would copy all of the matrix in double precision
    first: memory that takes longer to get than to multiply. Here a few rows are copied at a time.
    """
    out = np.empty(len(phi))
    for first in range(0, len(phi), ROWS):
        np.matmul(phi[first : first + ROWS], weights, out=out[first : first + ROWS])
    return out


def solve_positive(matrix: NDArray, right: NDArray, name: str, remedy: str) -> NDArray[np.float64]:
    """matrix^-1 right by Cholesky; a matrix that is not positive definite, or a result that is not finite, is an
    error that names what was solved and what to do."""
    try:
        solution = cho_solve(cho_factor(matrix), right)
    except (LinAlgError, ValueError) as error:
        raise DataError(f"{name} has no solution: its matrix is not positive definite ({error}). {remedy}.") from error
    if not np.all(np.isfinite(solution)):
        raise DataError(f"{name} is not finite. {remedy}.")
    return solution


def ridge_regression(
    phi: NDArray, targets: NDArray, gram: NDArray, ridge: float, name: str, remedy: str
) -> NDArray[np.float64]:
    """(q, m): c = (Phi^T Phi / N + ridge K)^-1 Phi^T Y / N for features phi (N, q) and targets Y (N, m).

    These c minimise sum_n |phi_n c - y_n|^2 / N + ridge tr(c^T K c), with K (q, q) the `gram` of the dictionary.
    Products are taken in the precision of phi, the system is solved in double precision; `name` and `remedy` are for
    the error of a system that has no solution.
    """
    right = (phi.T @ targets.astype(phi.dtype, copy=False)).astype(np.float64) / len(phi)
    return solve_positive(second_moment(phi) + ridge * gram, right, name, remedy)

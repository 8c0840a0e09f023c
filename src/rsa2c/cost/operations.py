"""Operations of the building blocks: kernels, factorisations, second moments, pivoted Cholesky."""

from __future__ import annotations

from rsa2c.algorithm.work import Basis
from rsa2c.config import Config, FollowingScale
from rsa2c.kernel.kernels import KERNELS


def kernel(config: Config, n: int, q: int, d: int) -> int:
    """k(x, y) of n states and q centres."""
    return KERNELS[config.kernel].operations(n, q, d)


def coordinates(config: Config, n: int, d: int) -> int:
    """(s - mean) / std of n states; where the scale follows, with a knee."""
    return (5 if isinstance(config.scale, FollowingScale) else 2) * n * d


def cholesky(n: int) -> float:
    return n**3 / 3 + n**2 / 2 + n / 6


def eigen(n: int) -> int:
    """Eigenvalues and eigenvectors of a symmetric n x n matrix by the QR algorithm (Golub and Van Loan)."""
    return 9 * n**3


def triangular_inverse(n: int) -> float:
    return n**3 / 3 + 2 * n / 3


def pivoted_cholesky(n: int, rank: int) -> float:
    """Pivoted Cholesky factorisation of an n x n matrix that stops after `rank` columns, with its residuals: column j
    has n - j - 1 entries below the diagonal, which take 2 j + 3 operations each."""
    r = rank
    return r + (n - 1) * r * (r + 2) - (r - 1) * r * (4 * r + 7) / 6


def lu(n: int, right: int) -> float:
    """Factorisation of an n x n matrix and solution for this many right-hand sides."""
    return 2 * n**3 / 3 - n**2 / 2 - n / 6 + right * (2 * n**2 - n)


def moment(n: int, q: int) -> int:
    """Phi^T Phi / N."""
    return n * q * (q + 1) + q * q


def ridge_solve(config: Config, q: int, right: int, d: int, gram: bool) -> float:
    """Cholesky solution for a second moment plus ridge times the Gram matrix."""
    return (0 if gram else kernel(config, q, q, d)) + 2 * q * q + cholesky(q) + 2 * q * q * right


def factor(config: Config, basis: Basis, d: int) -> float:
    """Gram matrix, jitter and factor of a dictionary, as far as they are not cached yet."""
    if basis.cholesky or not basis.states:
        return 0.0
    q = basis.states
    return (0 if basis.gram else kernel(config, q, q, d)) + 2 * q * q + cholesky(q)


def pivots(config: Config, n: int, basis: Basis, admitted: int, d: int) -> float:
    """Greedy pivoted Cholesky of n candidates on a dictionary."""
    q = basis.states
    count = factor(config, basis, d) + coordinates(config, n, d) + n
    if q:
        count += 0 if basis.inverse_factor else triangular_inverse(q)
        count += kernel(config, n, q, d) + n * q * q + 2 * n * q
    rows = admitted * q + admitted * (admitted - 1) // 2
    return count + admitted * (kernel(config, n, 1, d) + 4 * n) + 2 * n * rows

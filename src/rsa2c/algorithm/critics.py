"""The critics: the Value Critic by ridge LSTD(lambda), the Advantage Critic by its closed form.

Features of a batch are the rows of Phi, k_D at every point of every segment (`batch.Batch`): transition i
starts at row i + segment_i and ends at the next row. A fit needs only sums over transitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from rsa2c.algorithm.batch import Batch
from rsa2c.errors import DataError
from rsa2c.kernel.linalg import moment_of, solve_positive

LSTDSums = tuple[NDArray, NDArray, NDArray | None, NDArray | None, int, int]
"""Z^T F and Z^T r, Phi^T Phi and Phi^T v where a previous fit damps, N, and the number of terminations."""


def lstd_sums(phi: NDArray, batch: Batch, gamma: float, lam: float, previous: NDArray | None = None) -> LSTDSums:
    """What LSTD needs of a batch: sums over transitions, in the precision of phi, features with a constant."""
    phi = np.concatenate([phi, np.ones((len(phi), 1), phi.dtype)], axis=1)
    traces, differences = _traces_and_differences(phi, batch.segment, batch.terminated, gamma, gamma * lam)
    system, right, ended = traces.T @ differences, traces.T @ batch.rewards.astype(phi.dtype), batch.terminated.sum()
    if previous is None:
        return system, right, None, None, batch.n, int(ended)
    states = np.ascontiguousarray(phi[batch.state_index])
    return system, right, states.T @ states, states.T @ previous.astype(phi.dtype), batch.n, int(ended)


def lstd_solution(
    sums: LSTDSums, gamma: float, ridge: float, gram: NDArray, damping: float = 0.0
) -> tuple[NDArray[np.float64], float]:
    """Ridge LSTD(lambda) from its sums: coefficients (q,) and an unpenalised constant, in one solve.

    w = (ridge K_DD + damping Phi^T Phi / N - Z^T F / N)^-1 (Z^T r + damping Phi^T v) / N with F = gamma (1 -
    terminated) Phi' - Phi, eligibility traces Z, and the values v (N,) of the previous fit at the states: the fixed
    point of ridge regression on lambda-returns, with `damping` times the mean squared change of the values as penalty.
    """
    products, rewards, squares, values, n, terminations = sums
    check_horizon(gamma, bool(terminations))
    system, right = -products.astype(np.float64) / n, rewards.astype(np.float64) / n
    system[:-1, :-1] += ridge * gram
    if squares is not None and values is not None:
        system += damping * squares.astype(np.float64) / n
        right += damping * values.astype(np.float64) / n
    solution = lu_solve(lu_factor(system), right)
    require_finite(solution, "the LSTD solution", "raise value_ridge")
    return solution[:-1], float(solution[-1])


@nb.njit(cache=True)
def _traces_and_differences(
    phi: NDArray, segment: NDArray, terminated: NDArray, gamma: float, decay: float
) -> tuple[NDArray, NDArray]:
    n, q = len(segment), phi.shape[1]
    traces = np.empty((n, q), phi.dtype)
    differences = np.empty((n, q), phi.dtype)
    for i in range(n):
        row = i + segment[i]
        carry = phi.dtype.type(decay if i > 0 and segment[i] == segment[i - 1] else 0.0)
        future = phi.dtype.type(0.0 if terminated[i] else gamma)
        previous = traces[max(i - 1, 0)]
        for j in range(q):
            traces[i, j] = phi[row, j] + (carry * previous[j] if carry > 0 else phi.dtype.type(0.0))
            differences[i, j] = future * phi[row + 1, j] - phi[row, j]
    return traces, differences


@dataclass(frozen=True)
class AdvantageFit:
    """Statistics and solution of the Advantage Critic: everything the actor's step needs."""

    second_moment: NDArray[np.float64]
    """G = Phi^T Phi / N, (q, q)."""
    gradient: NDArray[np.float64]
    """g = Phi^T (A * Sigma^-1 (u - h)) / N, (q, m): the plain policy gradient on coefficients."""
    weights: NDArray[np.float64]
    """w_A, (q, m): the damped natural gradient."""
    spread: NDArray[np.float64]
    """(m,): natural gradient of log sigma, E[A ((u - h)^2 / sigma^2 - 1)] / 2."""
    penalty: NDArray[np.float64] | None = None
    """(q, m): gradient of a penalty on the policy (`robust.py`), which the actor's step subtracts; None without one."""
    damped_penalty: NDArray[np.float64] | None = None
    """(q, m): that gradient in the metric of w_A, (G kron Sigma^-1 + ridge K_DD kron I)^-1 vec(penalty)."""


AdvantageSums = tuple[NDArray, NDArray, NDArray, int]
"""Phi^T Phi, Phi^T (A * Sigma^-1 (u - h)), sum A ((u - h)^2 / sigma^2 - 1), and N."""


def advantage_sums(phi: NDArray, noise: NDArray, advantages: NDArray, covariance: NDArray) -> AdvantageSums:
    """What the Advantage Critic needs of a batch: sums over transitions."""
    spread = np.asarray(advantages @ (noise**2 / np.diag(covariance) - 1.0), dtype=np.float64)
    return phi.T @ phi, gradient_sum(phi, noise, advantages, covariance), spread, len(noise)


def advantage_solution(
    sums: AdvantageSums, gram: NDArray, covariance: NDArray, ridge: float, penalty: NDArray | None = None
) -> AdvantageFit:
    """Compatible ridge regression of the advantages A (N,) on K(s, .) Sigma^-1 (u - h(s)), from its sums.

    w_A = (G kron Sigma^-1 + ridge K_DD kron I)^-1 vec(g): the feature Gram enters by its expectation over
    actions. In the eigenbasis of Sigma one q x q factorisation serves each distinct variance, and the gradient (q, m)
    of a `penalty` with it.
    """
    products, along, spread, n = sums
    moment, gradient = moment_of(products, n), along.astype(np.float64) / n
    variances, basis = np.linalg.eigh(covariance)
    rotated = gradient @ basis if penalty is None else np.hstack([gradient @ basis, penalty @ basis])
    solution, m = np.empty_like(rotated), len(variances)
    for variance in np.unique(variances):
        columns = np.tile(variances == variance, rotated.shape[1] // m)
        solution[:, columns] = solve_positive(
            moment / variance + ridge * gram, rotated[:, columns], "the advantage fit", "Raise advantage_ridge"
        )
    damped = None if penalty is None else solution[:, m:] @ basis.T
    return AdvantageFit(moment, gradient, solution[:, :m] @ basis.T, spread / (2 * n), penalty, damped)


def gradient_sum(phi: NDArray, noise: NDArray, advantages: NDArray, covariance: NDArray) -> NDArray:
    """N g = Phi^T (A * Sigma^-1 (u - h)), (q, m)."""
    scores = np.linalg.solve(covariance, noise.T).T * advantages[:, None]
    return phi.T @ scores.astype(phi.dtype)


def check_horizon(gamma: float, terminates: bool) -> None:
    """Without discount, rewards must end some time."""
    if gamma == 1 and not terminates:
        raise DataError(
            "with gamma = 1 and no episode that terminates, the value has no finite solution. Set gamma below 1."
        )


def require_finite(array: NDArray, name: str, remedy: str) -> None:
    if not np.all(np.isfinite(array)):
        raise DataError(f"{name} is not finite: the fit diverged. To remedy it, {remedy}.")

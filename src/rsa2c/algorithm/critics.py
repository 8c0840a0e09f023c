"""The critics: the Value Critic by ridge LSTD(lambda), the Advantage Critic by its closed form.

Features of a batch are the rows of Phi, k_D at every point of every segment (`rollout.Batch`): transition i
starts at row i + segment_i and ends at the next row. A fit needs only sums over transitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from rsa2c.algorithm.rollout import Batch
from rsa2c.errors import DataError
from rsa2c.kernel.linalg import second_moment, solve_positive


def lstd(
    phi: NDArray,
    batch: Batch,
    gamma: float,
    lam: float,
    ridge: float,
    gram: NDArray,
    previous: NDArray | None = None,
    damping: float = 0.0,
) -> tuple[NDArray[np.float64], float]:
    """Ridge LSTD(lambda): coefficients (q,) and an unpenalised constant, in one solve.

    w = (ridge K_DD + damping Phi^T Phi / N - Z^T F / N)^-1 (Z^T r + damping Phi^T v) / N with F = gamma (1 -
    terminated) Phi' - Phi, eligibility traces Z, and the values v (N,) of the `previous` fit at the states: the fixed
    point of ridge regression on lambda-returns, with `damping` times the mean squared change of the values as penalty.
    """
    if gamma == 1 and not batch.terminated.any():
        raise DataError(
            "with gamma = 1 and no episode that terminates, the value has no finite solution. Set gamma below 1."
        )
    phi = np.concatenate([phi, np.ones((len(phi), 1), phi.dtype)], axis=1)
    traces, differences = _traces_and_differences(phi, batch.segment, batch.terminated, gamma, gamma * lam)
    system = -(traces.T @ differences).astype(np.float64) / batch.n
    system[:-1, :-1] += ridge * gram
    right = (traces.T @ batch.rewards.astype(phi.dtype)).astype(np.float64) / batch.n
    if previous is not None and damping > 0:
        states = np.ascontiguousarray(phi[batch.state_index])
        system += damping * (states.T @ states).astype(np.float64) / batch.n
        right += damping * (states.T @ previous.astype(phi.dtype)).astype(np.float64) / batch.n
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

    features: NDArray
    """Phi, (N, q): k_D at the states of the batch."""
    second_moment: NDArray[np.float64]
    """G = Phi^T Phi / N, (q, q)."""
    gradient: NDArray[np.float64]
    """g = Phi^T (A * Sigma^-1 (u - h)) / N, (q, m): the plain policy gradient on coefficients."""
    weights: NDArray[np.float64]
    """w_A, (q, m): the damped natural gradient."""
    spread: NDArray[np.float64]
    """(m,): natural gradient of log sigma, E[A ((u - h)^2 / sigma^2 - 1)] / 2."""


def fit_advantage(
    phi: NDArray, noise: NDArray, advantages: NDArray, gram: NDArray, covariance: NDArray, ridge: float
) -> AdvantageFit:
    """Compatible ridge regression of the advantages A (N,) on K(s, .) Sigma^-1 (u - h(s)), with noise u - h (N, m).

    w_A = (G kron Sigma^-1 + ridge K_DD kron I)^-1 vec(g): the feature Gram enters by its expectation over
    actions. In the eigenbasis of Sigma one q x q factorisation serves each distinct variance.
    """
    moment = second_moment(phi)
    gradient = policy_gradient(phi, noise, advantages, covariance)
    variances, basis = np.linalg.eigh(covariance)
    rotated = gradient @ basis
    solution = np.empty_like(rotated)
    for variance in np.unique(variances):
        columns = variances == variance
        solution[:, columns] = solve_positive(
            moment / variance + ridge * gram, rotated[:, columns], "the advantage fit", "Raise advantage_ridge"
        )
    spread = np.asarray((advantages @ (noise**2 / np.diag(covariance) - 1.0)) / (2 * len(noise)), dtype=np.float64)
    return AdvantageFit(phi, moment, gradient, solution @ basis.T, spread)


def policy_gradient(
    phi: NDArray, noise: NDArray, advantages: NDArray, covariance: NDArray
) -> NDArray[np.float64]:
    """g = Phi^T (A * Sigma^-1 (u - h)) / N, (q, m)."""
    scores = np.linalg.solve(covariance, noise.T).T * advantages[:, None]
    return (phi.T @ scores.astype(phi.dtype)).astype(np.float64) / len(phi)


def require_finite(array: NDArray, name: str, remedy: str) -> None:
    if not np.all(np.isfinite(array)):
        raise DataError(f"{name} is not finite: the fit diverged. To remedy it, {remedy}.")

"""The critics' fits to a batch as a whole: its sums, and the solution from them."""

from __future__ import annotations

from rsa2c.algorithm.critics import advantage_solution, advantage_sums, lstd_solution, lstd_sums


def lstd(phi, batch, gamma, lam, ridge, gram, previous=None, damping=0.0):
    """Coefficients and constant of the Value Critic."""
    sums = lstd_sums(phi, batch, gamma, lam, previous if damping > 0 else None)
    return lstd_solution(sums, gamma, ridge, gram, damping)


def fit_advantage(phi, noise, advantages, gram, covariance, ridge):
    """The Advantage Critic's fit."""
    return advantage_solution(advantage_sums(phi, noise, advantages, covariance), gram, covariance, ridge)

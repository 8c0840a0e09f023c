"""The quantities of the paper's convergence theory, measured on an epoch; `diagnostics=True` records them.

They are estimates from the epoch's batch, not bounds: the theory takes suprema and expectations that no batch shows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.critics import AdvantageFit
from rsa2c.algorithm.fits import Estimate, standard_advantage
from rsa2c.algorithm.samples import Block, Samples, states
from rsa2c.envs import lqr
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.rkhs import RKHSFunction

Array = NDArray[np.float64]
STATES = 2000
"""Batch states, evenly thinned, that the diagnostics are taken over."""


def of_epoch(
    samples: Samples,
    estimate: Estimate,
    fit: AdvantageFit,
    before: RKHSFunction,
    policy: GaussianPolicy,
    value: RKHSFunction | None,
) -> dict[str, float]:
    """The epoch's diagnostics; `before` is the policy's mean before its kernel changed."""
    after, covariance = policy.mean, policy.covariance
    thinned = np.arange(0, samples.n, -(-samples.n // STATES))
    x = samples.take(states, thinned).astype(np.float64)
    noise, target = samples.take(_noise, thinned), samples.take(standard_advantage, thinned, estimate)
    phi = after.kernel(x, after.centres)
    return {
        "zeta_a": advantage_error(phi, fit.weights, noise, covariance, target),
        "lambda_F": fisher_floor(fit.second_moment, after.dictionary, covariance),
        "span_distance_value": span_distance(value.dictionary, x) if value is not None else float("nan"),
        "span_distance_actor": span_distance(after.dictionary, x),
        "delta_K_h": kernel_drift(before, after, x),
    }


def _noise(block: Block, index: NDArray) -> NDArray:
    return (block.batch.latents - block.batch.means)[index]


def advantage_error(phi: Array, weights: Array, noise: Array, covariance: Array, target: Array) -> float:
    """zeta_a: root mean square of A - w_A(s)^T Sigma^-1 (u - h(s)), A being standardised estimates.

    The estimates' own noise is in it, so it stays near 1 even where the compatible features lose nothing.
    """
    fitted = np.sum((phi @ weights) * np.linalg.solve(covariance, noise.T).T, axis=1)
    return float(np.sqrt(np.mean((target - fitted) ** 2)))


def fisher_floor(second_moment: Array, dictionary: Dictionary, covariance: Array) -> float:
    """lambda_F: least <f, F f> / |f|_H^2 over functions on the dictionary, c^T G c / c^T K_DD c over the variance.

    In single precision G's rounding hides what is below about 1e-6.
    """
    half = solve_triangular(dictionary.cholesky, second_moment, lower=True)
    smallest = np.linalg.eigvalsh(solve_triangular(dictionary.cholesky, half.T, lower=True))[0]
    return float(smallest / np.linalg.eigvalsh(covariance)[-1])


def span_distance(dictionary: Dictionary, x: Array) -> float:
    """Largest RKHS distance of a visited state's k(., x) to the dictionary's span: max_x sqrt(1 - k_D^T K_DD^-1 k_D).

    Not the paper's epsilon_PV and epsilon_PA, max_j |[K_DD^-1 k_D(x)]_j eta_x - eta_j|: these compare coefficients, and
    need an eta_x that a gradient step gave to a single state. No fit here leaves one.
    """
    return float(np.sqrt(max(dictionary.residuals(x).max(), 0.0)))


def kernel_drift(before: RKHSFunction, after: RKHSFunction, x: Array) -> float:
    """delta_K,h: mean of |h'(x) - h(x)|^2 over visited states when the kernel's weights changed, else 0; x are
    coordinates, which weights do not change."""
    if before is after:
        return 0.0
    return float(np.mean(np.sum((after.at(x) - before.at(x)) ** 2, axis=1)))


def tracking_error(
    policy: GaussianPolicy,
    value: RKHSFunction,
    gamma: float,
    starts: Array,
    rng: np.random.Generator,
    rollouts: int = 16,
    steps: int = 600,
) -> float:
    """The Value Critic's relative error on rsa2c/LQR-v0 against rollouts of the current, stochastic policy.

    Root mean square of V(s) - V_pi(s) over start states (N, 4), as a share of V_pi's; `rollouts` of `steps` steps each.
    """
    states = np.repeat(starts, rollouts, axis=0)
    act = policy.sampler(rng, np.float64)
    total, discount = np.zeros(len(states)), 1.0
    for _ in range(steps):
        controls = act(policy.mean.coordinates(states))[2]
        total -= discount * lqr.cost(states, controls)
        states = lqr.dynamics(states, controls)
        discount *= gamma
    true = total.reshape(len(starts), rollouts).mean(axis=1)
    return float(np.linalg.norm(value(starts)[:, 0] - true) / np.linalg.norm(true))

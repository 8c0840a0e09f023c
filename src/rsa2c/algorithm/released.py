"""The rules of the paper's released code, which only the preset `paper` uses.

Value fits by sweeps of single transitions, replacement by stored error, smoothed advantages, clipped steps of
constant size, and kernel weights from ratios of length scales.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numba as nb
import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import schedules
from rsa2c.algorithm.batch import Batch
from rsa2c.algorithm.critics import AdvantageFit, gradient_sum, require_finite
from rsa2c.algorithm.estimates import discounted_returns
from rsa2c.algorithm.samples import Block, Samples
from rsa2c.config import (
    TD,
    AnnealedAdmission,
    Config,
    ConstantStep,
    PolynomialStep,
    PrintedGuidance,
    ReleasedAdvantage,
    ReleasedGuidance,
)
from rsa2c.config.released import MonteCarlo
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.linalg import precise_product

if TYPE_CHECKING:
    from rsa2c.algorithm.actor import GaussianPolicy
    from rsa2c.algorithm.fits import Estimate


def sweep_value(
    phi: NDArray, batch: Batch, weights: NDArray, fit: TD | MonteCarlo, config: Config, epoch: int
) -> NDArray[np.float64]:
    """The Value Critic's coefficients (q,) after the sweeps of `fit`, from `weights`."""
    step = fit.value_step
    if isinstance(config.step, PolynomialStep):
        step = schedules.polynomial(step, 0.5, epoch)
    if isinstance(fit, TD):
        return td_sweeps(
            phi, batch, weights, float(config.gamma), fit.value_lambda, step, fit.value_ridge, fit.value_sweeps
        )
    return mc_sweeps(phi, batch, weights, float(config.gamma), step, fit.value_ridge, fit.value_sweeps)


def td_sweeps(
    phi: NDArray, batch: Batch, weights: NDArray, gamma: float, lam: float, step: float, ridge: float, sweeps: int
) -> NDArray[np.float64]:
    """TD(lambda): w <- (1 - step ridge) w + step delta_t z_t over the batch, `sweeps` times."""
    weights = weights.astype(np.float64)
    for _ in range(sweeps):
        _sweep(
            phi, batch.segment, batch.terminated, batch.rewards, weights, gamma, gamma * lam, step, 1.0 - step * ridge
        )
    require_finite(weights, "the TD(lambda) weights", "lower value_step")
    return weights


def mc_sweeps(
    phi: NDArray, batch: Batch, weights: NDArray, gamma: float, step: float, ridge: float, sweeps: int
) -> NDArray[np.float64]:
    """Gradient steps of kernel ridge regression on Monte-Carlo returns, one per transition.

    The sweep of `td_sweeps` with every transition an ending one and the return as its reward.
    """
    weights = weights.astype(np.float64)
    returns = discounted_returns(batch, precise_product(phi, weights), gamma)
    every = np.ones(batch.n, dtype=bool)
    for _ in range(sweeps):
        _sweep(phi, batch.segment, every, returns, weights, 0.0, 0.0, step, 1.0 - step * ridge)
    require_finite(weights, "the Monte-Carlo weights", "lower value_step")
    return weights


@nb.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _sweep(
    phi: NDArray,
    segment: NDArray,
    terminated: NDArray,
    rewards: NDArray,
    weights: NDArray,
    gamma: float,
    decay: float,
    step: float,
    shrink: float,
) -> None:
    n, q = len(segment), len(weights)
    trace = np.zeros(q)
    for i in range(n):
        now = phi[i + segment[i]]
        after = phi[i + segment[i] + 1]
        value = 0.0
        future = 0.0
        for j in range(q):
            value += now[j] * weights[j]
        if not terminated[i]:
            for j in range(q):
                future += after[j] * weights[j]
        error = step * (rewards[i] + gamma * future - value)
        carry = decay if i > 0 and segment[i] == segment[i - 1] else 0.0
        for j in range(q):
            trace[j] = carry * trace[j] + now[j]
            weights[j] = shrink * weights[j] + error * trace[j]


def largest_errors(dictionary: Dictionary, count: int) -> NDArray[np.intp]:
    """Positions of the states that were admitted with the largest projection errors."""
    return np.argsort(-dictionary.errors, kind="stable")[:count]


def clipped_advantage(target: NDArray, rule: ReleasedAdvantage) -> NDArray:
    """Standardised advantages, limited to `advantage_clip` where that is set."""
    clip = rule.advantage_clip
    return target if clip is None else np.clip(target, -clip, clip)


def smoothed(fit: AdvantageFit, samples: Samples, covariance: NDArray) -> AdvantageFit:
    """The fit with the Advantage Critic's own values in place of the estimates in the policy gradient."""
    total = samples.reduce(_smooth_gradient, fit.weights, covariance)
    return replace(fit, gradient=total.astype(np.float64) / samples.n)


def _smooth_gradient(block: Block, weights: NDArray, covariance: NDArray) -> NDArray:
    """The block's part of the gradient; its features are those of the advantage fit."""
    phi, noise = block.features, block.batch.latents - block.batch.means
    assert phi is not None, "the advantage was fitted"
    return gradient_sum(phi, noise, _smooth(block, weights, covariance), covariance)


def _smooth(block: Block, weights: NDArray, covariance: NDArray) -> NDArray:
    """(N,): the Advantage Critic's own values, w_A(s)^T Sigma^-1 (u - h)."""
    phi, noise = block.features, block.batch.latents - block.batch.means
    assert phi is not None, "the advantage was fitted"
    return np.sum((phi @ weights) * np.linalg.solve(covariance, noise.T).T, axis=1)


def newcomers(
    policy: GaussianPolicy,
    before: GaussianPolicy,
    fit: AdvantageFit,
    samples: Samples,
    estimate: Estimate,
    config: Config,
) -> NDArray[np.float64] | None:
    """(q, m): c = A Sigma^-1 (u - h) for each state of the policy that it had not `before` the epoch, and zero for the
    others; None where newcomers start at zero.

    A and u are those of the transition that begins at the state, h the mean that it was sampled from; where several
    transitions begin there, c is their mean. A is what weighs the scores of the policy gradient.
    """
    rule = config.admission
    if not isinstance(rule, AnnealedAdmission) or rule.newcomers == "zero":
        return None
    states, known = policy.mean.remembered_states, before.mean.remembered_states
    new = np.array([not len(_equal(known, state)) for state in states], dtype=bool)
    clipped = config.advantage if isinstance(config.advantage, ReleasedAdvantage) else None
    arguments = states[new], fit.weights, policy.covariance, estimate, clipped
    totals, counts = samples.reduce(_newcomers, *arguments)
    found = np.zeros_like(policy.mean.coefficients)
    found[new] = totals / np.maximum(counts, 1)[:, None]
    return found


def newcomers_share(config: Config, size: float, q: int, n: int) -> float:
    """What of a newcomer's score is its coefficient: 1 / q of q states, or `size` / n of n transitions."""
    printed = isinstance(config.admission, AnnealedAdmission) and config.admission.newcomers == "printed"
    return 1.0 / q if printed else size / n


def _newcomers(
    block: Block,
    states: NDArray,
    weights: NDArray,
    covariance: NDArray,
    estimate: Estimate,
    rule: ReleasedAdvantage | None,
) -> tuple[NDArray, NDArray]:
    """The block's sums of A Sigma^-1 (u - h) over the transitions that begin at each of the raw `states` (k, d), and
    the number of these."""
    assert block.advantage is not None, "advantages were estimated"
    target = estimate.standardised(block.advantage)
    if rule is not None:
        target = _smooth(block, weights, covariance) if rule.smooth_advantage else clipped_advantage(target, rule)
    scores = np.linalg.solve(covariance, (block.batch.latents - block.batch.means).T).T
    at = [_equal(block.batch.raw_states, state) for state in states]
    totals = [target[index] @ scores[index] for index in at]
    return np.reshape(totals, (len(states), scores.shape[1])), np.array([len(index) for index in at])


def _equal(states: NDArray, state: NDArray) -> NDArray[np.intp]:
    """Positions of the rows of `states` (N, d) that are `state` (d,)."""
    return np.flatnonzero((states == state).all(axis=1))


def step_of(direction: NDArray, rule: ConstantStep, epoch: int) -> tuple[NDArray, float]:
    """The direction, no longer than `gradient_clip`, and the step size: constant, or a0 (t+1)^-3/4."""
    length = float(np.linalg.norm(direction))
    if rule.gradient_clip is not None and length > rule.gradient_clip:
        direction = direction * (rule.gradient_clip / length)
    size = rule.step_size
    return direction, schedules.polynomial(size, 0.75, epoch) if isinstance(rule, PolynomialStep) else size


def printed_weights(phi: NDArray, rule: PrintedGuidance, length_scale: float) -> NDArray[np.float64]:
    """(d,): w_i = l^2 max(phi_i, eps0), so that k(x, y) = exp(-(x - y)^T W (x - y) / 2) with W = diag(max(phi, eps0)).

    The printed kernel has no length scale beside W; phi is in units of the return.
    """
    return length_scale**2 * np.maximum(phi, rule.weight_floor)


def ratio_weights(phi: NDArray, rule: ReleasedGuidance) -> NDArray[np.float64]:
    """(d,): phi floored, divided by its mean and floored again, rho = 1/sqrt(phi) clipped, length scales multiplied by
    (1 - kappa) + kappa rho. On request only the k phi that are furthest from 1 count, and all others as 1."""
    if rule.ratio_features is not None:
        nearest = np.argsort(np.abs(phi - 1.0), kind="stable")[: max(len(phi) - rule.ratio_features, 0)]
        phi = phi.copy()
        phi[nearest] = 1.0
    relative = np.maximum(phi, rule.weight_floor)
    relative = np.maximum(relative / relative.mean(), rule.weight_floor)
    rho = np.clip(1.0 / np.sqrt(relative), 1.0 / rule.ratio_range, rule.ratio_range)
    return 1.0 / ((1 - rule.ratio_mix) + rule.ratio_mix * rho) ** 2

"""Importances other than Shapley values, as controls: with the same halves and the same rule, is it SHAP?

Each is a pair of numbers per source and feature, (sources, d) both: what the critics of the two halves of an epoch's
episodes agree on, which is zero on average for what is useless (but for `ard`, which has no signs), and what each says
alone. What actions move counts beside every one of them, as it does beside Shapley values; `none` leaves that alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from rsa2c.algorithm.guidance import Critic, Halves, agreement, by_source, explained
from rsa2c.algorithm.weights import Measured

Array = NDArray[np.float64]
Pair = tuple[Array, Array]
STATES = 1_000
"""States at which a critic is looked at: as exact as 64 Shapley values, whose every value is a mean over others."""
BINS = 8
"""Bins of equal counts for each variable: fitted to 2,000 samples, 64 cells lose 0.012 nats on the other half."""
ARD_SAMPLES = 300
"""Samples of a Gaussian process: a step then costs about as much as fitting a critic."""
ARD_STEPS = 30
"""Steps of L-BFGS on the marginal likelihood; relevances change by a few per cent after that."""
LOG_RELEVANCE, LOG_SIGNAL, LOG_NOISE = (-14.0, 3.0), (-6.0, 3.0), (-8.0, 1.0)
"""Bounds of the logarithms of 1 / length scale^2, signal and noise variance; inputs and targets have unit variance."""


def permutation(critics: Halves, rng: np.random.Generator) -> Pair:
    """E (y - f(x'))^2 - E (y - f(x))^2, where x' has feature i permuted over states: on the half that f was not fitted
    to, and on its own; 2 Var g_i if y = f = sum_i g_i."""
    one, other = critics
    held_out = (_rises(one, other, rng) + _rises(other, one, rng)) / 2
    alone = (_rises(one, one, rng) + _rises(other, other, rng)) / 2
    return by_source(held_out, one), by_source(alone, one)


def _rises(critic: Critic, half: Critic, rng: np.random.Generator) -> Array:
    """(d, outputs): how much the critic's squared error on the states of a half rises."""
    rows = _rows(half, rng)
    x, y, c = half.x[rows].astype(np.float64), half.targets[rows], critic.coefficients
    kernel, centres = critic.dictionary.kernel, critic.dictionary.centres
    gram = kernel(x, centres)
    error = np.square(y - gram @ c)
    rises = np.empty((x.shape[1], y.shape[1]))
    for i, scale in enumerate(kernel.scales):
        exponent = kernel.log_factor((x[:, i, None] - centres[:, i]) * scale)
        permuted = gram * np.exp(exponent[rng.permutation(len(x))] - exponent)
        rises[i] = (np.square(y - permuted @ c) - error).mean(axis=0)
    return rises


def gradient(critics: Halves, rng: np.random.Generator) -> Pair:
    """E (df/dx_i) (dg/dx_i) of the two critics f and g, and their squares, in standard deviations of the features."""
    x = np.concatenate([critic.x[_rows(critic, rng)] for critic in critics]).astype(np.float64)
    one, other = (each.dictionary.kernel.gradient(x, each.dictionary.centres, each.coefficients) for each in critics)
    return agreement(one.transpose(0, 2, 1), other.transpose(0, 2, 1), critics[0])


def correlation(critics: Halves, rng: np.random.Generator) -> Pair:
    """The product of both halves' correlations of feature and target, and their squares. Targets have unit variance as
    a source in both halves together, so those of several targets are summed by their shares of the variance."""
    one, other = (_correlations(critic)[None] for critic in critics)
    return agreement(one, other, critics[0])


def _correlations(critic: Critic) -> Array:
    """(d, outputs): covariances of features and targets, in standard deviations of the features."""
    x = critic.x.astype(np.float64) - critic.x.mean(axis=0, dtype=np.float64)
    std = x.std(axis=0)[:, None]
    covariance = x.T @ critic.targets / len(x)
    return np.divide(covariance, std, out=np.zeros_like(covariance), where=std > 0)


def mutual_information(critics: Halves, rng: np.random.Generator) -> Pair:
    """What one half's estimate of I(x_i; y) is worth on the other half, and on itself: E log(p_ab / (p_a p_b)) in nats
    over bins of equal counts, mean of both halves, summed over targets."""
    x, y = (np.concatenate([getattr(critic, name) for critic in critics]) for name in ("x", "targets"))
    features, targets, split = _binned(x), _binned(y), len(critics[0].x)
    found = np.empty((2, features.shape[1], targets.shape[1]))
    for i, a in enumerate(features.T):
        for j, b in enumerate(targets.T):
            cells = a * BINS + b
            one, other = np.bincount(cells[:split], minlength=BINS**2), np.bincount(cells[split:], minlength=BINS**2)
            found[0, i, j] = (_information(one, other) + _information(other, one)) / 2
            found[1, i, j] = (_information(one, one) + _information(other, other)) / 2
    return by_source(found[0], critics[0]), by_source(found[1], critics[0])


def _information(counts: NDArray[np.intp], at: NDArray[np.intp]) -> float:
    """Mean of log(p_ab / (p_a p_b)) over the samples `at` counts, p from counts with one more spread over all cells."""
    joint = (counts + 1.0 / BINS**2).reshape(BINS, BINS) / (counts.sum() + 1.0)
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    return float(np.sum(at.reshape(BINS, BINS) * np.log(joint / apart)) / at.sum())


def ard(critics: Halves, rng: np.random.Generator) -> Pair:
    """Relevances w_i = 1 / l_i^2 of a Gaussian process with the kernel s^2 exp(-sum_i w_i (x_i - x_i')^2 / 2) and
    noise, by ascent of the marginal likelihood from equal length scales (automatic relevance determination); the
    geometric and the arithmetic mean of both halves' relevances."""
    one, other = (_relevances(critic, rng) for critic in critics)
    return np.sqrt(one * other), (one + other) / 2


def _relevances(critic: Critic, rng: np.random.Generator) -> Array:
    """(sources, d)"""
    rows = rng.choice(len(critic.x), min(ARD_SAMPLES, len(critic.x)), replace=False)
    x = critic.x[rows].astype(np.float64)
    width = x.shape[1]
    start = np.concatenate([np.full(width, -np.log(width)), np.log([0.5, 0.5])])
    bounds = [LOG_RELEVANCE] * width + [LOG_SIGNAL, LOG_NOISE]
    found = []
    for source in critic.sources:
        args, options = (x, critic.targets[rows, source]), {"maxiter": ARD_STEPS}
        best = minimize(negative_evidence, start, args, "L-BFGS-B", jac=True, bounds=bounds, options=options)
        found.append(np.exp(best.x[:width]))
    return np.stack(found)


def negative_evidence(theta: Array, x: Array, y: Array) -> tuple[float, Array]:
    """-log p(y | x) up to a constant, for targets y (n, outputs) of one process, and its gradient.

    theta has the logarithms of w (d,), s^2 and the noise variance. With A = sum_o a_o a_o^T - outputs C^-1, a = C^-1 y:
    d log p / d theta = tr(A dC / d theta) / 2, and dC / d log w_i = -w_i K_ab (x_ai - x_bi)^2 / 2.
    """
    (n, outputs), relevance = y.shape, np.exp(theta[:-2])
    signal, noise = np.exp(theta[-2:])
    z = x * np.sqrt(relevance)
    squares = np.einsum("ij,ij->i", z, z)
    gram = signal * np.exp(np.minimum(z @ z.T - (squares[:, None] + squares) / 2, 0.0))
    factor = cholesky(gram + noise * np.eye(n), lower=True)
    solved = cho_solve((factor, True), y)
    value = float(np.sum(y * solved)) / 2 + outputs * float(np.log(np.diag(factor)).sum())
    outer = solved @ solved.T - outputs * cho_solve((factor, True), np.eye(n))
    weighted = outer * gram
    differences = z**2 * weighted.sum(axis=1)[:, None] - z * (weighted @ z)  # halves of sum_b K_ab (z_a - z_b)^2
    slopes = np.concatenate([-differences.sum(axis=0) / 2, [weighted.sum() / 2, noise * np.trace(outer) / 2]])
    return value, -slopes


def random(critics: Halves, rng: np.random.Generator) -> Pair:
    """Shares on which the halves agree that are drawn evenly from 0 to 1, and measure nothing."""
    drawn = rng.uniform(size=(len(critics[0].sources), critics[0].x.shape[1]))
    return drawn, np.ones_like(drawn)


def oracle(critics: Halves, true: int) -> Pair:
    """Agreement on the first `true` features, which are not distractors, and on no other."""
    known = (np.arange(critics[0].x.shape[1]) < true).astype(np.float64)
    agreed = np.tile(known, (len(critics[0].sources), 1))
    return agreed, np.ones_like(agreed)


def none(critics: Halves) -> Pair:
    """Nothing that the halves agree on."""
    everything = np.ones((len(critics[0].sources), critics[0].x.shape[1]))
    return np.zeros_like(everything), everything


MEASURED = {
    "permutation": permutation,
    "gradient": gradient,
    "correlation": correlation,
    "mutual-information": mutual_information,
    "ard": ard,
}
"""Importances that are measured, by the name that users give them."""


def other_importance(
    name: str, critics: Halves, distractors: int, rngs: tuple[np.random.Generator, np.random.Generator]
) -> Measured:
    """As `guidance.measure`, with the root of the first source's importances logged; an oracle explains everything.

    `rngs` are the generator of this attribution and one that is the same at each: random numbers that changed would
    average out.
    """
    share = explained(critics)
    if name == "oracle":
        agreed, alone = oracle(critics, critics[0].x.shape[1] - distractors)
        share = np.ones_like(share)
    elif name == "none":
        agreed, alone = none(critics)
    elif name == "random":
        agreed, alone = random(critics, rngs[1])
    else:
        agreed, alone = MEASURED[name](critics, rngs[0])
    return Measured(agreed, alone, share, np.sqrt(np.maximum(agreed[0], 0.0)))


def _rows(critic: Critic, rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.choice(len(critic.x), min(STATES, len(critic.x)), replace=False)


def _binned(columns: NDArray) -> NDArray[np.intp]:
    """(N, d): the bin of each number among those of its column, with equal counts where numbers differ."""
    edges = np.quantile(columns, np.arange(1, BINS) / BINS, axis=0)
    pairs = zip(edges.T, columns.T, strict=True)
    return np.column_stack([np.searchsorted(edge, column, "right") for edge, column in pairs])

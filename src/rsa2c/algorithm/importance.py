"""Importances other than Shapley values, as controls: with the same shadows, null and weight rule, is it SHAP?

Each is a number per feature and source, shadow features included, (sources, d + shadows). All are on the scale of a
variance, as the mean squared Shapley value is, because the weights follow the root of what exceeds the null.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from rsa2c.algorithm.guidance import Explained

Array = NDArray[np.float64]
STATES = 1_000
"""States at which the critic is looked at: as exact as 64 Shapley values, whose every value is a mean over others."""
BINS = 16
"""Bins of equal counts for each variable: 256 cells, so that 20,000 samples are biased by 0.006 nats, shadows alike."""
ARD_SAMPLES = 300
"""Samples of the Gaussian process: a step then costs about as much as fitting the critic."""
ARD_STEPS = 30
"""Steps of L-BFGS on the marginal likelihood; relevances change by a few per cent after that."""
LOG_RELEVANCE, LOG_SIGNAL, LOG_NOISE = (-14.0, 3.0), (-6.0, 3.0), (-8.0, 1.0)
"""Bounds of the logarithms of 1 / length scale^2, signal and noise variance; inputs and targets have unit variance."""


def permutation(explained: Explained, rng: np.random.Generator) -> Array:
    """E (y - f(x'))^2 - E (y - f(x))^2, where x' has feature i permuted over states; 2 Var g_i if y = f = sum_i g_i."""
    rows = _rows(explained, rng)
    x, y, c = explained.x[rows].astype(np.float64), explained.targets[rows], explained.coefficients
    kernel, centres = explained.dictionary.kernel, explained.dictionary.centres
    gram = kernel(x, centres)
    error = np.square(y - gram @ c)
    rises = np.empty((x.shape[1], y.shape[1]))
    for i, scale in enumerate(kernel.scales):
        exponent = kernel.log_factor((x[:, i, None] - centres[:, i]) * scale)
        permuted = gram * np.exp(exponent[rng.permutation(len(x))] - exponent)
        rises[i] = (np.square(y - permuted @ c) - error).mean(axis=0)
    return _by_source(rises, explained)


def gradient(explained: Explained, rng: np.random.Generator) -> Array:
    """E (df/dx_i)^2 of the critic f, in standard deviations of the features."""
    x = explained.x[_rows(explained, rng)].astype(np.float64)
    slopes = explained.dictionary.kernel.gradient(x, explained.dictionary.centres, explained.coefficients)
    return _by_source(np.square(slopes).mean(axis=0).T, explained)


def correlation(explained: Explained, rng: np.random.Generator) -> Array:
    """Squared correlation of feature and target; that of several targets is summed, by their shares of the variance."""
    x = explained.x.astype(np.float64) - explained.x.mean(axis=0, dtype=np.float64)
    std = x.std(axis=0)
    covariance = x.T @ explained.targets / len(x)
    scaled = np.divide(covariance, std[:, None], out=np.zeros_like(covariance), where=std[:, None] > 0)
    return _by_source(np.square(scaled), explained)


def mutual_information(explained: Explained, rng: np.random.Generator) -> Array:
    """I(x_i; y) = sum_ab p_ab log(p_ab / (p_a p_b)) in nats over bins of equal counts, summed over targets."""
    features, targets = (_binned(each) for each in (explained.x, explained.targets))
    found = np.empty((features.shape[1], targets.shape[1]))
    for i, a in enumerate(features.T):
        for j, b in enumerate(targets.T):
            joint = np.bincount(a * BINS + b, minlength=BINS**2).reshape(BINS, BINS) / len(a)
            apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            seen = joint > 0
            found[i, j] = np.sum(joint[seen] * np.log(joint[seen] / apart[seen]))
    return _by_source(found, explained)


def ard(explained: Explained, rng: np.random.Generator) -> Array:
    """Relevances w_i = 1 / l_i^2 of a Gaussian process with the kernel s^2 exp(-sum_i w_i (x_i - x_i')^2 / 2) and
    noise, by ascent of the marginal likelihood from equal length scales (automatic relevance determination)."""
    rows = rng.choice(len(explained.x), min(ARD_SAMPLES, len(explained.x)), replace=False)
    x = explained.x[rows].astype(np.float64)
    width = x.shape[1]
    start = np.concatenate([np.full(width, -np.log(width)), np.log([0.5, 0.5])])
    bounds = [LOG_RELEVANCE] * width + [LOG_SIGNAL, LOG_NOISE]
    found = []
    for source in explained.sources:
        args, options = (x, explained.targets[rows, source]), {"maxiter": ARD_STEPS}
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


def random(explained: Explained, rng: np.random.Generator) -> Array:
    """Squares of standard normal numbers, which measure nothing."""
    return np.square(rng.standard_normal((len(explained.sources), explained.x.shape[1])))


def oracle(explained: Explained, true: int) -> Array:
    """One for the first `true` features, which are not distractors, and zero for all others."""
    known = (np.arange(explained.x.shape[1]) < true).astype(np.float64)
    return np.tile(known, (len(explained.sources), 1))


MEASURED = {
    "permutation": permutation,
    "gradient": gradient,
    "correlation": correlation,
    "mutual-information": mutual_information,
    "ard": ard,
}
"""Importances that are measured, by the name that users give them."""


def other_importance(
    name: str, explained: Explained, d: int, distractors: int, rngs: tuple[np.random.Generator, np.random.Generator]
) -> tuple[Array, Array, Array]:
    """As `guidance.measure`: importances (sources, d), each source's null (sources,), and the root of the first
    source's importances (d,).

    `rngs` are the generator of this attribution and one that is the same at each: random numbers that changed would
    average out.
    """
    if name == "oracle":
        moments = oracle(explained, d - distractors)
    elif name == "random":
        moments = random(explained, rngs[1])
    else:
        moments = MEASURED[name](explained, rngs[0])
    return moments[:, :d], moments[:, d:].mean(axis=1), np.sqrt(np.maximum(moments[0, :d], 0.0))


def _rows(explained: Explained, rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.choice(len(explained.x), min(STATES, len(explained.x)), replace=False)


def _by_source(each: Array, explained: Explained) -> Array:
    """(sources, d) from numbers for each feature and output (d, outputs)."""
    return np.stack([each[:, source].sum(axis=1) for source in explained.sources])


def _binned(columns: NDArray) -> NDArray[np.intp]:
    """(N, d): the bin of each number among those of its column, with equal counts where numbers differ."""
    edges = np.quantile(columns, np.arange(1, BINS) / BINS, axis=0)
    pairs = zip(edges.T, columns.T, strict=True)
    return np.column_stack([np.searchsorted(edge, column, "right") for edge, column in pairs])

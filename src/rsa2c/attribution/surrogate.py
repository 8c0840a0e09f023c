"""Kernel surrogates: any function of states, regressed on samples of it, with its fidelity on held-out samples.

    h(s) = offset + sum_j k(s, s_j) c_j,    c = (Phi^T Phi / N + ridge K_DD)^-1 Phi^T U / N

for N states with features Phi (N, q) and targets U (N, m). The length scale and the ridge are those that predict a
validation part best, and what is reported is R^2 on a third part that was used for neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.explanation import Explanation
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.linalg import ridge_regression
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction

Array = NDArray[np.float64]
WIDTHS = (0.25, 0.5, 1.0, 2.0)
"""Length scales tried, in units of the states' total standard deviation."""
RIDGES = (1e-8, 1e-6, 1e-4, 1e-2)
ADMISSION = 1e-5
JITTER = 1e-6
"""Added to K_DD's diagonal inside the ridge: states are admitted down to residuals near its rounding."""
SEGMENTS = 50
"""Pieces of time, each kept whole in one part, so that neighbours in time are not split between fit and check."""


@dataclass(frozen=True)
class PolicyExplanation:
    """The explanation, the surrogate it explains, its held-out R^2 for each action, and the visited states."""

    explanation: Explanation
    surrogate: RKHSFunction
    r2: Array
    visited: Array

    def __str__(self) -> str:
        fidelity = ", ".join(f"{n} {r:.3f}" for n, r in zip(self.surrogate.output_names, self.r2, strict=True))
        return f"surrogate of {self.surrogate.dictionary.size} states, held-out R^2: {fidelity}"


def fit_surrogate(
    states: Array, targets: Array, output_names: tuple[str, ...], centres: int, rng: np.random.Generator
) -> tuple[RKHSFunction, Array]:
    """The surrogate of targets (N, m) at states (N, d), which are in order of time, and its held-out R^2, (m,)."""
    part = rng.permutation(np.arange(SEGMENTS) % 5)[np.arange(len(states)) * SEGMENTS // len(states)]
    train, choose, held = part < 3, part == 3, part == 4
    offset, spread = targets[train].mean(axis=0), targets[train].std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    y = (targets - offset) / spread
    dictionary, coefficients = _regressed(states[train], y[train], states[choose], y[choose], centres)
    surrogate = RKHSFunction(dictionary, coefficients * spread, output_names, offset)
    return surrogate, r_squared(surrogate(states[held]), targets[held])


def _regressed(
    states: Array, y: Array, chosen_states: Array, chosen_y: Array, centres: int
) -> tuple[Dictionary, Array]:
    """Dictionary and coefficients fitted to y at states, of the length scale and ridge that predict the chosen ones."""
    metric = Metric.fitted(states)
    x, chosen_x = metric(states), metric(chosen_states)
    width = np.sqrt(np.maximum(x.var(axis=0).sum(), 1e-12))
    fits = []
    for factor in WIDTHS:
        kernel = RBF(factor * width, metric)
        dictionary = Dictionary.empty(kernel).grown(states, ADMISSION, centres)
        features, unseen = kernel(x, dictionary.centres), kernel(chosen_x, dictionary.centres)
        gram = dictionary.gram + JITTER * np.eye(dictionary.size)
        for ridge in RIDGES:
            remedy = "Visit more states, or use fewer centres"
            coefficients = ridge_regression(features, y, gram, ridge, "the surrogate", remedy)
            error = float(np.square(unseen @ coefficients - chosen_y).mean())
            fits.append((error, dictionary, coefficients))
    _, dictionary, coefficients = min(fits, key=lambda fit: fit[0])
    return dictionary, coefficients


def r_squared(predicted: Array, actual: Array) -> Array:
    """(m,): 1 - sum (u - h)^2 / sum (u - mean u)^2; for a constant u, 1 if h equals it and 0 if not."""
    missed = np.square(predicted - actual).sum(axis=0)
    varied = np.square(actual - actual.mean(axis=0)).sum(axis=0)
    constant = varied <= 1e-20 * len(actual)
    met = np.where(missed <= 1e-12 * len(actual), 1.0, 0.0)
    return np.where(constant, met, 1 - missed / np.where(constant, 1, varied))

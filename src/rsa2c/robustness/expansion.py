"""What the bounds of `deviations.py` need: a function around states, and where perturbations can take it.

D is the change of the kernel's input in units of its length scales, after normalising and clipping. Clipping only
shortens D.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rsa2c.attribution.inputs import checked
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.regions import Array, Norm

ROUNDING = 4.0 * np.finfo(np.float64).eps
"""Rounding of a sum of products, per term and relative to its size."""


class Local:
    """An RKHS function at N states: f, its derivatives g and M in kernel units, and the rest of its norm.

    g (N, m, d) and M (N, m, d, d), of which norms and extremes are kept, are there for kernels with `expansion_orders`.
    """

    def __init__(self, function: RKHSFunction, states: ArrayLike, scale: float | Array = 1.0) -> None:
        self.function, self.kernel, self.metric = function, function.kernel, function.kernel.metric
        self.states = checked("states", states, function.kernel.dimension)
        self.scales = function.kernel.scales
        self.unit = np.broadcast_to(scale, self.scales.shape)
        """Raw size of one unit of each feature."""
        self.axes = self.scales * self.unit / self.metric.std
        """Size in kernel units of a perturbation of one unit of each feature."""
        self.x = self.metric(self.states)
        coefficients = function.coefficients
        features = function.kernel(self.x, function.centres)
        self.value = features @ coefficients
        self._bound_rounding(features)
        self.inner = coefficients.T @ function.dictionary.gram @ coefficients
        """(m, m): inner products of the outputs."""
        self.norm = np.sqrt(np.maximum(np.diag(self.inner), 0.0) + self.slack)
        self.left = [self.inner - self.value[:, :, None] * self.value[:, None, :]]
        """(N, m, m) for each order: inner products of what the terms up to it leave over."""
        if self.kernel.expansion_orders:
            self.gradient = function.kernel.gradient(self.x, function.centres, coefficients) / self.scales
            self.left.append(self.left[0] - self.gradient @ self.gradient.transpose(0, 2, 1))
            self._expand_curvature()

    def _bound_rounding(self, features: Array) -> None:
        magnitude, gram = np.abs(self.function.coefficients), self.function.dictionary.gram
        centres = self.function.centres * self.scales
        q, d = centres.shape
        size = np.square(self.x * self.scales).sum(axis=1) + np.square(centres).sum(axis=1).max()
        self.rounding = ROUNDING * (q + d * (1.0 + size))[:, None] * (features @ magnitude)
        """(N, m): what rounding may have added to a value of the function here."""
        self.slack = 4 * ROUNDING * q * np.einsum("jm,jk,km->m", magnitude, gram, magnitude, optimize=True)
        """(m,): what rounding may have added to a squared norm."""

    def _expand_curvature(self) -> None:
        """M's norm, its products, and the most and the least that D^T M D / 2 can be for D = axes e, |e| <= 1."""
        n, m = self.value.shape
        self.curvature_norm = np.empty((n, m))
        products = np.empty((n, m, m))
        self.ball, self.box = np.empty((2, n, m)), np.empty((2, n, m))
        off = ~np.eye(len(self.axes), dtype=bool)
        for i in range(n):
            curvature = self.kernel.curvature(self.x[i], self.function.centres, self.function.coefficients)
            flat = curvature.reshape(m, -1)
            products[i] = flat @ flat.T / 2
            self.curvature_norm[i] = np.sqrt(np.diag(2 * products[i]))
            scaled = curvature * np.outer(self.axes, self.axes)
            eigenvalues = np.linalg.eigvalsh(scaled)
            rounding = 1e-12 * np.abs(scaled).sum(axis=(1, 2))
            self.ball[:, i] = np.maximum([-eigenvalues[:, 0], eigenvalues[:, -1]], 0.0) / 2 + rounding
            pairs = np.abs(scaled * off).sum(axis=(1, 2))
            diagonal = np.diagonal(scaled, axis1=1, axis2=2)
            self.box[:, i] = [(np.maximum(s * diagonal, 0.0).sum(axis=1) + pairs) / 2 for s in (-1.0, 1.0)]
        self.left.append(self.left[1] - products)

    def remainder(self, order: int) -> Array:
        """(N, m): norm R of what the terms up to `order` leave over, R^2 = |f|_H^2 - f^2 - |g|^2 - |M|^2 / 2."""
        return np.sqrt(np.maximum(np.diagonal(self.left[order], axis1=1, axis2=2), 0.0) + self.slack)


class Reach:
    """Where the kernel's input can go from each state of a `Local`."""

    def __init__(self, local: Local, epsilon: Array, norm: Norm) -> None:
        self.local, self.norm, self.epsilon = local, norm, epsilon[:, None]
        raw = self.epsilon * local.unit
        self.low = (local.metric(local.states - raw) - local.x) * local.scales
        self.high = (local.metric(local.states + raw) - local.x) * local.scales
        widest = np.maximum(-self.low, self.high)
        self.distance = np.linalg.norm(widest, axis=1)[:, None]
        """(N, 1): largest |D|_2."""
        self.total = widest.sum(axis=1)[:, None]
        """(N, 1): largest |D|_1."""
        if self.norm == "l2":
            self.distance = np.minimum(self.distance, self.epsilon * local.axes.max())
            self.total = np.minimum(self.total, self.epsilon * np.linalg.norm(local.axes))
        _, largest = local.kernel.exponents_near(np.zeros(1), self.distance, self.total)
        self.defect = -np.expm1(-largest)
        """(N, 1): 1 - k(s, s + D) at its largest; delta_psi is twice this."""

    def linear(self, sign: float) -> Array:
        """(N, m): the most that sign * g.D can be."""
        gradient = sign * self.local.gradient
        in_box = np.maximum(gradient * self.low[:, None], gradient * self.high[:, None]).sum(axis=2)
        if self.norm == "linf":
            return in_box
        return np.minimum(in_box, self.epsilon * np.linalg.norm(gradient * self.local.axes, axis=2))

    def quadratic(self, sign: float) -> Array:
        """(N, m): an upper bound of sign * D^T M D / 2."""
        side = int(sign > 0)
        stretch = 1.0 if self.norm == "l2" else self.local.gradient.shape[2]
        return self.epsilon**2 * np.minimum(self.local.ball[side] * stretch, self.local.box[side])

"""Values of an expansion row by row: what a state gets does not depend on the states beside it.

A matrix product rounds a row differently according to the number of rows. Where a policy acts in several environments
at once, their trajectories would then depend on how many stand side by side, and a training on how its environments are
spread over workers. Here every sum has one order, whatever the number of rows.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from rsa2c.kernel.kernels import RBF, Features
from rsa2c.kernel.rkhs import RKHSFunction

LANES = 16
"""Partial sums of a product with coefficients: as many as the widest registers hold in single precision."""


def rowwise(function: RKHSFunction, dtype: np.dtype | type = np.float64) -> Features:
    """The map from coordinates x (n, d) to sum_j k(x, x_j) c_j, (n, m)."""
    kernel = function.kernel
    coefficients = np.ascontiguousarray(function.coefficients.T.astype(dtype))
    if not isinstance(kernel, RBF):
        features = kernel.bind(function.centres, dtype)  # feature by feature, which has an order of its own
        return lambda x: _weighted(features(x.astype(dtype, copy=False)), coefficients)
    scales = kernel.scales.astype(dtype)
    scaled = function.centres.astype(dtype) * scales
    centres, offsets = np.ascontiguousarray(scaled.T), -0.5 * np.einsum("ij,ij->i", scaled, scaled)

    def values(x: NDArray) -> NDArray:
        exponents = _exponents(x.astype(dtype, copy=False) * scales, centres, offsets)
        return _weighted(np.exp(exponents, out=exponents), coefficients)

    return values


@nb.njit(cache=True)
def _exponents(z: NDArray, centres: NDArray, offsets: NDArray) -> NDArray:
    """(n, q): z.y - |y|^2 / 2 - |z|^2 / 2, at most 0, for scaled z (n, d), centres y (d, q) and offsets -|y|^2 / 2."""
    (n, d), q, zero = z.shape, len(offsets), z.dtype.type(0.0)
    exponents = np.empty((n, q), z.dtype)
    for r in range(n):
        row, squared = exponents[r], zero
        for i in range(d):
            squared += z[r, i] * z[r, i]
        squared *= z.dtype.type(0.5)
        for j in range(q):
            row[j] = offsets[j] - squared
        for i in range(d // 4):
            a, b, c, e = z[r, 4 * i], z[r, 4 * i + 1], z[r, 4 * i + 2], z[r, 4 * i + 3]
            first, second, third, fourth = centres[4 * i], centres[4 * i + 1], centres[4 * i + 2], centres[4 * i + 3]
            for j in range(q):
                row[j] += (a * first[j] + b * second[j]) + (c * third[j] + e * fourth[j])
        for i in range(d // 4 * 4, d):
            a, first = z[r, i], centres[i]
            for j in range(q):
                row[j] += a * first[j]
        for j in range(q):
            row[j] = min(row[j], zero)  # rounding may leave a distance just under zero
    return exponents


@nb.njit(cache=True)
def _weighted(features: NDArray, coefficients: NDArray) -> NDArray:
    """(n, m): the product of features (n, q) with coefficients (m, q)."""
    (n, q), m = features.shape, len(coefficients)
    out, sums, whole = np.empty((n, m), features.dtype), np.empty(LANES, features.dtype), q // LANES * LANES
    for r in range(n):
        for k in range(m):
            row, column = features[r], coefficients[k]
            sums[:] = 0.0
            for j in range(0, whole, LANES):
                for lane in range(LANES):
                    sums[lane] += row[j + lane] * column[j + lane]
            total = features.dtype.type(0.0)
            for j in range(whole, q):
                total += row[j] * column[j]
            for lane in range(LANES):
                total += sums[lane]
            out[r, k] = total
    return out

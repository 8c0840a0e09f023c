"""Sampled Shapley values of the KME game: what the paper's released code computes, kept for comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rsa2c.kernel.kernels import ProductKernel


def permutation_values(
    x: NDArray,
    background: NDArray,
    centres: NDArray,
    coefficients: NDArray,
    kernel: ProductKernel,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """(T, d, m): marginal contributions along one random order of the features.

    v(C) = sum_j eta_j a_C(s, j) E_b[b_rest(b, j)], with a_C the product of the state's kernel factors over C and
    b_rest that of the background's over the rest.
    """
    d = x.shape[1]
    order = rng.permutation(d)
    near = kernel.factors(x, centres)
    rest = kernel.factors(background, centres)
    suffix = np.ones((d + 1, len(centres)))
    product = np.ones(rest.shape[:2])
    for position in range(d - 1, -1, -1):
        product = product * rest[:, :, order[position]]
        suffix[position] = product.mean(axis=0)
    values = np.empty((len(x), d, coefficients.shape[1]))
    prefix = np.ones(near.shape[:2])
    before = (prefix * suffix[0]) @ coefficients
    for position, feature in enumerate(order):
        prefix = prefix * near[:, :, feature]
        after = (prefix * suffix[position + 1]) @ coefficients
        values[:, feature] = after - before
        before = after
    return values

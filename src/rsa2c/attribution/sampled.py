"""Sampled Shapley values of the KME game: what the paper's released code computes, kept for comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.game import Game


def permutation_values(game: Game, rng: np.random.Generator) -> NDArray[np.float64]:
    """(T, d, m): marginal contributions along one random order of the features.

    v(C) = sum_j eta_j a_C(s, j) E_b[b_rest(b, j)], with a_C the product of the state's kernel factors over C and
    b_rest that of the background's over the rest.
    """
    d, coefficients = game.states.shape[1], game.coefficients
    order = rng.permutation(d)
    near = game.kernel.factors(game.states, game.centres)
    rest = game.kernel.factors(game.background, game.centres)
    suffix = np.ones((d + 1, len(game.centres)))
    product = np.ones(rest.shape[:2])
    for position in range(d - 1, -1, -1):
        product = product * rest[:, :, order[position]]
        suffix[position] = product.mean(axis=0)
    values = np.empty((len(game.states), d, game.outputs))
    prefix = np.ones(near.shape[:2])
    before = (prefix * suffix[0]) @ coefficients
    for position, feature in enumerate(order):
        prefix = prefix * near[:, :, feature]
        after = (prefix * suffix[position + 1]) @ coefficients
        values[:, feature] = after - before
        before = after
    return values

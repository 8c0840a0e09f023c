"""Slow oracles: definitions written out, for tests to compare every value of the fast path with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import factorial

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Game = Callable[[tuple[int, ...]], Array]


def all_coalitions(players: int) -> list[tuple[int, ...]]:
    """Every subset of the players, each in rising order."""
    return [c for size in range(players + 1) for c in itertools.combinations(range(players), size)]


def shapley_by_enumeration(game: Game, players: int) -> Array:
    """phi_i = sum over C without i of |C|! (d-|C|-1)! / d! (v(C + i) - v(C)), players in the first axis."""
    v = {c: game(c) for c in all_coalitions(players)}
    values = []
    for i in range(players):
        phi = np.zeros_like(v[()])
        for c in v:
            if i not in c:
                weight = factorial(len(c)) * factorial(players - len(c) - 1) / factorial(players)
                phi = phi + weight * (v[tuple(sorted((*c, i)))] - v[c])
        values.append(phi)
    return np.stack(values)


def interactions_by_enumeration(game: Game, players: int) -> Array:
    """I_ij = sum over C without i, j of |C|! (d-|C|-2)! / (d-1)! times the second difference of v, (d, d, ...)."""
    v = {c: game(c) for c in all_coalitions(players)}
    indices = np.zeros((players, players, *v[()].shape))
    for i, j in itertools.combinations(range(players), 2):
        for c in v:
            if i not in c and j not in c:
                weight = factorial(len(c)) * factorial(players - len(c) - 2) / factorial(players - 1)
                both, one, other = (tuple(sorted((*c, *extra))) for extra in ((i, j), (i,), (j,)))
                indices[i, j] += weight * (v[both] - v[one] - v[other] + v[c])
        indices[j, i] = indices[i, j]
    return indices


def interventional_game(
    function: Callable[[Array], Array], state: Array, background: Array, players: Sequence[Sequence[int]] | None = None
) -> Game:
    """v(C) = E_b f(s_C, x^b_rest) by evaluating f, for one state; a player is one feature or a list of them."""
    groups = [[i] for i in range(len(state))] if players is None else players

    def value(coalition: tuple[int, ...]) -> Array:
        mixed = background.copy()
        for player in coalition:
            for feature in groups[player]:
                mixed[:, feature] = state[feature]
        return np.asarray(function(mixed).mean(axis=0))

    return value


def product_kernel(name: str, scales: Array, x: Array, y: Array) -> Array:
    """k(x, y) from its definition, one pair at a time."""
    gram = np.empty((len(x), len(y)))
    for n, j in itertools.product(range(len(x)), range(len(y))):
        u = scales * np.abs(x[n] - y[j])
        gram[n, j] = np.prod(np.exp(-0.5 * u * u) if name == "rbf" else np.exp(-u))
    return gram


def observational_game(
    name: str,
    scales: Array,
    state: Array,
    background: Array,
    centres: Array,
    coefficients: Array,
    embedding: str,
    ridge: float,
) -> Game:
    """v(C) = sum_j eta_j a_C(s, j) sum_b omega_b B_rest(b, j) with omega from dense solves, for one state."""
    d, n = background.shape[1], len(background)

    def gram(features: list[int], x: Array, y: Array) -> Array:
        if not features:
            return np.ones((len(x), len(y)))
        return product_kernel(name, scales[features], x[:, features], y[:, features])

    def value(coalition: tuple[int, ...]) -> Array:
        seen, rest = list(coalition), [i for i in range(d) if i not in coalition]
        matrix = gram(seen, background, background) + n * ridge * np.eye(n)
        p = np.linalg.solve(matrix, gram(seen, background, state[None])[:, 0])
        o = np.linalg.solve(matrix, np.ones(n))
        omega = {
            "intercept": p + o * (1 - p.sum()) / o.sum(),
            "marginal": 1 / n + p - p.mean(),
            "paper": p,
        }[embedding]
        unseen = omega @ gram(rest, background, centres)
        return np.asarray((gram(seen, state[None], centres)[0] * unseen) @ coefficients)

    return value


def gaussian_conditional_game(
    mean: Array, covariance: Array, state: Array, centre: Array, scales: Array
) -> Callable[[tuple[int, ...]], float]:
    """v(C) = E[k(X, centre) | X_C = s_C] in closed form for Gaussian X and an RBF kernel with inverse length scales.

    E exp(-(z-c)^T W (z-c) / 2) for z ~ N(mu, S) is det(I + S W)^-1/2 exp(-(mu-c)^T (W^-1 + S)^-1 (mu-c) / 2).
    """

    def value(coalition: tuple[int, ...]) -> float:
        seen = list(coalition)
        rest = [i for i in range(len(state)) if i not in coalition]
        known = float(np.exp(-0.5 * np.sum((scales[seen] * (state[seen] - centre[seen])) ** 2)))
        if not rest:
            return known
        mu, spread = mean[rest], covariance[np.ix_(rest, rest)]
        if seen:
            gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, rest)]).T
            mu = mu + gain @ (state[seen] - mean[seen])
            spread = spread - gain @ covariance[np.ix_(seen, rest)]
        widths = np.diag(1.0 / scales[rest] ** 2)
        offset = mu - centre[rest]
        determinant = np.linalg.det(np.eye(len(rest)) + spread @ np.diag(scales[rest] ** 2))
        return known * float(np.exp(-0.5 * offset @ np.linalg.solve(widths + spread, offset)) / np.sqrt(determinant))

    return value

"""Observational ("on-manifold") Shapley values of kernel expansions: the CME game of `embedding.py`.

The game has no product form. Up to `ENUMERATE` players all 2^d coalitions are valued; above that, random permutations
of the players in antithetic pairs (an order and its reverse), each prefix's regression serving every explained
state, with standard errors taken over pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import comb

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.embedding import Coalition, ConditionalGame
from rsa2c.attribution.game import Game
from rsa2c.attribution.progress import Progress, silent
from rsa2c.errors import ConfigError, DataError

Array = NDArray[np.float64]
ENUMERATE = 10
DEFAULT_PERMUTATIONS = 64
LEAST_PAIRS = 16


def cme_values(
    game: Game,
    embedding: str = "intercept",
    ridge: float = 1e-3,
    permutations: int | None = None,
    rng: np.random.Generator | None = None,
    tolerance: float | None = None,
    approximation: str | None = None,
    rank: int = 64,
    progress: Progress = silent,
) -> tuple[Array, Array | None, Array, Array]:
    """Shapley values (T, players, m), their standard errors or None, v(none) and v(all), both (T, m).

    `permutations` is the number of sampled orders, rounded up to pairs; None enumerates up to `ENUMERATE` players and
    samples `DEFAULT_PERMUTATIONS` above. With a `tolerance` sampling stops, after `LEAST_PAIRS` pairs at the earliest
    and `permutations` orders at the latest, when every standard error is below tolerance times the largest absolute
    value of its output. Sampling and approximations draw from `rng`.
    """
    conditional = ConditionalGame(game, embedding, ridge, approximation, rank, rng)
    if permutations is None and game.player_count <= ENUMERATE:
        table = _table(conditional, progress)
        return shapley_from_table(table), None, table[0], table[-1]
    if rng is None:
        raise ConfigError(
            f"CME values of {game.player_count} players are sampled and need a random generator: "
            "pass rng=numpy.random.default_rng(seed)."
        )
    if permutations is None:
        permutations = DEFAULT_PERMUTATIONS if tolerance is None else 100 * DEFAULT_PERMUTATIONS
    return _sampled(conditional, (permutations + 1) // 2, rng, tolerance, progress)


def cme_interactions(
    game: Game,
    embedding: str = "intercept",
    ridge: float = 1e-3,
    rng: np.random.Generator | None = None,
    approximation: str | None = None,
    rank: int = 64,
    progress: Progress = silent,
) -> tuple[Array, None, Array, Array, Array]:
    """The result of `cme_values` by enumeration, and the Shapley interaction indices (T, players, players, m)."""
    table = _table(ConditionalGame(game, embedding, ridge, approximation, rank, rng), progress)
    return shapley_from_table(table), None, table[0], table[-1], interactions_from_table(table)


def choose_ridge(
    game: Game, embedding: str = "intercept", candidates: Sequence[float] = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
) -> float:
    """The candidate whose regressions of f on few features predict held-out background states best.

    Every fourth state is held out; the coalitions are prefixes and suffixes of the feature order, of all sizes.
    """
    held = np.arange(len(game.background)) % 4 == 3
    if not held.any():
        raise DataError(
            f"choosing the ridge needs at least 4 background states, got {len(game.background)}: pass a number."
        )
    train, test = game.background[~held], game.background[held]
    split = replace(game, states=test, background=train, players=None)
    outputs = [game.kernel(states, game.centres) @ game.coefficients for states in (train, test)]
    errors = []
    for ridge in candidates:
        conditional = ConditionalGame(split, embedding, ridge)
        error = 0.0
        for order in (range(split.player_count), range(split.player_count - 1, -1, -1)):
            coalition = conditional.empty()
            for player in order:
                coalition = conditional.join(coalition, player)
                error += float(np.square(conditional.weights(coalition).T @ outputs[0] - outputs[1]).sum())
        errors.append(error)
    return float(candidates[int(np.argmin(errors))])


def _table(game: ConditionalGame, progress: Progress) -> Array:
    """Values (2^d, T, m) of all coalitions; bit i of a coalition's number says whether player i is in it."""
    count = len(game.players)
    table = np.empty((2**count, len(game.x), game.coefficients.shape[1]))
    done = 0

    def descend(coalition: Coalition, mask: int, first: int) -> None:
        nonlocal done
        table[mask] = game.value(coalition)
        done += 1
        progress(done / len(table))
        for player in range(first, count):
            descend(game.join(coalition, player), mask | 1 << player, player + 1)

    descend(game.empty(), 0, 0)
    return table


def shapley_from_table(table: Array) -> Array:
    """Shapley values (T, d, m) from the values (2^d, T, m) of all coalitions,

    phi_i = sum over C without i of |C|! (d - |C| - 1)! / d! (v(C + i) - v(C)).
    """
    count = len(table).bit_length() - 1
    masks, sizes = _masks(count)
    values = np.empty((table.shape[1], count, table.shape[2]))
    weights = np.array([1.0 / (count * comb(count - 1, s)) for s in range(count)])
    for i in range(count):
        without = masks[masks >> i & 1 == 0]
        values[:, i] = np.einsum("c,ctm->tm", weights[sizes[without]], table[without | 1 << i] - table[without])
    return values


def interactions_from_table(table: Array) -> Array:
    """Shapley interaction indices (T, d, d, m), zero on the diagonal, from the values of all coalitions,

    I_ij = sum over C without i, j of |C|! (d - |C| - 2)! / (d - 1)! (v(C + i + j) - v(C + i) - v(C + j) + v(C)).
    """
    count = len(table).bit_length() - 1
    masks, sizes = _masks(count)
    indices = np.zeros((table.shape[1], count, count, table.shape[2]))
    weights = np.array([1.0 / ((count - 1) * comb(count - 2, s)) for s in range(count - 1)])
    for i in range(count):
        for j in range(i + 1, count):
            without = masks[(masks >> i & 1 == 0) & (masks >> j & 1 == 0)]
            one, other = 1 << i, 1 << j
            change = table[without | one | other] - table[without | one] - table[without | other] + table[without]
            indices[:, i, j] = indices[:, j, i] = np.einsum("c,ctm->tm", weights[sizes[without]], change)
    return indices


def _masks(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    masks = np.arange(2**count)
    return masks, np.bitwise_count(masks).astype(np.intp)


def _sampled(
    game: ConditionalGame,
    pairs: int,
    rng: np.random.Generator,
    tolerance: float | None,
    progress: Progress,
) -> tuple[Array, Array, Array, Array]:
    """Antithetic permutation sampling: mean over pairs, standard error of that mean."""
    empty = game.empty()
    nobody, everybody = game.value(empty), None
    mean = np.zeros((len(game.x), len(game.players), game.coefficients.shape[1]))
    squares = np.zeros_like(mean)
    error = np.full_like(mean, np.inf)
    for done in range(1, pairs + 1):
        order = rng.permutation(len(game.players))
        pair = np.zeros_like(mean)
        for path in (order, order[::-1]):
            coalition, before = empty, nobody
            for position, player in enumerate(path):
                coalition = game.join(coalition, player)
                # Every path ends in the same coalition: once valued, it makes the values add up exactly.
                last = position == len(path) - 1
                after = everybody if last and everybody is not None else game.value(coalition)
                if last:
                    everybody = after
                pair[:, player] += 0.5 * (after - before)
                before = after
        step = pair - mean
        mean += step / done
        squares += step * (pair - mean)
        if done > 1:
            error = np.sqrt(squares / (done * (done - 1)))
        progress(done / pairs)
        if tolerance is not None and done >= LEAST_PAIRS:
            scale = np.abs(mean).max(axis=(0, 1))
            if np.all(error.max(axis=(0, 1)) <= tolerance * scale):
                break
    assert everybody is not None
    return mean, error, nobody, everybody

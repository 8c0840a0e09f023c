"""Interventional ("off-manifold") Shapley values of kernel expansions: the KME game.

For f = sum_j eta_j k(., c_j) with a product kernel and B background states x^b the game is

    v(C) = (1/B) sum_b f(s_C, x^b_rest) = (1/B) sum_b sum_j eta_j prod_{i in C} a_i prod_{i not in C} b_i,
    a_i = k_i(s_i, c_ji),    b_i = k_i(x^b_i, c_ji).

Each pair of a centre and a background state is a product game, and the Shapley value is linear in the game: the values
of f are the product games' values (`quadrature.py`), averaged over the background and summed with the coefficients, all
outputs at once. A group of features that join together is one player whose factor is the product of theirs: a product
game again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.game import Game, spread
from rsa2c.attribution.interactions import add_interactions
from rsa2c.attribution.progress import Progress, silent
from rsa2c.attribution.quadrature import Packed, add_values
from rsa2c.attribution.simd import LANES

Array = NDArray[np.float64]
STATE_BLOCK, PAIR_BLOCK = 256, 16
SCREENED_STATES, CONFIRMED_STATES = 32, 3
"""States at which `choose_nodes` tries a thinned game, and those of them at which it tries the whole one."""
CHOICE_CENTRES, CHOICE_BACKGROUND = 64, 32
MARGIN = 10.0
"""Factor by which `choose_nodes` keeps differences below the tolerance, since it does not see every state."""


def shapley_product(game: Game, nodes: int, progress: Progress = silent) -> Array:
    """Shapley values (T, players, m) by quadrature with this many nodes; with `exact_nodes` they are exact.

    States go through in blocks of bounded memory and sums have a fixed order: equal inputs give equal bytes on any
    number of threads.
    """
    return _values_by_nodes(game, (nodes,), progress)[0]


def _values_by_nodes(game: Game, counts: Sequence[int], progress: Progress = silent) -> list[Array]:
    """`shapley_product` for several numbers of nodes."""
    packed, (x, centres, coefficients) = _packed(game), _scaled(game)
    values = np.zeros((len(counts), game.outputs, len(x), game.player_count))
    for t in range(0, len(x), STATE_BLOCK):
        for nodes, out in zip(counts, values, strict=True):
            block = np.ascontiguousarray(out[:, t : t + STATE_BLOCK])
            add_values(packed, x[t : t + STATE_BLOCK], centres, coefficients, nodes, block)
            out[:, t : t + STATE_BLOCK] = block
        progress(min(1.0, (t + STATE_BLOCK) / len(x)))
    return [np.ascontiguousarray(out.transpose(1, 2, 0)) for out in values]


def interaction_product(game: Game, nodes: int, progress: Progress = silent) -> Array:
    """Shapley interaction indices (T, players, players, m), symmetric with an empty diagonal.

    ceil((players - 1) / 2) nodes are exact.
    """
    packed, (x, centres, coefficients) = _packed(game), _scaled(game)
    count = game.player_count
    indices = np.zeros((len(x), game.outputs, count * (count - 1) // 2))
    for t in range(0, len(x), PAIR_BLOCK):
        block = slice(t, t + PAIR_BLOCK)
        add_interactions(packed, x[block], centres, coefficients, nodes, count, indices[block])
        progress(min(1.0, block.stop / len(x)))
    full = np.zeros((len(x), count, count, game.outputs))
    i, j = np.triu_indices(count, 1)
    full[:, i, j] = full[:, j, i] = indices.transpose(0, 2, 1)
    return full


def exact_nodes(players: int) -> int:
    """ceil(d/2): Gauss-Legendre is then exact for the polynomial of degree d - 1."""
    return -(-players // 2)


def choose_nodes(game: Game, tolerance: float) -> tuple[int, float]:
    """A number of nodes whose error is estimated to be below the tolerance, and that estimate.

    The error of n nodes is estimated by what n + 2 nodes change, relative to the largest absolute value of each output,
    and must stay `MARGIN` times below the tolerance. A thinned game (few centres and background states) proposes n; the
    whole game confirms or raises it at the few states where its error should be largest. This is an estimate from some
    of the states, not a bound: only `exact_nodes` are exact, which need no estimate and report zero.
    """
    most = exact_nodes(game.player_count)
    if most <= 2:
        return most, 0.0
    screened = game.at(game.states[_suspects(game)])
    thin = screened.thinned(CHOICE_BACKGROUND, CHOICE_CENTRES)
    nodes, error = 2, np.zeros(len(screened.states))
    for tried in (thin, screened):
        if tried is screened:
            worst = np.unique([0, 1, *np.argsort(-error)[: CONFIRMED_STATES - 2]])
            tried = screened.at(screened.states[worst[worst < len(error)]])
        while nodes < most:
            error = _change(tried, nodes)
            if error.max() <= tolerance / MARGIN:
                break
            nodes += 2
    return (nodes, float(error.max())) if nodes < most else (most, 0.0)


def _change(game: Game, nodes: int) -> Array:
    """(T,): the largest change of a state's values by two more nodes, relative to each output's largest value."""
    coarse, fine = _values_by_nodes(game, (nodes, nodes + 2))
    scale = np.abs(fine).max(axis=(0, 1))
    relative = np.abs(fine - coarse).max(axis=1) / np.where(scale > 0, scale, 1.0)
    return np.asarray(relative.max(axis=1))


def _suspects(game: Game) -> NDArray[np.intp]:
    """Positions of states where large errors are likely: first the one where f is farthest from its mean and the one
    farthest from the background, then others evenly spread."""
    x, b = game.states, game.background
    distance = np.square((x - b.mean(axis=0)) * game.kernel.scales).sum(axis=1)
    change = np.abs(game.function(x) - game.function(b).mean(axis=0))
    change = (change / np.maximum(change.max(axis=0), np.finfo(np.float64).tiny)).max(axis=1)
    first = [int(change.argmax()), int(distance.argmax())]
    order = np.concatenate([first, spread(len(x), SCREENED_STATES - 2)])
    return np.array(list(dict.fromkeys(order.tolist())), dtype=np.intp)


def _scaled(game: Game) -> tuple[Array, Array, Array]:
    """States and centres in units of the kernel's length scales, and the coefficients, contiguous in memory."""
    scales = game.kernel.scales
    return (
        np.ascontiguousarray(game.states * scales),
        np.ascontiguousarray(game.centres * scales),
        np.ascontiguousarray(game.coefficients, dtype=np.float64),
    )


def _packed(game: Game) -> Packed:
    """The background in lanes, with weights that are zero in lanes that are padding."""
    n, d = game.background.shape
    blocks = -(-n // LANES)
    padded = np.zeros((blocks * LANES, d))
    padded[:n] = game.background * game.kernel.scales
    share = np.zeros(blocks * LANES)
    share[:n] = 1.0 / n
    owner = np.arange(d)
    for number, features in enumerate(game.players or ()):
        owner[features] = number
    lanes = np.ascontiguousarray(padded.reshape(blocks, LANES, d).transpose(0, 2, 1)).ravel()
    return lanes, share, owner, game.kernel.code

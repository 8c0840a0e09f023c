"""Interventional ("off-manifold") Shapley values of kernel expansions: the KME game.

For f = sum_j eta_j k(., c_j) with a product kernel and background states x^b the game is
v(C) = E_b f(s_C, x^b_rest). Each pair of a centre and a background state is a product game with the factors
a_i = k_i(s_i, c_ji) and b_i = k_i(x^b_i, c_ji), and the Shapley value is linear in the game: the values of f are the
product games' values (`games.py`), averaged over the background and summed with the coefficients, all outputs at
once. A group of features that join together is one player whose factor is the product of theirs: a product game again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.games import Game, add_values
from rsa2c.attribution.interactions import add_interactions
from rsa2c.attribution.progress import Progress, silent
from rsa2c.attribution.simd import LANES

if TYPE_CHECKING:
    from rsa2c.kernel.kernels import ProductKernel

Array = NDArray[np.float64]
Players = Sequence[NDArray[np.intp]]
STATE_BLOCK, PAIR_BLOCK = 256, 16
CHECKED_STATES = 3
CHOICE_CENTRES, CHOICE_BACKGROUND = 64, 32


def shapley_product(
    x: Array,
    background: Array,
    centres: Array,
    coefficients: Array,
    kernel: ProductKernel,
    nodes: int,
    players: Players | None = None,
    progress: Progress = silent,
) -> Array:
    """Shapley values (T, d, m) of f = sum_j coefficients_j k(., centres_j) at the states x (T, d).

    Everything is in the kernel's own (normalised) units. With `players`, sets of features, d counts those. States
    go through in blocks of bounded memory and sums have a fixed order: equal inputs give equal bytes on any number of
    threads.
    """
    return _values_by_nodes(x, background, centres, coefficients, kernel, (nodes,), players, progress)[0]


def _values_by_nodes(
    x: Array,
    background: Array,
    centres: Array,
    coefficients: Array,
    kernel: ProductKernel,
    counts: Sequence[int],
    players: Players | None = None,
    progress: Progress = silent,
) -> list[Array]:
    """`shapley_product` for several numbers of nodes, which share the factors."""
    game, count = _game(background, kernel, players)
    xs, cs = np.ascontiguousarray(x * kernel.scales), np.ascontiguousarray(centres * kernel.scales)
    coefficients = np.ascontiguousarray(coefficients, dtype=np.float64)
    values = np.zeros((len(counts), coefficients.shape[1], len(x), count))
    for t in range(0, len(x), STATE_BLOCK):
        for nodes, out in zip(counts, values, strict=True):
            block = np.ascontiguousarray(out[:, t : t + STATE_BLOCK])
            add_values(game, xs[t : t + STATE_BLOCK], cs, coefficients, nodes, block)
            out[:, t : t + STATE_BLOCK] = block
        progress(min(1.0, (t + STATE_BLOCK) / len(x)))
    return [np.ascontiguousarray(out.transpose(1, 2, 0)) for out in values]


def interaction_product(
    x: Array,
    background: Array,
    centres: Array,
    coefficients: Array,
    kernel: ProductKernel,
    nodes: int,
    players: Players | None = None,
    progress: Progress = silent,
) -> Array:
    """Shapley interaction indices (T, d, d, m), symmetric with an empty diagonal; arguments as `shapley_product`.

    ceil((d-1)/2) nodes are exact.
    """
    game, count = _game(background, kernel, players)
    xs, cs = np.ascontiguousarray(x * kernel.scales), np.ascontiguousarray(centres * kernel.scales)
    coefficients = np.ascontiguousarray(coefficients, dtype=np.float64)
    indices = np.zeros((len(x), coefficients.shape[1], count * (count - 1) // 2))
    for t in range(0, len(x), PAIR_BLOCK):
        block = slice(t, t + PAIR_BLOCK)
        add_interactions(game, xs[block], cs, coefficients, nodes, count, indices[block])
        progress(min(1.0, block.stop / len(x)))
    full = np.zeros((len(x), count, count, coefficients.shape[1]))
    i, j = np.triu_indices(count, 1)
    full[:, i, j] = full[:, j, i] = indices.transpose(0, 2, 1)
    return full


def exact_nodes(players: int) -> int:
    """ceil(d/2): Gauss-Legendre is then exact for the polynomial of degree d - 1."""
    return -(-players // 2)


def choose_nodes(
    x: Array,
    background: Array,
    centres: Array,
    coefficients: Array,
    kernel: ProductKernel,
    tolerance: float,
    players: Players | None = None,
) -> tuple[int, float]:
    """The fewest nodes, in twos, whose values agree with those of two more nodes, and the largest difference seen.

    Differences are relative to the largest absolute value of each output. A thinned game (few centres and background
    states) proposes a number; the whole game at a few states, the one farthest from the background among them,
    confirms or raises it. ceil(d/2) nodes need no check and report zero.
    """
    most = exact_nodes(x.shape[1] if players is None else len(players))
    distance = np.square((x - background.mean(axis=0)) * kernel.scales).sum(axis=1)
    sample = x[np.unique([int(distance.argmax()), *_spread(len(x), CHECKED_STATES - 1)])]
    some, few = _spread(len(centres), CHOICE_CENTRES), _spread(len(background), CHOICE_BACKGROUND)
    nodes, error = 2, 0.0
    for b, c, w in ((background[few], centres[some], coefficients[some]), (background, centres, coefficients)):
        while nodes < most:
            coarse, fine = _values_by_nodes(sample, b, c, w, kernel, (nodes, nodes + 2), players)
            difference = np.abs(fine - coarse).max(axis=(0, 1))
            scale = np.abs(fine).max(axis=(0, 1))
            if np.all(difference <= tolerance * scale):
                error = float((difference[scale > 0] / scale[scale > 0]).max(initial=0.0))
                break
            nodes += 2
    return (nodes, error) if nodes < most else (most, 0.0)


def _spread(count: int, wanted: int) -> NDArray[np.intp]:
    """At most `wanted` of `count` positions, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, wanted)).round().astype(np.intp))


def _game(background: Array, kernel: ProductKernel, players: Players | None) -> tuple[Game, int]:
    """The background in lanes, with weights that are zero in lanes that only fill up, and the number of players."""
    n, d = background.shape
    blocks = -(-n // LANES)
    padded = np.zeros((blocks * LANES, d))
    padded[:n] = background * kernel.scales
    share = np.zeros(blocks * LANES)
    share[:n] = 1.0 / n
    owner = np.arange(d)
    for number, features in enumerate(players or ()):
        owner[features] = number
    lanes = np.ascontiguousarray(padded.reshape(blocks, LANES, d).transpose(0, 2, 1)).ravel()
    return (lanes, share, owner, kernel.name == "rbf"), d if players is None else len(players)

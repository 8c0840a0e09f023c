"""Interventional ("off-manifold") Shapley values of kernel expansions: the KME game.

For f = sum_j eta_j k(., c_j) with a product kernel and background states x^b the game is
v(C) = E_b f(s_C, x^b_rest). Each pair of a centre and a background state is a product game with the factors
a_i = k_i(s_i, c_ji) and b_i = k_i(x^b_i, c_ji), and the Shapley value is linear in the game: the values of f are the
product games' values (`games.py`), averaged over the background and summed with the coefficients, all outputs at
once. A group of features that join together is one player whose factor is the product of theirs: a product game again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.games import add_interactions, add_values
from rsa2c.attribution.progress import Progress, silent
from rsa2c.attribution.simd import LANES

if TYPE_CHECKING:
    from rsa2c.kernels import ProductKernel

Array = NDArray[np.float64]
Players = Sequence[NDArray[np.intp]]
BLOCK_BYTES = 8_000_000
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

    Everything is in the kernel's own (normalised) units. With `players`, sets of features, d counts those. Centres and
    states go through in blocks of bounded memory and sums have a fixed order: equal inputs give equal bytes on any
    number of threads.
    """
    coefficients = np.ascontiguousarray(coefficients, dtype=np.float64)
    d = x.shape[1] if players is None else len(players)
    values = np.zeros((coefficients.shape[1], len(x), d))
    for b, a, share, c, t, done in _blocks(x, background, centres, kernel, players, 3):
        block = np.ascontiguousarray(values[:, t])
        add_values(b, a, share, coefficients[c], nodes, block)
        values[:, t] = block
        progress(done)
    return np.ascontiguousarray(values.transpose(1, 2, 0))


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
    coefficients = np.ascontiguousarray(coefficients, dtype=np.float64)
    d = x.shape[1] if players is None else len(players)
    m = coefficients.shape[1]
    indices = np.zeros((len(x), m, d * (d - 1) // 2))
    for b, a, share, c, t, done in _blocks(x, background, centres, kernel, players, 2):
        add_interactions(b, np.ascontiguousarray(a.transpose(1, 0, 2)), share, coefficients[c], nodes, indices[t])
        progress(done)
    full = np.zeros((len(x), d, d, m))
    i, j = np.triu_indices(d, 1)
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
        fine = shapley_product(sample, b, c, w, kernel, nodes, players)
        while nodes < most:
            coarse, fine = fine, shapley_product(sample, b, c, w, kernel, nodes + 2, players)
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


def _blocks(
    x: Array, background: Array, centres: Array, kernel: ProductKernel, players: Players | None, arrays: int
) -> Iterator[tuple[Array, Array, Array, slice, slice, float]]:
    """Factors of a block of centres with the background (q, blocks, d, LANES) and with a block of states (q, T, d).

    With them the background's shares, the two slices and the fraction done. `arrays` is how many arrays as large as
    the states' factors the caller holds at a time.
    """
    scales = kernel.scales
    lanes, share = _in_lanes(background * scales)
    xs, cs = x * scales, centres * scales
    centre_block = max(1, min(len(cs), BLOCK_BYTES // (8 * lanes.size)))
    state_block = max(1, min(len(xs), BLOCK_BYTES // (8 * arrays * x.shape[1] * centre_block)))
    for j in range(0, len(cs), centre_block):
        c = slice(j, min(j + centre_block, len(cs)))
        b = _factors(lanes - cs[c, None, :, None], kernel.name, players)
        for t in range(0, len(xs), state_block):
            s = slice(t, min(t + state_block, len(xs)))
            a = _factors((xs[s] - cs[c, None, :])[..., None], kernel.name, players)[..., 0]
            yield b, np.ascontiguousarray(a), share, c, s, (c.start + (c.stop - c.start) * s.stop / len(xs)) / len(cs)


def _in_lanes(background: Array) -> tuple[Array, Array]:
    """Background (B, d) as (blocks, d, LANES) and its weights (blocks, LANES), zero in lanes that only fill up."""
    n, d = background.shape
    blocks = -(-n // LANES)
    padded = np.zeros((blocks * LANES, d))
    padded[:n] = background
    share = np.zeros(blocks * LANES)
    share[:n] = 1.0 / n
    return padded.reshape(blocks, LANES, d).transpose(0, 2, 1), share.reshape(blocks, LANES)


def _factors(differences: Array, name: str, players: Players | None) -> Array:
    """Factors of scaled differences u (..., d, lanes): exp(-u^2/2) or exp(-|u|), multiplied within each player."""
    if name == "rbf":
        np.square(differences, out=differences)
        differences *= -0.5
    else:
        np.abs(differences, out=differences)
        np.negative(differences, out=differences)
    if players is not None:
        differences = np.stack([differences[..., group, :].sum(axis=-2) for group in players], axis=-2)
    return np.ascontiguousarray(np.exp(differences, out=differences))

"""Shapley interaction indices of product games: Owen's integral with two players left out,

    I_ij = (a_i - b_i) (a_j - b_j) int_0^1 prod_{l != i, j} z_l(t) dt,    z_l(t) = t a_l + (1 - t) b_l,

a polynomial of degree d - 2, exact with ceil((d-1)/2) nodes; arrays as in `quadrature.py`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange

from rsa2c.attribution.factors import background_factors, state_factors
from rsa2c.attribution.quadrature import Array, Packed, quadrature
from rsa2c.attribution.simd import LANES, fill, load, multiply, multiply_add, store, total


@njit(cache=True)
def _pairs(b: Any, a: Any, share: Any, x: Any, w: Any, work: Any, g: Any) -> None:
    """g (d (d-1) / 2) = sum over the background of share * I_ij, i < j, for one centre and one state.

    work (3 d + 1, nodes LANES) holds z, the prefix and the suffix products of every node and the running product.
    """
    d, nodes = a.size, x.size
    g[:] = 0.0
    z, prefix, suffix, running = work[:d], work[d : 2 * d], work[2 * d : 3 * d], work[3 * d]
    for block in range(share.size // LANES):
        start = block * d * LANES
        for n in range(nodes):
            lane = n * LANES
            y = fill(1.0 - x[n])
            p, s = multiply(load(share, block * LANES), fill(w[n])), fill(1.0)
            for i in range(d):
                store(prefix[i], lane, p)
                zi = multiply_add(y, load(b, start + i * LANES), fill(x[n] * a[i]))
                store(z[i], lane, zi)
                p = multiply(p, zi)
            for k in range(d):
                store(suffix[d - 1 - k], lane, s)
                s = multiply(s, load(z[d - 1 - k], lane))
        pair = 0
        for i in range(d):
            change = multiply_add(fill(-1.0), load(b, start + i * LANES), fill(a[i]))
            for n in range(nodes):
                store(running, n * LANES, load(prefix[i], n * LANES))
            for j in range(i + 1, d):
                left_out = fill(0.0)
                for n in range(nodes):
                    r = load(running, n * LANES)
                    left_out = multiply_add(r, load(suffix[j], n * LANES), left_out)
                    store(running, n * LANES, multiply(r, load(z[j], n * LANES)))
                other = multiply_add(fill(-1.0), load(b, start + j * LANES), fill(a[j]))
                g[pair] += total(multiply(left_out, multiply(change, other)))
                pair += 1


@njit(cache=True)
def _state_pairs(packed: Any, x: Any, centres: Any, coefficients: Any, t: Any, w: Any, players: int, out: Any) -> None:
    """Add all centres' interaction indices at one state to out (m, pairs)."""
    background, share, owner, code = packed
    b, a = np.empty(share.size * players), np.empty(-(-players // LANES) * LANES)
    work, g = np.empty((3 * players + 1, t.size * LANES)), np.empty(out.shape[1])
    for j in range(len(centres)):
        background_factors(background, centres[j], code, owner, 1.0, b)
        state_factors(x, centres[j], code, owner, a)
        _pairs(b, a[:players], share, t, w, work, g)
        for o in range(len(out)):
            for k in range(g.size):
                out[o, k] += coefficients[j, o] * g[k]


@njit(cache=True)
def _serial_pairs(packed: Any, x: Any, centres: Any, eta: Any, t: Any, w: Any, players: int, out: Any) -> None:
    for n in range(len(x)):
        _state_pairs(packed, x[n], centres, eta, t, w, players, out[n])


@njit(cache=True, parallel=True)
def _threaded_pairs(packed: Any, x: Any, centres: Any, eta: Any, t: Any, w: Any, players: int, out: Any) -> None:
    for n in prange(len(x)):
        _state_pairs(packed, x[n], centres, eta, t, w, players, out[n])


def add_interactions(
    packed: Packed, x: Array, centres: Array, coefficients: Array, nodes: int, players: int, out: Array
) -> None:
    """Add the interaction indices of all centres' games at the states x to out (T, m, players (players-1) / 2).

    Pairs are in the order of `triu_indices`. Threads split the states.
    """
    run = _serial_pairs if numba.get_num_threads() == 1 else _threaded_pairs
    run(packed, x, centres, coefficients, *quadrature(nodes), players, out)

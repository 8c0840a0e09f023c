"""The product game: exact Shapley values by quadrature, the numerical core of the interventional explanations.

A game v(C) = prod_{i in C} a_i prod_{i not in C} b_i has the Shapley values of Owen's integral,

    phi_i = (a_i - b_i) int_0^1 prod_{l != i} z_l(t) dt,    z_l(t) = t a_l + (1 - t) b_l,

whose integrand is a polynomial of degree d - 1: Gauss-Legendre with ceil(d/2) nodes is exact, and far fewer reach
rounding when the factors are smooth. Products of all but one come from prefix and suffix products, so nothing is
divided and factors that underflow are harmless. Background states are stored in vectors of `LANES` (`simd.py`), the
innermost axis of their factors, which are computed centre by centre (`factors.py`) and never leave the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from rsa2c.attribution.factors import background_factors, state_factors
from rsa2c.attribution.simd import LANES, add, fill, largest, load, multiply, multiply_add, store, subtract, total

Array = NDArray[np.float64]
Packed = tuple[Array, Array, NDArray[np.intp], int]
"""Background, flat (blocks, d, LANES); its weights, flat (blocks, LANES); each feature's player; the kernel's code."""
BLOCK_BYTES = 32_000_000
NEGLIGIBLE = 1e-30
"""|a_i - b_i| / z_i is at most 1 / min(t, 1 - t), so where all products are negligible the values are too."""
RANGE = 200.0
"""Decimal orders of magnitude that scaled products may lose or gain."""


@lru_cache(maxsize=64)
def quadrature(nodes: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss-Legendre on [0, 1], cached: computing them takes as long as a small game."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    rule = x / 2 + 0.5, w / 2
    for array in rule:
        array.flags.writeable = False
    return rule


def scaled_quadrature(nodes: int, d: int) -> Iterator[tuple[float, Array, Array]]:
    """The rule for products without one factor, in a form that costs one addition per factor, not two products.

    With rho = (1 - t) / c the factor is z = rho (c b + r a), r = t / rho, and rho^(d-1) goes into the weight. Yields
    c, r and the weights, in pieces within which rho^d stays far from the ends of float64: one piece unless d is large.
    Nodes are processed in fours and twos, so a piece with an odd number gets one more, of weight zero.
    """
    x, w = quadrature(nodes)
    while len(x):
        c = 1.0 - x[0]
        rho = (1.0 - x) / c
        count = int(np.sum(d * np.log10(rho) > -RANGE))
        r, weights = (x / rho)[:count], (w * rho ** (d - 1))[:count]
        if count % 2:
            r, weights = np.append(r, r[-1]), np.append(weights, 0.0)
        yield float(c), r, weights
        x, w = x[count:], w[count:]


@njit(cache=True, inline="always")
def _four_nodes(b: Any, start: int, weight: Any, w: Any, n: int, ra: Any, ca: Any, prefix: Any, sums: Any) -> None:
    """One sweep over the factors and one back, for the nodes n to n + 3 of a block of the background."""
    d = ca.size
    p0, p1, p2, p3 = fill(1.0), fill(1.0), fill(1.0), fill(1.0)
    for i in range(d):
        bi, at, here = load(b, start + i * LANES), n * d + 4 * i, 4 * i * LANES
        store(prefix, here, p0)
        store(prefix, here + LANES, p1)
        store(prefix, here + 2 * LANES, p2)
        store(prefix, here + 3 * LANES, p3)
        p0 = multiply(p0, add(bi, fill(ra[at])))
        p1 = multiply(p1, add(bi, fill(ra[at + 1])))
        p2 = multiply(p2, add(bi, fill(ra[at + 2])))
        p3 = multiply(p3, add(bi, fill(ra[at + 3])))
    s0, s1, s2, s3 = fill(w[n]), fill(w[n + 1]), fill(w[n + 2]), fill(w[n + 3])
    products = multiply_add(p3, s3, multiply_add(p2, s2, multiply_add(p1, s1, multiply(p0, s0))))
    if largest(products) > NEGLIGIBLE:
        s0, s1, s2, s3 = multiply(weight, s0), multiply(weight, s1), multiply(weight, s2), multiply(weight, s3)
        for i in range(d - 1, -1, -1):
            bi, at, here = load(b, start + i * LANES), n * d + 4 * i, 4 * i * LANES
            others = multiply(load(prefix, here), s0)
            others = multiply_add(load(prefix, here + LANES), s1, others)
            others = multiply_add(load(prefix, here + 2 * LANES), s2, others)
            others = multiply_add(load(prefix, here + 3 * LANES), s3, others)
            change = subtract(fill(ca[i]), bi)
            store(sums, i * LANES, multiply_add(others, change, load(sums, i * LANES)))
            s0 = multiply(s0, add(bi, fill(ra[at])))
            s1 = multiply(s1, add(bi, fill(ra[at + 1])))
            s2 = multiply(s2, add(bi, fill(ra[at + 2])))
            s3 = multiply(s3, add(bi, fill(ra[at + 3])))


@njit(cache=True, inline="always")
def _two_nodes(b: Any, start: int, weight: Any, w: Any, n: int, ra: Any, ca: Any, prefix: Any, sums: Any) -> None:
    """`_four_nodes` for the last two nodes."""
    d = ca.size
    p0, p1 = fill(1.0), fill(1.0)
    for i in range(d):
        bi, at, here = load(b, start + i * LANES), n * d + 2 * i, 2 * i * LANES
        store(prefix, here, p0)
        store(prefix, here + LANES, p1)
        p0 = multiply(p0, add(bi, fill(ra[at])))
        p1 = multiply(p1, add(bi, fill(ra[at + 1])))
    s0, s1 = fill(w[n]), fill(w[n + 1])
    if largest(multiply_add(p1, s1, multiply(p0, s0))) > NEGLIGIBLE:
        s0, s1 = multiply(weight, s0), multiply(weight, s1)
        for i in range(d - 1, -1, -1):
            bi, at, here = load(b, start + i * LANES), n * d + 2 * i, 2 * i * LANES
            others = multiply_add(load(prefix, here + LANES), s1, multiply(load(prefix, here), s0))
            change = subtract(fill(ca[i]), bi)
            store(sums, i * LANES, multiply_add(others, change, load(sums, i * LANES)))
            s0 = multiply(s0, add(bi, fill(ra[at])))
            s1 = multiply(s1, add(bi, fill(ra[at + 1])))


@njit(cache=True)
def _values(b: Any, a: Any, share: Any, c: float, r: Any, w: Any, work: Any, g: Any) -> None:
    """Add to g_i the sum over the background of share * phi_i, for one centre and one state.

    b is flat (blocks, d, LANES) and holds c times the factors, a (d,), share flat (blocks, LANES). Four nodes, and two
    for the rest, are processed together: they share the loads of b and hide each other's latency.
    """
    d, size, fours = a.size, a.size * LANES, r.size // 4 * 4
    prefix, sums = work[: 4 * size], work[4 * size : 5 * size]
    ca, ra = work[5 * size : 5 * size + d], work[5 * size + d :]
    for i in range(d):
        ca[i] = c * a[i]
        for n in range(fours):
            ra[n // 4 * 4 * d + 4 * i + n % 4] = r[n] * a[i]
        for n in range(fours, r.size):
            ra[fours * d + 2 * i + n - fours] = r[n] * a[i]
        store(sums, i * LANES, fill(0.0))
    for block in range(share.size // LANES):
        start = block * size
        weight = load(share, block * LANES)
        for n in range(0, fours, 4):
            _four_nodes(b, start, weight, w, n, ra, ca, prefix, sums)
        if fours < r.size:
            _two_nodes(b, start, weight, w, fours, ra, ca, prefix, sums)
    for i in range(d):
        g[i] += total(load(sums, i * LANES)) / c


@njit(cache=True)
def _centre(packed: Any, x: Any, centre: Any, c: float, r: Any, w: Any, g: Any) -> None:
    """Add one centre's values to g (T, players)."""
    background, share, owner, code = packed
    players = g.shape[1]
    b, a = np.empty(share.size * players), np.empty(-(-players // LANES) * LANES)
    work = np.empty((5 * LANES + 1 + r.size) * players)
    background_factors(background, centre, code, owner, c, b)
    for t in range(len(x)):
        state_factors(x[t], centre, code, owner, a)
        _values(b, a[:players], share, c, r, w, work, g[t])


@njit(cache=True)
def _serial(packed: Any, x: Any, centres: Any, c: float, r: Any, w: Any, g: Any) -> None:
    for j in range(len(centres)):
        _centre(packed, x, centres[j], c, r, w, g[j])


@njit(cache=True, parallel=True)
def _threaded(packed: Any, x: Any, centres: Any, c: float, r: Any, w: Any, g: Any) -> None:
    for j in prange(len(centres)):
        _centre(packed, x, centres[j], c, r, w, g[j])


@njit(cache=True)
def _contract(g: Any, coefficients: Any, out: Any) -> None:
    """out (m, T d) += coefficients^T (m, q) g (q, T d), in a fixed order, so that equal inputs give equal bytes."""
    for o in range(len(out)):
        for j in range(len(g)):
            c = coefficients[j, o]
            for k in range(out.shape[1]):
                out[o, k] += c * g[j, k]


def add_values(packed: Packed, x: Array, centres: Array, coefficients: Array, nodes: int, out: Array) -> None:
    """Add the values of q centres' games at the states x (T, d) to out (m, T, players).

    Threads split the centres, and the sum over centres has a fixed order.
    """
    m, states, players = out.shape
    run = _serial if numba.get_num_threads() == 1 else _threaded
    block = max(1, BLOCK_BYTES // (8 * states * players))
    for j in range(0, len(centres), block):
        some = slice(j, min(j + block, len(centres)))
        g = np.zeros((some.stop - some.start, states, players))
        for c, r, w in scaled_quadrature(nodes, players):
            run(packed, x, centres[some], c, r, w, g)
        _contract(g.reshape(len(g), -1), coefficients[some], out.reshape(m, -1))

"""The product game: exact Shapley values by quadrature, the numerical core of the interventional explanations.

A game v(C) = prod_{i in C} a_i prod_{i not in C} b_i has the Shapley values of Owen's integral,

    phi_i = (a_i - b_i) int_0^1 prod_{l != i} z_l(t) dt,    z_l(t) = t a_l + (1 - t) b_l,

whose integrand is a polynomial of degree d - 1: Gauss-Legendre with ceil(d/2) nodes is exact, and far fewer reach
rounding when the factors are smooth. The interaction index of two players is the same with both left out,

    I_ij = (a_i - b_i) (a_j - b_j) int_0^1 prod_{l != i, j} z_l(t) dt.

Products of all but one or two come from prefix and suffix products, so nothing is divided and factors that underflow
are harmless. Background states lie in vectors of `LANES` (`simd.py`), the innermost axis of their factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from rsa2c.attribution.simd import LANES, add, fill, largest, load, multiply, multiply_add, store, subtract, total

Array = NDArray[np.float64]
NEGLIGIBLE = 1e-30
"""|a_i - b_i| / z_i is at most 1 / min(t, 1 - t), so where all products are negligible the values are too."""
RANGE = 200.0
"""Decimal orders of magnitude that scaled products may lose or gain."""


def quadrature(nodes: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss-Legendre on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return x / 2 + 0.5, w / 2


def scaled_quadrature(nodes: int, d: int) -> Iterator[tuple[float, Array, Array]]:
    """The rule for products without one factor, in the form that costs an addition a factor instead of two products.

    With rho = (1 - t) / c the factor is z = rho (c b + r a), r = t / rho, and rho^(d-1) goes into the weight. Yields
    c, r and the weights, in pieces within which rho^d stays far from the ends of float64: one piece but for large d.
    Nodes go in fours and twos, so a piece of an odd number gets one more of weight zero.
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
    for the rest, go through together: they share the loads of b and hide each other's latency.
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
def _centre(b: Any, a: Any, share: Any, c: float, r: Any, w: Any, g: Any) -> None:
    d = a.shape[1]
    work = np.empty((5 * LANES + 1 + r.size) * d)
    for t in range(len(a)):
        _values(b, a[t], share, c, r, w, work, g[t])


@njit(cache=True)
def _serial(b: Any, a: Any, share: Any, c: float, r: Any, w: Any, g: Any) -> None:
    for j in range(len(b)):
        _centre(b[j], a[j], share, c, r, w, g[j])


@njit(cache=True, parallel=True)
def _threaded(b: Any, a: Any, share: Any, c: float, r: Any, w: Any, g: Any) -> None:
    for j in prange(len(b)):
        _centre(b[j], a[j], share, c, r, w, g[j])


@njit(cache=True)
def _contract(g: Any, coefficients: Any, out: Any) -> None:
    """out (m, T d) += coefficients^T (m, q) g (q, T d), in a fixed order, so that equal inputs give equal bytes."""
    for o in range(len(out)):
        for j in range(len(g)):
            c = coefficients[j, o]
            for k in range(out.shape[1]):
                out[o, k] += c * g[j, k]


def add_values(b: Array, a: Array, share: Array, coefficients: Array, nodes: int, out: Array) -> None:
    """Add the values of q centres' games to out (m, T, d).

    b (q, blocks, d, LANES) and a (q, T, d) are the factors of background and states; share (blocks, LANES) are
    the weights of the background states, zero in lanes that only fill up the last block. Threads split the
    centres.
    """
    q, states, d = a.shape
    g = np.zeros((q, states, d))
    run = _serial if numba.get_num_threads() == 1 else _threaded
    flat = b.reshape(q, -1)
    for c, r, w in scaled_quadrature(nodes, d):
        run(c * flat, a, share.ravel(), c, r, w, g)
    _contract(g.reshape(q, -1), coefficients, out.reshape(len(out), -1))


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
def _state_pairs(b: Any, a: Any, share: Any, x: Any, w: Any, coefficients: Any, out: Any) -> None:
    d = a.shape[1]
    work, g = np.empty((3 * d + 1, x.size * LANES)), np.empty(d * (d - 1) // 2)
    for j in range(len(b)):
        _pairs(b[j], a[j], share, x, w, work, g)
        for o in range(len(out)):
            for k in range(g.size):
                out[o, k] += coefficients[j, o] * g[k]


@njit(cache=True)
def _serial_pairs(b: Any, a: Any, share: Any, x: Any, w: Any, coefficients: Any, out: Any) -> None:
    for t in range(len(out)):
        _state_pairs(b, a[t], share, x, w, coefficients, out[t])


@njit(cache=True, parallel=True)
def _threaded_pairs(b: Any, a: Any, share: Any, x: Any, w: Any, coefficients: Any, out: Any) -> None:
    for t in prange(len(out)):
        _state_pairs(b, a[t], share, x, w, coefficients, out[t])


def add_interactions(b: Array, a: Array, share: Array, coefficients: Array, nodes: int, out: Array) -> None:
    """Add the interaction indices of q centres' games to out (T, m, d (d-1) / 2), pairs in the order of `triu_indices`.

    b (q, blocks, d, LANES), a (T, q, d), share as in `add_values`. Threads split the states.
    """
    run = _serial_pairs if numba.get_num_threads() == 1 else _threaded_pairs
    run(b.reshape(len(b), -1), a, share.ravel(), *quadrature(nodes), coefficients, out)

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

from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from rsa2c.attribution.simd import LANES, fill, largest, load, multiply, multiply_add, store, total

Array = NDArray[np.float64]
NEGLIGIBLE = 1e-30


def quadrature(nodes: int) -> tuple[Array, Array]:
    """Gauss-Legendre on [0, 1]; an odd number of nodes is made even by one of weight zero, for they go in pairs."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    if nodes % 2:
        x, w = np.append(x, 0.0), np.append(w, 0.0)
    return (x + 1) / 2, w / 2


@njit(cache=True)
def _values(b: Any, a: Any, share: Any, x: Any, w: Any, work: Any, g: Any) -> None:
    """g_i = sum over the background of share * phi_i, for one centre and one state.

    b is flat (blocks, d, LANES), a (d,), share flat (blocks, LANES). Two nodes go through together: they share the loads
    of b and hide each other's latency.
    """
    d, size = a.size, a.size * LANES
    prefix, left_out, sums, xa = work[: 2 * size], work[2 * size : 3 * size], work[3 * size : 4 * size], work[4 * size :]
    for n in range(0, x.size, 2):
        for i in range(d):
            xa[n * d + 2 * i] = x[n] * a[i]
            xa[n * d + 2 * i + 1] = x[n + 1] * a[i]
    for i in range(d):
        store(sums, i * LANES, fill(0.0))
    for block in range(share.size // LANES):
        start = block * size
        for i in range(d):
            store(left_out, i * LANES, fill(0.0))
        for n in range(0, x.size, 2):
            y0, y1 = fill(1.0 - x[n]), fill(1.0 - x[n + 1])
            p0, p1 = fill(1.0), fill(1.0)
            for i in range(d):
                bi = load(b, start + i * LANES)
                store(prefix, 2 * i * LANES, p0)
                store(prefix, (2 * i + 1) * LANES, p1)
                p0 = multiply(p0, multiply_add(y0, bi, fill(xa[n * d + 2 * i])))
                p1 = multiply(p1, multiply_add(y1, bi, fill(xa[n * d + 2 * i + 1])))
            # |a_i - b_i| / z_i is at most 1 / min(t, 1 - t), so a negligible product means negligible values.
            if max(largest(p0), largest(p1)) < NEGLIGIBLE:
                continue
            s0 = multiply(load(share, block * LANES), fill(w[n]))
            s1 = multiply(load(share, block * LANES), fill(w[n + 1]))
            for k in range(d):
                i = d - 1 - k
                bi = load(b, start + i * LANES)
                others = multiply_add(load(prefix, 2 * i * LANES), s0, load(left_out, i * LANES))
                store(left_out, i * LANES, multiply_add(load(prefix, (2 * i + 1) * LANES), s1, others))
                s0 = multiply(s0, multiply_add(y0, bi, fill(xa[n * d + 2 * i])))
                s1 = multiply(s1, multiply_add(y1, bi, fill(xa[n * d + 2 * i + 1])))
        for i in range(d):
            change = multiply_add(fill(-1.0), load(b, start + i * LANES), fill(a[i]))
            store(sums, i * LANES, multiply_add(load(left_out, i * LANES), change, load(sums, i * LANES)))
    for i in range(d):
        g[i] = total(load(sums, i * LANES))


@njit(cache=True)
def _centre(b: Any, a: Any, share: Any, x: Any, w: Any, g: Any) -> None:
    d = a.shape[1]
    work = np.empty(4 * d * LANES + x.size * d)
    for t in range(len(a)):
        _values(b, a[t], share, x, w, work, g[t])


@njit(cache=True)
def _serial(b: Any, a: Any, share: Any, x: Any, w: Any, g: Any) -> None:
    for j in range(len(b)):
        _centre(b[j], a[j], share, x, w, g[j])


@njit(cache=True, parallel=True)
def _threaded(b: Any, a: Any, share: Any, x: Any, w: Any, g: Any) -> None:
    for j in prange(len(b)):
        _centre(b[j], a[j], share, x, w, g[j])


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

    b (q, blocks, d, LANES) and a (q, T, d) are the factors of background and states; share (blocks, LANES) are the weights
    of the background states, zero in lanes that only fill up the last block. Threads split the centres.
    """
    q, states, d = a.shape
    g = np.empty((q, states, d))
    run = _serial if numba.get_num_threads() == 1 else _threaded
    run(b.reshape(q, -1), a, share.ravel(), *quadrature(nodes), g)
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

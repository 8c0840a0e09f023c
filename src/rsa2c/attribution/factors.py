"""Kernel factors inside compiled code: exp L(u) of scaled differences u (`kernel/kernels.py`), features multiplied.

A player is one feature or several that join together; `owner` names each feature's player, and a player's factor is the
exponential of the sum of its features' exponents.
"""

from __future__ import annotations

from math import factorial, log
from typing import Any

import numpy as np
from numba import njit

from rsa2c.attribution.simd import (
    LANES,
    add_to_exponent,
    at_least,
    fill,
    load,
    multiply,
    multiply_add,
    store,
    subtract,
)
from rsa2c.kernel.kernels import RBF

SQUARED = RBF.code
"""L(u) = -u^2 / 2; the other code stands for L(u) = -|u|."""
LOWEST = -700.0
"""Smaller exponents are replaced by this one: its exponential, 1e-304, is still a normal number."""
ROUND = 1.5 * 2.0**52
"""Added to a number, leaves its nearest integer in the low bits."""
LOG2_E, LN_2_HIGH = 1.0 / log(2.0), float.fromhex("0x1.62e42fefa3800p-1")
LN_2_LOW = float.fromhex("0x1.ef35793c76730p-45")
TAYLOR = np.array([1.0 / factorial(k) for k in range(12, -1, -1)])


@njit(cache=True, inline="always")
def exponential(v: Any) -> Any:
    """exp(v), lane by lane, to about one unit in the last place: v = n ln 2 + r, Taylor's series at r, times 2^n."""
    x = at_least(v, fill(LOWEST))
    rounded = multiply_add(x, fill(LOG2_E), fill(ROUND))
    n = subtract(rounded, fill(ROUND))
    r = multiply_add(n, fill(-LN_2_LOW), multiply_add(n, fill(-LN_2_HIGH), x))
    series = fill(TAYLOR[0])
    for k in range(1, 13):
        series = multiply_add(series, r, fill(TAYLOR[k]))
    return add_to_exponent(series, rounded)


@njit(cache=True)
def background_factors(lanes: Any, centre: Any, code: int, owner: Any, scale: float, b: Any) -> None:
    """b, flat (blocks, players, LANES): scale times the factors of a centre and the background's lanes."""
    d = centre.size
    blocks = lanes.size // (d * LANES)
    players = b.size // (blocks * LANES)
    for k in range(0, b.size, LANES):
        store(b, k, fill(0.0))
    for block in range(blocks):
        for i in range(d):
            u = subtract(load(lanes, (block * d + i) * LANES), fill(centre[i]))
            size = multiply(multiply(u, u), fill(0.5)) if code == SQUARED else at_least(u, subtract(fill(0.0), u))
            at = (block * players + owner[i]) * LANES
            store(b, at, subtract(load(b, at), size))
    for k in range(0, b.size, LANES):
        store(b, k, multiply(exponential(load(b, k)), fill(scale)))


@njit(cache=True)
def state_factors(x: Any, centre: Any, code: int, owner: Any, a: Any) -> None:
    """a, players rounded up to whole vectors: factors of a centre and one state."""
    a[:] = 0.0
    for i in range(centre.size):
        u = x[i] - centre[i]
        a[owner[i]] -= 0.5 * u * u if code == SQUARED else abs(u)
    for k in range(0, a.size, LANES):
        store(a, k, exponential(load(a, k)))

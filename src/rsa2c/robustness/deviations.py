"""Proven bounds of f(s + D) - f(s) for an RKHS function f and every D of a region.

Around a state z (in units of the kernel's length scales) some kernels' k(., z) and its derivatives are orthogonal in
the RKHS (`ProductKernel.expansion_orders`). Then f(z + D) is e^{-t^2/2} times a polynomial in D whose coefficients are
f's own derivatives, plus a remainder no larger than what is left of |f|_H after the terms taken, with t = |D|:

    f(z + D) = e^{-t^2/2} (f + g.D + D^T M D / 2) +- r R
    R^2 = |f|_H^2 - f^2 - |g|^2 - |M|^2 / 2,  r^2 = 1 - e^{-t^2} (1 + t^2 + t^4 / 2),  M = Hessian + f I

Order 0 stops at f and holds for every kernel, order 1 stops at g, order 2 takes all terms. Every bound is valid by
itself; the certificate is the smallest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rsa2c.robustness.expansion import Local, Reach
from rsa2c.robustness.regions import Array, Norm

PIECES = 32
"""Parts of [0, t] on each of which the expansion is bounded."""
CHUNK_BYTES = 1 << 26

Bound = tuple[Array, Array]
"""Lowest and highest deviation f(s + D) - f(s), each (N, m)."""


def bounds(local: Local, epsilon: Array, norm: Norm, products: bool = True) -> dict[str, Bound]:
    """Every bound of f(s + D) - f(s) that holds for the function's kernel, by name; `epsilon` (N,) in units of `local`.

    `norm` is the paper's, |f|_H sqrt(delta_psi); `taylor` is |g.D| + C |f|_H t^2; `order 0` to `order 2` are the
    expansions above; `products` adds up the extremes of single kernel terms.
    """
    reach, kernel = Reach(local, epsilon, norm), local.kernel
    names: dict[str, Bound] = {}
    plain = local.norm * np.sqrt(2.0 * reach.defect)
    names["norm"] = (-plain, plain)
    names["order 0"] = _two_sided(lambda sign: _order_zero(local, reach, sign))
    if kernel.taylor_constant is not None:
        rest = kernel.taylor_constant * local.norm * reach.distance**2
        names["taylor"] = _two_sided(lambda sign: reach.linear(sign) + rest)
    for order in kernel.expansion_orders:
        names[f"order {order}"] = _two_sided(lambda sign, order=order: _expansion(local, reach, order, sign))  # type: ignore[misc]
    if products:
        names["products"] = _products(local, reach)
    return {name: (low - local.rounding, high + local.rounding) for name, (low, high) in names.items()}


def tightest(found: dict[str, Bound]) -> Bound:
    """The intersection of all bounds."""
    lows, highs = zip(*found.values(), strict=True)
    return np.max(lows, axis=0), np.min(highs, axis=0)


def mean_distance(local: Local, epsilon: Array, norm: Norm, deviation: Array) -> Array:
    """(N,): a bound of |h(s + D) - h(s)| over all outputs, from each one's `deviation` (N, m) and from all jointly."""
    reach, kernel = Reach(local, epsilon, norm), local.kernel
    joint = np.sqrt(np.linalg.eigvalsh(local.inner)[-1] + local.slack.sum()) * np.sqrt(2.0 * reach.defect[:, 0])
    distance = np.minimum(np.linalg.norm(deviation, axis=1), joint)
    for order in kernel.expansion_orders:
        polynomial = np.linalg.norm(np.maximum(reach.linear(1.0), reach.linear(-1.0)), axis=1)
        if norm == "l2":
            steepest = np.linalg.norm(local.gradient * local.axes, 2, axis=(1, 2))
            polynomial = np.minimum(polynomial, reach.epsilon[:, 0] * steepest)
        if order == 2:
            curved = np.maximum(reach.quadratic(1.0), reach.quadratic(-1.0))
            polynomial = polynomial + np.linalg.norm(curved, axis=1)
        largest = np.linalg.eigvalsh(local.left[order])[:, -1]
        remainder = np.sqrt(np.maximum(largest, 0.0) + local.slack.sum())
        rest = remainder * kernel.remainder(reach.distance, order)[:, 0]
        shrink = reach.defect[:, 0] * np.linalg.norm(local.value, axis=1)
        rounding = np.linalg.norm(local.rounding, axis=1)
        distance = np.minimum(distance, shrink + polynomial + rest + rounding)
    return distance


def _two_sided(highest: Callable[[float], Array]) -> Bound:
    return -highest(-1.0), highest(1.0)


def _order_zero(local: Local, reach: Reach, sign: float) -> Array:
    """The largest value of |f| cos(a), where a >= (angle of f to k(., s)) - (angle by which k(., s) can turn)."""
    own = np.arccos(np.clip(sign * local.value / np.maximum(local.norm, np.finfo(float).tiny), -1.0, 1.0))
    turn = 2 * np.arcsin(np.sqrt(reach.defect / 2))
    return local.norm * np.cos(np.maximum(own - turn, 0.0)) - sign * local.value


def _expansion(local: Local, reach: Reach, order: int, sign: float) -> Array:
    """Bounded piece by piece of t: on each the decay is taken at its worse end, everything else at its largest."""
    f, remainder = sign * local.value, local.remainder(order)
    steepness = np.linalg.norm(local.gradient, axis=2)
    linear = reach.linear(sign)
    quadratic = reach.quadratic(sign) if order == 2 else np.zeros(())
    best = f.copy()
    for piece in range(1, PIECES + 1):
        near, far = reach.distance * (piece - 1) / PIECES, reach.distance * piece / PIECES
        polynomial = f + np.minimum(linear, far * steepness)
        if order == 2:
            polynomial = polynomial + np.minimum(quadratic, far**2 * local.curvature_norm / 2)
        decay = np.exp(-(np.where(polynomial > 0, near, far) ** 2) / 2)
        best = np.maximum(best, decay * polynomial + remainder * local.kernel.remainder(far, order))
    return best - f


def _products(local: Local, reach: Reach) -> Bound:
    """Each k(s + D, s_j) between the products of its factors' extremes; with their signs, the terms add up."""
    coefficients = local.function.coefficients
    positive, negative = np.maximum(coefficients, 0.0), np.minimum(coefficients, 0.0)
    low, high = np.empty_like(local.value), np.empty_like(local.value)
    size = max(1, CHUNK_BYTES // (32 * len(coefficients)))
    for start in range(0, len(low), size):
        part = slice(start, start + size)
        least, most = _exponents(local, reach, part)
        smallest, largest = np.exp(-most), np.exp(-least)
        high[part] = largest @ positive + smallest @ negative - local.value[part]
        low[part] = smallest @ positive + largest @ negative - local.value[part]
    return low, high


def _exponents(local: Local, reach: Reach, part: slice) -> Bound:
    """(n, q) both: least and largest -log k(s + D, s_j), feature by feature in the box and by the size of D."""
    kernel, centres = local.kernel, local.function.centres * local.scales
    z = local.x[part] * local.scales
    least, most, exponent = np.zeros((3, len(z), len(centres)))
    for i, column in enumerate(centres.T):
        below = z[:, i, None] + reach.low[part, i, None] - column
        above = column - z[:, i, None] - reach.high[part, i, None]
        least -= kernel.log_factor(np.maximum(np.maximum(below, above), 0.0))
        most -= kernel.log_factor(np.maximum(-below, -above))
        exponent -= kernel.log_factor(z[:, i, None] - column)
    nearest, farthest = kernel.exponents_near(exponent, reach.distance[part], reach.total[part])
    return np.maximum(least, nearest), np.minimum(most, farthest)

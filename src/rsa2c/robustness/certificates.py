"""How far an action or a value can move when the observation is wrong by at most epsilon: proven bounds.

Around a state z (in units of the kernel's length scales) an RBF kernel's k(., z) and its derivatives are orthogonal in
the RKHS, so f(z + D) is e^{-t^2/2} times a polynomial in D whose coefficients are f's own derivatives, plus a remainder
no larger than what is left of |f|_H after the terms taken, with t = |D|:

    f(z + D) = e^{-t^2/2} (f + g.D + D^T M D / 2) +- r R
    R^2 = |f|_H^2 - f^2 - |g|^2 - |M|^2 / 2,  r^2 = 1 - e^{-t^2} (1 + t^2 + t^4 / 2),  M = Hessian + f I

Order 0 stops at f, order 1 at g, order 2 takes all. Every bound is valid by itself; the certificate is the smallest.
Clipping in the normaliser only shortens D, squashing is monotone: both are accounted for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, gammainc

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.attribution.inputs import checked
from rsa2c.errors import ConfigError
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.regions import Array, Norm, Region

PIECES = 32
"""Parts of [0, t] on each of which the expansion is bounded."""
CHUNK_BYTES = 1 << 26
DOUBLINGS, HALVINGS = 40, 40
"""Steps of the search for a certified radius."""

Bound = tuple[Array, Array]
"""Lowest and highest deviation f(s + D) - f(s), each (N, m)."""


class Local:
    """What the bounds need of an RKHS function at N states: derivatives in kernel units, and the rest of its norm."""

    def __init__(self, function: RKHSFunction, states: ArrayLike, scale: float | Array = 1.0) -> None:
        self.function, self.normaliser = function, function.normaliser
        self.states = checked("states", states, function.kernel.dimension)
        self.scales = function.kernel.scales
        self.unit = np.broadcast_to(scale, self.scales.shape)
        """Raw size of one unit of each feature."""
        self.axes = self.scales * self.unit / self.normaliser.std
        """Size in kernel units of a perturbation of one unit of each feature."""
        self.smooth = isinstance(function.kernel, RBF)
        self.x = self.normaliser(self.states)
        coefficients, gram = function.coefficients, function.dictionary.gram
        features = function.kernel(self.x, function.centres)
        self.value = features @ coefficients
        magnitude = np.abs(coefficients)
        q, d = function.centres.shape
        size = np.square(self.x * self.scales).sum(axis=1) + np.square(function.centres * self.scales).sum(axis=1).max()
        rounding = 4.0 * np.finfo(np.float64).eps
        self.rounding = rounding * (q + d * (1.0 + size))[:, None] * (features @ magnitude)
        """What rounding may have added to a value of the function here."""
        self.inner = coefficients.T @ gram @ coefficients
        """(m, m): inner products of the outputs."""
        self.slack = 4 * rounding * q * np.einsum("jm,jk,km->m", magnitude, gram, magnitude, optimize=True)
        self.norm = np.sqrt(np.maximum(np.diag(self.inner), 0.0) + self.slack)
        self.left = [self.inner - self.value[:, :, None] * self.value[:, None, :]]
        """(N, m, m) for each order: inner products of what the terms up to it leave over."""
        if self.smooth:
            self.gradient = function.kernel.gradient(self.x, function.centres, coefficients) / self.scales
            self.left.append(self.left[0] - self.gradient @ self.gradient.transpose(0, 2, 1))
            self._expand_curvature(features)

    def _expand_curvature(self, features: Array) -> None:
        """M's norm, its products, and the most and the least that D^T M D / 2 can be for D = axes e, |e| <= 1."""
        n, m = self.value.shape
        centres = self.function.centres * self.scales
        self.curvature_norm = np.empty((n, m))
        products = np.empty((n, m, m))
        self.ball, self.box = np.empty((2, n, m)), np.empty((2, n, m))
        off = ~np.eye(len(self.axes), dtype=bool)
        for i in range(n):
            u = centres - self.x[i] * self.scales
            weights = features[i][:, None] * self.function.coefficients
            curvature = np.stack([(u * weights[:, [o]]).T @ u for o in range(m)])
            flat = curvature.reshape(m, -1)
            products[i] = flat @ flat.T / 2
            self.curvature_norm[i] = np.sqrt(np.diag(2 * products[i]))
            scaled = curvature * np.outer(self.axes, self.axes)
            eigenvalues = np.linalg.eigvalsh(scaled)
            rounding = 1e-12 * np.abs(scaled).sum(axis=(1, 2))
            self.ball[:, i] = np.maximum([-eigenvalues[:, 0], eigenvalues[:, -1]], 0.0) / 2 + rounding
            pairs = np.abs(scaled * off).sum(axis=(1, 2))
            diagonal = np.diagonal(scaled, axis1=1, axis2=2)
            self.box[:, i] = [(np.maximum(s * diagonal, 0.0).sum(axis=1) + pairs) / 2 for s in (-1.0, 1.0)]
        self.left.append(self.left[1] - products)

    def remainder(self, order: int) -> Array:
        """(N, m): norm of what the terms up to `order` leave over."""
        return np.sqrt(np.maximum(np.diagonal(self.left[order], axis1=1, axis2=2), 0.0) + self.slack)


class Reach:
    """Where the kernel's input can go from each state of a `Local`, after normalising and clipping."""

    def __init__(self, local: Local, epsilon: Array, norm: Norm) -> None:
        self.local, self.norm, self.epsilon = local, norm, epsilon[:, None]
        raw = self.epsilon * local.unit
        self.low = (local.normaliser(local.states - raw) - local.x) * local.scales
        self.high = (local.normaliser(local.states + raw) - local.x) * local.scales
        widest = np.maximum(-self.low, self.high)
        self.distance = np.linalg.norm(widest, axis=1)[:, None]
        """(N, 1): largest Euclidean length of D."""
        total = widest.sum(axis=1)[:, None]
        if self.norm == "l2":
            self.distance = np.minimum(self.distance, self.epsilon * local.axes.max())
            total = np.minimum(total, self.epsilon * np.linalg.norm(local.axes))
        exponent = self.distance**2 / 2 if local.smooth else total
        self.defect = -np.expm1(-exponent)
        """(N, 1): 1 - k(s, s + D) at its largest; delta_psi is twice this."""

    def linear(self, sign: float) -> Array:
        """(N, m): the most that sign * g.D can be."""
        gradient = sign * self.local.gradient
        in_box = np.maximum(gradient * self.low[:, None], gradient * self.high[:, None]).sum(axis=2)
        if self.norm == "linf":
            return in_box
        return np.minimum(in_box, self.epsilon * np.linalg.norm(gradient * self.local.axes, axis=2))

    def quadratic(self, sign: float) -> Array:
        """(N, m): an upper bound of sign * D^T M D / 2."""
        side = int(sign > 0)
        stretch = 1.0 if self.norm == "l2" else self.local.gradient.shape[2]
        return self.epsilon**2 * np.minimum(self.local.ball[side] * stretch, self.local.box[side])


def bounds(local: Local, epsilon: Array, norm: Norm, products: bool = True) -> dict[str, Bound]:
    """Every bound of f(s + D) - f(s) that holds for the function's kernel, by name; `epsilon` (N,) in units of `local`.

    `norm` is the paper's, `order 0` to `order 2` are the expansions above, `products` adds up the extremes of single
    kernel terms.
    """
    reach = Reach(local, epsilon, norm)
    names: dict[str, Bound] = {}
    plain = local.norm * np.sqrt(2.0 * reach.defect)
    names["norm"] = (-plain, plain)
    names["order 0"] = _two_sided(lambda sign: _order_zero(local, reach, sign))
    if local.smooth:
        rest = np.sqrt(3.0) / 2 * local.norm * reach.distance**2
        names["taylor"] = _two_sided(lambda sign: reach.linear(sign) + rest)
        for order in (1, 2):
            names[f"order {order}"] = _two_sided(lambda sign, order=order: _expansion(local, reach, order, sign))
    if products:
        names["products"] = _products(local, reach)
    return {name: (low - local.rounding, high + local.rounding) for name, (low, high) in names.items()}


def tightest(found: dict[str, Bound]) -> Bound:
    """The intersection of all bounds."""
    lows, highs = zip(*found.values(), strict=True)
    return np.max(lows, axis=0), np.min(highs, axis=0)


def _two_sided(highest: Any) -> Bound:
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
        decay = np.exp(-np.where(polynomial > 0, near, far) ** 2 / 2)
        best = np.maximum(best, decay * polynomial + remainder * _left_over(far, order))
    return best - f


def _left_over(t: Array, order: int) -> Array:
    """sqrt(1 - e^{-t^2} sum_{k <= order} t^2k / k!), without cancellation: a regularised gamma function."""
    return np.sqrt(gammainc(order + 1, t**2))


def _products(local: Local, reach: Reach) -> Bound:
    """Each k(s + D, s_j) between the products of its factors' extremes; with their signs, the terms add up."""
    coefficients = local.function.coefficients
    positive, negative = np.maximum(coefficients, 0.0), np.minimum(coefficients, 0.0)
    centres = local.function.centres * local.scales
    low, high = np.empty_like(local.value), np.empty_like(local.value)
    size = max(1, CHUNK_BYTES // (32 * len(centres)))
    for start in range(0, len(low), size):
        part = slice(start, start + size)
        z = local.x[part] * local.scales
        least, most, apart = np.zeros((3, len(z), len(centres)))
        for i, column in enumerate(centres.T):
            below = z[:, i, None] + reach.low[part, i, None] - column
            above = column - z[:, i, None] - reach.high[part, i, None]
            near, far = np.maximum(np.maximum(below, above), 0.0), np.maximum(-below, -above)
            least += near**2 / 2 if local.smooth else near
            most += far**2 / 2 if local.smooth else far
            apart += (z[:, i, None] - column) ** 2
        if local.smooth:
            apart = np.sqrt(apart)
            least = np.maximum(least, np.maximum(apart - reach.distance[part], 0.0) ** 2 / 2)
            most = np.minimum(most, (apart + reach.distance[part]) ** 2 / 2)
        smallest, largest = np.exp(-most), np.exp(-least)
        high[part] = largest @ positive + smallest @ negative - local.value[part]
        low[part] = smallest @ positive + largest @ negative - local.value[part]
    return low, high


def mean_distance(local: Local, epsilon: Array, norm: Norm, deviation: Array) -> Array:
    """(N,): a bound of |h(s + D) - h(s)| over all outputs, from each one's `deviation` (N, m) and from all jointly."""
    reach = Reach(local, epsilon, norm)
    joint = np.sqrt(np.linalg.eigvalsh(local.inner)[-1] + local.slack.sum()) * np.sqrt(2.0 * reach.defect[:, 0])
    distance = np.minimum(np.linalg.norm(deviation, axis=1), joint)
    if not local.smooth:
        return distance
    linear = np.linalg.norm(np.maximum(reach.linear(1.0), reach.linear(-1.0)), axis=1)
    if norm == "l2":
        linear = np.minimum(linear, reach.epsilon[:, 0] * np.linalg.norm(local.gradient * local.axes, 2, axis=(1, 2)))
    curved = np.linalg.norm(np.maximum(reach.quadratic(1.0), reach.quadratic(-1.0)), axis=1)
    shrink = reach.defect[:, 0] * np.linalg.norm(local.value, axis=1)
    rounding = np.linalg.norm(local.rounding, axis=1)
    for order, polynomial in ((1, linear), (2, linear + curved)):
        largest = np.linalg.eigvalsh(local.left[order])[:, -1]
        remainder = np.sqrt(np.maximum(largest, 0.0) + local.slack.sum())
        rest = remainder * _left_over(reach.distance, order)[:, 0]
        distance = np.minimum(distance, shrink + polynomial + rest + rounding)
    return distance


def total_variation(distance: ArrayLike, sigma: float) -> Array:
    """Total variation between N(h, sigma^2 I) and N(h', sigma^2 I) at |h - h'| = distance, exactly."""
    return np.asarray(erf(np.asarray(distance, dtype=np.float64) / (2 * np.sqrt(2.0) * sigma)))


@dataclass(frozen=True, eq=False)
class Certificate:
    """What no perturbation of the region can exceed, at N states with m actions, in the environment's units.

    The action is the deterministic one, mid + half * squash(h); `total_variation` is between the Gaussian policies
    before squashing, which squashing cannot increase. `bounds` has the deviation of h by each bound alone, (N, m).
    """

    states: Array
    epsilon: Array
    norm: Norm
    action: Array
    action_low: Array
    action_high: Array
    total_variation: Array
    bounds: dict[str, Array]
    action_names: tuple[str, ...]
    value: Array | None = None
    value_low: Array | None = None
    value_high: Array | None = None

    @property
    def deviation(self) -> Array:
        """(N, m): how far each action can move."""
        return np.maximum(self.action_high - self.action, self.action - self.action_low)

    @property
    def value_deviation(self) -> Array | None:
        """(N,): how far the value can move; None without a Value Critic."""
        if self.value is None or self.value_low is None or self.value_high is None:
            return None
        return np.maximum(self.value_high - self.value, self.value - self.value_low)


def certify(policy: GaussianPolicy, value: RKHSFunction | None, states: ArrayLike, region: Region) -> Certificate:
    """The certificate of a policy and its Value Critic at raw states (N, d) or (d,)."""
    local = Local(policy.mean, states, region.scale)
    epsilon = region.radii(len(local.states))
    found = bounds(local, epsilon, region.norm)
    low, high = tightest(found)
    mean = local.value + policy.mean.offset
    distance = mean_distance(local, epsilon, region.norm, np.maximum(high, -low))
    of_value: dict[str, Array] = {}
    if value is not None:
        critic = Local(value, states, region.scale)
        value_low, value_high = tightest(bounds(critic, epsilon, region.norm))
        centre = critic.value[:, 0] + value.offset[0]
        of_value = {"value": centre, "value_low": centre + value_low[:, 0], "value_high": centre + value_high[:, 0]}
    return Certificate(
        local.states,
        epsilon,
        region.norm,
        policy.bounds.action(mean),
        policy.bounds.action(mean + low),
        policy.bounds.action(mean + high),
        total_variation(distance, policy.sigma),
        {name: np.maximum(top, -bottom) for name, (bottom, top) in found.items()},
        policy.mean.output_names,
        **of_value,
    )


def certified_radius(
    policy: GaussianPolicy, states: ArrayLike, amount: ArrayLike, norm: Norm = "l2", scale: float | Array = 1.0
) -> Array:
    """(N,): an epsilon up to which no action moves by more than `amount`, one number or one an action.

    Infinite where the action's own bounds keep it from moving that far.
    """
    limit = np.asarray(amount, dtype=np.float64)
    if limit.ndim > 1 or not np.all(np.isfinite(limit) & (limit > 0)):
        raise ConfigError(f"amount must be positive, one number or one an action, got {limit.tolist()}.")
    Region(0.0, norm, scale)  # checks both
    local = Local(policy.mean, states, scale)
    mean = local.value + policy.mean.offset
    action = policy.bounds.action(mean)

    def holds(epsilon: Array) -> NDArray[np.bool_]:
        low, high = tightest(bounds(local, epsilon, norm, products=False))
        up, down = policy.bounds.action(mean + high) - action, action - policy.bounds.action(mean + low)
        return np.all(np.maximum(up, down) <= limit, axis=1)

    inside, outside = np.zeros(len(action)), np.full(len(action), 1.0 / local.axes.max())
    for _ in range(DOUBLINGS):
        good = holds(outside)
        inside, outside = np.where(good, outside, inside), np.where(good, 2 * outside, outside)
    unlimited = good
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        good = holds(middle)
        inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
    return np.where(unlimited, np.inf, inside)

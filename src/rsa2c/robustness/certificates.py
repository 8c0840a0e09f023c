"""How far an action or a value can move when the observation is wrong by at most epsilon: proven bounds.

`deviations.py` bounds the policy's mean and the value. Squashing is monotone, so the bounds of an action are those of
its mean, squashed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.errors import ConfigError
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.deviations import bounds, mean_distance, tightest
from rsa2c.robustness.expansion import Local
from rsa2c.robustness.regions import Array, Norm, Region

DOUBLINGS, HALVINGS = 40, 40
"""Steps of the search for a certified radius."""


def total_variation(distance: ArrayLike, sigma: float) -> Array:
    """Total variation between N(h, sigma^2 I) and N(h', sigma^2 I) at |h - h'| = distance:

    erf(|h - h'| / (2 sqrt(2) sigma)), exactly. With the smallest of several standard deviations it is a bound.
    """
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

    def __repr__(self) -> str:
        sizes = f"{self.epsilon.min():.3g}" + (f" to {self.epsilon.max():.3g}" if np.ptp(self.epsilon) else "")
        moves = zip(self.action_names, self.deviation.max(axis=0), strict=True)
        most = ", ".join(f"{name} by at most {far:.3g}" for name, far in moves)
        return f"Certificate({len(self.states)} states, {self.norm} errors up to {sizes} move {most})"

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
        total_variation(distance, policy.sigma.min()),
        {name: np.maximum(top, -bottom) for name, (bottom, top) in found.items()},
        policy.mean.output_names,
        **of_value,
    )


def certified_radius(
    policy: GaussianPolicy, states: ArrayLike, amount: ArrayLike, norm: Norm = "l2", scale: float | Array = 1.0
) -> Array:
    """(N,): an epsilon up to which no action moves by more than `amount`, one number or one per action.

    Infinite where the action's own bounds keep it from moving that far.
    """
    limit = np.asarray(amount, dtype=np.float64)
    if limit.ndim > 1 or not np.all(np.isfinite(limit) & (limit > 0)):
        raise ConfigError(f"amount must be positive, one number or one per action, got {limit.tolist()}.")
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

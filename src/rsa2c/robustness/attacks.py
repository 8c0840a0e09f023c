"""Attacks on what a policy sees: what they find inside a region bounds the region's certificate from below.

An attack maps observations (n, d) to perturbed ones, with one generator per row, and stands between environment and
policy in `evaluate`; the environment itself is never touched. Gradients of policies are in `targets.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.sensors import low_pass
from rsa2c.errors import ConfigError, did_you_mean
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.regions import Array, Norm, Region, Units, unit_scale
from rsa2c.robustness.targets import Network, Score, Target, network_of, policy_target, pulled

STEPS = 10
"""Steps of a gradient attack."""
STRIDE = 0.4
"""Length of a step, as a share of epsilon."""
CANDIDATES = 64
"""Perturbations a box search tries before it refines the best."""

Generators = Sequence[np.random.Generator]


class Attack(Protocol):
    """Perturbed observations (n, d) for true ones, with a generator for each row."""

    def __call__(self, observations: NDArray[Any], rngs: Generators) -> Array: ...


def ascend(score: Score, gradient: Score, states: Array, region: Region, rngs: Generators, steps: int = STEPS) -> Array:
    """(n, d): the perturbed states of highest score met by projected gradient ascent from a random start,

    D <- P(D + stride * argmax_{E in region} gradient(s + D).E) with P projecting on the region.
    """
    perturbation = region.sampled(rngs, states.shape[1])
    best, highest = perturbation, score(states + perturbation)
    for _ in range(steps):
        step = region.steepest(gradient(states + perturbation))
        perturbation = region.projected(perturbation + STRIDE * step)
        reached = score(states + perturbation)
        better = reached > highest
        best = np.where(better[:, None], perturbation, best)
        highest = np.where(better, reached, highest)
    return states + best


def output_attacks(
    function: RKHSFunction, states: Array, region: Region, rng: np.random.Generator, trials: int
) -> Array:
    """(K, N, d): perturbed states, `trials` at random and as many from attacks on each output in both directions."""
    rngs, m = [rng] * len(states), len(function.output_names)
    found = [states + region.sampled(rngs, states.shape[1]) for _ in range(trials)]
    for weights in np.vstack([np.eye(m), -np.eye(m)]):
        rows = np.broadcast_to(weights, (len(states), m))

        def score(s: Array, weights: Array = weights) -> Array:
            return function(s) @ weights

        def gradient(s: Array, rows: Array = rows) -> Array:
            return pulled(function, s, rows)

        found += [ascend(score, gradient, states, region, rngs) for _ in range(trials)]
    return np.stack(found)


@dataclass(frozen=True, eq=False)
class RandomAttack:
    """A perturbation drawn uniformly from the region at every step."""

    region: Region

    def __call__(self, observations: NDArray[Any], rngs: Generators) -> Array:
        return observations + self.region.sampled(rngs, observations.shape[1])


@dataclass(frozen=True, eq=False)
class MadAttack:
    """Maximal action difference: the mean is moved as far from its true value as possible (Zhang et al. 2020)."""

    region: Region
    target: Target

    def __call__(self, observations: NDArray[Any], rngs: Generators) -> Array:
        states = observations.astype(np.float64)
        true = self.target.mean(states)
        return ascend(
            lambda s: np.sum((self.target.mean(s) - true) ** 2, axis=1),
            lambda s: self.target.pull(s, self.target.mean(s) - true),
            states,
            self.region,
            rngs,
        )


@dataclass(frozen=True, eq=False)
class AdvantageAttack:
    """The action the Advantage Critic thinks worst at the true state: smallest w_A(s)^T h(s + D)."""

    region: Region
    target: Target
    advantage: RKHSFunction

    def __call__(self, observations: NDArray[Any], rngs: Generators) -> Array:
        states = observations.astype(np.float64)
        against = -self.advantage(states)
        return ascend(
            lambda s: np.sum(self.target.mean(s) * against, axis=1),
            lambda s: self.target.pull(s, against),
            states,
            self.region,
            rngs,
        )


@dataclass(frozen=True, eq=False)
class ValueAttack:
    """The nearby observation of lowest value, according to a critic of states alone."""

    region: Region
    network: Network

    def __call__(self, observations: NDArray[Any], rngs: Generators) -> Array:
        network = self.network
        states = observations.astype(np.float64)
        return ascend(lambda s: -network.value(s), lambda s: -network.value_gradient(s), states, self.region, rngs)


@dataclass(frozen=True, eq=False)
class BoxSearch:
    """The largest change of the action among random corners (l2: boundary points), then improved feature by feature.

    The sign of a feature's perturbation is flipped if that helps. No gradient is needed, and the search sees the action
    after squashing and clipping.
    """

    region: Region
    action: Score

    def __call__(self, observations: NDArray[Any], rngs: Generators) -> Array:
        states = observations.astype(np.float64)
        n, d = states.shape
        true = self.action(states)

        def score(perturbations: Array) -> Array:
            count = len(perturbations)
            moved = self.action((states + perturbations).reshape(-1, d)).reshape(count, n, -1)
            return np.sum((moved - true) ** 2, axis=2)

        drawn = np.stack([rng.standard_normal((CANDIDATES, d)) for rng in rngs], axis=1)
        tried = np.stack([self.region.steepest(each) for each in drawn])
        first = score(tried)
        best, highest = tried[first.argmax(axis=0), np.arange(n)], first.max(axis=0)
        order = np.stack([rng.permutation(d)[:CANDIDATES] for rng in rngs])
        for features in order.T:
            flipped = best.copy()
            flipped[np.arange(n), features] *= -1.0
            reached = score(flipped[None])[0]
            better = reached > highest
            best = np.where(better[:, None], flipped, best)
            highest = np.where(better, reached, highest)
        return states + best


@dataclass(frozen=True, eq=False)
class FilteredAttack:
    """An attack on measurements that reach the policy through a filter: y = y' + w (x + D - y') moves by w D.

    So `attack`, on the states that the policy acts on, has a region w times as large, and what it finds is divided by
    w. It knows what the policy saw one step before, y', its own former perturbations included.
    """

    attack: Attack
    weight: float

    def __call__(self, observations: NDArray[Any], rngs: Generators, state: Array | None = None) -> Array:
        states = low_pass(self.weight, observations, state)
        return observations + (self.attack(states, rngs) - states) / self.weight


def make_attack(
    name: str,
    policy: Any,
    epsilon: float,
    norm: Norm = "l2",
    units: Units = "raw",
    scale: float | Array | None = None,
) -> Attack:
    """The attack called `name` on a policy; `scale` replaces `units` by the raw size of one unit of each feature."""
    if name not in ATTACKS:
        raise ConfigError(f"attack {name!r} is unknown; known are {', '.join(ATTACKS)}.{did_you_mean(name, ATTACKS)}")
    weight = getattr(policy, "filter_weight", None)
    reach = epsilon if weight is None else weight * epsilon
    found = ATTACKS[name](policy, Region(reach, norm, unit_scale(policy, units) if scale is None else scale))
    return found if weight is None else FilteredAttack(found, weight)


def _critic_attack(policy: Any, region: Region) -> Attack:
    if isinstance(getattr(policy, "advantage", None), RKHSFunction):
        return AdvantageAttack(region, policy_target(policy, region), policy.advantage)
    network = network_of(policy)
    if network is None or not hasattr(network.module, "predict_values"):
        raise ConfigError(
            f"the critic attack needs a critic of states, which {type(policy).__name__} does not have. "
            "Use the attack 'mad' or 'box'."
        )
    return ValueAttack(region, network)


def _box_search(policy: Any, region: Region) -> Attack:
    acting = policy if getattr(policy, "filter_weight", None) is None else policy.policy  # what acts behind the filter
    return BoxSearch(region, lambda s: np.asarray(acting.predict(s, deterministic=True)[0], dtype=np.float64))


ATTACKS: dict[str, Callable[[Any, Region], Attack]] = {
    "random": lambda policy, region: RandomAttack(region),
    "mad": lambda policy, region: MadAttack(region, policy_target(policy, region)),
    "critic": _critic_attack,
    "box": _box_search,
}

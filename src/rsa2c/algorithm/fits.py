"""The fits of an epoch: Value Critic, advantages, Advantage Critic; and what attribution critics are fitted to.

They need sums over transitions, which every block computes where it is. Whoever holds the environments says who fits
(`Workers.fits`); on a device the same fits are in `gpu/fitting.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rsa2c.algorithm import released
from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.batch import joined
from rsa2c.algorithm.critics import (
    AdvantageFit,
    AdvantageSums,
    LSTDSums,
    advantage_solution,
    advantage_sums,
    lstd_solution,
    lstd_sums,
)
from rsa2c.algorithm.estimates import advantages, discounted_returns
from rsa2c.algorithm.influence import influence, influence_sums
from rsa2c.algorithm.plausible import plausible, range_of_rewards, ridges
from rsa2c.algorithm.robust import Smoothness
from rsa2c.algorithm.samples import Block, Samples, states
from rsa2c.algorithm.state import dtype_of
from rsa2c.algorithm.sums import Largest, Moments, Range
from rsa2c.config import LSTD, TD, Config, NoValue, ReleasedAdvantage
from rsa2c.config.released import MonteCarlo
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.rkhs import RKHSFunction

ROUNDING_POWER = 0.6
"""Advantages that vary less than this power of machine epsilon, relative to the values, are the fit's rounding."""


@dataclass(frozen=True)
class Estimate:
    """What is known of all advantages and returns together; each block holds its own."""

    mean: float
    """Of the advantages, in reward units."""
    spread: float
    """Their standard deviation; 0 where they vary by no more than rounding, and then all advantages count as 0."""
    explained: float
    """Share of the returns' variance that the Value Critic explains; NaN where they do not vary."""
    episodes: int
    """Number of episodes that ended by themselves."""
    episode_return: float
    """Their mean return; NaN where there are none."""
    episode_length: float

    @classmethod
    def of(
        cls, advantage: Moments, returns: Moments, rest: Moments, rounding: float, totals: tuple[int, float, float]
    ) -> Estimate:
        """From the moments of advantages, returns and what the Value Critic leaves of them; `totals` has the number
        of episodes and the sums of their returns and lengths."""
        spread, varies, (count, total, length) = float(np.sqrt(advantage.variance)), float(returns.variance), totals
        return cls(
            mean=float(advantage.mean),
            spread=spread if spread > rounding else 0.0,
            explained=1.0 - float(rest.variance) / varies if varies > 0 else float("nan"),
            episodes=count,
            episode_return=total / count if count else float("nan"),
            episode_length=length / count if count else float("nan"),
        )

    def standardised(self, advantage: NDArray) -> NDArray[np.float64]:
        """Advantages with mean zero and unit spread over all blocks; zero where nothing varies."""
        if self.spread == 0:
            return np.zeros_like(advantage)
        return (advantage - self.mean) / self.spread


def rounding_of(values: float, dtype: DTypeLike) -> float:
    """What advantages may vary by rounding alone where the largest value is `values`."""
    return float(np.finfo(dtype).eps) ** ROUNDING_POWER * values


class Fits:
    """The fits in NumPy."""

    def value(self, value: RKHSFunction | None, samples: Samples, config: Config, epoch: int) -> RKHSFunction | None:
        """The Value Critic fitted to the samples; None without one."""
        fit, gamma = config.value, float(config.gamma)
        if value is None or isinstance(fit, NoValue):
            return None
        constant = 0.0
        if isinstance(fit, LSTD):
            damping = fit.value_damping if epoch > 0 else 0.0
            sums, rewards, known = samples.reduce(_value_sums, value, gamma, fit.value_lambda, damping > 0)
            for ridge in ridges(fit.value_ridge):
                weights, constant = lstd_solution(sums, gamma, ridge, value.dictionary.gram, damping)
                if plausible(samples.reduce(_set_values, weights, constant), rewards, known, gamma):
                    break
        else:
            weights = _swept(value, samples, fit, config, epoch)
        return replace(value, coefficients=weights[:, None], offset=np.array([constant]))

    def estimate(self, value: RKHSFunction | None, samples: Samples, config: Config) -> Estimate:
        """GAE(lambda) on the Value Critic, or without one the returns themselves; every block keeps its own."""
        arguments = value is not None, float(config.gamma), config.advantage.gae_lambda
        advantage, largest, returns, rest, count, total, length = samples.reduce(_estimated, *arguments)
        rounding = 0.0 if value is None else rounding_of(largest.value, dtype_of(config))
        return Estimate.of(advantage, returns, rest, rounding, (count, total, length))

    def advantage(
        self,
        policy: GaussianPolicy,
        samples: Samples,
        estimate: Estimate,
        config: Config,
        penalty: Smoothness | None = None,
    ) -> AdvantageFit:
        """The Advantage Critic on the actor's dictionary, in closed form, and what a penalty takes from the step."""
        rule, dictionary, covariance = config.advantage, policy.mean.dictionary, policy.covariance
        clipped = rule if isinstance(rule, ReleasedAdvantage) else None
        sums = samples.reduce(_advantage_sums, dictionary, covariance, estimate, clipped)
        against = None if penalty is None else penalty.gradient(policy, samples)
        fit = advantage_solution(sums, dictionary.gram, covariance, rule.advantage_ridge, against)
        if isinstance(rule, ReleasedAdvantage) and rule.smooth_advantage:
            fit = released.smoothed(fit, samples, covariance)
        return fit

    def attributed(
        self, samples: Samples, positions: NDArray[np.int64], estimate: Estimate, guide: str
    ) -> tuple[NDArray[Any], list[NDArray[Any]]]:
        """States (k, d) of the transitions at some positions, and what is attributed there: (k, outputs) for each
        source that `guide` names."""
        targets = [samples.take(_lambda_returns, positions, estimate)]
        if guide == "value+advantage":
            targets.append(samples.take(_advantage_direction, positions, estimate))
        elif guide == "value+policy":
            targets.append(samples.take(_means, positions))
        return samples.take(states, positions), targets

    def influence(self, samples: Samples, policy: GaussianPolicy, config: Config) -> NDArray[np.float64]:
        """(d,): what the noise of actions does to each feature."""
        return influence(samples.reduce(influence_sums, policy.sigma, config.correlation))


def _value_sums(
    block: Block, value: RKHSFunction, gamma: float, lam: float, damped: bool
) -> tuple[LSTDSums, Range, Range | None]:
    """The block's sums for LSTD, and the ranges of its rewards and of the previous values, where these damp; it keeps
    the features, from which its values follow."""
    batch = block.batch
    phi = block.features = value.dictionary.features(batch.points.dtype.type)(batch.points)
    previous = phi @ value.coefficients[:, 0].astype(phi.dtype) + value.offset if damped else None
    at_states = None if previous is None else previous[batch.state_index]
    known = None if previous is None else Range.of(previous)
    sums = lstd_sums(phi, batch, gamma, lam, at_states)
    return sums, range_of_rewards(batch.rewards, batch.terminated), known


def _set_values(block: Block, weights: NDArray, constant: float) -> Range:
    """The block takes the values of a fit whose sums it made; their range."""
    phi = block.features
    assert phi is not None, "the sums of the fit were made"
    block.values = (phi @ weights.astype(phi.dtype)).astype(np.float64) + constant
    return Range.of(block.values)


def _swept(
    value: RKHSFunction, samples: Samples, fit: TD | MonteCarlo, config: Config, epoch: int
) -> NDArray[np.float64]:
    """Coefficients (q,) after sweeps over the whole batch; every block is given its values from the same features."""
    batches = samples.batches()
    ends = np.cumsum([len(batch.points) for batch in batches])
    dtype = batches[0].points.dtype
    features, phi = value.dictionary.features(dtype.type), np.empty((ends[-1], value.dictionary.size), dtype)
    parts = np.split(phi, ends[:-1])
    for part, batch in zip(parts, batches, strict=True):
        part[:] = features(batch.points)
    weights = released.sweep_value(phi, joined(batches), value.coefficients[:, 0], fit, config, epoch)
    samples.give_values([(part @ weights.astype(dtype)).astype(np.float64) for part in parts])
    return weights


def _estimated(block: Block, has_value: bool, gamma: float, lam: float) -> tuple[Any, ...]:
    """The block's advantages, and what `Estimate` needs of them; it has the values of the fit already."""
    batch = block.batch
    if not has_value:
        block.values = np.zeros(len(batch.points))
        block.advantage = discounted_returns(batch, None, gamma)
    else:
        assert block.values is not None, "the value was fitted"
        block.features = None  # nobody needs them after this, and they are the largest array there is
        block.advantage = advantages(batch, block.values, gamma, lam)
    returns = discounted_returns(batch, block.values, gamma)
    rest = returns - block.values[batch.state_index]
    largest = Largest(float(np.abs(block.values).max()))
    episodes = len(batch.episode_returns), float(batch.episode_returns.sum()), float(batch.episode_lengths.sum())
    return Moments.of(block.advantage), largest, Moments.of(returns), Moments.of(rest), *episodes


def standard_advantage(block: Block, index: NDArray | slice, estimate: Estimate) -> NDArray[np.float64]:
    """The block's advantages at an index, standardised over all blocks."""
    assert block.advantage is not None, "advantages were estimated"
    return estimate.standardised(block.advantage[index])


def _advantage_sums(
    block: Block, dictionary: Dictionary, covariance: NDArray, estimate: Estimate, rule: ReleasedAdvantage | None
) -> AdvantageSums:
    """The block's sums for the advantage fit; it keeps the features."""
    batch, target = block.batch, standard_advantage(block, slice(None), estimate)
    block.features = dictionary.features(batch.points.dtype.type)(batch.states)
    if rule is not None:
        target = released.clipped_advantage(target, rule)
    return advantage_sums(block.features, batch.latents - batch.means, target, covariance)


def _lambda_returns(block: Block, index: NDArray, estimate: Estimate) -> NDArray[np.float64]:
    """(k, 1): advantage plus value."""
    assert block.values is not None and block.advantage is not None, "they were estimated"
    values = block.values[index + block.batch.segment[index]]
    return (values + block.advantage[index] if estimate.spread > 0 else values)[:, None]


def _advantage_direction(block: Block, index: NDArray, estimate: Estimate) -> NDArray[np.float64]:
    """(k, m): the noise of the action times its standardised advantage."""
    return (block.batch.latents - block.batch.means)[index] * standard_advantage(block, index, estimate)[:, None]


def _means(block: Block, index: NDArray) -> NDArray[Any]:
    return block.batch.means[index]

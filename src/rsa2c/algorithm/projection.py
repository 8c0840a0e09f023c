"""The policy on a changed metric: admitted again, re-projected, inside a trust region.

The kernel's metric changes when attributions ask for other feature weights (`reweighting.py`) and when it follows the
visited states (`following.py`). Either way the policy must stay what it was, up to a small KL divergence that is
measured on states the projection has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.admission import limit_of, threshold_at
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.following import Scale
from rsa2c.algorithm.robust import widened
from rsa2c.algorithm.samples import Samples
from rsa2c.algorithm.work import Reprojection
from rsa2c.config import LSTD, Config, FollowingScale
from rsa2c.kernel.algebra import NUMPY, Algebra
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction

HELD_OUT = 0.2
"""Share of the drawn states on which the KL of a change of metric is measured."""
REPROJECTION_STATES = 8
"""States drawn for a re-projection, as a multiple of the dictionary's capacity."""
REPROJECTION_RIDGE = 1e-6
"""In correction form a ridge shrinks nothing, so it only needs to keep the system positive definite."""
READMISSION = 0.3
"""Share of the admission threshold at which a remembered state is kept under a new metric."""
TRUST_REGION_TRIALS = 6
"""Shares of a change of metric tried before it is put off."""
FOLLOWING_TRUST_REGION = 0.02
"""Largest mean KL that new means and standard deviations of the inputs may cause: the size of one actor step."""


def follow_states(
    policy: GaussianPolicy,
    value: RKHSFunction | None,
    scale: Scale,
    samples: Samples,
    config: Config,
    epoch: int,
    rng: np.random.Generator,
) -> tuple[GaussianPolicy, RKHSFunction | None, Scale, tuple[Reprojection, ...]]:
    """The averages with the newest samples, and policy and value under them, if they have drifted far enough; the
    samples are then measured anew."""
    if not isinstance(config.scale, FollowingScale):
        return policy, value, scale, ()
    newest, old = samples.moments(), policy.mean.kernel.metric
    scale = scale.updated(newest.mean, newest.variance)
    new = replace(scale, variance=widened(scale.variance, config)).followed(old)
    if new is old:
        return policy, value, scale, ()
    states = ProjectionStates.of(policy.mean, samples, config, rng)
    algebra, limit = samples.algebra, FOLLOWING_TRUST_REGION
    mean, moves = within_trust_region(policy, new, states, limit, config, epoch, algebra=algebra)
    if mean is None:
        return policy, value, scale, moves
    if value is not None:
        own = mean.kernel.metric.reweighted(value.kernel.weights)
        refitted = isinstance(config.value, LSTD) and config.value.value_damping == 0
        value, move = on_new_metric(value, own, states.fitted, config, epoch, refitted=refitted, algebra=algebra)
        moves = (*moves, move)
    samples.measure(mean.kernel.metric)
    return replace(policy, mean=mean), value, scale, moves


@dataclass(frozen=True, eq=False)
class ProjectionStates:
    """Raw states that a re-projection is fitted to, and others that its KL divergence is measured on.

    Remembered states are among the first: the batch alone would leave the policy free where it seldom is but must act
    rightly.
    """

    fitted: NDArray[np.float64]
    held_out: NDArray[np.float64]

    @classmethod
    def of(cls, mean: RKHSFunction, samples: Samples, config: Config, rng: np.random.Generator) -> ProjectionStates:
        """Drawn from the samples."""
        positions = rng.permutation(samples.n)[: REPROJECTION_STATES * Sizes.of(config).capacity]
        drawn = samples.raw_states(positions)
        cut = int(np.ceil(len(drawn) * HELD_OUT))
        return cls(np.vstack([mean.remembered_states, drawn[cut:]]), drawn[:cut])


def within_trust_region(
    policy: GaussianPolicy,
    metric: Metric,
    states: ProjectionStates,
    limit: float,
    config: Config,
    epoch: int,
    reproject: bool = True,
    algebra: Algebra = NUMPY,
) -> tuple[RKHSFunction | None, tuple[Reprojection, ...]]:
    """The policy's mean on the largest share of the way to `metric`, among a few, that moves it by a KL of at most
    `limit`; None if no share is small enough."""
    old, before = policy.mean.kernel.metric, algebra.values(policy.mean, states.held_out)
    share, moves = 1.0, []
    for _ in range(TRUST_REGION_TRIALS):
        between = old.between(metric, share)
        mean, move = on_new_metric(
            policy.mean, between, states.fitted, config, epoch, reproject=reproject, algebra=algebra
        )
        moves.append(replace(move, held_out=len(states.held_out)))
        kl = policy.divergence(before, algebra.values(mean, states.held_out))
        if kl <= limit:
            return mean, tuple(moves)
        share *= np.clip(0.9 * np.sqrt(limit / kl), 0.1, 0.7)  # KL grows about as share squared
    return None, tuple(moves)


def on_new_metric(
    function: RKHSFunction,
    metric: Metric,
    states: NDArray,
    config: Config,
    epoch: int,
    *,
    reproject: bool = True,
    refitted: bool = False,
    algebra: Algebra = NUMPY,
) -> tuple[RKHSFunction, Reprojection]:
    """The function on another metric: admitted again, room refilled from raw states (N, d), re-projected at them.

    Without `reproject`, states and coefficients stay (the paper's released code). A function that is `refitted` next,
    as the Value Critic in closed form without damping, needs new states but no projection.
    """
    old, outputs = function.dictionary, len(function.output_names)
    if not reproject:
        same = Dictionary(old.kernel.on(metric), old.states, old.errors)
        return replace(function, dictionary=same), Reprojection(old.size, old.size, old.size, len(states), outputs)
    threshold = threshold_at(config, epoch)
    kept, positions = algebra.readmitted(old, metric, READMISSION * threshold)
    room = min(Sizes.of(config).capacity - kept.size, limit_of(config))
    refilled = algebra.grown(kept, states[-config.admission.admission_candidates :], threshold, room)
    move = Reprojection(old.size, kept.size, refilled.size, len(states), outputs)
    start = np.zeros((refilled.size, outputs))
    start[: kept.size] = function.coefficients[positions]
    if refitted:
        return replace(function, dictionary=refilled, coefficients=start), move
    return algebra.projected(function, refilled, states, REPROJECTION_RIDGE, start), move

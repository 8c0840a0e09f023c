"""The policy on a changed kernel: admitted again, re-projected, inside a trust region.

A kernel changes when attributions ask for other feature weights (`reweighting.py`) and when its inputs follow the
visited states (`following.py`). Either way the policy must stay what it was, up to a small KL divergence that is
measured on states the projection has not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.admission import limit_of, threshold_at
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.following import Scale
from rsa2c.algorithm.rollout import Batch
from rsa2c.algorithm.work import Reprojection
from rsa2c.config import LSTD, Config, FollowingScale, ReleasedGuidance, ShadowGuidance
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.rkhs import Normaliser, RKHSFunction

HELD_OUT = 0.2
"""Share of the drawn states on which the KL of a change of weights is measured."""
REPROJECTION_STATES = 8
"""States drawn for a re-projection, as a multiple of the dictionary's capacity."""
REPROJECTION_RIDGE = 1e-6
"""In correction form a ridge shrinks nothing, so it only needs to keep the system positive definite."""
READMISSION = 0.3
"""Share of the admission threshold at which a remembered state is kept under new weights."""
TRUST_REGION_TRIALS = 6
"""Shares of a change of weights tried before it is put off."""
FOLLOWING_TRUST_REGION = 0.02
"""Largest mean KL that new means and standard deviations of the inputs may cause: the size of one actor step."""

Propose = Callable[[float], tuple[RKHSFunction, Reprojection, NDArray]]


def split(states: NDArray, capacity: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Held-out states, and states to fit a projection to, drawn from a batch."""
    drawn = rng.permutation(states)[: REPROJECTION_STATES * capacity].astype(np.float64)
    cut = int(np.ceil(len(drawn) * HELD_OUT))
    return drawn[:cut], drawn[cut:]


def within_trust_region(
    policy: GaussianPolicy, before: NDArray, propose: Propose, limit: float
) -> tuple[RKHSFunction | None, tuple[Reprojection, ...]]:
    """The proposal for the largest share of a change, among a few, that moves the policy by a KL of at most `limit`.

    `before` (N, m) are the policy's means at held-out states; `propose(share)` gives a function, its sizes and its
    means there. None if no share is small enough.
    """
    share, moves = 1.0, []
    for _ in range(TRUST_REGION_TRIALS):
        proposal, move, after = propose(share)
        moves.append(move)
        kl = policy.divergence(before, after)
        if kl <= limit:
            return proposal, tuple(moves)
        share *= np.clip(0.9 * np.sqrt(limit / kl), 0.1, 0.7)  # KL grows about as share squared
    return None, tuple(moves)


def follow_states(
    policy: GaussianPolicy,
    value: RKHSFunction | None,
    scale: Scale,
    batch: Batch,
    config: Config,
    epoch: int,
    rng: np.random.Generator,
) -> tuple[GaussianPolicy, RKHSFunction | None, Scale, Batch, tuple[Reprojection, ...]]:
    """The averages with the newest batch, and policy, value and batch under them, if they have drifted far enough."""
    old = policy.mean.normaliser
    if not isinstance(config.scale, FollowingScale):
        return policy, value, scale, batch, ()
    scale = scale.updated(batch.raw_states)
    if not scale.drifted_from(old):
        return policy, value, scale, batch, ()
    new = scale.normaliser()
    held_out, drawn = split(batch.raw_states, Sizes.of(config).capacity, rng)
    fitted = np.vstack([policy.mean.remembered_states, drawn])

    def propose(share: float) -> tuple[RKHSFunction, Reprojection, NDArray]:
        proposal, move = on_new_scale(policy.mean, _between(old, new, share), fitted, config, epoch)
        return proposal, replace(move, held_out=len(held_out)), proposal(held_out)

    proposal, moves = within_trust_region(policy, policy.mean(held_out), propose, FOLLOWING_TRUST_REGION)
    if proposal is None:
        return policy, value, scale, batch, moves
    if value is not None:
        value, move = on_new_scale(value, proposal.normaliser, fitted, config, epoch, refitted=True)
        moves = (*moves, move)
    return replace(policy, mean=proposal), value, scale, batch.normalised(proposal.normaliser), moves


def _between(old: Normaliser, new: Normaliser, share: float) -> Normaliser:
    """A share of the way: means linearly, standard deviations on a logarithmic scale."""
    if share == 1.0:
        return new
    return Normaliser(old.mean + share * (new.mean - old.mean), old.std * (new.std / old.std) ** share, new.clip)


def on_new_scale(
    function: RKHSFunction, normaliser: Normaliser, raw: NDArray, config: Config, epoch: int, refitted: bool = False
) -> tuple[RKHSFunction, Reprojection]:
    """The function on inputs normalised otherwise: admitted again, room refilled from raw states, re-projected at them.

    A function that is `refitted` next, as the Value Critic in closed form, needs no projection.
    """
    x, centres = normaliser(raw), normaliser(function.remembered_states)
    kept = function.dictionary.readmitted(function.kernel, centres, _keep(config, epoch))
    refilled, start, move = _refilled(function, kept, x, config, epoch)
    if refitted and isinstance(config.value, LSTD) and config.value.value_damping == 0:
        return replace(function, dictionary=refilled, coefficients=start, normaliser=normaliser), move
    targets = function(raw) - function.offset
    moved = replace(function, normaliser=normaliser).fitted(refilled, x, targets, REPROJECTION_RIDGE, start)
    return moved, move


def _keep(config: Config, epoch: int) -> float:
    """Residual at which a remembered state is kept under a changed kernel."""
    return READMISSION * threshold_at(config, epoch)


def _refilled(
    function: RKHSFunction, kept: tuple[Dictionary, NDArray], x: NDArray, config: Config, epoch: int
) -> tuple[Dictionary, NDArray[np.float64], Reprojection]:
    """What was kept of a function's dictionary, with its room refilled from x, the coefficients that go with it, and
    the sizes of the move."""
    dictionary, positions = kept
    room = min(Sizes.of(config).capacity - dictionary.size, limit_of(config))
    refilled = dictionary.grown(x[-config.admission.admission_candidates :], threshold_at(config, epoch), room)
    outputs = len(function.output_names)
    start = np.zeros((refilled.size, outputs))
    start[: len(positions)] = function.coefficients[positions]
    return refilled, start, Reprojection(function.dictionary.size, len(positions), refilled.size, len(x), outputs)


def on_new_weights(
    function: RKHSFunction,
    weights: NDArray,
    x: NDArray,
    config: Config,
    rule: ShadowGuidance | ReleasedGuidance,
    epoch: int,
) -> tuple[RKHSFunction, Reprojection]:
    """The function on the reweighted kernel: admitted again, room refilled from x, re-projected at x."""
    if isinstance(rule, ReleasedGuidance) and not rule.reproject:
        q, reweighted = function.dictionary.size, function.kernel.reweighted(weights)
        same = Dictionary(reweighted, function.centres, function.dictionary.errors)
        return replace(function, dictionary=same), Reprojection(q, q, q, len(x), len(function.output_names))
    kept = function.dictionary.reweighted(weights, _keep(config, epoch))
    refilled, start, move = _refilled(function, kept, x, config, epoch)
    return function.project(refilled, x, REPROJECTION_RIDGE, start), move

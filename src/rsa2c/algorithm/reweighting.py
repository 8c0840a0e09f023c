"""RKHS-SHAP, and its attributions as the kernel's new feature weights.

The policy is re-projected on the new kernel, inside a trust region measured on states that the projection has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import released
from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.guidance import Explained, Importances, measure, shadow_critic, value_critic
from rsa2c.algorithm.phases import standardised
from rsa2c.algorithm.projection import ProjectionStates, on_new_metric, within_trust_region
from rsa2c.algorithm.rollout import Batch
from rsa2c.algorithm.work import Attribution, Reprojection
from rsa2c.config import Config, ReleasedGuidance, ShadowGuidance
from rsa2c.kernel.rkhs import RKHSFunction

SMALLEST_CHANGE = 0.1
"""Relative change of every weight up to which the policy is not re-projected."""
Rule = ShadowGuidance | ReleasedGuidance


@dataclass(frozen=True, eq=False)
class Guided:
    """Policy and Value Critic on the kernel that the attributions ask for, and what was measured on the way."""

    policy: GaussianPolicy
    value: RKHSFunction | None
    importances: Importances
    attribution: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    """Mean absolute attribution and kernel weight of each feature, (d,) both, where attributions were due."""
    work: Attribution | None = None
    reprojections: tuple[Reprojection, ...] = ()


def attribute_and_reweight(
    policy: GaussianPolicy,
    value: RKHSFunction | None,
    importances: Importances,
    batch: Batch,
    values: NDArray,
    advantage: NDArray,
    config: Config,
    epoch: int,
    rngs: tuple[np.random.Generator, np.random.Generator],
) -> Guided:
    """Measure importances where they are due, and move the kernel towards the weights they ask for.

    `rngs` are the streams of the attribution and of the re-projection.
    """
    rule, unchanged = config.guidance, Guided(policy, value, importances)
    if not isinstance(rule, Rule) or epoch % rule.attribution_every:
        return unchanged
    rng, d = rngs[0], batch.points.shape[1]
    explained = _explained(rule, value, batch, values, advantage, config.kernel, rng)
    moments, null, phi = measure(explained, d, rule, rng)
    importances = importances.updated(moments, null, explained.explained, rule.moment_decay)
    guided = replace(unchanged, importances=importances, work=explained.work)
    if importances.updates > rule.attribution_warmup:
        weights = _weights(importances, rule, policy.mean.kernel.length_scale)
        weights = rng.permutation(weights) if rule.shuffle_weights else weights
        guided = _reweighted(guided, weights, batch, config, rule, epoch, rngs[1])
    return replace(guided, attribution=(phi, guided.policy.mean.kernel.weights.copy()))


def _explained(
    rule: Rule,
    value: RKHSFunction | None,
    batch: Batch,
    values: NDArray,
    advantage: NDArray,
    kernel: str,
    rng: np.random.Generator,
) -> Explained:
    """What is attributed: the Value Critic itself, or a regression with shadow features."""
    if isinstance(rule, ReleasedGuidance):
        assert value is not None, "guidance by the Value Critic needs one: every guided variant has it"
        return value_critic(batch.states, value)
    targets = [(advantage + values[batch.state_index])[:, None]]
    if rule.guide == "value+advantage":
        targets.append((batch.latents - batch.means) * standardised(advantage)[:, None])
    elif rule.guide == "value+policy":
        targets.append(batch.means)
    return shadow_critic(batch.states, targets, kernel, rule.attribution_centres, rng)


def _weights(importances: Importances, rule: Rule, length_scale: float) -> NDArray[np.float64]:
    if isinstance(rule, ReleasedGuidance):
        return released.ratio_weights(importances.moments.sum(axis=0), rule)
    return importances.weights(rule.weight_floor, length_scale)


def _reweighted(
    guided: Guided, weights: NDArray, batch: Batch, config: Config, rule: Rule, epoch: int, rng: np.random.Generator
) -> Guided:
    """Move the actor's metric towards `weights` as far as the policy may change, and re-project on it."""
    policy, old = guided.policy, guided.policy.mean.kernel.metric
    if np.all(np.abs(weights - old.weights) <= SMALLEST_CHANGE * old.weights):
        return guided
    states = ProjectionStates.of(policy.mean, batch, config, rng)
    reproject = not isinstance(rule, ReleasedGuidance) or rule.reproject
    new, limit = old.reweighted(weights), rule.trust_region
    mean, moves = within_trust_region(policy, new, states, limit, config, epoch, reproject)
    if mean is None:
        return replace(guided, reprojections=moves)
    value = guided.value
    if value is not None and isinstance(rule, ShadowGuidance) and rule.value_kernel == "guided":
        value, move = on_new_metric(value, mean.kernel.metric, states.fitted, config, epoch)
        moves = (*moves, move)
    return replace(guided, policy=replace(policy, mean=mean), value=value, reprojections=moves)

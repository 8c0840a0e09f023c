"""RKHS-SHAP, and its attributions as the kernel's new feature weights.

The policy is re-projected on the new kernel, inside a trust region measured on states that the projection has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import released
from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.fits import Estimate, standard_advantage
from rsa2c.algorithm.guidance import SAMPLES, Explained, Importances, measure, shadow_critic, value_critic
from rsa2c.algorithm.importance import other_importance
from rsa2c.algorithm.projection import ProjectionStates, on_new_metric, within_trust_region
from rsa2c.algorithm.samples import Block, Samples, states
from rsa2c.algorithm.state import ATTRIBUTE, generator
from rsa2c.algorithm.work import Attribution, Reprojection
from rsa2c.config import Config, CriticGuidance, PrintedGuidance, ReleasedGuidance, ShadowGuidance
from rsa2c.kernel.rkhs import RKHSFunction

SMALLEST_CHANGE = 0.1
"""Relative change of every weight up to which the policy is not re-projected."""
Rule = ShadowGuidance | CriticGuidance


@dataclass(frozen=True, eq=False)
class Guided:
    """Policy and Value Critic on the kernel that the attributions ask for, and what was measured on the way."""

    policy: GaussianPolicy
    value: RKHSFunction | None
    importances: Importances
    attribution: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    """Mean absolute attribution (or the root of another importance) and kernel weight of each feature, (d,) both, where
    attributions were due."""
    work: Attribution | None = None
    reprojections: tuple[Reprojection, ...] = ()


def attribute_and_reweight(
    policy: GaussianPolicy,
    value: RKHSFunction | None,
    importances: Importances,
    samples: Samples,
    estimate: Estimate,
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
    rng, d = rngs[0], policy.mean.kernel.dimension
    explained = _explained(rule, value, samples, estimate, config.kernel, rng)
    moments, null, share, phi = _measured(explained, d, rule, config, rng)
    importances = importances.updated(moments, null, share, rule.moment_decay)
    guided = replace(unchanged, importances=importances, work=explained.work)
    if importances.updates > rule.attribution_warmup:
        weights = _weights(importances, rule, policy.mean.kernel.length_scale)
        weights = rng.permutation(weights) if rule.shuffle_weights else weights
        guided = _reweighted(guided, weights, samples, config, rule, epoch, rngs[1])
    return replace(guided, attribution=(phi, guided.policy.mean.kernel.weights.copy()))


def _explained(
    rule: Rule,
    value: RKHSFunction | None,
    samples: Samples,
    estimate: Estimate,
    kernel: str,
    rng: np.random.Generator,
) -> Explained:
    """What is attributed: the Value Critic itself, or a regression with shadow features."""
    if isinstance(rule, CriticGuidance):
        assert value is not None, "guidance by the Value Critic needs one: every guided variant has it"
        return value_critic(samples.take(states, np.arange(samples.n)), value)
    drawn = rng.choice(samples.n, min(samples.n, SAMPLES), replace=False)
    targets = [samples.take(_lambda_returns, drawn, estimate)]
    if rule.guide == "value+advantage":
        targets.append(samples.take(_advantage_direction, drawn, estimate))
    elif rule.guide == "value+policy":
        targets.append(samples.take(_means, drawn))
    return shadow_critic(samples.take(states, drawn), targets, kernel, rule.attribution_centres, rng)


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


def _measured(
    explained: Explained, d: int, rule: Rule, config: Config, rng: np.random.Generator
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Importances (sources, d), their null and the share explained (sources,), and what is logged (d,)."""
    if not isinstance(rule, ShadowGuidance) or rule.importance == "shapley":
        moments, null, phi = measure(explained, d, rule, rng)
        return moments, null, explained.explained, phi
    rngs = rng, generator(config, 0, ATTRIBUTE, 2)
    moments, null, phi = other_importance(rule.importance, explained, d, config.distractors, rngs)
    certain = np.ones_like(explained.explained)
    return moments, null, certain if rule.importance == "oracle" else explained.explained, phi


def _weights(importances: Importances, rule: Rule, length_scale: float) -> NDArray[np.float64]:
    if isinstance(rule, PrintedGuidance):
        return released.printed_weights(importances.moments.sum(axis=0), rule, length_scale)
    if isinstance(rule, ReleasedGuidance):
        return released.ratio_weights(importances.moments.sum(axis=0), rule)
    assert isinstance(rule, ShadowGuidance), "there is no other rule"
    return importances.weights(rule.weight_floor, length_scale)


def _reweighted(
    guided: Guided, weights: NDArray, samples: Samples, config: Config, rule: Rule, epoch: int, rng: np.random.Generator
) -> Guided:
    """Move the actor's metric towards `weights` as far as the policy may change, and re-project on it."""
    policy, old = guided.policy, guided.policy.mean.kernel.metric
    if np.all(np.abs(weights - old.weights) <= SMALLEST_CHANGE * old.weights):
        return guided
    drawn = ProjectionStates.of(policy.mean, samples, config, rng)
    reproject = not isinstance(rule, CriticGuidance) or rule.reproject
    new, limit = old.reweighted(weights), rule.trust_region
    mean, moves = within_trust_region(policy, new, drawn, limit, config, epoch, reproject, samples.algebra)
    if mean is None:
        return replace(guided, reprojections=moves)
    value = guided.value
    if value is not None and isinstance(rule, ShadowGuidance) and rule.value_kernel == "guided":
        value, move = on_new_metric(value, mean.kernel.metric, drawn.fitted, config, epoch, algebra=samples.algebra)
        moves = (*moves, move)
    return replace(guided, policy=replace(policy, mean=mean), value=value, reprojections=moves)

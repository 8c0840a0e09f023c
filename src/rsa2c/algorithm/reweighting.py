"""RKHS-SHAP, and its attributions as the kernel's new feature weights.

The policy is re-projected on the new kernel, inside a trust region measured on states that the projection has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import released
from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.fits import Estimate
from rsa2c.algorithm.guidance import (
    SAMPLES,
    Critic,
    Halves,
    attribution_critics,
    measure,
    measure_value,
    product_values,
    value_critic,
)
from rsa2c.algorithm.importance import other_importance
from rsa2c.algorithm.projection import ProjectionStates, on_new_metric, within_trust_region
from rsa2c.algorithm.samples import Samples, states
from rsa2c.algorithm.state import ATTRIBUTE, generator
from rsa2c.algorithm.weights import Importances, Measured
from rsa2c.algorithm.work import Attribution, Reprojection
from rsa2c.config import AgreementGuidance, Config, CriticGuidance, PrintedGuidance, ReleasedGuidance
from rsa2c.kernel.rkhs import RKHSFunction

SMALLEST_CHANGE = 0.1
"""Relative change of every weight up to which the policy is not re-projected. Without re-projection, as the preset
`paper` has it, any change counts: on BipedalWalker-v3 and Ant-v5 its rule changes no weight by more than 6%."""
Rule = AgreementGuidance | CriticGuidance


@dataclass(frozen=True, eq=False)
class Guided:
    """Policy and Value Critic on the kernel that the attributions ask for, and what was measured on the way."""

    policy: GaussianPolicy
    value: RKHSFunction | None
    importances: Importances
    attribution: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    """Mean absolute attribution (or the root of another importance) and kernel weight of each feature, (d,) both, where
    attributions were due."""
    work: tuple[Attribution, ...] = ()
    reprojections: tuple[Reprojection, ...] = ()


def attribute_and_reweight(
    policy: GaussianPolicy,
    value: RKHSFunction | None,
    importances: Importances,
    samples: Samples,
    estimate: Estimate,
    config: Config,
    epoch: int,
    varies: NDArray[np.bool_],
) -> Guided:
    """Measure importances where they are due, and move the kernel towards the weights they ask for; `varies` (d,) are
    the features that do."""
    rule, unchanged = config.guidance, Guided(policy, value, importances)
    if not isinstance(rule, Rule) or epoch % rule.attribution_every:
        return unchanged
    rng = generator(config, epoch, ATTRIBUTE)
    critics: tuple[Critic, ...]
    if isinstance(rule, CriticGuidance):
        assert value is not None, "guidance by the Value Critic needs one: every guided variant has it"
        critics = (value_critic(samples.take(states, np.arange(samples.n)), value),)
        measured = measure_value(critics[0], rule, rng, product_values(config.device))
        moved = np.zeros(len(varies))
    else:
        critics = _halves(rule, samples, estimate, config.kernel, rng)
        measured = _measured(critics, rule, config, rng)
        knows = rule.importance == "oracle"  # it asks nothing of actions
        moved = np.zeros(len(varies)) if knows else samples.workers.fits.influence(samples, policy, config)
    importances = importances.updated(measured, moved, rule.moment_decay)
    guided = replace(unchanged, importances=importances, work=tuple(critic.work for critic in critics))
    if importances.updates > rule.attribution_warmup:
        weights = _weights(importances, rule, policy.mean.kernel.length_scale, varies)
        if rule.shuffle_weights:
            weights[varies] = rng.permutation(weights[varies])
        guided = _reweighted(guided, weights, samples, config, rule, epoch)
    return replace(guided, attribution=(measured.logged, guided.policy.mean.kernel.weights.copy()))


def _halves(
    rule: AgreementGuidance, samples: Samples, estimate: Estimate, kernel: str, rng: np.random.Generator
) -> Halves:
    """Critics of what is attributed, of the first and the second half of the episodes."""
    drawn = rng.choice(samples.n, min(samples.n, SAMPLES), replace=False)
    x, targets = samples.workers.fits.attributed(samples, drawn, estimate, rule.guide)
    first, centres = samples.first_half(drawn), rule.attribution_centres
    return attribution_critics(x, targets, first, kernel, centres, rng, samples.algebra)


def _measured(critics: Halves, rule: AgreementGuidance, config: Config, rng: np.random.Generator) -> Measured:
    """Importances of the kind that the rule names."""
    if rule.importance == "shapley":
        return measure(critics, rule, rng, product_values(config.device))
    return other_importance(rule.importance, critics, config.distractors, (rng, generator(config, 0, ATTRIBUTE, 2)))


def value_importance(importances: Importances, rule: object) -> NDArray[np.float64]:
    """(d,): the importance measured for the value. Where critics of two halves contradict each other it is zero; the
    mean attributions of one critic have signs that say nothing of their size."""
    found = importances.agreed[0]
    return np.maximum(found, 0.0) if isinstance(rule, AgreementGuidance) else np.abs(found)


def _weights(
    importances: Importances, rule: Rule, length_scale: float, varies: NDArray[np.bool_]
) -> NDArray[np.float64]:
    if isinstance(rule, PrintedGuidance):
        return released.printed_weights(importances.agreed.sum(axis=0), rule, length_scale)
    if isinstance(rule, ReleasedGuidance):
        return released.ratio_weights(importances.agreed.sum(axis=0), rule)
    assert isinstance(rule, AgreementGuidance), "there is no other rule"
    return importances.weights(rule, length_scale, varies)


def _reweighted(guided: Guided, weights: NDArray, samples: Samples, config: Config, rule: Rule, epoch: int) -> Guided:
    """Move the actor's metric towards `weights` as far as the policy may change, and re-project on it."""
    policy, old = guided.policy, guided.policy.mean.kernel.metric
    reproject = not isinstance(rule, CriticGuidance) or rule.reproject
    if np.all(np.abs(weights - old.weights) <= (SMALLEST_CHANGE * old.weights if reproject else 0.0)):
        return guided
    drawn = ProjectionStates.of(policy.mean, samples, config, generator(config, epoch, ATTRIBUTE, 1))
    new, limit = old.reweighted(weights), rule.trust_region
    mean, moves = within_trust_region(policy, new, drawn, limit, config, epoch, reproject, samples.algebra)
    if mean is None:
        return replace(guided, reprojections=moves)
    value = guided.value
    if value is not None and isinstance(rule, AgreementGuidance) and rule.value_kernel == "guided":
        value, move = on_new_metric(value, mean.kernel.metric, drawn.fitted, config, epoch, algebra=samples.algebra)
        moves = (*moves, move)
    return replace(guided, policy=replace(policy, mean=mean), value=value, reprojections=moves)

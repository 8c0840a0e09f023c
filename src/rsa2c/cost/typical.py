"""What an epoch usually does under a configuration, before any is run."""

from __future__ import annotations

import math
from dataclasses import replace

from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.guidance import CANDIDATES, SAMPLES
from rsa2c.algorithm.projection import HELD_OUT, REPROJECTION_STATES
from rsa2c.algorithm.work import Attribution, Basis, Growth, Reprojection, Work
from rsa2c.config import AgreementGuidance, AnnealedAdmission, Config, CriticGuidance, NoReplacement
from rsa2c.cost.flops import flops


def typical_epoch(config: Config, features: int, outputs: int, states: int) -> Work:
    """An epoch of a settled configuration with dictionaries of `states` states, in which everything that can be due is.

    Below capacity candidates are screened and none is admitted; at capacity the most are replaced. Weights change once.
    """
    sizes = Sizes.of(config)
    n = sizes.epoch_steps
    candidates = min(config.admission.admission_candidates, n)
    rule = config.replacement
    full = states >= sizes.capacity and not isinstance(rule, NoReplacement)
    replaced = 0 if isinstance(rule, NoReplacement) or not full else min(rule.replacement_limit, states)
    value = Basis(states, gram=not full) if config.has_value else None
    owners = (outputs,) if value is None else (outputs, 1)
    basis = Basis(states, cholesky=not full, inverse_factor=not full, inverse=False)
    growth = Growth(basis, outputs, candidates, replaced, replaced)
    offered = full or states < sizes.capacity
    growths = tuple(replace(growth, outputs=owner) for owner in owners) if offered else ()
    actor = Basis(states, gram=not full)
    epoch = Work(n, n, n + sizes.n_envs, features, outputs, Basis(states), actor, value, growths=growths)
    guidance = config.guidance
    if not isinstance(guidance, AgreementGuidance | CriticGuidance):
        return epoch
    drawn, held = min(REPROJECTION_STATES * sizes.capacity, n), held_out(config, n)
    moved = Reprojection(states, states, states, states + drawn - held, outputs, held)
    explained: tuple[Attribution, ...]
    if isinstance(guidance, CriticGuidance):
        explained = (Attribution(states, features, 1),)
    else:
        half, centres = min(n, SAMPLES) // 2, guidance.attribution_centres
        sources = 1 if guidance.guide == "value" else 1 + outputs
        explained = (Attribution(centres, features, sources, half, min(half, CANDIDATES * centres)),) * 2
    return replace(epoch, attribution=explained, reprojections=(moved,))


def held_out(config: Config, transitions: int) -> int:
    """States on which a change of weights is judged."""
    return math.ceil(min(REPROJECTION_STATES * Sizes.of(config).capacity, transitions) * HELD_OUT)


def mean_flops(config: Config, features: int, outputs: int, states: int) -> dict[str, float]:
    """Average operations of each phase per epoch: those of `typical_epoch`, weighted by how often each is due."""
    counts = flops(config, typical_epoch(config, features, outputs, states))
    full = states >= Sizes.of(config).capacity
    if full and not isinstance(config.replacement, NoReplacement):
        counts["admit"] /= config.replacement.replacement_every
    elif isinstance(config.admission, AnnealedAdmission):
        counts["admit"] /= config.admission.admission_every
    if isinstance(config.guidance, AgreementGuidance | CriticGuidance):
        counts["attribute"] /= config.guidance.attribution_every
    return counts

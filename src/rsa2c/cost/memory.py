"""Largest memory of arrays in each phase of an epoch, from sizes and settings alone."""

from __future__ import annotations

from rsa2c.algorithm.admission import limit_of
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.samples import environments_per_block
from rsa2c.algorithm.work import Work
from rsa2c.config import LSTD, AgreementGuidance, Config, CriticGuidance, FollowingScale, SmoothPolicy


def peak_bytes(config: Config, epoch: Work) -> dict[str, float]:
    """Largest memory of arrays in each phase: the batch, the dictionaries' matrices, and what the phase needs.

    Until it is complete, an epoch keeps the dictionaries it began with as well as those it makes.
    """
    single = 4 if config.precision == "float32" else 8
    n, points, d, m = epoch.transitions, epoch.points, epoch.features, epoch.outputs
    q, v = epoch.actor.states, epoch.value.states if epoch.value else 0
    batch = single * (points * d + 2 * n * m) + 8 * 2 * n
    grams = 8 * (q * q + v * v)
    tails = 3 * 8 * points * d if isinstance(config.scale, FollowingScale) else 0
    screened, changed = bool(epoch.growths), any(growth.admitted for growth in epoch.growths)
    held = batch + grams * (1 + screened + changed)
    together = any(growth.functions > 1 for growth in epoch.growths)  # one dictionary grows for actor and Value Critic
    growing = batch + (8 * q * q if together else grams) * (1 + screened + changed)
    # Features, and for one block at a time traces, differences and features with a constant; sweeps need the first.
    sizes = Sizes.of(config)
    blocks = -(-sizes.n_envs // environments_per_block(sizes.n_envs, sizes.horizon))
    copies = 1 + 3 / blocks if isinstance(config.value, LSTD) else 1
    admit = max((g.candidates * (3 * g.basis.states + limit_of(config)) for g in epoch.growths), default=0)
    attribute, critic = _attribution(config, epoch, single)
    perturbed = 2 * n * (q + d) / blocks if isinstance(config.robust, SmoothPolicy) else 0  # a block's at a time
    return {
        "collect": 2 * batch + grams + tails,
        "admit": growing + 8 * admit,
        "value": held + single * copies * points * (v + 1) + 8 * 2 * v * v,
        "attribute": held + max(8 * attribute, critic),
        "advantage": held + single * (n * (q + d) + perturbed) + 8 * 3 * q * q,
        "actor": held + single * n * q + 8 * q * q,
    }


def _attribution(config: Config, epoch: Work, single: int) -> tuple[int, int]:
    """Numbers in the largest arrays of attribution and re-projection, and bytes of the attribution critic's."""
    rule, attribute, critic = config.guidance, 0, 0
    kept = isinstance(rule, CriticGuidance) and not rule.reproject
    for moved in epoch.reprojections:
        arrays = 2 * moved.held_out * moved.old if kept else moved.points * (2 * moved.states + moved.old)
        attribute = max(attribute, arrays)
    for explained in epoch.attribution:
        fitted = explained.samples * (explained.centres + 2 * explained.features) * single
        if isinstance(rule, AgreementGuidance):  # factors of the most centres; states and targets drawn for both
            fitted = max(fitted, 8 * explained.candidates * rule.attribution_centres)
            fitted += 4 * explained.samples * (explained.features + explained.outputs) * 8
        critic = max(critic, fitted)
        assert isinstance(rule, AgreementGuidance | CriticGuidance), "attributions guide"
        if rule.phi_estimator == "permutation":
            states = rule.attribution_states + 2 * rule.attribution_background
            attribute = max(attribute, states * explained.centres * explained.features)
    return attribute, critic

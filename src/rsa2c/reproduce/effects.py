"""Effects of a claim: the statistic of its subject, or its difference from another method's; and the claimed range."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rsa2c import statistics
from rsa2c.reproduce import paper
from rsa2c.reproduce.measures import COUNTED, MEDIANS, RETURNS, SHARES, SPREADS, TIMES
from rsa2c.reproduce.paper import Claim
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import Selection
from rsa2c.statistics import Estimate

MARGIN = 0.1
"""Share of what is compared with that still counts as similar and not yet as substantial."""
NEGLIGIBLE = 0.05
"""Share of what is compared with, of its return for all that is measured in units of return, up to which an effect is
too small to matter: a claim of an effect is refuted by an interval that has no larger one."""


def effect_of(
    study: Selection, statistic: str, ours: list[float], theirs: list[float] | None, level: float
) -> Estimate:
    """The statistic, or its difference from that of the other method."""
    if statistic in SPREADS:
        return statistics.std(ours, level) if theirs is None else statistics.std_difference(ours, theirs, level)
    if statistic in COUNTED:
        return _counted(ours, [0.0] if theirs is None else theirs)
    if statistic in TIMES:
        return _relative(study, ours, theirs, level)
    if statistic == "probability_of_improvement" and theirs is not None:
        chance = statistics.probability_of_improvement([ours], [theirs], study.rng, level)
        return Estimate(chance.value - 0.5, chance.low - 0.5, chance.high - 0.5)
    if statistic in SHARES:
        return statistics.share(ours, level)
    if statistic in MEDIANS:
        return _median(study, ours, theirs, level)
    return statistics.mean(ours, level) if theirs is None else statistics.mean_difference(ours, theirs, level)


def _median(study: Selection, ours: ArrayLike, theirs: ArrayLike | None, level: float) -> Estimate:
    if theirs is None:
        return statistics.estimate([ours], np.median, study.rng, level)
    return statistics.difference([ours], [theirs], np.median, study.rng, level)


def _relative(study: Selection, ours: list[float], theirs: list[float] | None, level: float) -> Estimate:
    """median(a) / median(b) - 1 of times."""
    found = _median(study, np.log(ours), None if theirs is None else np.log(theirs), level)
    return Estimate(*(float(np.expm1(each)) for each in (found.value, found.low, found.high)))


def _counted(ours: list[float], theirs: list[float]) -> Estimate:
    """median(a) - median(b), and the range [min a - max b, max a - min b] of the difference over all pairs of runs."""
    middle = float(np.median(ours) - np.median(theirs))
    return Estimate(middle, min(ours) - max(theirs), max(ours) - min(theirs))


def of_best_run(ours: list[Record], theirs: list[Record], level: float) -> Estimate:
    """max_i a_i - max_j b_j of the returns of runs, or max_i a_i if there is no other method.

    Each return has Student's interval over its episodes, none if their number is unknown; those of all runs hold
    together.
    """
    level = 1.0 - (1.0 - level) / (len(ours) + len(theirs))
    best, other = _best(ours, level), _best(theirs, level) if theirs else Estimate(0.0, 0.0, 0.0)
    return Estimate(best.value - other.value, best.low - other.high, best.high - other.low)


def _best(runs: list[Record], level: float) -> Estimate:
    found = [item.returns[0.0] for item in runs]
    each = [statistics.mean_of(item.mean, item.std, item.episodes or 1, level) for item in found]
    return Estimate(*(float(np.max([getattr(one, name) for one in each])) for name in ("value", "low", "high")))


def claimed_range(claim: Claim, runs: list[Record], theirs: list[float] | None) -> tuple[float, float]:
    """The effects for which a claim holds."""
    if claim.direction == "order":
        return 0.5, 1.0
    if claim.direction in ("higher", "lower") and not claim.substantial:
        return 0.0, np.inf
    margin = _margin(claim, runs, theirs)
    if claim.substantial:
        return margin, np.inf
    return -margin if claim.direction == "similar" else -np.inf, margin


def negligible(claim: Claim, runs: list[Record], theirs: list[float] | None) -> float:
    """The largest effect that is too small to matter, for claims that one method is higher or lower than another; minus
    infinity if there is none. `runs` are the other method's, and `theirs` what is measured of them.

    What is counted is exact, a probability is no amount, and a claim that says "slightly" is about a small effect.
    """
    if theirs is None or claim.direction not in ("higher", "lower") or claim.slight:
        return -np.inf
    if claim.statistic in (*COUNTED, *SHARES, "probability_of_improvement", "lqr_spread"):
        return -np.inf
    if claim.statistic in TIMES:
        return NEGLIGIBLE
    if claim.statistic in RETURNS:
        return NEGLIGIBLE * abs(float(np.mean([item.mean for item in runs])))
    return NEGLIGIBLE * abs(float(np.median(theirs) if claim.statistic in MEDIANS else np.mean(theirs)))


def _margin(claim: Claim, runs: list[Record], theirs: list[float] | None) -> float:
    """The largest effect that counts as similar or small and not yet as substantial: a share of the other method's
    value; for a quantity by itself, the bound that the prose gives, or a share of the return."""
    if claim.bound is not None:
        said = paper.figure(claim.bound)
        return said.value if said.high is None else said.high
    if claim.statistic in (*TIMES, "epoch_growth"):
        return MARGIN
    if theirs is None:
        return MARGIN * abs(float(np.mean([item.mean for item in runs])))
    typical = np.std(theirs) if claim.statistic in SPREADS else (
        np.median(theirs) if claim.statistic in MEDIANS else np.mean(theirs))  # fmt: skip
    return MARGIN * abs(float(typical))

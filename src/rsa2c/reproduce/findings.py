"""Comparisons of a claim and the verdict on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rsa2c.reproduce.cells import NOTHING, interval, number
from rsa2c.reproduce.measures import CLOCKS, COUNTED, FEWEST_SEEDS
from rsa2c.reproduce.paper import Claim
from rsa2c.statistics import Estimate

HOLDS, FAILS, OPEN, SHARED = "holds", "does not hold", "inconclusive", "not measured alone"
NOISE_LEVELS = (0.0, 0.001, 0.005, 0.01)
"""The variances of the paper's main noise tables."""


@dataclass(frozen=True)
class Comparison:
    """One effect of a claim with the seeds behind its smaller side.

    The claim holds for effects in (low, high]. An interval of which a part is inside leaves it open, but for one that
    has nothing above `negligible`: the effect may be there, but is too small to matter.
    """

    subject: str
    name: str
    effect: Estimate
    seeds: int
    low: float
    high: float
    case: str = ""
    """The noise level, the number of distractors or the simulator, if the claim is about several."""
    fewest: int = FEWEST_SEEDS
    """Seeds that each side needs."""
    negligible: float = -np.inf
    """The largest effect that is too small to matter."""
    blur: float = 0.0
    """How much of the interval, on either side, is due to the spacing of evaluations: more seeds do not narrow it."""
    best: Comparison | None = None
    """The same of the best run, where one run decides."""
    deciding: str = ""
    """The verdict that the best run can give."""

    @property
    def verdict(self) -> str:
        """The verdict of this comparison alone."""
        effect = self.effect
        if self.best is not None and self.best.verdict == self.deciding:
            return self.deciding
        if self.seeds < self.fewest or np.isnan([effect.value, effect.low, effect.high]).any():
            return OPEN
        if self.low < effect.low and effect.high <= self.high:
            return HOLDS
        return FAILS if effect.high <= max(self.low, self.negligible) or effect.low > self.high else OPEN

    @property
    def slack(self) -> float:
        """How far inside the range the effect is."""
        return min(self.effect.value - self.low, self.high - self.effect.value)


@dataclass(frozen=True)
class Finding:
    """A claim's verdict under one preset on one environment, with the comparisons behind it."""

    claim: Claim
    environment: str
    preset: str
    comparisons: list[Comparison]
    missing: list[str]
    """Methods of the claim without runs."""
    verdict: str
    unmeasured: list[str] = field(default_factory=list)
    """Methods whose runs lack what the claim is about."""
    seeds: dict[str, int] = field(default_factory=dict)
    """Runs of each method, the fewest where there are several cases."""
    conflicts: dict[str, str] = field(default_factory=dict)
    """Comparisons that were not made because settings differ, and in what."""
    without_runs: bool = False
    """Whether everything was counted from settings alone."""

    def __str__(self) -> str:
        shown = []
        for name in dict.fromkeys(item.name for item in self.comparisons):
            mine = [item for item in self.comparisons if item.name == name]
            if self.without_runs:
                shown.append(f"{name}: " + ", ".join(f"{_shown(item.effect)} ({item.case})" for item in mine))
                continue
            worst = min(mine, key=lambda item: item.slack)
            what = f"{name}, at worst ({worst.case})" if worst.case else name
            shown.append(f"{what}: {_shown(worst.effect)}")
            if worst.best is not None:
                shown.append(f"{worst.best.name}: {_shown(worst.best.effect)}")
        if self.missing:
            shown.append(f"{SHARED if self.claim.statistic in CLOCKS else 'not run'}: {', '.join(self.missing)}")
        if self.unmeasured:
            shown.append(f"not measured: {', '.join(self.unmeasured)}")
        shown += [f"{name}: settings differ ({why})" for name, why in self.conflicts.items()]
        return "; ".join(shown) or NOTHING


def _shown(effect: Estimate) -> str:
    """An effect with its interval; exact ones have none."""
    return number(effect.value) if effect.low == effect.high else interval(effect)


def combined(claim: Claim, comparisons: Sequence[Comparison], absent: set[str]) -> str:
    """The verdict on a claim from its comparisons; `absent` are methods of it that were not run or not measured, or
    whose settings do not allow for one of them."""
    pairs: dict[str, dict[str, list[Comparison]]] = {}
    for item in comparisons:
        pairs.setdefault(item.subject, {}).setdefault(item.name, []).append(item)
    levels = _every if claim.noise != "most" else partial(_most, count=len(NOISE_LEVELS))
    of_subject = []
    for found in pairs.values():
        if claim.statistic in COUNTED:
            each = [_agreed(items) for items in found.values()]
        else:
            each = [levels([item.verdict for item in items]) for items in found.values()]
        of_subject.append(_most(each, len(claim.against)) if claim.most else _every(each))
    verdict = _every(of_subject)
    needed = set(claim.subject) if claim.most else {*claim.subject, *claim.against}
    if verdict == FAILS or not needed & absent:
        return verdict
    return SHARED if claim.statistic in CLOCKS else OPEN


def _every(verdicts: list[str]) -> str:
    if FAILS in verdicts:
        return FAILS
    return HOLDS if verdicts and set(verdicts) == {HOLDS} else OPEN


def _agreed(items: list[Comparison]) -> str:
    """The verdict at every size that dictionaries may have; open if they differ, or if one size is below what is
    claimed and another above: a size between them is not."""
    found = {(item.verdict, item.effect.low > item.high) for item in items}
    return items[0].verdict if len(found) == 1 else OPEN


def _most(verdicts: list[str], count: int) -> str:
    if 2 * verdicts.count(HOLDS) > count:
        return HOLDS
    return FAILS if 2 * verdicts.count(FAILS) >= count else OPEN

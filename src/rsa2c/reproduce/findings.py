"""Comparisons of a claim and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rsa2c.reproduce.cells import NOTHING, interval
from rsa2c.reproduce.measures import CLOCKS
from rsa2c.reproduce.paper import Claim
from rsa2c.statistics import Estimate

HOLDS, FAILS, OPEN, SHARED = "holds", "does not hold", "inconclusive", "not measured alone"
FEWEST_SEEDS = 5
"""With fewer, complete separation by chance is not rare, and whether scores are normal cannot be checked."""


@dataclass(frozen=True)
class Comparison:
    """One effect of a claim with the seeds behind its smaller side; the claim holds for effects in (low, high]."""

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
        return FAILS if effect.high <= self.low or effect.low > self.high else OPEN

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

    def __str__(self) -> str:
        shown = []
        for name in dict.fromkeys(item.name for item in self.comparisons):
            worst = min((item for item in self.comparisons if item.name == name), key=lambda item: item.slack)
            what = f"{name}, at worst ({worst.case})" if worst.case else name
            shown.append(f"{what}: {interval(worst.effect)}")
            if worst.best is not None:
                shown.append(f"{worst.best.name}: {interval(worst.best.effect)}")
        is_timed = self.claim.statistic in CLOCKS
        if self.missing and (self.comparisons or is_timed):
            shown.append(f"{SHARED if is_timed else 'not run'}: {', '.join(self.missing)}")
        if self.unmeasured:
            shown.append(f"not measured: {', '.join(self.unmeasured)}")
        return "; ".join(shown) or NOTHING

"""What would settle a claim that is open: the runs that are missing, and how many seeds its noise would take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.reproduce.alone import AGENTS, ENVIRONMENT
from rsa2c.reproduce.findings import FEWEST_SEEDS, OPEN, SHARED, Comparison, Finding, combined
from rsa2c.reproduce.measures import COUNTED
from rsa2c.reproduce.selection import TWINS
from rsa2c.statistics import LEVEL, Estimate

LADDER = (*range(FEWEST_SEEDS, 10), 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000)
"""Numbers of seeds that are tried; beyond the last one a claim is as good as open for ever."""


def settle(finding: Finding) -> str:
    """What would settle an open claim, empty for one that is settled.

    Numbers of seeds are those at which the claim would be settled if every effect and spread stayed as observed.
    """
    if finding.verdict == SHARED:
        return _clocked(finding)
    if finding.verdict != OPEN:
        return ""
    return "; ".join([*_missing(finding), *_more_seeds(finding)]) or "runs that measured what it is about"


def _clocked(finding: Finding) -> str:
    """The trainings alone that a claim about the clock lacks, and what makes them."""
    timed = {(ENVIRONMENT, *agent) for agent in AGENTS.values()}
    own = {name: PRESET if name in BASELINES else finding.preset for name in finding.missing}
    said = f"trainings of {', '.join(finding.missing)} that have a machine to themselves"
    if finding.claim.statistic != "epoch_growth" and all((finding.environment, *item) in timed for item in own.items()):
        return said + ": benchmarks/time_to_solution.py"
    return said + ", which no benchmark makes"


def _missing(finding: Finding) -> list[str]:
    """The runs without which the claim is open whatever the others say."""
    counted = finding.claim.statistic in COUNTED
    decides = counted or finding.claim.one_run == "proves"
    found = []
    if missing := _trained(finding.missing):
        found.append(f"{'one run' if decides else f'{FEWEST_SEEDS} seeds'} of {', '.join(missing)}")
    few = {name: FEWEST_SEEDS - finding.seeds[name] for name in _trained(finding.seeds)
           if 0 < finding.seeds[name] < FEWEST_SEEDS}  # fmt: skip
    for lacking in sorted(set(few.values())) if not counted else ():
        names = [name for name, count in few.items() if count == lacking]
        found.append(f"{lacking} more seed{'s' if lacking > 1 else ''} of {', '.join(names)}")
    if unmeasured := [name for name in finding.unmeasured if name not in few]:
        found.append(f"runs of {', '.join(unmeasured)} that measured it")
    return found


def _trained(names: Iterable[str]) -> list[str]:
    """The methods that would be trained: not one whose runs are another's."""
    return [name for name in names if name not in TWINS]


def _more_seeds(finding: Finding) -> list[str]:
    """How many seeds of each method would decide the comparisons that were made."""
    if finding.claim.statistic in COUNTED or not finding.comparisons:
        return []
    absent = {*finding.missing, *finding.unmeasured}

    def verdict(seeds: float) -> str:
        return combined(finding.claim, [projected(item, seeds) for item in finding.comparisons], absent)

    enough = next((seeds for seeds in LADDER if verdict(seeds) != OPEN), None)
    if enough is not None:
        return [f"about {enough:,} seeds of each"] if enough > FEWEST_SEEDS else []
    undecided = [item for item in finding.comparisons if projected(item, LADDER[-1]).verdict == OPEN]
    if any(projected(item, np.inf).verdict == OPEN for item in undecided if item.blur > 0.0):
        return ["evaluations closer together: their spacing hides the effect"]
    if any(item.effect.has_interval for item in undecided):
        return [f"more than {LADDER[-1]:,} seeds of each: too close to call"]
    return []


def projected(item: Comparison, seeds: float) -> Comparison:
    """A comparison as it would be with that many seeds a side: the same effect, and an interval that is narrower as
    Student's is, but for what the spacing of evaluations adds. One run has no interval to begin with."""
    if not item.effect.has_interval or seeds <= item.seeds:
        return item
    effect, scale = item.effect, _half_width(seeds) / _half_width(item.seeds)
    below, above = (max(side - item.blur, 0.0) * scale + min(side, item.blur)
                    for side in (effect.value - effect.low, effect.high - effect.value))  # fmt: skip
    count = int(min(seeds, LADDER[-1]))
    return replace(item, effect=Estimate(effect.value, effect.value - below, effect.value + above), seeds=count)


def _half_width(seeds: float) -> float:
    """Half of Student's interval of the mean of that many numbers with a standard deviation of one."""
    from scipy.stats import t

    return float(t.ppf((1.0 + LEVEL) / 2.0, seeds - 1.0) / np.sqrt(seeds)) if np.isfinite(seeds) else 0.0

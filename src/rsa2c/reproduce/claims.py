"""The paper's claims, each with our statistic, its interval and a verdict.

A claim says that its subject is higher or lower than what it is compared with (or than zero), similar, or at most
that. Each comparison has a range in which the claim holds; it holds if its whole interval is inside, fails if its
whole interval is outside, and is inconclusive otherwise, or with fewer than `FEWEST_SEEDS` seeds on one side. A claim
holds when every comparison it makes was made and holds; it does not hold when one fails.

The intervals of a claim hold together (Bonferroni): a single lucky noise level or pair of methods does not prove it,
nor does a single unlucky one refute it. Means have Student's and Welch's intervals, standard deviations normal-theory
ones, shares of runs exact ones, medians bootstrap ones. The moment a threshold was passed is known up to the spacing
of evaluations, by which effects are widened. Times are those of runs that shared a machine: they are compared as
ratios, whose intervals are widened by the factor `SHARED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rsa2c import statistics
from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.reproduce import paper
from rsa2c.reproduce.cells import NOTHING, Table, interval
from rsa2c.reproduce.effects import MARGIN, SHARED, claimed_range, effect_of
from rsa2c.reproduce.measures import (
    BUDGETS,
    EARLIEST,
    MEASURES,
    NOISY,
    SPREADS,
    TIMES,
    Measure,
    in_order,
    mean_return,
    rise,
    sparsity,
)
from rsa2c.reproduce.paper import Claim
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import UNSTABLE, Selection
from rsa2c.statistics import Estimate

HOLDS, FAILS, OPEN = "holds", "does not hold", "inconclusive"
FEWEST_SEEDS = 5
"""With fewer, complete separation by chance is not rare, and whether scores are normal cannot be checked."""
NOISE_LEVELS = (0.0, 0.001, 0.005, 0.01)
"""The variances of the paper's main noise tables."""

Runs = dict[str, list[Record]]
Values = dict[str, list[float]]


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
    """The noise level or number of distractors, if the claim is about several."""

    @property
    def verdict(self) -> str:
        """The verdict of this comparison alone."""
        effect = self.effect
        if self.seeds < FEWEST_SEEDS or np.isnan([effect.value, effect.low, effect.high]).any():
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
        if self.missing and self.comparisons:
            shown.append(f"not run: {', '.join(self.missing)}")
        if self.unmeasured:
            shown.append(f"not measured: {', '.join(self.unmeasured)}")
        return "; ".join(shown) or NOTHING


def judge(study: Selection, claim: Claim, environment: str, preset: str) -> Finding:
    """One claim against our runs of one environment and preset."""
    cases = list(_cases(study, claim, environment, preset))
    pairs = len(claim.subject) * max(len(claim.against), 1)
    level = 1.0 - (1.0 - statistics.LEVEL) / max(len(cases) * pairs, 1)
    comparisons: list[Comparison] = []
    measured = []
    for case, measure, runs in cases:
        of = _values(claim, measure, runs)
        soonest = _values(claim, EARLIEST[claim.statistic], runs) if claim.statistic in EARLIEST else of
        measured.append({name for name, values in of.items() if values})
        comparisons += _comparisons(study, claim, case, runs, of, soonest, level)
    methods = (*claim.subject, *claim.against)
    missing = [name for name in methods if not all(runs[name] for *_, runs in cases) or not cases]
    unmeasured = [name for name in methods if name not in missing and not all(name in each for each in measured)]
    verdict = _verdict(claim, comparisons, {*missing, *unmeasured})
    return Finding(claim, environment, preset, comparisons, missing, verdict, unmeasured)


def claims_table(study: Selection, environments: Sequence[str], presets: Sequence[str] = ("paper", "default")) -> Table:
    """Every claim about these environments, with verdicts under the presets that were run."""
    rows: list[list[Any]] = []
    ran = {(item.environment, item.preset) for item in study.records}
    for claim in paper.claims():
        for environment in claim.environments:
            for preset in presets if environment in environments else ():
                if (environment, preset) in ran:
                    finding = judge(study, claim, environment, preset)
                    said = f"“{claim.quote}” ({claim.where})"
                    rows.append([said, environment, preset, claim.statistic, finding, finding.verdict])
    columns = ["the paper says", "environment", "preset", "statistic", "effect in the claimed direction", "verdict"]
    meanings = paper.document()["statistics"]
    used = dict.fromkeys(row[3] for row in rows)
    counts = []
    for preset in dict.fromkeys(row[2] for row in rows):
        holds, fails, unsaid = tally(row[-1] for row in rows if row[2] == preset)
        counts.append(f"{preset}: {holds} hold, {fails} do not, {unsaid} are inconclusive")
    notes = [
        "; ".join(counts) + ".",
        "Effects have the sign that makes what the paper says positive, with intervals over seeds that hold together "
        "with 95% for each claim: Welch's or Student's, of standard deviations (divisor n - 1) normal-theory ones, of "
        "medians bootstrap ones; a single run has none. For claims that something is similar or small they are plain "
        f"differences, and up to {MARGIN:.0%} of what is compared counts as similar or small; what the paper calls "
        "substantial, significant or large must exceed that. If a claim is about several noise levels, the worst is "
        f"shown. With fewer than {FEWEST_SEEDS} seeds, or if a method of the claim was not run or not measured, it "
        "cannot hold. The moment a threshold was passed is known up to the spacing of evaluations, by which "
        "intervals are widened.",
        "Times are of runs that shared a machine, where identical variants differ by factors of 0.6 to 1.3: effects "
        f"of {', '.join(TIMES)} are relative differences whose intervals are widened by a factor of {SHARED:g} either "
        "way, so that smaller differences are inconclusive.",
        "Statistics: " + "; ".join(f"`{name}`, {meanings[name]}" for name in used) + ".",
    ]
    return Table("claims", "The paper's claims", columns, rows, notes)


def tally(verdicts: Iterable[str]) -> list[int]:
    """How many hold, do not hold, and are inconclusive."""
    found = list(verdicts)
    return [found.count(verdict) for verdict in (HOLDS, FAILS, OPEN)]


def _cases(study: Selection, claim: Claim, environment: str, preset: str) -> Iterator[tuple[str, Measure, Runs]]:
    """What is measured of which runs: once, or for each noise level or number of distractors."""

    def runs(**wanted: object) -> Runs:
        def of(name: str) -> list[Record]:
            own = PRESET if name in BASELINES else preset
            return study.of(environment=environment, preset=own, algorithm=name, **wanted)

        return {name: of(name) for name in (*claim.subject, *claim.against)}

    if claim.statistic in NOISY:
        levels = NOISE_LEVELS[-1:] if claim.noise == "largest" else NOISE_LEVELS
        for level in levels:
            yield f"noise {level:g}" if len(levels) > 1 else "", partial(NOISY[claim.statistic], level=level), runs()
    elif claim.statistic == "distractor_return":
        counts = sorted({item.distractors for item in study.records if item.environment == environment} - {0})
        found = {count: runs(distractors=count) for count in counts}
        whole = {count: each for count, each in found.items() if all(each.values())}
        for count, each in whole.items():
            yield f"{count} distractors" if len(whole) > 1 else "", mean_return, each
    elif claim.statistic == "importance_order":
        yield "", partial(in_order, claim=claim), runs()
    elif claim.statistic == "attribution_rise":
        yield "", partial(rise, feature=claim.order[0]), runs()
    elif claim.stage == "late against early":
        yield "", lambda item: sparsity(item, "late") - sparsity(item, "early"), runs()
    else:
        yield "", MEASURES[claim.statistic], runs()


def _values(claim: Claim, measure: Measure, runs: Runs) -> Values:
    """What is measured of each method's runs, without those that lack it, and limited by a bound. If no run of any
    method is within the bound, nothing is measured: they may still differ."""
    measured = {name: [measure(item) for item in found] for name, found in runs.items()}
    kept = {name: [value for value in values if not np.isnan(value)] for name, values in measured.items()}
    bound = _bound(claim.statistic, runs)
    if not any(value < bound for values in kept.values() for value in values):
        return {name: [] for name in kept}
    kept = {name: [min(value, bound) for value in values] for name, values in kept.items()}
    if claim.statistic in SPREADS:
        return {name: values if len(values) > 1 else [] for name, values in kept.items()}
    return kept


def _bound(statistic: str, runs: Runs) -> float:
    """A run that never arrived counts as later than all that did: as twice the longest of the runs compared. An
    unstable policy counts as the largest gap."""
    if statistic in BUDGETS:
        return 2.0 * max((BUDGETS[statistic](item) for found in runs.values() for item in found), default=0.0)
    return {"lqr_gap": UNSTABLE, "lqr_spread": float(np.log(UNSTABLE))}.get(statistic, np.inf)


def _comparisons(
    study: Selection, claim: Claim, case: str, runs: Runs, of: Values, soonest: Values, level: float
) -> list[Comparison]:
    """Every pair of a subject and what it is compared with, or every subject by itself; `soonest` has what `of` has
    where it is known, else its lower bounds."""
    found = []
    for one in claim.subject:
        for other in claim.against or ("",):
            if not of[one] or (other and not of[other]):
                continue
            theirs = of[other] if other else None
            effect = effect_of(study, claim.statistic, of[one], theirs, level)
            if soonest is not of:
                low = effect_of(study, claim.statistic, soonest[one], theirs, level).low
                high = effect_of(study, claim.statistic, of[one], soonest[other] if other else None, level).high
                effect = Estimate(effect.value, low, high)
            if claim.direction == "lower":
                effect = -effect
            name = f"{one} against {other}" if other else one
            seeds = min(len(of[one]), len(of[other])) if other else len(of[one])
            low, high = claimed_range(claim, runs[one], theirs)
            found.append(Comparison(one, name, effect, seeds, low, high, case))
    return found


def _verdict(claim: Claim, comparisons: list[Comparison], absent: set[str]) -> str:
    pairs: dict[str, dict[str, list[str]]] = {}
    for item in comparisons:
        pairs.setdefault(item.subject, {}).setdefault(item.name, []).append(item.verdict)
    of_subject = []
    for found in pairs.values():
        levels = _every if claim.noise != "most" else partial(_most, count=len(NOISE_LEVELS))
        each = [levels(verdicts) for verdicts in found.values()]
        of_subject.append(_most(each, len(claim.against)) if claim.most else _every(each))
    verdict = _every(of_subject)
    needed = set(claim.subject) if claim.most else {*claim.subject, *claim.against}
    return OPEN if verdict == HOLDS and needed & absent else verdict


def _every(verdicts: list[str]) -> str:
    if FAILS in verdicts:
        return FAILS
    return HOLDS if verdicts and set(verdicts) == {HOLDS} else OPEN


def _most(verdicts: list[str], count: int) -> str:
    if 2 * verdicts.count(HOLDS) > count:
        return HOLDS
    return FAILS if 2 * verdicts.count(FAILS) >= count else OPEN

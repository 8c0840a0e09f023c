"""The paper's claims, each with our statistic, its interval and a verdict.

A claim says that its subject is higher or lower than what it is compared with (or than zero), similar, or at most
that. Each comparison has a range in which the claim holds; it holds with its whole interval in there, fails with its
whole interval outside, else it cannot be said, nor can it with fewer than `FEWEST_SEEDS` seeds on one side. A claim
holds when every comparison it makes was made and holds; it does not hold when one fails.

The intervals of a claim hold together (Bonferroni): neither does a single lucky noise level or pair of methods carry
it nor a single unlucky one refute it. Means have Student's and Welch's intervals, standard deviations normal-theory
ones, shares of runs exact ones, medians bootstrap ones. When a threshold was passed is known to one interval between
evaluations, by which effects are widened. Times are those of runs that shared a machine: they are compared as ratios,
whose intervals are widened by the factor `SHARED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from rsa2c import statistics
from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.config import make_config
from rsa2c.reproduce import paper
from rsa2c.reproduce.paper import Claim
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.tables import NOTHING, UNSTABLE, Selection, Table, number, thresholds
from rsa2c.statistics import Estimate

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be said"
FEWEST_SEEDS = 5
"""With fewer, complete separation is no rarity, and whether scores are normal is anybody's guess."""
MARGIN = 0.1
"""What still counts as similar and not yet as substantial, as a share of the size of what it is compared with."""
NOISE_LEVELS = (0.0, 0.001, 0.005, 0.01)
"""The variances of the paper's main noise tables."""
SHORTEST = 1e-3
"""Seconds: what was reached at the first evaluation may have been reached at once."""
SHARED = 2.0
"""Runs of identical variants, side by side on one machine, were seen to differ in time by factors of 0.6 to 1.3."""
SPREADS = ("seed_spread", "noise_spread", "lqr_spread")
"""Statistics that are standard deviations over seeds."""
TIMES = ("step_time", "time_to_solution")
"""Statistics that rest on the clocks of several runs: their effects are relative differences."""
SHARES = ("importance_order",)
"""Statistics that are true of a run or not."""

Measure = Callable[[Record], float]
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
    """The noise level or the like, where the claim is about several."""

    @property
    def verdict(self) -> str:
        """What this effect alone says."""
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
    """Methods of the claim that we have no runs of."""
    verdict: str
    unmeasured: list[str] = field(default_factory=list)
    """Methods whose runs do not have what the claim is about."""

    def __str__(self) -> str:
        shown = []
        for name in dict.fromkeys(item.name for item in self.comparisons):
            worst = min((item for item in self.comparisons if item.name == name), key=lambda item: item.slack)
            effect = worst.effect
            what = f"{name}, at worst ({worst.case})" if worst.case else name
            shown.append(f"{what}: {number(effect.value)} [{number(effect.low)}, {number(effect.high)}]")
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
    unmeasured = [name for name in methods if name not in missing and not all(name in told for told in measured)]
    verdict = _verdict(claim, comparisons, {*missing, *unmeasured})
    return Finding(claim, environment, preset, comparisons, missing, verdict, unmeasured)


def claims_table(study: Selection, environments: Sequence[str], presets: Sequence[str] = ("paper", "default")) -> Table:
    """Every claim about these environments, with verdicts under the presets that were run."""
    rows = []
    ran = {(item.environment, item.preset) for item in study.records}
    for claim in paper.claims():
        for environment in claim.environments:
            for preset in presets if environment in environments else ():
                if (environment, preset) in ran:
                    finding = judge(study, claim, environment, preset)
                    said = f"“{claim.quote}” ({claim.where})"
                    rows.append([said, environment, preset, claim.statistic, str(finding), finding.verdict])
    columns = ["the paper says", "environment", "preset", "statistic", "effect in the claimed direction", "verdict"]
    meanings = paper.document()["statistics"]
    used = dict.fromkeys(row[3] for row in rows)
    counts = []
    for preset in dict.fromkeys(row[2] for row in rows):
        holds, fails, unsaid = tally(row[-1] for row in rows if row[2] == preset)
        counts.append(f"{preset}: {holds} hold, {fails} do not, {unsaid} cannot be said")
    notes = [
        "; ".join(counts) + ".",
        "Effects are written so that positive is what the paper says, with intervals over seeds that hold together "
        "with 95% for each claim: Welch's or Student's, of standard deviations (divisor n - 1) normal-theory ones, of "
        "medians bootstrap ones. For claims of similarity, or that something is "
        f"small, they are plain differences, and within {MARGIN:.0%} of what is compared is similar or small; what is "
        "called substantial, significant or large must be beyond that. Where a claim is about several noise levels "
        f"the worst is shown. With fewer than {FEWEST_SEEDS} seeds, or where a method of "
        "the claim was not run or not measured, nothing holds. When a threshold was passed is known to one interval "
        "between evaluations, and intervals are that much wider.",
        "Times are of runs that shared a machine, where identical variants differ by factors of 0.6 to 1.3: effects "
        f"of {', '.join(TIMES)} are relative differences whose intervals are widened by a factor of {SHARED:g} either "
        "way, so that nothing is said of what differs by less.",
        "Statistics: " + "; ".join(f"`{name}`, {meanings[name]}" for name in used) + ".",
    ]
    return Table("claims", "The paper's claims", columns, rows, notes)


def tally(verdicts: Iterable[str]) -> list[int]:
    """How many hold, do not, and cannot be said."""
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
            yield f"{count} distractors" if len(whole) > 1 else "", _mean, each
    elif claim.statistic == "importance_order":
        yield "", partial(_in_order, claim=claim), runs()
    elif claim.statistic == "attribution_rise":
        yield "", partial(_rise, feature=claim.order[0]), runs()
    elif claim.stage == "late against early":
        yield "", lambda item: _sparsity(item, "late") - _sparsity(item, "early"), runs()
    else:
        yield "", MEASURES[claim.statistic], runs()


def _values(claim: Claim, measure: Measure, runs: Runs) -> Values:
    """What is measured of each method's runs, those without it left out, and beyond a bound the bound. Where no run of
    any method is within it nothing is measured: they may still differ."""
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
    """A run that never got there counts as later than all that did, as twice the longest of the runs compared; an
    unstable policy as the largest gap."""
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
            effect = _effect(study, claim.statistic, of[one], theirs, level)
            if soonest is not of:
                low = _effect(study, claim.statistic, soonest[one], theirs, level).low
                high = _effect(study, claim.statistic, of[one], soonest[other] if other else None, level).high
                effect = Estimate(effect.value, low, high)
            if claim.direction == "lower":
                effect = Estimate(-effect.value, -effect.high, -effect.low)
            name = f"{one} against {other}" if other else one
            seeds = min(len(of[one]), len(of[other])) if other else len(of[one])
            low, high = _range(claim, runs[one], theirs)
            found.append(Comparison(one, name, effect, seeds, low, high, case))
    return found


def _effect(study: Selection, statistic: str, ours: list[float], theirs: list[float] | None, level: float) -> Estimate:
    """The statistic, or its difference to that of the other method."""
    if statistic in SPREADS:
        return statistics.std(ours, level) if theirs is None else statistics.std_difference(ours, theirs, level)
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
    """Ratio of median times, less one, as far as runs that shared a machine can tell."""
    found = _median(study, np.log(ours), None if theirs is None else np.log(theirs), level)
    low, high = np.exp(found.low) / SHARED, np.exp(found.high) * SHARED
    return Estimate(float(np.exp(found.value) - 1.0), float(low - 1.0), float(high - 1.0))


def _range(claim: Claim, runs: list[Record], theirs: list[float] | None) -> tuple[float, float]:
    """The effects for which a claim holds."""
    if claim.direction == "order":
        return 0.5, 1.0
    if claim.direction in ("higher", "lower") and not claim.substantial:
        return 0.0, np.inf
    margin = _margin(claim, runs, theirs)
    if claim.substantial:
        return margin, np.inf
    return -margin if claim.direction == "similar" else -np.inf, margin


def _margin(claim: Claim, runs: list[Record], theirs: list[float] | None) -> float:
    """What still counts as similar or small and is not substantial: a share of the other method's value; of a quantity
    by itself, what the prose says it reaches, or a share of the return."""
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


def _mean(item: Record) -> float:
    return item.mean


def _noisy(item: Record, level: float) -> float:
    return item.returns[level][0] if level in item.returns else float("nan")


def _drop(item: Record, level: float) -> float:
    return item.mean - _noisy(item, level)


def _to_threshold(item: Record, column: str, before: bool = False) -> float:
    levels = thresholds(item.environment)
    return item.curve.until(levels[0], column, before) if levels else float("nan")


def _growth(item: Record) -> float:
    """Time of a step in the last quarter of training over that in the quarter before, less one: of one run, on one
    clock."""
    steps, seconds = item.curve.steps, item.curve.seconds
    if len(steps) < 5:
        return float("nan")
    half, late, end = np.interp(np.array([0.5, 0.75, 1.0]) * steps[-1], steps, seconds)
    return float((end - late) / (late - half) - 1.0) if half < late < end else float("nan")


def _left(item: Record) -> float:
    capacity = make_config(item.environment, item.preset, item.algorithm).capacity
    return 1.0 - item.states / capacity if isinstance(capacity, int) else float("nan")


def _early(item: Record) -> float:
    steps, means = item.curve.returns
    return float(np.mean(means[: max(1, len(steps) // 5)]))


def _roughness(item: Record) -> float:
    steps, means = item.curve.returns
    grid = np.linspace(steps[0], steps[-1], 20)
    return float(statistics.roughness(statistics.aligned([(steps, means)], grid))[0])


def _sparsity(item: Record, stage: str = "late") -> float:
    shares = item.importances.get(stage)
    return 1.0 - float(statistics.evenness(list(shares.values()))) if shares else float("nan")


def _change(item: Record) -> float:
    early, late = item.importances.get("early"), item.importances.get("late")
    if not early or not late:
        return float("nan")
    return float(np.abs(np.array(list(early.values())) - np.array(list(late.values()))).sum())


def _rise(item: Record, feature: str) -> float:
    shares = [item.importances.get(stage, {}).get(feature, np.nan) for stage in ("early", "late")]
    return float(shares[1] - shares[0])


def _in_order(item: Record, claim: Claim) -> float:
    shares = item.importances.get(claim.stage or "late", {})
    if not set(claim.order) <= set(shares) or np.isnan(list(shares.values())).any():
        return float("nan")
    features, values = list(shares), list(shares.values())
    orders = permutations(claim.order) if claim.jointly else [claim.order]
    return float(any(statistics.follows_order(values, [features.index(name) for name in order])[0] for order in orders))


def _steps_to_gap(item: Record, before: bool = False) -> float:
    """Steps until the gap to the optimal cost is under 100%: the policy is stable."""
    known = not np.isnan(item.curve.gap).all()
    return statistics.steps_to_threshold((item.curve.steps, -item.curve.gap), -1.0, before) if known else float("nan")


MEASURES: dict[str, Measure] = {
    "return_difference": _mean,
    "probability_of_improvement": _mean,
    "seed_spread": _mean,
    "steps_to_threshold": partial(_to_threshold, column="steps"),
    "time_to_solution": partial(_to_threshold, column="seconds"),
    "early_return": _early,
    "curve_roughness": _roughness,
    "attribution_sparsity": _sparsity,
    "attribution_change": _change,
    "step_time": lambda item: item.seconds / item.steps,
    "epoch_growth": _growth,
    "step_flops": lambda item: 1e9 * item.gflop * item.epochs / item.steps,
    "memory_left": _left,
    "lqr_gap": lambda item: item.gap,
    "lqr_spread": lambda item: float(np.log(item.gap)),
    "lqr_steps": _steps_to_gap,
}
"""What is measured of a run."""
NOISY: dict[str, Callable[..., float]] = {"noise_return": _noisy, "noise_spread": _noisy, "noise_drop": _drop}
"""What is measured of a run at a noise level."""
EARLIEST: dict[str, Measure] = {
    "steps_to_threshold": partial(_to_threshold, column="steps", before=True),
    "time_to_solution": lambda item: float(np.maximum(_to_threshold(item, "seconds", before=True), SHORTEST)),
    "lqr_steps": partial(_steps_to_gap, before=True),
}
"""Lower bounds of what is seen only at evaluations."""
BUDGETS: dict[str, Measure] = {
    "steps_to_threshold": lambda item: item.steps,
    "time_to_solution": lambda item: item.seconds,
    "lqr_steps": lambda item: item.steps,
}
"""What a run had of the quantity that it may never have been enough of."""
MEDIANS = ("steps_to_threshold", "epoch_growth", "lqr_gap", "lqr_steps")
"""Statistics whose runs are summarised by their median, others by their mean."""

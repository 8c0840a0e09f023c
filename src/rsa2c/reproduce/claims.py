"""The paper's claims, each with our statistic, its interval and a verdict.

A claim says that its subject is higher or lower than what it is compared with (or than zero), similar, or at most
that. Each comparison has a range in which the claim holds; it holds if its whole interval is inside, fails if its
whole interval is outside, and is inconclusive otherwise, or with fewer seeds on one side than `fewest_seeds`. A claim
that one method is better than another fails, too, if its whole interval is below an effect that matters
(`effects.NEGLIGIBLE`). A claim holds when every comparison it makes was made and holds; it does not hold when one
fails.

Fewer seeds do for two kinds of claims. What is counted and not sampled has the range over all pairs of runs as its
interval, and one run of each method is enough; operations follow from settings and the size of dictionaries, and where
methods were not run they are counted from settings at several sizes, which have to agree. What can be reached is proved
by one run that reaches it, and what cannot be reached is refuted by one, if the interval over that run's episodes
allows it.

The intervals of a claim hold together (Bonferroni): a single lucky noise level or pair of methods does not prove it,
nor does a single unlucky one refute it. Means have Student's and Welch's intervals, standard deviations normal-theory
ones, shares of runs exact ones, medians bootstrap ones. The moment a threshold was passed is known up to the spacing
of evaluations, by which effects are widened. Whoever is said to arrive sooner, or to end nearer to the optimum, has to
arrive: the claim fails if it is established that most of its runs do not.

Runs whose settings differ in more than what makes them variants are not compared (`versions`). Clocks are compared only
between trainings that had a machine to themselves; where a method has none, the claim is not measured alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from rsa2c import statistics
from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.reproduce import counted
from rsa2c.reproduce.effects import claimed_range, effect_of, negligible, of_best_run
from rsa2c.reproduce.findings import FAILS, HOLDS, NOISE_LEVELS, OPEN, Comparison, Finding, combined
from rsa2c.reproduce.measures import (
    ARRIVALS,
    BUDGETS,
    CLOCKS,
    EARLIEST,
    MEASURES,
    NOISY,
    OPERATIONS,
    SPREADS,
    Measure,
    fewest_seeds,
    in_order,
    mean_return,
    rise,
    sparsity,
)
from rsa2c.reproduce.paper import Claim
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import TWINS, UNSTABLE, Selection
from rsa2c.reproduce.versions import conflict
from rsa2c.statistics import Estimate

Runs = dict[str, list[Record]]
Values = dict[str, list[float]]
Case = tuple[str, Measure, Runs]


def judge(study: Selection, claim: Claim, environment: str, preset: str) -> Finding:
    """One claim against our runs of one environment and preset; if runs are missing that would decide on operations,
    they are counted from settings, for several sizes of dictionaries."""
    found = _judged(study, claim, environment, preset, list(_cases(study, claim, environment, preset)))
    lacks_runs = found.missing or found.conflicts
    if claim.statistic == OPERATIONS and found.verdict == OPEN and lacks_runs:
        return _judged(study, claim, environment, preset, list(_sized(claim, environment, preset)))
    return found


def _judged(study: Selection, claim: Claim, environment: str, preset: str, cases: list[Case]) -> Finding:
    """The verdict from what is measured of which runs."""
    pairs = _distinct(claim.subject) * max(_distinct(claim.against), 1)
    pairs *= 2 if claim.one_run else 1  # its best run too
    level = 1.0 - (1.0 - statistics.LEVEL) / max(len(cases) * pairs, 1)
    comparisons: list[Comparison] = []
    conflicts: dict[str, str] = {}
    measured = []
    for case, measure, runs in cases:
        conflicts |= _conflicts(claim, runs)
        bound = _bound(claim.statistic, runs)
        found = _measured(claim, measure, runs)
        of = _limited(found, bound)
        soonest = of
        if claim.statistic in EARLIEST:
            soonest = _limited(_measured(claim, EARLIEST[claim.statistic], runs), bound)
        measured.append({name for name, values in found.items() if values})
        comparisons += _arrivals(claim, case, found, bound, level)
        comparisons += [item for item in _comparisons(study, claim, case, runs, of, soonest, level)
                        if item.name not in conflicts]  # fmt: skip
    methods = (*claim.subject, *claim.against)
    missing = [name for name in methods if not all(runs[name] for *_, runs in cases) or not cases]
    unmeasured = [name for name in methods if name not in missing and not all(name in each for each in measured)]
    apart = {name for pair in conflicts for name in pair.split(" against ")}
    verdict = combined(claim, comparisons, {*missing, *unmeasured, *apart})
    seeds = {name: min(len(runs[name]) for *_, runs in cases) for name in methods} if cases else {}
    used = [item for *_, runs in cases for found in runs.values() for item in found]
    without_runs = bool(used) and not any(item.run for item in used)
    return Finding(
        claim, environment, preset, comparisons, missing, verdict, unmeasured, seeds, conflicts, without_runs
    )


def _conflicts(claim: Claim, runs: Runs) -> dict[str, str]:
    """The comparisons that runs of different settings do not allow, and in what these differ."""
    pairs = [(one, other) for one in claim.subject for other in claim.against or ("",)]
    found = {_named(one, other): conflict([*runs[one], *runs.get(other, [])]) for one, other in pairs}
    return {name: why for name, why in found.items() if why}


def _named(one: str, other: str) -> str:
    return f"{one} against {other}" if other else one


def _distinct(methods: Sequence[str]) -> int:
    """How many methods there are: bit for bit the same runs are no second chance of a lucky interval."""
    return len({TWINS.get(name, name) for name in methods})


def _cases(study: Selection, claim: Claim, environment: str, preset: str) -> Iterator[Case]:
    """What is measured of which runs: once, or for each noise level, number of distractors or simulator."""

    alone = study.timed(environment, claim.statistic)

    def runs(timed: bool = False, **wanted: object) -> Runs:
        def of(name: str) -> list[Record]:
            chosen = replace(study, records=alone) if timed else study
            own = PRESET if name in BASELINES else preset
            return chosen.of(environment=environment, preset=own, algorithm=name, **wanted)

        return {name: of(name) for name in (*claim.subject, *claim.against)}

    if claim.statistic in CLOCKS:
        simulators = sorted({item.varied for item in alone})
        for varied in simulators:
            case = varied if len(simulators) > 1 else ""
            yield case, MEASURES[claim.statistic], runs(timed=True, varied=varied)
    elif claim.statistic in NOISY:
        levels = NOISE_LEVELS[-1:] if claim.noise == "largest" else NOISE_LEVELS
        for level in levels:
            yield f"noise {level:g}" if len(levels) > 1 else "", partial(NOISY[claim.statistic], level=level), runs()
    elif claim.statistic == "distractor_return":
        counts = sorted({item.distractors for item in study.records if item.environment == environment} - {0})
        found = {count: runs(distractors=count) for count in counts}
        whole = {count: each for count, each in found.items() if all(each.values())}
        for count, each in whole.items():
            yield f"{count} distractors" if len(whole) > 1 else "", mean_return, each
    elif claim.statistic == OPERATIONS:
        known = {name: [counted.counted(environment, preset, name)] for name in runs() if name in BASELINES}
        yield "", MEASURES[claim.statistic], {name: found or known.get(name, []) for name, found in runs().items()}
    elif claim.statistic == "importance_order":
        yield "", partial(in_order, claim=claim), runs()
    elif claim.statistic == "attribution_rise":
        yield "", partial(rise, feature=claim.order[0]), runs()
    elif claim.stage == "late against early":
        yield "", lambda item: sparsity(item, "late") - sparsity(item, "early"), runs()
    else:
        yield "", MEASURES[claim.statistic], runs()


def _sized(claim: Claim, environment: str, preset: str) -> Iterator[Case]:
    """Operations as they are counted without runs, for each size of dictionaries."""
    names = (*claim.subject, *claim.against)
    for states in counted.sizes(environment, preset):
        runs = {name: [counted.counted(environment, preset, name, states)] for name in names}
        yield f"{states} states", MEASURES[OPERATIONS], runs


def _measured(claim: Claim, measure: Measure, runs: Runs) -> Values:
    """What is measured of each method's runs, without those that lack it; a spread takes at least two."""
    measured = {name: [measure(item) for item in found] for name, found in runs.items()}
    kept = {name: [value for value in values if not np.isnan(value)] for name, values in measured.items()}
    fewest = 2 if claim.statistic in SPREADS else 1
    return {name: values if len(values) >= fewest else [] for name, values in kept.items()}


def _limited(found: Values, bound: float) -> Values:
    """The same, limited by a bound. If no run of any method is within it, nothing can be compared: they may still
    differ."""
    if not any(value < bound for values in found.values() for value in values):
        return {name: [] for name in found}
    return {name: [min(value, bound) for value in values] for name, values in found.items()}


def _bound(statistic: str, runs: Runs) -> float:
    """A run that never arrived counts as later than all that did: as twice the longest of the runs compared. An
    unstable policy counts as the largest gap."""
    if statistic in BUDGETS:
        return 2.0 * max((BUDGETS[statistic](item) for found in runs.values() for item in found), default=0.0)
    return {"lqr_gap": UNSTABLE, "lqr_spread": float(np.log(UNSTABLE))}.get(statistic, np.inf)


def _arrivals(claim: Claim, case: str, found: Values, bound: float, level: float) -> list[Comparison]:
    """Of each subject that is said to be sooner or nearer and of which no run arrives, the share of runs that do: a
    claim about them is one about most of them."""
    if claim.statistic not in ARRIVALS or claim.direction != "lower":
        return []
    nowhere = [name for name in claim.subject if found[name] and min(found[name]) >= bound]
    return [
        Comparison(
            name,
            f"{name}, share of runs that {ARRIVALS[claim.statistic]}",
            statistics.share(np.zeros(len(found[name])), level),
            len(found[name]),
            0.5,
            1.0,
            case,
        )
        for name in nowhere
    ]


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
            effect, blur = effect_of(study, claim.statistic, of[one], theirs, level), 0.0
            if soonest is not of:
                low = effect_of(study, claim.statistic, soonest[one], theirs, level).low
                high = effect_of(study, claim.statistic, of[one], soonest[other] if other else None, level).high
                effect, blur = Estimate(effect.value, low, high), max(effect.low - low, high - effect.high)
            if claim.direction == "lower":
                effect = -effect
            name = _named(one, other)
            seeds = min(len(of[one]), len(of[other])) if other else len(of[one])
            low, high = claimed_range(claim, runs[one], theirs)
            small = negligible(claim, runs.get(other, []), theirs)
            item = Comparison(one, name, effect, seeds, low, high, case, fewest_seeds(claim.statistic), small, blur)
            if claim.one_run:
                item = _with_best_run(claim, item, runs[one], runs.get(other, []), level)
            found.append(item)
    return found


def _with_best_run(
    claim: Claim, item: Comparison, ours: list[Record], theirs: list[Record], level: float
) -> Comparison:
    """A comparison with the one of the best run, which is decided by that run's episodes."""
    best = [max(run.mean for run in theirs)] if theirs else None
    low, high = claimed_range(claim, ours, best)
    name = f"best run of {item.name}"
    single = Comparison(item.subject, name, of_best_run(ours, theirs, level), 1, low, high, item.case, fewest=1)
    return replace(item, best=single, deciding=HOLDS if claim.one_run == "proves" else FAILS)

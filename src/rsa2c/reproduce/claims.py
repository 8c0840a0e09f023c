"""The paper's claims, each with our statistic, its interval and a verdict.

A claim says that its subject is higher or lower than what it is compared with (or than zero), or similar. An *effect*
is written so that positive is what the paper says. A claim holds when every comparison it makes was made, each with
at least `FEWEST_SEEDS` seeds on both sides, and every interval lies on its side; it does not hold when one such
interval lies on the other side (for "similar": when an effect exceeds the margin with its whole interval); else it
cannot be said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rsa2c import paper, statistics
from rsa2c.config import make_config
from rsa2c.paper import Claim
from rsa2c.reproduce.figures import fitted_rate, random_iterate
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.tables import NOTHING, UNSTABLE, Selection, Table, number, thresholds
from rsa2c.rl_zoo import BASELINES, PRESET
from rsa2c.statistics import Estimate

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be said"
FEWEST_SEEDS = 5
"""With fewer, a bootstrap interval is little more than the range, and complete separation is no rarity."""
MARGIN = 0.1
"""What still counts as similar, as a share of the size of what it is compared with."""
LARGEST_NOISE = 0.01
"""The largest variance of the paper's main noise tables."""
SHARES = ("memory_left", "epoch_growth")
"""Statistics that are shares already: similar within the margin itself."""

Measure = Callable[[Record], float]


@dataclass(frozen=True)
class Comparison:
    """One effect of a claim, positive as the paper says, and the seeds behind its smaller side."""

    name: str
    effect: Estimate
    seeds: int


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

    def __str__(self) -> str:
        shown = [
            f"{item.name}: {number(item.effect.value)} [{number(item.effect.low)}, {number(item.effect.high)}]"
            for item in self.comparisons
        ]
        if self.missing and self.comparisons:
            shown.append(f"not run: {', '.join(self.missing)}")
        return "; ".join(shown) or NOTHING


def judge(study: Selection, claim: Claim, environment: str, preset: str) -> Finding:
    """One claim against our runs of one environment and preset."""
    runs = {name: _runs(study, environment, preset, name) for name in (*claim.subject, *claim.against)}
    missing = [name for name, found in runs.items() if not found]
    margin = 0.0
    if claim.statistic == "importance_order":
        comparisons = _orders(study, claim, runs)
    elif claim.statistic == "lqr_rate":
        comparisons = _rates(study, claim, environment, preset)
        missing = []
    elif claim.stage == "late against early":
        comparisons = _stages(study, claim, runs)
    elif claim.statistic in MEASURES and claim.against:
        comparisons, margin = _against(study, claim, runs)
    elif claim.statistic in MEASURES:
        comparisons, margin = _alone(study, claim, environment, runs)
    else:
        comparisons = []
    return Finding(claim, environment, preset, comparisons, missing, _verdict(claim, comparisons, missing, margin))


def _against(study: Selection, claim: Claim, runs: dict[str, list[Record]]) -> tuple[list[Comparison], float]:
    """Every pair of a subject and what it is compared with, and what would still count as similar."""
    of = _values(claim, runs)
    summarise = SUMMARIES.get(claim.statistic, np.mean)
    found, size = [], 0.0
    for one in claim.subject:
        for other in claim.against:
            if not of[one] or not of[other]:
                continue
            if claim.statistic == "probability_of_improvement":
                chance = statistics.probability_of_improvement([of[one]], [of[other]], study.rng)
                effect = Estimate(chance.value - 0.5, chance.low - 0.5, chance.high - 0.5)
            else:
                effect = statistics.difference([of[one]], [of[other]], summarise, study.rng)
            if claim.direction == "lower":
                effect = Estimate(-effect.value, -effect.high, -effect.low)
            found.append(Comparison(f"{one} against {other}", effect, min(len(of[one]), len(of[other]))))
            size = max(size, abs(float(summarise(np.array(of[other]), axis=0))))
    return found, MARGIN * size


def _alone(
    study: Selection, claim: Claim, environment: str, runs: dict[str, list[Record]]
) -> tuple[list[Comparison], float]:
    """A quantity that the paper speaks of by itself, and how large it may be where it is called small or stable: what
    the prose says, or a share of the return."""
    of = _values(claim, runs)
    summarise = SUMMARIES.get(claim.statistic, np.mean)
    found = [
        Comparison(name, statistics.estimate([of[name]], summarise, study.rng), len(of[name]))
        for name in claim.subject
        if of[name]
    ]
    if claim.statistic in SHARES:
        return found, MARGIN
    said = [
        item.high
        for item in paper.figures()
        if claim.statistic == "noise_spread" and item.quantity == "std" and item.high is not None
        and (item.environment, item.algorithm) == (environment, claim.subject[0])
    ]  # fmt: skip
    returns = [item.mean for name in claim.subject for item in runs[name]]
    return found, said[0] if said else MARGIN * abs(float(np.mean(returns))) if returns else 0.0


def claims_table(study: Selection, environments: Sequence[str], presets: Sequence[str] = ("paper", "default")) -> Table:
    """Every claim about these environments, with verdicts under both presets."""
    rows = []
    for claim in paper.claims():
        for environment in claim.environments:
            for preset in presets if environment in environments else ():
                finding = judge(study, claim, environment, preset)
                said = f"“{claim.quote}” ({claim.where})"
                rows.append([said, environment, preset, claim.statistic, str(finding), finding.verdict])
    columns = ["the paper says", "environment", "preset", "statistic", "effect in the claimed direction", "verdict"]
    notes = [
        "Effects are written so that positive is what the paper says, with 95% bootstrap intervals over seeds; for "
        f"claims of similarity they are plain differences, and within {MARGIN:.0%} of what is compared is similar. "
        f"With fewer than {FEWEST_SEEDS} seeds, or where a method of the claim was not run, nothing holds."
    ]
    return Table("claims", "The paper's claims", columns, rows, notes)


def _verdict(claim: Claim, comparisons: list[Comparison], missing: list[str], margin: float) -> str:
    effects = [item.effect for item in comparisons if item.seeds >= FEWEST_SEEDS]
    whole = not missing and len(effects) == len(comparisons)
    if not effects or any(np.isnan([item.value, item.low, item.high]).any() for item in effects):
        return OPEN
    low, high = (-margin, margin) if claim.direction == "similar" else (0.0, np.inf)
    if claim.statistic == "importance_order":
        low, high = 0.5, 1.0
    if whole and all(low < item.low and item.high <= high for item in effects):
        return HOLDS
    return FAILS if any(item.high < low or item.low > high for item in effects) else OPEN


def _orders(study: Selection, claim: Claim, runs: dict[str, list[Record]]) -> list[Comparison]:
    """Share of runs whose importances have the claimed order."""
    found = []
    stage = claim.stage or "late"
    for name in claim.subject:
        known = [item.importances[stage] for item in runs[name] if stage in item.importances]
        if not known or not set(claim.order) <= set(known[0]):
            continue
        features = list(known[0])
        shares = np.array([[item[feature] for feature in features] for item in known])
        hits = statistics.follows_order(shares, [features.index(feature) for feature in claim.order])
        share = statistics.estimate([hits.astype(float)], np.mean, study.rng)
        found.append(Comparison(f"{name}, share of seeds", share, len(known)))
    return found


def _stages(study: Selection, claim: Claim, runs: dict[str, list[Record]]) -> list[Comparison]:
    """How much more balanced the attributions are late in training than early."""
    found = []
    for name in claim.subject:
        gains = [_sparsity(item, "early") - _sparsity(item, "late") for item in runs[name] if item.importances]
        if gains:
            effect = statistics.estimate([gains], np.mean, study.rng)
            found.append(Comparison(f"{name}, early - late", effect, len(gains)))
    return found


def _rates(study: Selection, claim: Claim, environment: str, preset: str) -> list[Comparison]:
    """By how much the fitted exponent of the random iterate's gap exceeds the theorem's, under its step sizes."""
    found = []
    for name in claim.subject:
        runs = study.theory(environment, preset=preset, algorithm=name)
        rates = [fitted_rate(*random_iterate(item)) for item in runs]
        excess = [rate - paper.document()["theory"]["rate"] for rate in rates if np.isfinite(rate)]
        if excess:
            found.append(Comparison(name, statistics.estimate([excess], np.mean, study.rng), len(excess)))
    return found


def _runs(study: Selection, environment: str, preset: str, algorithm: str) -> list[Record]:
    own = PRESET if algorithm in BASELINES else preset
    return study.of(environment=environment, preset=own, algorithm=algorithm)


def _values(claim: Claim, runs: dict[str, list[Record]]) -> dict[str, list[float]]:
    """What is measured of each method's runs, those without it left out. A run that never got there counts as later
    than all that did: as twice the longest of the runs compared."""
    budget = {"steps_to_threshold": lambda item: item.steps, "time_to_solution": lambda item: item.seconds}
    measured = {name: [MEASURES[claim.statistic](item) for item in found] for name, found in runs.items()}
    if claim.statistic in budget:
        longest = max((budget[claim.statistic](item) for found in runs.values() for item in found), default=0.0)
        measured = {name: [min(value, 2.0 * longest) for value in values] for name, values in measured.items()}
    return {name: [value for value in values if not np.isnan(value)] for name, values in measured.items()}


def _to_threshold(item: Record) -> float:
    levels = thresholds(item.environment)
    return statistics.steps_to_threshold(item.curve.returns, levels[0]) if levels else float("nan")


def _seconds(item: Record) -> float:
    steps = _to_threshold(item)
    return float(np.interp(steps, item.curve.steps, item.curve.seconds)) if np.isfinite(steps) else steps


def _growth(item: Record) -> float:
    """By how much a step takes longer in the last quarter of training than in the quarter before."""
    steps, seconds = item.curve.steps, item.curve.seconds
    if len(steps) < 5:
        return float("nan")
    half, late, end = np.interp(np.array([0.5, 0.75, 1.0]) * steps[-1], steps, seconds)
    return float((end - late) / (late - half) - 1.0)


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


def _drop(item: Record) -> float:
    if LARGEST_NOISE not in item.returns:
        return float("nan")
    return item.returns[0.0][0] - item.returns[LARGEST_NOISE][0]


def _noisy(item: Record) -> float:
    return item.returns[LARGEST_NOISE][0] if LARGEST_NOISE in item.returns else float("nan")


def _sparsity(item: Record, stage: str = "late") -> float:
    shares = item.importances.get(stage)
    return 1.0 - float(statistics.evenness(list(shares.values()))) if shares else float("nan")


def _change(item: Record) -> float:
    early, late = item.importances.get("early"), item.importances.get("late")
    if not early or not late:
        return float("nan")
    return float(np.abs(np.array(list(early.values())) - np.array(list(late.values()))).sum())


def _spread(values: ArrayLike, axis: int = -1) -> object:
    return np.std(np.asarray(values, dtype=np.float64), axis=axis)


MEASURES: dict[str, Measure] = {
    "return_difference": lambda item: item.mean,
    "probability_of_improvement": lambda item: item.mean,
    "seed_spread": lambda item: item.mean,
    "noise_spread": _noisy,
    "noise_drop": _drop,
    "steps_to_threshold": _to_threshold,
    "time_to_solution": _seconds,
    "early_return": _early,
    "curve_roughness": _roughness,
    "attribution_sparsity": _sparsity,
    "attribution_change": _change,
    "epoch_time": lambda item: item.epoch_ms,
    "epoch_growth": _growth,
    "memory_left": _left,
    "lqr_gap": lambda item: min(item.gap, UNSTABLE),
}
"""What is measured of a run; only a whole study shows the fitted rate."""
SUMMARIES: dict[str, Callable[..., object]] = {
    "seed_spread": _spread,
    "noise_spread": _spread,
    "steps_to_threshold": np.median,
    "time_to_solution": np.median,
    "lqr_gap": np.median,
}

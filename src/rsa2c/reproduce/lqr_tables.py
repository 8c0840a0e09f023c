"""Tables of the linear-quadratic benchmark, whose optimal cost is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from rsa2c import statistics
from rsa2c.reproduce import paper, rates
from rsa2c.reproduce.cells import Part, Table, interval, thousands, three_digits
from rsa2c.reproduce.earlier import remark
from rsa2c.reproduce.measures import drawn
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import PRESETS, UNSTABLE, Selection
from rsa2c.reproduce.versions import conflict
from rsa2c.statistics import Estimate


def gap_table(study: Selection, environment: str) -> Table:
    """Excess over the optimal cost at the end of training."""
    rows: list[list[Any]] = []
    for preset in PRESETS:
        chosen = study.of(environment=environment, preset=preset)
        control = [item.gap for item in chosen if item.algorithm == "advanced-ac"]
        for algorithm in study.algorithms(chosen):
            values = np.array([item.gap for item in chosen if item.algorithm == algorithm])
            stable = Part(int((values < 1.0).sum()), len(values))
            is_compared = algorithm != "advanced-ac" and not conflict(
                item for item in chosen if item.algorithm in (algorithm, "advanced-ac"))  # fmt: skip
            better = _better(study, values, np.array(control)) if is_compared else None
            median = drawn(statistics.median_steps(values, study.rng), len(values))
            rows.append([preset, algorithm, len(values), stable, median, better])
    columns = ["preset", "variant", "seeds", "gap under 100%", "median gap", "P(smaller than Advanced AC's)"]
    notes = ["Deterministic unclipped rollouts of 2,000 steps on 1,000 fixed starts against the Riccati solution; one "
             "start that diverges makes the gap infinite.", *remark(study, environment)]  # fmt: skip
    return Table("gap_lqr", "LQR: gap to the optimal cost", columns, rows, notes, {"median gap": _percent})


def _better(study: Selection, values: np.ndarray, control: np.ndarray) -> Estimate | None:
    """How often a gap is smaller than the control's; None if there is no control or all are unstable alike."""
    if not len(control) or min(*values, *control) >= UNSTABLE:
        return None
    ours, theirs = -np.minimum(values, UNSTABLE), -np.minimum(control, UNSTABLE)
    return drawn(statistics.probability_of_improvement([ours], [theirs], study.rng), len(ours), len(theirs))


def rate_table(study: Selection, environment: str) -> Table:
    """Under the theory's step sizes: fitted rates of the last and of the random iterate, for each size of batches."""
    rows = [[_batches(runs), *_rate_row(runs)] for runs in _of_theory(study, environment)]
    theory = paper.document()["theory"]
    columns = ["steps of an epoch", "epochs T", "variant", "seeds", "exponent, last iterate",
               "exponent, random iterate", "exponent, random iterate once stable", "gap, last iterate",
               "gap, random iterate"]  # fmt: skip
    notes = ["Actor steps a0 (t+1)^-3/4 along the natural direction, TD(lambda) steps b0 (t+1)^-1/2. "
             "Exponent p of gap c T^-p over the "
             f"last nine tenths of T epochs, with 95% intervals; the theorem bounds the gap by T^-{theory['rate']} "
             f"log^{theory['log_power']} T, which itself rises until T = {rates.peak():,.0f}: p > {theory['rate']} is "
             "more than it asks, and before that T no exponent contradicts it. The first iterates are unstable, and "
             f"gaps above {rates.LARGEST_GAP:,.0f} times the optimal cost are limited to that. The random iterate, "
             "drawn with weights alpha_t, includes them, and its exponent is mostly that of their shrinking share, "
             "whatever is learned afterwards. Drawn from the iterates since the first stable one (gap under 100%), it "
             "shows what is learned.", *remark(study, environment)]  # fmt: skip
    shown = {**dict.fromkeys(columns[-2:], three_digits), "epochs T": thousands}
    return Table("rate_lqr", "LQR: decay of the gap under the theory's step sizes", columns, rows, notes, shown)


def bound_table(study: Selection, environment: str) -> Table:
    """Beyond the T from which the theorem's bound falls: whether the gap falls as fast."""
    first = rates.peak()
    long = [runs for runs in _of_theory(study, environment) if _last_epoch(runs) > 2 * first]
    rows = [[_batches(runs), *_bound_row(runs, first)] for runs in long]
    columns = ["steps of an epoch", "epochs T", "variant", "seeds", "bound", "last iterate", "random iterate",
               "random iterate once stable"]  # fmt: skip
    notes = [f"Gap at the last T over the gap at T = {first:,.0f}, where the theorem's bound T^-1/4 log^2 T is "
             "largest: geometric means over seeds with 95% intervals, beside the same ratio of the bound. A ratio "
             "above the bound's says that the gap falls more slowly than the bound from there on, which would "
             "contradict it only if it went on, since the theorem leaves its constant open. It is a weak test all the "
             "same: the bound itself falls by few percent over these epochs."]  # fmt: skip
    shown = {"epochs T": thousands, "bound": three_digits}
    return Table("bound_lqr", "LQR: the gap after the theorem's bound has begun to fall", columns, rows, notes, shown)


def _of_theory(study: Selection, environment: str) -> list[list[Record]]:
    """The runs of each variant with each schedule of the theory."""
    found = []
    for schedule in study.schedules(environment):
        chosen = study.theory(environment, schedule)
        found += [[item for item in chosen if item.algorithm == name] for name in study.algorithms(chosen)]
    return found


def _batches(runs: list[Record]) -> str:
    """Environment steps of an epoch, between evaluations; where it grows, between the first two and the last two."""
    curve = runs[0].curve
    sizes = np.diff(curve.steps) / np.diff(curve.epochs)
    first, last = round(sizes[0]), round(sizes[-1])
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _rate_row(runs: list[Record]) -> list[Any]:
    last, random, settled, ends = [], [], [], []
    for item in runs:
        epochs, expected = rates.random_iterate(item)
        last.append(rates.fitted_rate(epochs, rates.bounded(item.curve.gap)))
        random.append(rates.fitted_rate(epochs, expected))
        settled.append(rates.fitted_rate(*rates.random_iterate(item, stable=True)))
        ends.append((item.gap, expected[-1]))
    fitted = [_mean(x) for x in (last, random, settled)]
    return [_last_epoch(runs), runs[0].algorithm, len(runs), *fitted, *np.median(ends, axis=0).tolist()]


def _bound_row(runs: list[Record], first: float) -> list[Any]:
    last = [rates.change(item.curve.epochs, rates.bounded(item.curve.gap), first) for item in runs]
    random = [rates.change(*rates.random_iterate(item), first) for item in runs]
    settled = [rates.change(*rates.random_iterate(item, stable=True), first) for item in runs]
    allowed = float(rates.bound(_last_epoch(runs)) / rates.bound(first))
    found = [_geometric_mean(x) for x in (last, random, settled)]
    return [_last_epoch(runs), runs[0].algorithm, len(runs), allowed, *found]


def _last_epoch(runs: list[Record]) -> int:
    return round(runs[0].curve.epochs[-1])


def _mean(values: list[float]) -> Estimate | None:
    """The mean of those that are finite; None if none is."""
    finite = [value for value in values if np.isfinite(value)]
    return statistics.mean(finite) if finite else None


def _geometric_mean(values: list[float]) -> Estimate | None:
    found = _mean(np.log(values).tolist())
    return None if found is None else Estimate(*np.exp([found.value, found.low, found.high]).tolist())


def _percent(item: Estimate) -> str:
    def one(value: float) -> str:
        return f"{100 * value:.1f}%" if value < UNSTABLE else "unstable"

    return interval(item, one)


TABLES = (gap_table, rate_table, bound_table)
"""All tables of the benchmark, in their order."""

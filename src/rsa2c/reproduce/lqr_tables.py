"""Tables of the linear-quadratic benchmark, whose optimal cost is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from rsa2c import statistics
from rsa2c.reproduce import paper, rates
from rsa2c.reproduce.cells import Part, Table, interval, three_digits
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import PRESETS, UNSTABLE, Selection
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
            better = _better(study, values, np.array(control)) if algorithm != "advanced-ac" else None
            median = statistics.median_steps(values, study.rng)
            rows.append([preset, algorithm, len(values), stable, median, better])
    columns = ["preset", "variant", "seeds", "gap under 100%", "median gap", "P(smaller than Advanced AC's)"]
    notes = ["Deterministic unclipped rollouts of 2,000 steps on 1,000 fixed starts against the Riccati solution; one "
             "start that diverges makes the gap infinite."]  # fmt: skip
    return Table("gap_lqr", "LQR: gap to the optimal cost", columns, rows, notes, {"median gap": _percent})


def _better(study: Selection, values: np.ndarray, control: np.ndarray) -> Estimate | None:
    """How often a gap is smaller than the control's; None if there is no control or all are unstable alike."""
    if not len(control) or min(*values, *control) >= UNSTABLE:
        return None
    ours, theirs = -np.minimum(values, UNSTABLE), -np.minimum(control, UNSTABLE)
    return statistics.probability_of_improvement([ours], [theirs], study.rng)


def rate_table(study: Selection, environment: str) -> Table:
    """Under the theory's step sizes: the fitted rate of the last and of the random iterate."""
    chosen = study.theory(environment)
    rows = [_rate_row([item for item in chosen if item.algorithm == name]) for name in study.algorithms(chosen)]
    theory = paper.document()["theory"]
    peak = np.exp(theory["log_power"] / theory["rate"])
    columns = ["variant", "seeds", "exponent, last iterate", "exponent, random iterate",
               "exponent, random iterate once stable", "gap, last iterate", "gap, random iterate"]  # fmt: skip
    notes = ["Actor steps a0 (t+1)^-3/4 along the natural direction, TD(lambda) steps b0 (t+1)^-1/2. "
             "Exponent p of gap c T^-p over the "
             f"last nine tenths of T epochs, with 95% intervals; the theorem bounds the gap by T^-{theory['rate']} "
             f"log^{theory['log_power']} T, which itself rises until T = {peak:,.0f}: p > {theory['rate']} is more "
             f"than it asks. The first iterates are unstable, and gaps above {rates.LARGEST_GAP:,.0f} times the "
             "optimal cost are limited to that. The random iterate, drawn with weights alpha_t, includes them, and its "
             "exponent is mostly that of their shrinking share, whatever is learned afterwards. Drawn from the "
             "iterates since the first stable one (gap under 100%), it shows what is learned."]  # fmt: skip
    shown = dict.fromkeys(columns[-2:], three_digits)
    return Table("rate_lqr", "LQR: rate under the theory's step sizes", columns, rows, notes, shown)


def _rate_row(runs: list[Record]) -> list[Any]:
    last, random, settled, ends = [], [], [], []
    for item in runs:
        epochs, expected = rates.random_iterate(item)
        last.append(rates.fitted_rate(epochs, rates.bounded(item.curve.gap)))
        random.append(rates.fitted_rate(epochs, expected))
        settled.append(rates.fitted_rate(*rates.random_iterate(item, stable=True)))
        ends.append((item.gap, expected[-1]))
    finite = [[value for value in x if np.isfinite(value)] for x in (last, random, settled)]
    fitted = [statistics.mean(x) if x else None for x in finite]
    return [runs[0].algorithm, len(runs), *fitted, *np.median(ends, axis=0).tolist()]


def _percent(item: Estimate) -> str:
    def one(value: float) -> str:
        return f"{100 * value:.1f}%" if value < UNSTABLE else "unstable"

    return interval(item, one)

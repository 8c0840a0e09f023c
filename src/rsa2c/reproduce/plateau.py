"""Whether runs of the preset `paper` that were stopped before the paper's epochs had ended their climb."""

from __future__ import annotations

from typing import Any

import numpy as np

from rsa2c import statistics
from rsa2c.reproduce import paper
from rsa2c.reproduce.cells import Table
from rsa2c.reproduce.effects import MARGIN
from rsa2c.reproduce.records import Curve, Record
from rsa2c.reproduce.selection import Selection, slug, thresholds
from rsa2c.statistics import Estimate

FEWEST = 10
"""Evaluations of a run whose two last fifths can be compared."""
LEVEL, RISING, FALLING, OPEN = "level", "still rising", "falling", "not shown"
COLUMNS = ["variant", "seeds", "epochs", "of the paper's", "return, fifth before", "return, last fifth", "difference",
           "slope per 100 epochs", "at that slope by the paper's end", "plateau"]  # fmt: skip


def fifths(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Mean returns of the evaluations in the last fifth of a run and in the fifth before it."""
    count = len(curve.mean) // 5
    return curve.mean[-count:], curve.mean[-2 * count : -count]


def slope(curve: Curve) -> float:
    """Return per epoch by least squares over the last two fifths of a run's evaluations."""
    count = 2 * (len(curve.mean) // 5)
    return float(np.polyfit(curve.epochs[-count:], curve.mean[-count:], 1)[0])


def plateau(study: Selection, environment: str) -> Table:
    """The last two fifths of each variant's runs with the preset `paper` that have fewer epochs than the paper's."""
    whole, margin = paper.epochs(environment) or 0, _margin(environment)
    found = study.of(environment=environment, preset="paper")
    short = [item for item in found if item.epochs < whole and len(item.curve.mean) >= FEWEST]
    rows = [
        _row(algorithm, [item for item in short if item.algorithm == algorithm], whole, margin)
        for algorithm in study.algorithms(short)
    ]
    notes = [
        "Runs with the preset `paper` that were stopped before the paper's epochs: mean return of the evaluations in "
        "the last fifth of training, in the fifth before, and their difference per run, with Student's 95% intervals "
        "over runs; of a single run, Welch's over its evaluations, which are not independent. The slope is that of "
        "least squares over both fifths, and beside it what it would add if it went on unchanged until the paper's "
        "last epoch; a curve that flattens adds less.",
        f"{LEVEL}: the whole interval of the difference is within ±{margin:g}, a tenth of the return "
        f"that counts as a solution; {RISING}, {FALLING}: outside of zero, and not within that; else {OPEN}.",
    ]
    return Table(f"plateau_{slug(environment)}", f"{environment}: runs shorter than the paper's", COLUMNS, rows, notes)


def _margin(environment: str) -> float:
    levels = thresholds(environment)
    return MARGIN * abs(levels[0]) if levels else float("nan")


def _row(algorithm: str, runs: list[Record], whole: int, margin: float) -> list[Any]:
    pairs = [fifths(item.curve) for item in runs]
    late, before = ([float(np.mean(pair[side])) for pair in pairs] for side in (0, 1))
    gained = statistics.mean(np.subtract(late, before)) if len(runs) > 1 else statistics.mean_difference(*pairs[0])
    climbs = [slope(item.curve) for item in runs]
    left = [rate * (whole - item.epochs) for rate, item in zip(climbs, runs, strict=True)]
    epochs = "/".join(f"{count:,}" for count in sorted({item.epochs for item in runs}))
    ends = float(np.mean(before)), float(np.mean(late)), gained
    return [algorithm, len(runs), epochs, whole, *ends, statistics.mean(100.0 * np.array(climbs)),
            statistics.mean(left), said(gained, margin)]  # fmt: skip


def said(gained: Estimate, margin: float) -> str:
    """What the difference between the last two fifths shows."""
    if not gained.has_interval:
        return OPEN
    if -margin <= gained.low and gained.high <= margin:
        return LEVEL
    if gained.low > 0.0:
        return RISING
    return FALLING if gained.high < 0.0 else OPEN

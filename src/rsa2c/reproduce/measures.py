"""What is measured in one run, and by which statistic the runs of a method are compared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations

import numpy as np

from rsa2c import statistics
from rsa2c.reproduce.paper import Claim
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import WHOLE, thresholds
from rsa2c.statistics import Estimate

Measure = Callable[[Record], float]
SHORTEST = 1e-3
"""Seconds. What was reached by the first evaluation may have been reached at once; ratios need a positive time."""
SPREADS = ("seed_spread", "noise_spread", "lqr_spread")
"""Statistics that are standard deviations over seeds."""
RETURNS = ("return_difference", "early_return", "seed_spread", "noise_return", "noise_drop", "noise_spread",
           "distractor_return")  # fmt: skip
"""Statistics in units of the return."""
TIMES = ("step_time", "time_to_solution")
"""Statistics that compare the clocks of several runs: their effects are relative differences."""
CLOCKS = (*TIMES, WHOLE)
"""Statistics of the clock: measured only in trainings that had a machine to themselves."""
OPERATIONS = "step_flops"
COUNTED = (OPERATIONS, "memory_left")
"""Statistics that are counted and not sampled: one run of each method is enough."""
SHARES = ("importance_order",)
"""Statistics that are true or false for each run."""
MEDIANS = ("steps_to_threshold", "epoch_growth", "lqr_gap", "lqr_steps")
"""Statistics whose runs are summarised by their median, others by their mean."""
DRAWN = (*MEDIANS, *TIMES, "probability_of_improvement")
"""Statistics whose intervals are drawn from the runs themselves, by bootstrap."""
FEWEST_SEEDS = 3
"""With fewer, whether scores scatter alike cannot be seen at all; from here on Student's and Welch's intervals are as
wide as so few seeds make them."""
FEWEST_DRAWN = 5
"""The same for bootstrap intervals: the least and the greatest of three runs enclose the true median three times in
four, those of five fifteen times in sixteen."""


def fewest_seeds(statistic: str) -> int:
    """Runs of each method without which a statistic decides nothing."""
    if statistic in COUNTED:
        return 1
    return FEWEST_DRAWN if statistic in DRAWN else FEWEST_SEEDS


def drawn(found: Estimate, *runs: int) -> Estimate:
    """A bootstrap estimate for a table, without its interval where a method has too few runs for one."""
    return found if min(runs) >= FEWEST_DRAWN else Estimate.alone(found.value)


def mean_return(item: Record) -> float:
    return item.mean


def _noisy(item: Record, level: float) -> float:
    return item.mean_at(level)


def _drop(item: Record, level: float) -> float:
    return item.mean - _noisy(item, level)


def _to_threshold(item: Record, column: str, before: bool = False) -> float:
    levels = thresholds(item.environment)
    return item.curve.until(levels[0], column, before) if levels else float("nan")


def _growth(item: Record) -> float:
    """Time per step in the last quarter of training over that in the quarter before, minus one: one run, one clock."""
    steps, seconds = item.curve.steps, item.curve.seconds
    if len(steps) < 5:
        return float("nan")
    half, late, end = np.interp(np.array([0.5, 0.75, 1.0]) * steps[-1], steps, seconds)
    return float((end - late) / (late - half) - 1.0) if half < late < end else float("nan")


def _left(item: Record) -> float:
    return 1.0 - item.states / item.capacity if item.capacity else float("nan")


def _early(item: Record) -> float:
    steps, means = item.curve.returns
    return float(np.mean(means[: max(1, len(steps) // 5)]))


def _roughness(item: Record) -> float:
    steps, means = item.curve.returns
    grid = np.linspace(steps[0], steps[-1], 20)
    return float(statistics.roughness(statistics.aligned([(steps, means)], grid))[0])


def sparsity(item: Record, stage: str = "late") -> float:
    shares = item.importances.get(stage)
    return 1.0 - float(statistics.evenness(list(shares.values()))) if shares else float("nan")


def _change(item: Record) -> float:
    early, late = item.importances.get("early"), item.importances.get("late")
    if not early or not late:
        return float("nan")
    return float(np.abs(np.array(list(early.values())) - np.array(list(late.values()))).sum())


def rise(item: Record, feature: str) -> float:
    shares = [item.importances.get(stage, {}).get(feature, np.nan) for stage in ("early", "late")]
    return float(shares[1] - shares[0])


def in_order(item: Record, claim: Claim) -> float:
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
    "return_difference": mean_return,
    "probability_of_improvement": mean_return,
    "seed_spread": mean_return,
    "steps_to_threshold": partial(_to_threshold, column="steps"),
    "time_to_solution": partial(_to_threshold, column="seconds"),
    "early_return": _early,
    "curve_roughness": _roughness,
    "attribution_sparsity": sparsity,
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
"""Lower bounds of quantities that are known only at evaluations."""
BUDGETS: dict[str, Measure] = {
    "steps_to_threshold": lambda item: item.steps,
    "time_to_solution": lambda item: item.seconds,
    "lqr_steps": lambda item: item.steps,
}
"""How much of such a quantity a run had available; a run that never succeeded used all of it."""
ARRIVALS = {
    "steps_to_threshold": "reach the threshold",
    "time_to_solution": "reach the threshold",
    "lqr_steps": "become stable",
    "lqr_gap": "end stable",
    "lqr_spread": "end stable",
}
"""What a run has to do before such a statistic says anything of it."""

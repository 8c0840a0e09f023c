"""Statistics of experiments: pure functions on arrays of runs; `rsa2c.plots` draws what they compute.

Scores are given as strata: a sequence with one array per task, which has one number per run (seed). A bootstrap draws
runs with replacement within each task, so no task gains or loses weight; tasks are pooled, so scores of several tasks
must be on one scale. Curves are pairs of arrays, environment steps and the value at each. Random draws come from a
passed generator. A single run has no interval: its bounds are NaN.
"""

from rsa2c.statistics.bootstrap import (
    REPETITIONS,
    bootstrap,
    difference,
    estimate,
    iqm,
    median_steps,
    percentile_interval,
    probability_of_improvement,
)
from rsa2c.statistics.checks import Curve, Strata
from rsa2c.statistics.curves import (
    aligned,
    common_grid,
    curve_interval,
    roughness,
    steps_to_threshold,
    total_variation,
)
from rsa2c.statistics.estimates import (
    LEVEL,
    Estimate,
    mean,
    mean_difference,
    mean_of,
    mean_std,
    share,
    std,
    std_difference,
)
from rsa2c.statistics.importances import evenness, follows_order, rank_agreement

__all__ = [
    "LEVEL",
    "REPETITIONS",
    "Curve",
    "Estimate",
    "Strata",
    "aligned",
    "bootstrap",
    "common_grid",
    "curve_interval",
    "difference",
    "estimate",
    "evenness",
    "follows_order",
    "iqm",
    "mean",
    "mean_difference",
    "mean_of",
    "mean_std",
    "median_steps",
    "percentile_interval",
    "probability_of_improvement",
    "rank_agreement",
    "roughness",
    "share",
    "std",
    "std_difference",
    "steps_to_threshold",
    "total_variation",
]

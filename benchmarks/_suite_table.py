"""The page of the suite, results/suite.md, made from its rows; nothing on it is typed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _earlier import RULE, RULES, SHADOWS, SIGN, latest, mark, under, whole
from _rl_zoo import ALGORITHMS, PUBLISHED, SOURCE
from _suite_tasks import FURTHER, GAP, GOAL, LEFT_OUT_FROM, RETURN, TARGETS, Target, left_out
from rsa2c import statistics
from rsa2c.algorithm.keeping import FIRST_EPISODES, FURTHER_EPISODES, STEPS_BETWEEN_TRIALS
from rsa2c.statistics import Estimate

Row = dict[str, Any]
OURS = "rsa2c-kme"
WHOLE = whole("")
"""Variants of rows that have nothing left out."""
COLUMNS = (
    "environment", "algorithm", "steps", "seeds", "result", "worst seed", "ended early", "minutes", "MiB", "states",
    "bar", "met", "dream", "met",
)  # fmt: skip
INTRODUCTION = f"""\
# The suite

`python benchmarks/suite.py --table` makes this page from `results/suite/runs.jsonl`, which has one line for each run,
with its command. Each run is that of `rsa2c train ENV --seed S --total-timesteps N`, on one thread. The policy that
acts after training is judged: deterministic, 100 episodes in Gymnasium's own environment. Where the setting `keep` is
`best`, as in the general rule, that is the best policy so far by trials of its own: at least {FIRST_EPISODES}
episodes every {STEPS_BETWEEN_TRIALS:,} training steps, and at least {FURTHER_EPISODES} more if these went better than
before; the policy kept so far is tried again each time, and one that is to replace it is tried as often. **The steps
of the trials are not among the steps in the table**; their time is counted. The baselines are judged with their last
policy.

- *result*: the mean over seeds with its 95% interval (Student's t). A seed's score is its mean over 100 episodes.
  Steps to -200 on Pendulum-v1 are counted by evaluating 20 episodes after each epoch (`time_to_solution.py`); there,
  the result is the median with its bootstrap interval.
- *worst seed*: the score of the worst seed.
- *ended early*: the share of judged episodes that ended before the environment's limit, in which walkers fall;
  LunarLander and MountainCar end when the task is solved, too.
- *minutes*: training without evaluation, mean over seeds; two runs at a time may share a machine. A first run after
  an installation compiles for some seconds. *MiB*: the largest peak memory of a training process.
- *states*: remembered states of actor and value critic, mean over seeds.
- *met*: whether the mean over seeds reaches the bar or the dream.
- {SIGN}: of {RULE}; {" or ".join(f"`{rule}`" for rule in RULES)} in the rows.
"""


LEFT_OUT = """\
All of these runs have an earlier guidance, by shadow features¹. The same question was put to the rule written as CUDA
learners, six seeds each: [the log](research.md), "What each part is worth"."""
UNTUNED = """\
Tasks of dm_control (CartpoleSwingup-v1 to WalkerWalk-v1) give 1,000 at most. The last two are tasks of MuJoCo
Playground; a Go1 that only stands has 15."""


def write_page(rows: Sequence[Row], path: Path) -> Path:
    """Write the page; rows of steps or settings that no table asks for are left out of it."""
    parts = [INTRODUCTION, origin(rows), "## Results", results(rows, TARGETS)]
    parts += ["## Beside published figures", beside(rows), SOURCE + " TRPO was not run here."]
    parts += ["## One part of the rule left out", LEFT_OUT, leave_one_out(rows)]
    parts += ["## Environments that nobody tuned for", UNTUNED, results(rows, FURTHER, COLUMNS[:-4])]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    return path


def line(row: Row) -> str:
    """One row in words."""
    special = "".join(f", {_NAMES[name]} {_shown(_worst([row], name), name)}" for name in (GOAL, GAP) if name in row)
    return f"{row['mean']:,.1f} +- {row['std']:,.1f}, worst {row['worst']:,.1f}, {row['seconds']:,.0f} s{special}"


def results(rows: Sequence[Row], targets: Iterable[Target], columns: Sequence[str] = COLUMNS) -> str:
    """One line for each target and algorithm, with the first columns or all."""
    lines = []
    for target in targets:
        found = [row for row in rows if _answers(row, target)]
        for algorithm in sorted({row["algorithm"] for row in found} | {OURS}, key=_rank):
            lines.append(_result(target, algorithm, answers(rows, target, algorithm)))
    return table(columns, [cells[: len(columns)] for cells in lines])


def _result(target: Target, algorithm: str, rows: Sequence[Row]) -> list[str]:
    name = target.environment + ("" if target.measure == RETURN else f", {_NAMES[target.measure]}")
    bars = [_shown(target.bar, target.measure), _shown(target.dream, target.measure)]
    if not rows:
        bars = [bars[0], "not run", bars[1], "not run"]
        return [name, algorithm, f"{target.steps:,}", f"0 of {target.seeds}", *"-" * 6, *bars]
    found = estimate(rows, target.measure)
    met = [_met(found.value, goal, target, len(rows)) for goal in (target.bar, target.dream)]
    return [
        name, algorithm, f"{target.steps:,}", f"{len(rows)} of {target.seeds}{mark(rows)}",
        interval(found, target.measure),
        _shown(_worst(rows, target.measure), target.measure), _early(rows), f"{_mean(rows, 'seconds') / 60:.1f}",
        f"{max(row['peak_rss_mib'] for row in rows):,}", _states(rows), bars[0], met[0], bars[1], met[1],
    ]  # fmt: skip


def beside(rows: Sequence[Row]) -> str:
    """Our mean return and what ran here, beside RL-Zoo's."""
    here = sorted({row["algorithm"] for row in rows if row["variant"] in WHOLE} | {OURS}, key=_rank)
    lines = []
    for target in (target for target in TARGETS if target.measure == RETURN):
        cells = []
        for algorithm in here:
            found = answers(rows, target, algorithm)
            cells.append(interval(estimate(found, RETURN), RETURN) + mark(found) if found else "-")
        version, figures = PUBLISHED.get(target.environment, ("-", {}))
        cells.append(version)
        for name in ALGORITHMS:
            mean, std, steps = figures.get(name, (math.nan, math.nan, ""))
            cells.append(f"{_shown(mean)} ± {_shown(std)} ({steps})" if steps else "-")
        lines.append([target.environment, f"{target.steps:,}", *cells])
    published = (f"{name}, RL-Zoo" for name in ALGORITHMS)
    return table(("environment", "steps", *here, "RL-Zoo's version", *published), lines)


def leave_one_out(rows: Sequence[Row]) -> str:
    """What each part of the general rule is worth: the difference to the whole rule with Welch's interval."""
    lines = []
    for target in (target for target in TARGETS if target.environment in LEFT_OUT_FROM):
        complete = [row for row in rows if _answers(row, target, (SHADOWS,)) and row["algorithm"] == OURS]
        scores = [row["mean"] for row in complete]
        if complete:
            result = interval(estimate(complete))
            lines.append([target.environment, "the general rule", "", f"{len(complete)}", result, ""])
        for variant, settings in left_out(target.environment).items():
            label = under(SHADOWS, variant)
            found = [row for row in rows if row["variant"] == label and row["environment"] == target.environment]
            found = [row for row in found if row["steps"] == target.steps and row["settings"] == settings]
            listed = ", ".join(f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                               for name, value in settings.items())  # fmt: skip
            cost = "-"
            if found and complete:
                cost = interval(statistics.mean_difference(scores, [row["mean"] for row in found]))
            result = interval(estimate(found)) if found else "not run"
            lines.append([target.environment, variant, listed, f"{len(found)}", result, cost])
    return table(("environment", "variant", "settings", "seeds", "mean return", "costs"), lines)


def estimate(rows: Sequence[Row], measure: str = RETURN) -> Estimate:
    """Mean over seeds with Student's interval; for steps to a goal, which may never be reached, their median with a
    bootstrap interval. One unbounded gap makes the mean infinite."""
    values = _values(rows, measure)
    if measure == GOAL:
        return statistics.median_steps(values, np.random.default_rng(0))
    return statistics.mean(values) if np.all(np.isfinite(values)) else Estimate.alone(math.inf)


def table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *lines))


def answers(rows: Sequence[Row], target: Target, algorithm: str = OURS) -> list[Row]:
    """The rows of an algorithm that a target asks for: those of the newest guidance that it has."""
    return latest([row for row in rows if _answers(row, target) and row["algorithm"] == algorithm])


def _answers(row: Row, target: Target, variants: Sequence[str] = WHOLE) -> bool:
    same = (row["environment"], row["steps"]) == (target.environment, target.steps) and row["variant"] in variants
    return same and (target.measure == RETURN or target.measure in row)


def _worst(rows: Sequence[Row], measure: str) -> float:
    values = _values(rows, measure)
    return min(values) if measure == RETURN else max(values)


def _values(rows: Sequence[Row], measure: str) -> list[float]:
    """A field of the rows; what JSON has as null is infinite."""
    return [math.inf if row[measure] is None else row[measure] for row in rows]


def _met(value: float, goal: float | None, target: Target, seeds: int) -> str:
    if goal is None:
        return "-"
    verdict = "yes" if (value >= goal if target.measure == RETURN else value <= goal) else "no"
    return verdict if seeds >= target.seeds else f"{verdict}, so far"


_NAMES = {GOAL: "steps to -200", GAP: "excess over the optimal cost"}
_FORMATS: dict[str, Callable[[float], str]] = {
    RETURN: lambda value: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}",
    GOAL: lambda value: f"{value:,.0f}",
    GAP: lambda value: f"{100 * value:.2f}%",
}


def _shown(value: float | None, measure: str = RETURN) -> str:
    if value is None:
        return "-"
    return _FORMATS[measure](value) if math.isfinite(value) else "∞"


def interval(found: Estimate, measure: str = RETURN) -> str:
    """A number and its interval as the page shows them."""
    if not found.has_interval:
        return _shown(found.value, measure)
    return f"{_shown(found.value, measure)} [{_shown(found.low, measure)}, {_shown(found.high, measure)}]"


def _early(rows: Sequence[Row]) -> str:
    counted = [row for row in rows if row["falls"] is not None]
    return f"{sum(r['falls'] for r in counted) / sum(r['episodes'] for r in counted):.1%}" if counted else "-"


def _states(rows: Sequence[Row]) -> str:
    sizes = [row["states"] for row in rows if row["states"]]
    return " + ".join(f"{np.mean([size[name] for size in sizes]):.0f}" for name in sizes[0]) if sizes else "-"


def _mean(rows: Sequence[Row], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def _rank(algorithm: str) -> tuple[bool, str]:
    return algorithm != OURS, algorithm


def origin(rows: Sequence[Row]) -> str:
    """Which commits and machines the rows are from."""
    lines = []
    for name in ("commit", "machine"):
        counts: dict[str, int] = {}
        for row in rows:
            counts[str(row[name])] = counts.get(str(row[name]), 0) + 1
        listed = "; ".join(f"{value} ({count})" for value, count in counts.items())
        lines.append(f"- {name}s, with their number of runs: {listed or 'none yet'}")
    return "\n".join(lines)

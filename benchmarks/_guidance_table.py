"""The page of the guidance benchmark, results/guidance.md, made from its rows; nothing on it is typed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from _suite_table import Row, estimate, interval, origin, table
from rsa2c import statistics

UNGUIDED = "unguided"
COLUMNS = ("useless features", "guided by", "seeds", "mean return", "difference to unguided", "weight on true features",
           "minutes")  # fmt: skip
INTRODUCTION = """\
# What guidance is worth

`python benchmarks/guidance.py --table` makes this page from `results/guidance/runs.jsonl`, which has one line for each
run, with its command. All runs of a section have the same number of steps and are judged as in [the suite](suite.md):
100 deterministic episodes in Gymnasium's own environment, with the useless features that the run was trained with.

- *useless features*: their number and kind. `noise` is standard normal, fresh at every step; `drift` is as slow as the
  true features; `copies` are true features with noise of their own standard deviation; `permuted` are values of true
  features at another time; `twin` is the state of another instance of the environment under random actions; `jumps`
  are constants that jump now and then.
- *guided by*: `unguided` has equal weights. `shapley` and all up to `oracle` have the same rule: equal weights for what
  actions move and for what two halves of the episodes agree on, hardly any for the rest. They differ in what the halves
  are to agree on; `none` leaves what actions move alone, `random` has random numbers, the same throughout a run, and
  `oracle` knows which features are useless, and asks nothing of actions. `shuffled` permutes the weights of `shapley`
  over the features. Those with `weights=agreement` are of an earlier rule, in which what the halves agreed on was the
  weight, those with `null=shadows` of one with a null level from permuted shadow features. `released`
  and `printed` are the two rules of the paper, with our re-projection. `without-forces` does not observe Ant-v5's
  78 contact forces, and is trained in Gymnasium's simulator instead of EnvPool's. `ppo` and `sac` are
  Stable-Baselines3's with RL-Zoo's settings.
- *mean return*: over seeds, with Student's 95% interval. *difference to unguided*: with Welch's.
- *weight on true features*: their share of the kernel's weights at the end, mean over seeds.
"""


def write_page(rows: Sequence[Row], methods: Sequence[str], path: Path) -> Path:
    """Write the page: a section for each environment and number of steps, methods in the order given."""
    parts = [INTRODUCTION, origin(rows)]
    for environment, steps in dict.fromkeys((row["environment"], row["steps"]) for row in rows):
        found = [row for row in rows if (row["environment"], row["steps"]) == (environment, steps)]
        parts += [f"## {environment}, {steps:,} steps", _section(found, methods)]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    return path


def _section(rows: Sequence[Row], methods: Sequence[str]) -> str:
    lines = []
    for case in sorted({_case(row) for row in rows}):
        inside = [row for row in rows if _case(row) == case]
        scores = {name: [row["mean"] for row in inside if row["variant"] == name] for name in _ordered(inside, methods)}
        for name, found in scores.items():
            of_name = [row for row in inside if row["variant"] == name]
            lines.append([_words(case), name, f"{len(found)}", interval(estimate(of_name)),
                          _difference(name, found, scores.get(UNGUIDED)), _true_weight(of_name),
                          f"{sum(row['seconds'] for row in of_name) / len(of_name) / 60:.1f}"])  # fmt: skip
    return table(COLUMNS, lines)


def _case(row: Row) -> tuple[int, str]:
    return row["settings"]["distractors"], row["settings"].get("distractor_kind", "")


def _words(case: tuple[int, str]) -> str:
    return f"{case[0]} {case[1]}" if case[0] else "none"


def _ordered(rows: Sequence[Row], methods: Sequence[str]) -> list[str]:
    """The variants of these rows: by their method, the plain one before those with further settings."""
    present = {row["variant"] for row in rows}
    return sorted(present, key=lambda variant: (methods.index(variant.partition("+")[0]), variant))


def _difference(name: str, scores: Sequence[float], unguided: Sequence[float] | None) -> str:
    return "-" if name == UNGUIDED or not unguided else interval(statistics.mean_difference(scores, unguided))


def _true_weight(rows: Sequence[Row]) -> str:
    shares = [row["true_weight"] for row in rows if "true_weight" in row]
    return f"{sum(shares) / len(shares):.0%}" if shares else "-"

"""What training for errors of measurement is worth: environments x ways to train x seeds, with noise and without.

    python benchmarks/robustness.py                                  every run that is still missing
    python benchmarks/robustness.py --only BipedalWalker-v3 --methods plain,scale --seeds 0-2
    python benchmarks/robustness.py --table                          write results/robustness.md, train nothing

Each run has a process of its own with one thread, and leaves one line in results/robustness/runs.jsonl. Runs that have
a line are skipped, and a run that was stopped continues from its folder (SB3's start over), as in `suite.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _attacked import EPISODES, EPSILON, KINDS, NOISE, PUBLISHED, PUBLISHED_METHODS
from _earlier import RULE, SIGN, latest, mark, whole
from _suite_run import NOISY_EPISODES
from _suite_table import Row, estimate, interval, origin, table
from _suite_tasks import MILLION, Task
from rsa2c.baselines.settings import BASELINES
from rsa2c.statistics import mean
from suite import add_queue, check_names, names, numbers, without_row, work


@dataclass(frozen=True)
class Case:
    """An environment: the steps of a run, the variances it is judged under, and the largest error it is trained for."""

    steps: int
    noise: tuple[float, ...]
    error: float
    units: str = "raw"
    """Of the error, where it grows; the variances are raw."""


CASES = {
    "BipedalWalker-v3": Case(2 * MILLION, (0.001, 0.01), 0.1),
    "Hopper-v5": Case(MILLION, (0.001, 0.01), 0.1),
    "Ant-v5": Case(MILLION, (0.001, 0.01), 0.1, "normalised"),
    "Pendulum-v1": Case(200_000, (0.001, 0.01, 0.05), 0.1),
}
"""The variances of BipedalWalker-v3, Ant-v5 and Pendulum-v1 are among the paper's."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("rsa2c-kme", {}),
    "scale": ("rsa2c-kme", {"robust": "scale"}),
    "noise": ("rsa2c-kme", {"robust": "noise"}),
    "smooth": ("rsa2c-kme", {"robust": "smooth"}),
    "filter": ("rsa2c-kme", {"robust": "filter"}),
    "norm": ("rsa2c-kme", {"policy_decay": 0.012}),
    **{name: (name, {}) for name in BASELINES},
}
"""Ways to train: the algorithm, and what is set besides the errors."""
GROWING = ("noise", "smooth")
"""Ways to train whose errors grow; they do over the first half of a run."""
SIZED = ("scale", *GROWING)
"""Ways to train that know the size of the errors."""
INTRODUCTION = f"""\
# Training for errors of measurement

`python benchmarks/robustness.py --table` makes this page from `results/robustness/runs.jsonl`, which has one line for
each run, with its command. All runs of a section have the same number of steps. The policy that acts after training is
judged in Gymnasium's own environment without noise (100 episodes) and with Gaussian noise of each variance on every
observation ({NOISY_EPISODES} episodes), in raw units.

- *trained with*: `plain` is the default. `scale`, `noise`, `smooth` and `filter` are the ways of `robust=`
  ([what they do](../docs/robust.md#can-i-train-for-it)); the first three are for errors of the standard deviation in
  the heading, which with `noise` and `smooth` grow over the first half of a run. `filter` is a low-pass filter in front
  of the policy, trained without errors. `norm` has the certificate itself as the penalty: it shrinks the policy's mean
  by 1.2% in each epoch instead of 0.4%, a step down the gradient of the norm that the certificate is proportional to.
  `ppo` and `sac` are Stable-Baselines3's with RL-Zoo's settings.
- *returns*: the mean over seeds with Student's 95% interval.
- *attacks*: every feature of every observation is changed by at most so many of its standard deviations where the
  policy goes by itself, to change the action most (`mad`) or to make it look worst to the agent's own critic
  (`critic`), over {EPISODES} episodes; beside it, Gaussian noise of {NOISE:g} such standard deviations.
- *certified radius*: Euclidean size of errors up to which no action moves by more than a tenth of its range, proven;
  the median over visited states, mean over seeds.
- {SIGN}: of {RULE}.
"""


def main() -> None:
    options = parsed()
    waiting = chosen(options)
    work(options, lambda: waiting, lambda rows: write_page(rows, options.results.parent / "robustness.md"))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, default=list(CASES), help="environments, separated by commas")
    parser.add_argument("--methods", type=names, default=list(METHODS), help=f"ways to train: {', '.join(METHODS)}")
    parser.add_argument("--seeds", type=numbers, default=range(5), help="0-2 or 0,3")
    parser.add_argument("--steps", type=int, help="of every run; by default those of the environment")
    add_queue(parser, "robustness")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Task]:
    """The runs that were asked for and have no row yet, in their order."""
    check_names("--only", options.only, CASES)
    check_names("--methods", options.methods, METHODS)
    return without_row(tasks(options), options.results)


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Every run, seeds outermost: what is cut short has all methods of its first seeds."""
    for seed in options.seeds:
        for environment in options.only:
            case = CASES[environment]
            for name in options.methods:
                algorithm, own = METHODS[name]
                steps = options.steps or case.steps
                errors = {"robust_noise": case.error} if own.get("robust") in SIZED else {}
                growing = own.get("robust") in GROWING
                ramp = {"robust_units": case.units, "robust_ramp": steps // 2} if growing else {}
                yield Task(environment, algorithm, seed, steps, name, own | errors | ramp, case.noise)


def write_page(rows: Sequence[Row], path: Path) -> Path:
    """Write the page: a section for each environment and number of steps, methods in their order."""
    parts = [INTRODUCTION, origin(rows)]
    for environment, steps in dict.fromkeys((row["environment"], row["steps"]) for row in rows):
        found = [row for row in rows if (row["environment"], row["steps"]) == (environment, steps)]
        case = CASES[environment]
        size = f"{case.error:g}" + (" standard deviations" if case.units == "normalised" else "")
        parts += [f"## {environment}, {steps:,} steps, errors of {size}", _section(found)]
        if any("attacked" in row for row in found):
            parts += [f"Attacks of at most {EPSILON[environment]:g} standard deviations:", _attacks(found),
                      _published(environment)]  # fmt: skip
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    return path


def answers(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows of a way to train: those of the newest guidance that it has."""
    return latest([row for row in rows if row["variant"] in whole(name)])


def _section(rows: Sequence[Row]) -> str:
    levels = rows[0]["noise"]
    columns = ("trained with", "seeds", "no noise", *(f"variance {level:g}" for level in levels), "certified radius",
               "minutes")  # fmt: skip
    lines = []
    for name in METHODS:
        found = answers(rows, name)
        if not found:
            continue
        noisy = [interval(mean([row["noisy"][i] for row in found])) for i in range(len(levels))]
        radii = [row["radius"] for row in found if "radius" in row]
        radius = f"{sum(radii) / len(radii):.3g}" if radii else "-"
        minutes = sum(row["seconds"] for row in found) / len(found) / 60
        seeds = f"{len(found)}{mark(found)}"
        lines.append([name, seeds, interval(estimate(found)), *noisy, radius, f"{minutes:.1f}"])
    return table(columns, lines)


def _attacks(rows: Sequence[Row]) -> str:
    """Returns under noise and attacks of those rows that were judged so."""
    lines = []
    for name in METHODS:
        found = [row for row in answers(rows, name) if "attacked" in row]
        if found:
            returns = [interval(mean([row["attacked"][kind] for row in found])) for kind in ("noise", *KINDS)]
            lines.append([name, f"{len(found)}{mark(found)}", interval(estimate(found)), *returns])
    return table(("trained with", "seeds", "no noise", f"noise of {NOISE:g}", *KINDS), lines)


def _published(environment: str) -> str:
    """What others published for attacks of this size."""
    pairs = zip(PUBLISHED_METHODS, PUBLISHED[environment], strict=True)
    shown = ", ".join(f"{name} {clean:,} and {worst:,}" for name, (clean, worst) in pairs)
    return f"Published, without an attack and under the strongest of several: {shown} ([what differs](attacks.md))."


if __name__ == "__main__":
    main()

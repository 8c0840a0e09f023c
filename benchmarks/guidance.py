"""What guidance is worth: environments x kinds of useless features x their number x what guides x seeds.

    python benchmarks/guidance.py                                    every run that is still missing
    python benchmarks/guidance.py --only Hopper-v5 --counts 20 --kinds noise --methods unguided,shapley,oracle
    python benchmarks/guidance.py --only Hopper-v5 --methods shapley --with weight_floor=0.01,moment_decay=0.97
    python benchmarks/guidance.py --table                            write results/guidance.md, train nothing

Each run has a process of its own with one thread, and leaves one line in results/guidance/runs.jsonl. Runs that have a
line are skipped, and a run that was stopped continues from its folder (SB3's start over), as in `suite.py`. The default
guidance without useless features is the suite's run: `suite.py` makes it, and the page here shows it too.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from _earlier import under
from _guidance_table import write_page
from _suite_run import read_rows
from _suite_table import WHOLE
from _suite_tasks import MILLION, TARGETS, Task
from rsa2c.baselines.settings import BASELINES
from rsa2c.config import default_timesteps
from rsa2c.envs.distractors import KINDS
from suite import add_queue, check_names, names, numbers, without_row, work

STEPS = {
    "Pendulum-v1": default_timesteps("Pendulum-v1"),
    "Hopper-v5": MILLION,
    "Walker2d-v5": MILLION,
    "HalfCheetah-v5": MILLION,
    "BipedalWalker-v3": MILLION,
    "Ant-v5": MILLION,
    "_plants:heater": 200_000,
}
"""The environments, and the steps of a run; SB3's take as many. The oven's set point is what no action moves, and its
temperature answers only after five samples: attributions alone can say that they matter."""
COUNTS = (0, 10, 20, 30, 100)
SUITE = {target.environment for target in TARGETS}
GUIDED = "shapley"
"""The default; without useless features its runs are the suite's, where that has the environment."""
MOVED = "none"
"""What actions move alone."""
AGREED = (GUIDED, MOVED, "permutation", "gradient", "correlation", "mutual-information", "ard", "random", "oracle")
"""Importances under the same halves and the same rule."""
WITHOUT_FORCES = "without-forces"
"""Ant-v5's oracle: its 78 contact forces are not observed."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "unguided": ("advanced-ac", {}),
    GUIDED: ("rsa2c-kme", {}),
    "shuffled": ("shuffled-shap", {}),
    **{name: ("rsa2c-kme", {"importance": name}) for name in AGREED[1:]},
    "released": ("rsa2c-kme", {"guidance": "released", "reproject": True}),
    "printed": ("rsa2c-kme", {"guidance": "printed", "reproject": True}),
    WITHOUT_FORCES: ("advanced-ac", {"env_kwargs": {"include_cfrc_ext_in_observation": False}}),
    **{name: (name, {}) for name in BASELINES},
}
"""What guides: the algorithm and the settings that make it. The paper's two rules have our re-projection, so that they
differ in nothing else."""


def main() -> None:
    options = parsed()
    waiting, suite = chosen(options), read_rows(options.results.parent / "suite")

    def page(rows: list[dict[str, Any]]) -> Path:
        return write_page([*rows, *of_suite(suite, rows)], list(METHODS), options.results.parent / "guidance.md")

    work(options, lambda: waiting, page)


def of_suite(suite: Iterable[dict[str, Any]], rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The suite's rows that have no useless features and are guided as by default, as this table has them; without
    those that `rows` have already."""
    known = {(row["environment"], row["variant"], row["seed"]) for row in rows if not row["settings"]["distractors"]}
    found = [
        {**row, "variant": under(row["variant"], GUIDED), "settings": {"distractors": 0}}
        for row in suite
        if STEPS.get(row["environment"]) == row["steps"]
        if row["algorithm"] == METHODS[GUIDED][0] and row["variant"] in WHOLE
    ]
    return [row for row in found if (row["environment"], row["variant"], row["seed"]) not in known]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, default=list(STEPS), help="environments, separated by commas")
    parser.add_argument("--kinds", type=names, default=list(KINDS), help=f"of useless features: {', '.join(KINDS)}")
    parser.add_argument("--counts", type=numbers, default=COUNTS, help="numbers of useless features, such as 0,10,30")
    parser.add_argument("--methods", type=names, default=list(METHODS), help=f"what guides: {', '.join(METHODS)}")
    parser.add_argument("--with", type=settings, default={}, dest="more", metavar="NAME=VALUE,...",
                        help="further settings of these: " + ", ".join((*AGREED, "shuffled")))  # fmt: skip
    parser.add_argument("--seeds", type=numbers, default=range(5), help="0-2 or 0,3")
    parser.add_argument("--steps", type=int, help="of every run; by default those of the environment")
    add_queue(parser, "guidance")
    return parser.parse_args()


def settings(text: str) -> dict[str, Any]:
    """Settings as `name=value`, separated by commas."""
    pairs = [pair.partition("=") for pair in names(text)]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} has no value; write {wrong[0]}=VALUE")
    return {name: yaml.safe_load(value) for name, _, value in pairs}


def chosen(options: argparse.Namespace) -> list[Task]:
    """The runs that were asked for and have no row yet, in their order."""
    check_names("--only", options.only, STEPS)
    check_names("--kinds", options.kinds, KINDS)
    check_names("--methods", options.methods, METHODS)
    return without_row(tasks(options), options.results)


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Every run, seeds outermost: what is cut short has all methods of its first seeds."""
    for seed, environment, count in itertools.product(options.seeds, options.only, options.counts):
        for kind, name in itertools.product(options.kinds if count else ("noise",), options.methods):
            whole = name == GUIDED and environment in SUITE and not (count or options.more or options.steps)
            if (name == WITHOUT_FORCES and environment != "Ant-v5") or whole:
                continue
            algorithm, own = METHODS[name]
            more = options.more if name in (*AGREED, "shuffled") else {}
            useless = {"distractors": count, "distractor_kind": kind} if count else {"distractors": 0}
            steps = options.steps or STEPS[environment]
            yield Task(environment, algorithm, seed, steps, labelled(name, more), {**useless, **own, **more})


def labelled(name: str, more: Mapping[str, Any]) -> str:
    """A method with its further settings, in the name of a run folder and on the page."""
    return "+".join([name, *(f"{key}={value}" for key, value in more.items())])


if __name__ == "__main__":
    main()

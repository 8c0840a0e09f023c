"""Is what guides what is explained? Explanations against known truths, across seeds, and against what guided.

    python benchmarks/fidelity.py                        train what is missing, measure, write results/fidelity.md
    python benchmarks/fidelity.py --only rsa2c/LQR-v0 --seeds 2 --steps 20000 --page fidelity-trial

Agents are trained one after the other, with the default settings unless `_fidelity_tasks.py` says otherwise, and kept
in runs/fidelity.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from _earlier import note
from _fidelity_measures import FUNCTIONS, across_seeds, against_truth, guide_and_explained, ignored_shares
from _fidelity_tasks import LQR, TASKS, path_of, trained
from _provenance import write
from _suite_table import table
from rsa2c import RSA2C, statistics
from rsa2c.attribution.quality import OWN, RANDOM
from rsa2c.trained import MEASURED, WEIGHTS
from rsa2c.zoo import PREFIX, cards
from suite import check_names, names

TITLE = "Is what guides what is explained?"
Columns = Mapping[str, Sequence[float]]
TRUTH = f"""\
## Against the truth: {LQR}

The optimal value -s^T P3 s and control -K s are known, and so are their Shapley values, in closed form. *function off*
and *values off*: the norm of what is off relative to the norm of what is true, over all states, for f(s) - E f and for
the values. *correlation*: of values with true ones, over states and features; *within a state*: over the features of
one state, the mean over states. *rank*: agreement of mean absolute values, and of what guided, with the true ones.
"""
IGNORED = """\
## A reward that ignores half of the state

Share of each importance that the ignored half of the features has. By chance it is 50%; the truth for the value and for
the action that the reward judges is 0%. Means over seeds, with the lowest and the highest seed.
"""
SEEDS = """\
## Between seeds

Agents that differ in their seed explain the same states against the same background, pooled from the states that they
visited. Means over all pairs of seeds, with the lowest and the highest pair: pairs are not independent, so there is no
interval. *local*: correlation of values over states and features; *global*: rank agreement of mean absolute values;
both are means over outputs.
"""
GUIDE = """\
## What guided, and what is explained

Rank agreement with mean absolute Shapley values of the value and of the action, and deletion areas: the share of the
function that is left, on average, while features are removed from all states in the order of the ranking. Less is
better; it is below 0 where removing features takes the function beyond its mean, as it does where features of a state
balance each other.
"""


ZOO = """\
## The zoo's agents

The same for one agent of each environment, those that were guided. At the end the mean agreement, with Student's 95%
interval over environments, and the number of environments in which an area is below that of a random order.
"""
GUIDE_COLUMNS = {
    f"agreement {MEASURED}": f"agreement of {MEASURED}",
    f"agreement {WEIGHTS}": f"of {WEIGHTS}",
    f"deletion {OWN}": "deletion: its own",
    f"deletion {MEASURED}": MEASURED,
    f"deletion {WEIGHTS}": WEIGHTS,
    f"deletion {RANDOM}": RANDOM,
}


def main() -> None:
    options = parsed()
    check_names("--only", options.only, TASKS)
    agents = {name: _agents(name, options) for name in options.only}
    files = [path_of(name, seed, options.folder) for name, found in agents.items() for seed in range(len(found))]
    files += [cards()[name].path for name in options.zoo]
    write(options.page, TITLE, f"{note(files)}\n\n{page(agents, options.zoo)}".strip())


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, default=list(TASKS), help=f"separated by commas: {', '.join(TASKS)}")
    parser.add_argument("--seeds", type=int, help="of every task; by default those of the task")
    parser.add_argument("--steps", type=int, help="of every training; by default those of the task")
    parser.add_argument("--folder", type=Path, default=Path("runs/fidelity"), help="of the trained agents")
    parser.add_argument("--zoo", type=names, default=list(cards()), help="agents of the zoo, by environment")
    parser.add_argument("--page", default="fidelity", help="name of the page in results/")
    return parser.parse_args()


def _agents(name: str, options: argparse.Namespace) -> list[RSA2C]:
    agents = []
    for seed in range(options.seeds or TASKS[name].seeds):
        agents.append(trained(name, seed, options.folder, options.steps))
        print(f"{name} seed {seed}: {agents[-1].num_timesteps:,} steps", flush=True)
    return agents


def page(agents: Mapping[str, Sequence[RSA2C]], zoo: Sequence[str] = ()) -> str:
    """The page's sections, those for which there are agents."""
    trainings = [[name, f"{found[0].num_timesteps:,}", f"{len(found)}"] for name, found in agents.items()]
    parts = [table(("task", "steps", "seeds"), trainings), "Means over seeds with Student's 95% interval."]
    if LQR in agents:
        parts += [TRUTH, truths(agents[LQR])]
    ignoring = {name: found for name, found in agents.items() if TASKS[name].ignored}
    if ignoring:
        parts += [IGNORED, shares(ignoring)]
    several = {name: found for name, found in agents.items() if len(found) > 1}
    if several:
        parts += [SEEDS, between_seeds(several)]
    parts += [GUIDE, guides(agents)]
    if zoo:
        parts += [ZOO, of_zoo(zoo)]
    return "\n\n".join(part.strip() for part in parts)


def truths(agents: Sequence[RSA2C]) -> str:
    """A row for the value and one for the control."""
    heads = {"function": "function off", "values": "values off", "correlation": "correlation",
             "correlation within a state": "within a state", "rank": "rank",
             f"rank of {MEASURED}": f"rank of {MEASURED}", f"rank of {WEIGHTS}": f"rank of {WEIGHTS}"}  # fmt: skip
    found = {of: against_truth(agents, of) for of in FUNCTIONS}
    lines = [[of, *(interval(numbers[name], bounded=" off" not in heads[name]) for name in heads)]
             for of, numbers in found.items()]  # fmt: skip
    return table(("explained", *heads.values()), lines)


def shares(agents: Mapping[str, Sequence[RSA2C]]) -> str:
    """A row for each task."""
    lines = []
    for name, found in agents.items():
        task = TASKS[name]
        numbers = joined([ignored_shares(agent, task.ignored, task.output) for agent in found])
        lines.append([name, *(spread(each, "{:.0%}") for each in numbers.values())])
    return table(("task", "value", "action", MEASURED, WEIGHTS), lines)


def between_seeds(agents: Mapping[str, Sequence[RSA2C]]) -> str:
    """A row for each task."""
    found = {name: across_seeds(each) for name, each in agents.items()}
    heads = list(next(iter(found.values())))
    return table(("task", *heads), [[name, *map(spread, numbers.values())] for name, numbers in found.items()])


def guides(agents: Mapping[str, Sequence[RSA2C]]) -> str:
    """A row for each task and function."""
    lines = []
    for name, found in agents.items():
        for of in FUNCTIONS:
            lines.append([name, of, *_row([guide_and_explained(agent, of) for agent in found])])
    return table(("task", "explained", *GUIDE_COLUMNS.values()), lines)


def of_zoo(environments: Sequence[str]) -> str:
    """A row for each environment and function, and their means."""
    lines, numbers = [], {of: [] for of in FUNCTIONS}
    for name in environments:
        agent = RSA2C.load(f"{PREFIX}{name}")
        if agent.guided_by:
            for of, rows in numbers.items():
                rows.append(guide_and_explained(agent, of))
                lines.append([name, of, *_row(rows[-1:])])
            print(f"zoo: {name}", flush=True)
    ends = [line for of, rows in numbers.items() for line in _ends(of, rows)]
    return table(("environment", "explained", *GUIDE_COLUMNS.values()), lines + ends)


def _ends(of: str, rows: Sequence[Mapping[str, float]]) -> Iterator[list[str]]:
    """The mean of each agreement, and how many areas are below that of a random order: areas differ too much for a
    mean."""
    numbers = {name: [each for each in found if not math.isnan(each)] for name, found in joined(rows).items()}
    agreements, areas = list(GUIDE_COLUMNS)[:2], list(GUIDE_COLUMNS)[2:-1]
    yield ["mean", of, *(interval(numbers[name], bounded=True) for name in agreements), *["-"] * (len(areas) + 1)]
    random = numbers[f"deletion {RANDOM}"]
    below = [sum(a < b for a, b in zip(numbers[name], random, strict=True)) for name in areas]
    yield ["below random order", of, "-", "-", *(f"{count} of {len(random)}" for count in below), "-"]


def _row(rows: Sequence[Mapping[str, float]]) -> list[str]:
    numbers = joined(rows)
    return [interval(numbers[name], bounded=name.startswith("agreement")) for name in GUIDE_COLUMNS]


def joined(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Rows as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def interval(numbers: Sequence[float], bounded: bool = False) -> str:
    """A mean with its interval; a dash where there is none for some seed. `bounded`: of numbers from -1 to 1."""
    if not numbers or any(map(math.isnan, numbers)):
        return "-"
    found = statistics.mean(numbers)
    low, high = np.clip([found.low, found.high], *((-1, 1) if bounded else (None, None)))
    return f"{found.value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if found.has_interval else "")


def spread(numbers: Sequence[float], form: str = "{:.2f}") -> str:
    """A mean with the lowest and the highest; a dash where one is none."""
    if any(map(math.isnan, numbers)):
        return "-"
    mean, low, high = (form.format(number) for number in (np.mean(numbers), min(numbers), max(numbers)))
    return f"{mean} ({low} to {high})"


if __name__ == "__main__":
    main()

"""Does the default learn plants that users bring, with every seed? Beside hand-tuned controllers.

    python benchmarks/own_plants.py [--seeds 5] [--first-seed 0] [--only Tank Motor]

Trains on every plant (`_plants.py`, and those of README, docs and examples) with untouched settings, on one core, and
writes results/plants.md; with `--only` it writes the rows of these plants alone.
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import _plant_peers as peers
import _plants as plants
from _provenance import write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from two_tanks import TwoTanks

from pages import blocks
from rsa2c import RSA2C, evaluate

ROOT = Path(__file__).resolve().parent.parent
EPISODES = 50
LOST = 2.0
"""Cost of an agent over that of the hand-tuned controller from which it counts as one that has not learned."""


def from_page(page: str, name: str) -> Any:
    """A class of a documentation page, with the imports and the constants that stand before it in its block."""
    code = next(code for _, code in blocks(ROOT / page) if f"class {name}" in code)
    tree = ast.parse(code)
    last = next(i for i, node in enumerate(tree.body) if isinstance(node, ast.ClassDef) and node.name == name)
    tree.body = tree.body[: last + 1]
    names: dict[str, Any] = {"np": np, "__name__": page}
    exec(compile(tree, page, "exec"), names)
    return names[name]


@dataclass(frozen=True)
class Task:
    """A plant, the steps of its episodes and of its training, its peer, and the highest reward of a step."""

    plant: Callable[[], gymnasium.Env]
    steps: int
    training: int
    peer: Callable[[], Any]
    highest: float = 0.0

    def make(self) -> gymnasium.Env:
        return gymnasium.wrappers.TimeLimit(self.plant(), self.steps)

    def cost(self, returns: NDArray) -> NDArray:
        """What returns miss to the highest that any could be."""
        return self.highest * self.steps - returns


OWN = "docs/own-environment.md"
TASKS = {
    "Tank": Task(from_page("README.md", "Tank"), 50, 20_000, peers.tank),
    "TwoTanks": Task(TwoTanks, 100, 100_000, peers.two_tanks),
    "Motor": Task(from_page("docs/controller.md", "Motor"), 50, 100_000, peers.motor),
    "Reactor": Task(from_page(OWN, "Reactor"), 50, 100_000, from_page(OWN, "Proportional")),
    "Heater": Task(plants.Heater, 100, 100_000, peers.heater),
    "PressureVessel": Task(plants.PressureVessel, 60, 100_000, peers.vessel),
    "Cruise": Task(plants.Cruise, 100, 100_000, peers.cruise),
    "Docking": Task(plants.Docking, 100, 100_000, peers.docking),
    "Positioner": Task(plants.Positioner, 100, 100_000, peers.positioner, highest=1.0),
    "CartPole": Task(plants.CartPole, 250, 100_000, peers.cart_pole, highest=1.0),
    "Drone": Task(plants.Drone, 200, 200_000, peers.drone, highest=1.0),
    "SwingUp": Task(plants.SwingUp, 1000, 300_000, peers.swing_up, highest=1.0),
}


@dataclass(frozen=True)
class Row:
    """Mean returns over the same starts, of an agent for every seed and of the peer, and their mean costs."""

    name: str
    shape: tuple[int, int]
    returns: list[float]
    costs: list[float]
    peer_return: float
    peer_cost: float
    seconds: list[float]

    @property
    def ratios(self) -> list[float]:
        return [cost / self.peer_cost for cost in self.costs]

    def cells(self, task: Task) -> list[str]:
        mean, worst = float(np.mean(self.costs)) / self.peer_cost, max(self.ratios)
        return [
            self.name,
            f"{self.shape[0]}, {self.shape[1]}, {task.steps:,}",
            f"{task.training:,}",
            short(float(np.mean(self.returns))),
            short(min(self.returns)),
            short(self.peer_return),
            f"{mean:.2f}",
            f"{worst:.2f}",
            f"{np.mean(self.seconds):.0f}",
        ]


def short(value: float) -> str:
    """Four digits, with an exponent where there are many more."""
    return f"{value:.3e}" if abs(value) >= 1e6 else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def measured(name: str, task: Task, seeds: range) -> Row:
    """Train with every seed; all are judged from the same starts."""
    peer = evaluate(task.peer(), task.make, EPISODES)
    returns, costs, seconds = [], [], []
    for seed in seeds:
        began = time.perf_counter()
        agent = RSA2C(task.make, seed=seed).learn(task.training)
        seconds.append(time.perf_counter() - began)
        found = evaluate(agent, task.make, EPISODES)
        returns.append(found.mean)
        costs.append(float(task.cost(found.returns).mean()))
        print(f"{name}, seed {seed}: {found}, {seconds[-1]:.0f} s; hand-tuned {peer}", flush=True)
    shape = len(agent.feature_names), len(agent.action_names)
    return Row(name, shape, returns, costs, peer.mean, float(task.cost(peer.returns).mean()), seconds)


HEAD = (
    "plant", "features, actions, steps of an episode", "training steps", "rsa2c", "worst seed", "hand-tuned",
    "cost / hand-tuned", "worst seed's", "seconds",
)  # fmt: skip


def page(rows: list[Row], tasks: dict[str, Task], seeds: range) -> str:
    """What results/plants.md says below its header."""
    trained = sum(len(row.ratios) for row in rows)
    learned = sum(ratio < LOST for row in rows for ratio in row.ratios)
    table = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    table += ["| " + " | ".join(row.cells(tasks[row.name])) + " |" for row in rows]
    bad = [
        f"- {row.name}, seed {seed}: {short(row.returns[i])}, {row.ratios[i]:.1f} times the cost"
        for row in rows
        for i, seed in enumerate(seeds)
        if row.ratios[i] >= LOST
    ]
    text = f"""\
`rsa2c.RSA2C(make_plant, seed=seed).learn(steps)` with untouched settings, seeds {seeds[0]} to {seeds[-1]}, one core.
The columns *rsa2c* and *hand-tuned* are mean returns over the same {EPISODES} starts; *rsa2c* is also the mean over
seeds. A cost is what a return misses to the highest that there could be: 0 where rewards are costs, and one for each
step where a step earns 1 at most. Below 1 rsa2c does better than the hand-tuned controller. *seconds* is a training,
the mean over seeds, on a machine that other processes shared.

The plants are in `benchmarks/_plants.py`, README, docs and examples. The hand-tuned controllers
(`benchmarks/_plant_peers.py`) know the plant's equations: LQR, P and PI with feed-forward, a predictor over the dead
time, energy shaping with LQR on top. Gains that no equation gives were searched with other starts; the reactor's are
those of its page.

{learned} of {trained} trainings end with less than {LOST:g} times the cost of the hand-tuned controller."""
    return "\n".join([text, "", *table, "", *(["Those that do not:", "", *bad] if bad else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="PLANT")
    options = parser.parse_args()
    seeds, rows = range(options.first_seed, options.first_seed + options.seeds), list[Row]()
    for name in options.only:
        rows.append(measured(name, TASKS[name], seeds))
        path = write("plants", "Plants that users bring", page(rows, TASKS, seeds))
    print(path)


if __name__ == "__main__":
    main()

"""Seconds and steps of training until the mean return reaches a solution: rsa2c beside SB3's and SBX's agents.

    python benchmarks/time_to_solution.py                         all runs that are still missing, then the page
    python benchmarks/time_to_solution.py --seeds 0 --agents rsa2c,ppo --results DIR           a trial
    python benchmarks/time_to_solution.py --environment Ant-v5 --preset paper      another of the paper's trainings
    python benchmarks/time_to_solution.py --whole     trainings that go on to their end, for the clock alone
    python benchmarks/time_to_solution.py --table                 write the page from the rows, train nothing

The solution is -200 on Pendulum-v1, 250 on BipedalWalker-v3 and 950 on Ant-v5, the thresholds of `rsa2c reproduce`.

Within a table everybody trains on the same simulator: Gymnasium's, EnvPool's, or the arrays of rsa2c's default.
Everybody has one core and one thread; rsa2c has its default settings, the others RL-Zoo's. The clock starts when the
agent is made (rsa2c's warm-up is included) and pauses during evaluations, which are the same for all: 20 fixed start
states in Gymnasium, after each epoch (rsa2c), each rollout (PPO) or every 500 steps (SAC), on BipedalWalker-v3 and
Ant-v5 no sooner than 10,000 steps after the last. A short training before it compiles; what compilation takes is
measured apart. Needs the extras `baselines` and `fast`, and `pip install sbx-rl`: what is not installed is left out.
Each run leaves one line in results/time_to_solution/runs.jsonl and is not repeated; delete the file to begin anew. Run
it on a machine that does nothing else: about an hour for Pendulum-v1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import rsa2c
from _goal_table import AGENTS, KERNEL_AGENTS, SIMULATORS, write_page
from _provenance import RESULTS
from _suite_run import ROWS, machine, read_rows
from _watch import Solution, Watch
from rsa2c.files import append_lines
from rsa2c.reproduce.alone import USUAL
from rsa2c.reproduce.selection import thresholds
from rsa2c.runs.provenance import provenance
from suite import names, numbers

EPISODES = 20
LIMITS = {
    "Pendulum-v1": {"rsa2c": 200_000, "paper": 2_880_000, "sac": 30_000, "ppo": 400_000},
    "BipedalWalker-v3": {"rsa2c": 1_000_000, "paper": 28_800_000, "sac": 500_000, "ppo": 5_000_000},
    "Ant-v5": {"rsa2c": 1_000_000, "paper": 8_000_000, "sac": 1_000_000, "ppo": 1_000_000},
}
"""Most steps of a training, ours with the presets `default` and `paper`, and those of the others."""
APART = {"Pendulum-v1": 0, "BipedalWalker-v3": 10_000, "Ant-v5": 10_000}
"""Fewest steps between two evaluations, which take longer than training where episodes are long."""
WARM_UP = {"rsa2c": 30_000, "sac": 300, "ppo": 4_096}
"""Steps that compile everything which a training needs."""
COMPILED = ("rsa2c", "sbx-ppo")
"""Agents whose first use after installation, or in a process, is measured apart."""


@dataclass(frozen=True)
class Race:
    """What is trained for, and with which settings of ours."""

    environment: str = USUAL["environment"]
    preset: str = USUAL["preset"]
    whole: bool = False

    @property
    def goal(self) -> float:
        """The return that counts as a solution."""
        return thresholds(self.environment)[0]

    def limit(self, kind: str) -> int:
        """Most steps of one kind of agent."""
        return LIMITS[self.environment]["paper" if kind == "rsa2c" and self.preset == "paper" else kind]

    def watch(self) -> Watch:
        """A clock that has started."""
        return Watch(self.environment, self.goal, EPISODES, APART[self.environment])

    def agent(self, seed: int, algorithm: str, simulator: Any) -> rsa2c.RSA2C:
        """A kernel agent."""
        return rsa2c.RSA2C(self.environment, algorithm, preset=self.preset, seed=seed, backend=simulator)


def ours(race: Race, seed: int, algorithm: str = "rsa2c-kme", simulator: Any = "auto", limit: int = 0) -> Solution:
    """A kernel agent, evaluated after each epoch."""
    watch = race.watch()
    agent = watch.policy = race.agent(seed, algorithm, simulator)
    agent.learn(limit or race.limit("rsa2c"), callback=lambda *_: not watch.tried(agent.num_timesteps))
    solution = watch.confirmed()
    agent.close()
    return solution


def whole(race: Race, seed: int, algorithm: str, simulator: str) -> dict[str, Any]:
    """A training of a kernel agent to its end, without evaluations: its steps, and its clock after every epoch."""
    began = time.perf_counter()
    agent = race.agent(seed, algorithm, simulator)
    points = [(0, 0.0)]

    def note(*_: Any) -> bool:
        points.append((agent.num_timesteps, round(time.perf_counter() - began, 4)))
        return True

    agent.learn(race.limit("rsa2c"), callback=note)
    agent.close()
    kept = points[:: max(1, len(points) // 50)]
    curve = kept if kept[-1] == points[-1] else [*kept, points[-1]]
    return {"steps": points[-1][0], "curve": [list(values) for values in zip(*curve, strict=True)]}


def peer(
    race: Race,
    name: str,
    seed: int,
    library: str = "stable_baselines3",
    simulator: str = "gymnasium",
    limit: int | None = None,
) -> Solution:
    """PPO or SAC with RL-Zoo's settings, on one thread."""
    from stable_baselines3.common.callbacks import BaseCallback

    from _peers import build_peer
    from rsa2c.baselines.policy import torch_threads

    watch = race.watch()

    class Check(BaseCallback):
        done = False

        def _on_rollout_start(self) -> None:
            # PPO updates between rollouts; False from the next step then stops it.
            if name == "ppo" and self.num_timesteps:
                self.done = watch.tried(self.num_timesteps)

        def _on_step(self) -> bool:
            if name == "sac" and self.num_timesteps % 500 == 0:
                self.done = watch.tried(self.num_timesteps)
            return not self.done

    with torch_threads(1):
        watch.policy = build_peer(library, name, race.environment, seed, simulator)
        watch.policy.model.learn(limit or race.limit(name), callback=Check())
        if name == "ppo" and not np.isfinite(watch.solution.seconds):
            watch.solved(watch.policy.model.num_timesteps)
        return watch.confirmed()


def solved(race: Race, agent: str, simulator: str, seed: int, warm_up: bool = False) -> Solution:
    """One training of an agent of the tables."""
    name = "rsa2c" if agent in KERNEL_AGENTS else agent.removeprefix("sbx-")
    limit = WARM_UP[name] if warm_up else race.limit(name)
    if agent in KERNEL_AGENTS:
        return ours(race, seed, KERNEL_AGENTS[agent], simulator, limit)
    return peer(race, name, seed, "sbx" if agent.startswith("sbx-") else "stable_baselines3", simulator, limit)


def cold(agent: str, simulator: str, seed: int) -> dict[str, Any]:
    """The same in a new process with an empty Numba cache, and the wall time of that whole process."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        answer = subprocess.run(
            [sys.executable, __file__, "--one", agent, simulator, str(seed)],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return {**json.loads(answer.stdout.splitlines()[-1]), "process_seconds": time.perf_counter() - began}


def missing(options: argparse.Namespace) -> Iterator[tuple[str, str, int, bool]]:
    """Agent, simulator, seed of the runs that were asked for and have no row yet, and whether they begin cold."""
    has = {name: find_spec(name) is not None for name in ("stable_baselines3", "sbx", "envpool")}
    peers = [agent for agent in AGENTS if agent not in KERNEL_AGENTS]
    needed = {agent: "sbx" if agent.startswith("sbx-") else "stable_baselines3" for agent in peers}
    agents = [agent for agent in options.agents if has.get(needed.get(agent, ""), True)]
    agents = [agent for agent in agents if agent in KERNEL_AGENTS or not options.race.whole]
    simulators = [simulator for simulator in options.simulators if has.get(simulator, True)]
    if options.race.environment != Race.environment:
        simulators = [simulator for simulator in simulators if simulator != "arrays"]
    for name in dict.fromkeys([*options.agents, *options.simulators]):
        if name not in agents and name not in simulators:
            print(f"{name} is left out: {needed.get(name, name)} is not installed.")
    rows = [row for row in map(USUAL.__or__, read_rows(options.results)) if race_of(row) == options.race]
    done = {(row["agent"], row["simulator"], row["seed"], row["cold"]) for row in rows}
    warm = [(agent, simulator, seed, False) for seed, simulator, agent in product(options.seeds, simulators, agents)]
    first = [(agent, simulators[-1], options.seeds[0], True) for agent in COMPILED if agent in agents]
    first = first if options.race == Race() else []
    yield from (run for run in (*warm, *first) if run not in done)


def race_of(row: dict[str, Any]) -> Race:
    """What a row is about."""
    return Race(row["environment"], row["preset"], "curve" in row)


def measure(options: argparse.Namespace) -> None:
    """Train what is missing, one after the other."""
    race, warm = options.race, set[tuple[str, str]]()
    for agent, simulator, seed, is_cold in missing(options):
        if not is_cold and (agent, simulator) not in warm:
            solved(race, agent, simulator, 1000, warm_up=True)
            warm.add((agent, simulator))
        row = {"agent": agent, "environment": race.environment, "preset": race.preset, "simulator": simulator}
        row |= {"seed": seed, "cold": is_cold}
        if race.whole:
            row |= whole(race, seed, KERNEL_AGENTS[agent], simulator)
        else:
            found = cold(agent, simulator, seed) if is_cold else vars(solved(race, agent, simulator, seed))
            row["solved"] = bool(np.isfinite(found["seconds"]))
            row |= {name: round(value, 4) for name, value in found.items() if np.isfinite(value)}
        row |= {"commit": provenance()["commit"], "machine": machine(), "load": round(os.getloadavg()[0], 1)}
        append_lines(options.results / ROWS, json.dumps(row, allow_nan=False) + "\n")
        print({name: row[name] for name in row if name not in ("commit", "machine", "curve")}, flush=True)


def chosen(known: dict[str, Any], text: str) -> list[str]:
    """Names of a dictionary, separated by commas, in its order."""
    if unknown := set(names(text)) - set(known):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))} is unknown; known are {', '.join(known)}")
    return [name for name in known if name in names(text)]


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--environment", choices=LIMITS, default=Race.environment)
    parser.add_argument(
        "--preset", choices=("default", "paper"), default=Race.preset, help="settings of rsa2c's agents"
    )
    parser.add_argument("--whole", action="store_true", help="rsa2c's agents only, to their last step")
    parser.add_argument("--seeds", type=numbers, default=range(10), help="0-9 or 0,3")
    parser.add_argument("--agents", type=lambda text: chosen(AGENTS, text), default=list(AGENTS), help="by commas")
    parser.add_argument("--simulators", type=lambda text: chosen(SIMULATORS, text), default=list(SIMULATORS))
    parser.add_argument("--results", type=Path, default=RESULTS / "time_to_solution", help="where the rows are")
    parser.add_argument("--table", action="store_true", help="only write the page")
    parser.add_argument("--one", nargs=3, metavar=("AGENT", "SIMULATOR", "SEED"), help="one training, printed as JSON")
    options = parser.parse_args()
    options.race = Race(options.environment, options.preset, options.whole)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if options.one:
        agent, simulator, seed = options.one
        print(json.dumps(vars(solved(Race(), agent, simulator, int(seed)))))
        return
    options.results.mkdir(parents=True, exist_ok=True)
    if not options.table:
        measure(options)
    page = write_page(read_rows(options.results), options.results.with_suffix(".md"))
    print("written to", page)


if __name__ == "__main__":
    main()

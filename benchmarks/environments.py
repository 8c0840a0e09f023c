"""One long training: its return over Gymnasium episodes with fixed seeds, wall time and peak memory.

Each call trains one agent in a run folder (so it can be resumed) and appends a row to results/environments.csv.

    python benchmarks/environments.py BipedalWalker-v3 rsa2c-kme --steps 4000000 --episodes 100 [--seed 0]
"""

from __future__ import annotations

import argparse
import csv
import resource
from pathlib import Path

import numpy as np

import rsa2c
from _provenance import RESULTS, command, cpu
from rsa2c.runs.provenance import provenance
from rsa2c.runs.training import resume_run, train_run

COMMIT = provenance()["commit"]
COLUMNS = [
    "environment", "algorithm", "seed", "steps", "episodes", "mean", "std", "worst", "best_evaluation",
    "best_evaluation_steps", "actor_states", "value_states", "weight_ratio", "train_minutes", "peak_memory_mib",
    "commit", "processor", "command",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("environment")
    parser.add_argument("algorithm")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/environments"))
    parser.add_argument("--resume", type=Path, help="a run folder to continue")
    arguments = parser.parse_args()
    if arguments.resume:
        run = resume_run(arguments.resume, arguments.steps, display=True)
    else:
        run = train_run(
            arguments.environment, arguments.algorithm, total_timesteps=arguments.steps, out=arguments.out,
            seed=arguments.seed, display=True,
        )  # fmt: skip
    agent = rsa2c.RSA2C.load(run.model_path)
    result = rsa2c.evaluate(agent, arguments.environment, episodes=arguments.episodes, seed=0)
    curve = np.load(run.evaluations_path)
    means = curve["results"].mean(axis=1)
    seconds = float(run.read_metrics()[-1]["seconds"])
    weights = agent.kernel_weights
    row = [
        arguments.environment, arguments.algorithm, arguments.seed, agent.num_timesteps, arguments.episodes,
        f"{result.mean:.1f}", f"{result.std:.1f}", f"{result.returns.min():.1f}", f"{means.max():.1f}",
        int(curve["timesteps"][means.argmax()]), agent.dictionary_sizes["actor"], agent.dictionary_sizes["value"],
        f"{weights.max() / weights.min():.1f}", f"{seconds / 60:.1f}",
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, COMMIT, cpu(), command(),
    ]  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "environments.csv"
    is_new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerow(row)
    print(dict(zip(COLUMNS, row, strict=True)))


if __name__ == "__main__":
    main()

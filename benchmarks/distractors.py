"""Does guidance earn its place? Pendulum-v1 with pure-noise features, the `default` preset for every variant.

Each run trains 1.2 M steps (k = 0: 200 k), or 240 k steps beyond the first evaluation that reaches -200, and is judged
by that first evaluation and by the mean of its last five, each over 20 fixed start states, every 5 epochs. Rows are
appended to results/distractors.csv as they finish, and rows that are there are not run again.

    python benchmarks/distractors.py [--workers 2] [--quick]
"""

from __future__ import annotations

import argparse
import csv
import time
from multiprocessing import get_context

import numpy as np

import rsa2c
from _provenance import RESULTS, write
from rsa2c.store import provenance

ENV = "Pendulum-v1"
COMMIT = provenance()["commit"]
GOAL, AFTERWARDS = -200.0, 240_000
STUDY = [
    *(("rsa2c-kme", 10, seed) for seed in range(10)),
    *(("rsa2c-kme", 30, seed) for seed in range(5)),
    *((algorithm, 10, seed) for algorithm in ("advanced-ac", "shuffled-shap") for seed in range(10)),
    *((algorithm, 0, seed) for algorithm in ("rsa2c-kme", "advanced-ac") for seed in range(10)),
]
PATH = RESULTS / "distractors.csv"
COLUMNS = ["algorithm", "distractors", "seed", "steps", "steps_to_-200", "last_five", "best", "seconds", "commit"]


def run(job: tuple[str, int, int]) -> list[object]:
    algorithm, distractors, seed = job
    steps = 200_000 if distractors == 0 else 1_200_000
    began = time.perf_counter()
    agent = rsa2c.RSA2C(ENV, algorithm, seed=seed, distractors=distractors)
    evaluations: list[tuple[int, float]] = []

    def watch(*_: object) -> bool:
        if agent.epoch % 5 == 0:
            result = rsa2c.evaluate(agent, ENV, episodes=20, seed=10_000, distractors=distractors)
            evaluations.append((agent.num_timesteps, result.mean))
        solved = [at for at, mean in evaluations if mean >= GOAL]
        return distractors == 0 or not solved or agent.num_timesteps < solved[0] + AFTERWARDS

    agent.learn(steps - agent.num_timesteps, callback=watch)
    means = [mean for _, mean in evaluations]
    reached = next((at for at, mean in evaluations if mean >= GOAL), "")
    return [
        algorithm, distractors, seed, agent.num_timesteps, reached, f"{np.mean(means[-5:]):.1f}", f"{max(means):.1f}",
        f"{time.perf_counter() - began:.0f}", COMMIT,
    ]  # fmt: skip


def summary() -> str:
    with open(PATH, newline="") as file:
        rows = list(csv.DictReader(file))
    lines = ["| variant | distractors | seeds | reached -200 | last five: mean, worst, best |", "|---|---|---|---|---|"]
    for algorithm, distractors in dict.fromkeys((row["algorithm"], row["distractors"]) for row in rows):
        mine = [row for row in rows if (row["algorithm"], row["distractors"]) == (algorithm, distractors)]
        last = np.array([float(row["last_five"]) for row in mine])
        reached = sum(row["steps_to_-200"] != "" for row in mine)
        lines.append(
            f"| {algorithm} | {distractors} | {len(mine)} | {reached} "
            f"| {last.mean():.1f}, {last.min():.1f}, {last.max():.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="the first two seeds of each only")
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    if not PATH.exists():
        PATH.write_text(",".join(COLUMNS) + "\n")
    with open(PATH, newline="") as file:
        done = {(row["algorithm"], int(row["distractors"]), int(row["seed"])) for row in csv.DictReader(file)}
    jobs = [job for job in STUDY if job not in done and (job[2] < 2 or not arguments.quick)]
    with get_context("spawn").Pool(arguments.workers) as pool:
        for row in pool.imap_unordered(run, jobs):
            with open(PATH, "a", newline="") as file:
                csv.writer(file).writerow(row)
            print(*row, flush=True)
    print(summary())
    print(write("distractors", "Guidance on Pendulum-v1 with distractors", summary()))


if __name__ == "__main__":
    main()

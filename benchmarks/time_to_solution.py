"""Seconds of training until the mean return on Pendulum-v1 reaches -200: rsa2c, SB3 SAC and SB3 PPO in one script.

The clock starts when the agent is constructed (the warm-up is included) and pauses during evaluations. These are the
same for all agents: 20 fixed start states, after each epoch (rsa2c), each rollout (PPO) or every 500 steps (SAC).
rsa2c is measured with a warm Numba cache, and in a new process with an empty cache. Torch gets one or two threads,
whichever trains the baseline faster.

    python benchmarks/time_to_solution.py [--seeds 0 1 2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

import rsa2c
from _provenance import write
from _watch import Solution, Watch
from rsa2c.baselines.policy import make_baseline, torch_threads

ENV = "Pendulum-v1"
GOAL = -200.0
EPISODES = 20
LIMITS = {"rsa2c": 200_000, "sac": 30_000, "ppo": 400_000}


def ours(seed: int, algorithm: str = "rsa2c-kme") -> Solution:
    """A kernel agent with its default preset, evaluated after each epoch."""
    watch = Watch(ENV, GOAL, EPISODES)
    agent = watch.policy = rsa2c.RSA2C(ENV, algorithm, seed=seed)
    agent.learn(LIMITS["rsa2c"], callback=lambda *_: not watch.solved(agent.num_timesteps))
    return watch.solution


def peer(name: str, seed: int, threads: int) -> Solution:
    """An SB3 baseline with RL-Zoo's hyper-parameters."""
    from stable_baselines3.common.callbacks import BaseCallback

    watch = Watch(ENV, GOAL, EPISODES)

    class Check(BaseCallback):
        done = False

        def _on_rollout_start(self) -> None:
            # PPO updates between rollouts; False from the next step then stops it.
            if name == "ppo" and self.num_timesteps:
                self.done = watch.solved(self.num_timesteps)

        def _on_step(self) -> bool:
            if name == "sac" and self.num_timesteps % 500 == 0:
                self.done = watch.solved(self.num_timesteps)
            return not self.done

    with torch_threads(threads):
        watch.policy = make_baseline(name, ENV, seed)
        watch.policy.model.learn(LIMITS[name], callback=Check())
        if name == "ppo" and not np.isfinite(watch.solution.seconds):
            watch.solved(watch.policy.model.num_timesteps)
    return watch.solution


def faster_threads(name: str) -> int:
    """1 or 2 torch threads, whichever trains this baseline faster on this machine."""
    steps, brief = {"sac": (400, {}), "ppo": (4096, {"n_epochs": 1})}[name]
    seconds: dict[int, float] = {}
    for threads in (1, 2):
        with torch_threads(threads):
            model = make_baseline(name, ENV, seed=1000, **brief).model
            began = time.perf_counter()
            patience = min(seconds.values(), default=np.inf)
            # On a busy machine, two threads can be twenty times slower than one: stop early.
            model.learn(steps, callback=lambda *_, t=began, p=patience: time.perf_counter() - t < 2 * p)
            seconds[threads] = time.perf_counter() - began
    return min(seconds, key=lambda threads: seconds[threads])


def cold(seed: int) -> tuple[Solution, float]:
    """rsa2c in a new process with an empty Numba cache, and the wall time of that whole process."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        answer = subprocess.run(
            [sys.executable, __file__, "--only-ours", "--seeds", str(seed)],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
        wall = time.perf_counter() - began
    return Solution(**json.loads(answer.stdout.splitlines()[-1])), wall


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only-ours", action="store_true", help="measure one seed of rsa2c only, and print JSON")
    options = parser.parse_args()
    if options.only_ours:
        print(json.dumps(vars(ours(options.seeds[0]))))
        return

    ours(seed=1000)  # warms up the Numba cache and this process
    threads = {name: faster_threads(name) for name in ("sac", "ppo")}
    found: dict[str, list[Solution]] = {"rsa2c": [], "sac": [], "ppo": []}
    for seed in options.seeds:
        for name, solutions in found.items():
            solutions.append(ours(seed) if name == "rsa2c" else peer(name, seed, threads[name]))
            s = solutions[-1]
            figures = f"{s.seconds:8.2f} s {s.cpu_seconds:8.2f} cpu s {s.steps:9,} steps {s.mean_return:8.1f}"
            print(f"seed {seed}  {name:<6} {figures}", flush=True)
    cold_solution, whole = cold(options.seeds[0])

    labels = {
        "rsa2c": "rsa2c-kme, default preset, 1 thread",
        "sac": f"SB3 SAC, RL-Zoo, {threads['sac']} torch thread{'s'[: threads['sac'] - 1]}",
        "ppo": f"SB3 PPO, RL-Zoo, {threads['ppo']} torch thread{'s'[: threads['ppo'] - 1]}",
    }
    medians = {
        name: np.median([(s.seconds, s.cpu_seconds) for s in solutions], axis=0)
        for name, solutions in found.items()
    }
    lines = [
        f"Seconds of training on {ENV} until the mean return over {EPISODES} fixed start states reaches {GOAL:g}.",
        "Agents are evaluated after each epoch (rsa2c), each rollout (PPO) or every 500 steps (SAC); evaluation time",
        "is not counted. Ratios compare medians, in wall-clock time and in CPU time, which other work on the machine",
        "affects less.",
        "",
        "| agent | seconds, each seed | median | median, CPU | steps, each seed | times ours | times ours, CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, solutions in found.items():
        seconds = ", ".join(f"{s.seconds:.2f}" for s in solutions)
        steps = ", ".join(f"{s.steps:,}" for s in solutions)
        wall, cpu = medians[name]
        ratios = " | ".join(f"{ratio:.0f}" for ratio in medians[name] / medians["rsa2c"])
        lines.append(f"| {labels[name]} | {seconds} | {wall:.2f} | {cpu:.2f} | {steps} | {ratios} |")
    lines += [
        "",
        f"Seeds {', '.join(map(str, options.seeds))}. The table is measured with a warm Numba cache.",
        "With an empty cache, as on first use after installation, rsa2c takes",
        f"{cold_solution.seconds:.1f} s including compilation (seed {options.seeds[0]}). The whole process,",
        f"including Python's start and the evaluations, takes {whole:.1f} s.",
    ]
    body = "\n".join(lines)
    print(body)
    packages = ("torch", "stable-baselines3")
    print("written to", write("time_to_solution", "Time to solution, Pendulum-v1", body, *packages))


if __name__ == "__main__":
    main()

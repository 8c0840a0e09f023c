"""Trains on a GPU and says after how many seconds a policy reached given returns in Gymnasium's own environment.

    python benchmarks/gpu_training.py measure [--env Ant-v5] [--seeds 0 1 2 3 4] [--seconds 120] [--set kl=0.05 ...]
    python benchmarks/gpu_training.py page

`measure` needs the GPU and writes a JSON file to --folder, `page` writes results/gpu.md from the files there. The clock
runs from the agent's construction. Every few seconds the policy is tried by other processes: ten episodes without
noise, with MuJoCo's own solver. The first training of the process compiles everything; a second one of equal
length that compiles nothing says how long that took. `--device jax-cpu` tries it without a GPU.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from _provenance import RESULTS, header
from rsa2c import RSA2C, evaluate, load

GOALS = {
    "Ant-v5": (2_000, 3_000, 4_000),
    "HalfCheetah-v5": (2_000, 3_000, 4_000),
    "Hopper-v5": (1_000, 2_000, 3_000),
    "Humanoid-v5": (1_000, 3_000, 5_000),
    "Walker2d-v5": (1_000, 2_000, 3_000),
    "Pendulum-v1": (-400, -200, -170),
    "rsa2c/LQR-v0": (-200, -100, -50),
}
SIMULATION = RESULTS / "gpu" / "simulation.md"
EPISODES, SEED = 10, 20_000
FINAL_EPISODES = 50
COMPILED_EPOCHS = 12
"""Epochs after which every program has been needed: dictionaries grow, are full and have states replaced."""


INTRODUCTION = """\
`python benchmarks/gpu_training.py measure` trains, `page` makes this page. Seconds are counted from the agent's
construction, without compilation. Every few seconds the policy is tried, beside the training, by ten episodes in
Gymnasium's own environment with MuJoCo's own solver; a return counts as reached when a trial's mean reaches it.
"""


def made(env: str, algorithm: str, device: str, seed: int, settings: dict[str, Any]) -> RSA2C:
    return RSA2C(env, algorithm, device=device, seed=seed, **settings)


def compilation(env: str, algorithm: str, device: str, settings: dict[str, Any]) -> dict[str, float]:
    """Seconds of a few epochs with compilation, and without."""
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        agent = made(env, algorithm, device, 999, settings)
        for _ in range(COMPILED_EPOCHS):
            agent.run_epoch()
        seconds.append(time.perf_counter() - began)
        agent.close()
    return {"with": seconds[0], "without": seconds[1]}


def tried(policy: Path, env: str, seed: int) -> list[float]:
    """Returns of a policy in a few episodes of Gymnasium's environment."""
    return [float(each) for each in evaluate(load(policy), env, episodes=EPISODES, seed=seed).returns]


@dataclass(frozen=True)
class Trial:
    """A policy that other processes are trying, and when it was what had been learned."""

    seconds: float
    steps: int
    returns: list[Future[list[float]]]

    def result(self) -> tuple[float, int, float, float]:
        """Seconds, steps, mean and worst return; waits for the other processes."""
        found = [each for future in self.returns for each in future.result()]
        return self.seconds, self.steps, float(np.mean(found)), min(found)


def trained(
    pool: Executor,
    folder: Path,
    env: str,
    algorithm: str,
    device: str,
    seed: int,
    settings: dict[str, Any],
    limit: float,
    between: float,
) -> dict[str, Any]:
    """One training of `limit` seconds: trials of its policies, some still under way, and the time of each phase.

    Policies are in `folder` until they have been tried."""
    trials: list[Trial] = []
    phases: dict[str, float] = {}
    saving = 0.0
    began = time.perf_counter()
    agent = made(env, algorithm, device, seed, settings)
    next_trial = between
    while True:
        record = agent.run_epoch()
        phases = {name: phases.get(name, 0.0) + spent for name, spent in record.seconds.items()}
        now = time.perf_counter() - began - saving
        if now >= next_trial or now >= limit:
            last, path = now >= limit, folder / f"{seed}-{agent.epoch}.safetensors"
            agent.save(path)
            saving = time.perf_counter() - began - now
            seeds = range(SEED, SEED + (FINAL_EPISODES if last else EPISODES), EPISODES)
            futures = [pool.submit(tried, path, env, first) for first in seeds]
            trials.append(Trial(now, agent.num_timesteps, futures))
            if last:
                break
            next_trial = now + between
    agent.close()
    return {"seed": seed, "trials": trials, "phases": phases, "epochs": agent.epoch, "states": agent.dictionary_sizes}


def judged(training: dict[str, Any], env: str) -> dict[str, Any]:
    """A training with the results of its trials instead of the trials: its curve of seconds, steps and returns."""
    curve = [trial.result() for trial in training.pop("trials")]
    for now, steps, mean, worst in curve:
        print(f"{env} seed {training['seed']}: {now:.1f} s, {steps:,} steps, {mean:.0f}, worst {worst:.0f}", flush=True)
    return {**training, "curve": curve}


def judges() -> ProcessPoolExecutor:
    """Processes beside the training's that try policies meanwhile."""
    return ProcessPoolExecutor(max(1, len(os.sched_getaffinity(0)) - 3), multiprocessing.get_context("spawn"))


def measure(options: argparse.Namespace) -> None:
    settings = {name: _value(text) for name, text in (each.split("=", 1) for each in options.set)}
    fixed = options.env, options.algorithm, options.device
    found: dict[str, Any] = {"env": options.env, "algorithm": options.algorithm, "settings": settings,
                             "note": options.note, "header": header("jax", "mujoco-mjx"),
                             "device": _device(options.device)}  # fmt: skip
    found["compilation"] = compilation(*fixed, settings)
    print("compilation", found["compilation"], flush=True)
    path = options.folder / f"{options.env.replace('/', '-')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found["seeds"] = []

    def keep(training: dict[str, Any]) -> None:
        found["seeds"].append(judged(training, options.env))
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")

    with tempfile.TemporaryDirectory() as folder, judges() as pool:
        timing = options.seconds, options.between
        before: list[dict[str, Any]] = []
        for seed in options.seeds:
            training = trained(pool, Path(folder), *fixed, seed, settings, *timing)
            for other in before:  # tried meanwhile, so that nothing waits
                keep(other)
            before = [training]
        keep(*before)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _device(name: str) -> str:
    from rsa2c.gpu.device import found

    return str(found(name).device_kind)


def page(options: argparse.Namespace) -> None:
    """Write results/gpu.md from the measurements in the folder, and what was measured of the simulation alone."""
    parts = ["# Training on a GPU\n", INTRODUCTION]
    for path in sorted(options.folder.glob("*.json")):
        parts.append(section(json.loads(path.read_text(encoding="utf-8"))))
    parts.append(SIMULATION.read_text(encoding="utf-8"))
    (RESULTS / "gpu.md").write_text("\n".join(parts), encoding="utf-8")


def section(found: dict[str, Any]) -> str:
    """The part of the page about one environment."""
    goals = GOALS[found["env"]]
    compiling = found["compilation"]["with"] - found["compilation"]["without"]
    lines = [f"## {found['env']}\n", found["header"], f"- device: {found['device']}",
             f"- algorithm: {found['algorithm']}, {_shown(found['settings'])}",
             f"- compilation: {compiling:.0f} s, in no other figure{found.get('note', '')}\n",
             "| seed | " + " | ".join(f"seconds to {goal:,}" for goal in goals) + " | best trial | at the end |",
             "|---" * (len(goals) + 3) + "|"]  # fmt: skip
    for each in found["seeds"]:
        reached = [next((f"{now:.0f}" for now, _, mean, _ in each["curve"] if mean >= goal), "-") for goal in goals]
        at, _, best, _ = max(each["curve"], key=lambda trial: trial[2])
        now, steps, mean, worst = each["curve"][-1]
        end = f"{mean:,.0f} (worst of {FINAL_EPISODES}: {worst:,.0f}), {now:.0f} s, {steps / 1e6:.1f} M steps"
        lines.append(f"| {each['seed']} | {' | '.join(reached)} | {best:,.0f}, {at:.0f} s | {end} |")
    phases = [{name: each["phases"][name] / each["epochs"] for name in each["phases"]} for each in found["seeds"]]
    mean_of = {name: float(np.mean([one.get(name, 0.0) for one in phases])) for name in phases[0]}
    shown = ", ".join(f"{name} {1e3 * spent:.0f}" for name, spent in mean_of.items())
    return "\n".join([*lines, f"\nMilliseconds of an epoch: {shown}.\n"])


def _shown(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "default settings"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("measure", "page"))
    parser.add_argument("--env", default="Ant-v5", choices=tuple(GOALS))
    parser.add_argument("--algorithm", default="rsa2c-kme")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--between", type=float, default=5.0, help="seconds of training between trials")
    parser.add_argument("--set", nargs="*", default=[], help="further settings, name=value")
    parser.add_argument("--note", default="", help="said on the page after the time of compilation")
    parser.add_argument("--folder", type=Path, default=RESULTS / "gpu")
    options = parser.parse_args()
    measure(options) if options.step == "measure" else page(options)


if __name__ == "__main__":
    main()

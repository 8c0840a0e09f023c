"""Trains and judges one run of the suite in this process, and appends its row; `suite.py` starts it.

A run that was killed continues from its folder. The agent is that of `rsa2c train`: only the learning curve's
evaluations, which do not affect training, are rarer.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

from _attacked import EPSILON, attacked_returns
from _suite_tasks import Task
from rsa2c.agent import RSA2C
from rsa2c.baselines.settings import BASELINES
from rsa2c.envs.known import find
from rsa2c.envs.names import episode_limit
from rsa2c.envs.single import make_single
from rsa2c.errors import ConfigError
from rsa2c.files import append_lines, holding, whole_lines
from rsa2c.runs.data import RunData
from rsa2c.runs.evaluation import evaluate_policy
from rsa2c.runs.folder import Run
from rsa2c.runs.provenance import cpu, provenance
from rsa2c.runs.training import is_finished, judge, resume_run, train_run

EPOCHS_BETWEEN_EVALUATIONS = 50
GAP_STARTS = 1_000
NOISY_EPISODES = 100
ROWS = "runs.jsonl"


def read_rows(results: Path) -> list[dict[str, Any]]:
    """The rows so far; a last line torn off by a crash is left out."""
    path = results / ROWS
    content = whole_lines(path.read_bytes()) if path.exists() else b""
    return [json.loads(line) for line in content.decode().splitlines() if line.strip()]


def trained(task: Task, folder: Path) -> Run:
    """The run of a task, trained for its steps: a new one, or what its folder holds, continued."""
    path = folder / task.run_id
    if not (path / "config.yaml").exists():
        if task.algorithm in BASELINES:
            rare = {"evaluation_episodes": 1}  # the steps between evaluations of a baseline cannot be set
        else:
            rare = {"epochs_between_evaluations": EPOCHS_BETWEEN_EVALUATIONS}
        return train_run(
            task.environment, task.algorithm, total_timesteps=task.steps, out=folder, track=False,
            suffix=task.suffix, seed=task.seed, **rare, **task.settings,
        )  # fmt: skip
    data = RunData.of(run := Run.open(path))
    if data.total_timesteps > task.steps:
        raise ConfigError(
            f"run {path} was trained towards {data.total_timesteps:,} steps already, so it cannot be judged at "
            f"{task.steps:,}. Delete the folder to train it again."
        )
    if data.document["commit"] != provenance()["commit"]:
        print(f"{path} was begun by commit {data.document['commit']}", file=sys.stderr)
    if not is_finished(data, task.steps):
        resume_run(path, task.steps, track=False)
    return run


def row(task: Task, data: RunData, peak: int) -> dict[str, Any]:
    """What a judged run has to say; `peak` is the memory of its training in KiB."""
    assert data.returns is not None, "the run has been judged"
    returns, lengths = (data.returns[name][0] for name in ("returns", "ep_lengths"))
    agent, commit = data.agent, data.document["commit"]
    found: dict[str, Any] = {
        **vars(task),
        "trained_steps": agent.num_timesteps,
        "acting_steps": agent.acting.steps if isinstance(agent, RSA2C) else agent.num_timesteps,
        "episodes": len(returns),
        **{name: round(float(reduce(returns)), 4) for name, reduce in _MOMENTS.items()},
        "falls": int(np.sum(lengths < limit)) if (limit := _limit(task.environment)) else None,
        "seconds": round(float(data.last_row["seconds"]), 1),
        "peak_rss_mib": peak // 1024,
        "states": agent.dictionary_sizes if isinstance(agent, RSA2C) else None,
        "commit": commit,
        "machine": machine(),
        "command": task.command(),
    }
    if (now := provenance()["commit"]) != commit:
        found["finished_by_commit"] = now
    return found | _special(task, agent) | _true_weight(task, agent) | _robustness(task, agent)


_MOMENTS = {"mean": np.mean, "std": np.std, "median": np.median, "worst": np.min}


def _limit(environment: str) -> int | None:
    single = make_single(environment)
    try:
        return episode_limit(single)
    finally:
        single.close()


def _special(task: Task, agent: Any) -> dict[str, Any]:
    """Pendulum's steps to its goal, counted by frequent evaluations of a training of its own; LQR's gap."""
    known = find(task.environment)
    if known is not None and known.optimality_gap is not None:
        policy = agent.policy_mean if isinstance(agent, RSA2C) else lambda x: agent.predict(x, deterministic=True)[0]
        gap = known.optimality_gap(policy, GAP_STARTS)
        return {"gap": gap if np.isfinite(gap) else None}
    import time_to_solution as goal

    race, name, seed = goal.Race(), task.algorithm, task.seed
    if task.environment != race.environment or task.settings:
        return {}
    solution = goal.peer(race, name, seed) if name in BASELINES else goal.ours(race, seed, name)
    reached = bool(np.isfinite(solution.seconds))
    return {
        "goal_steps": solution.steps if reached else None,
        "goal_seconds": round(solution.seconds, 3) if reached else None,
    }


def _true_weight(task: Task, agent: Any) -> dict[str, Any]:
    """The share of the kernel's weights on features that are not distractors."""
    useless = task.settings.get("distractors", 0)
    if not useless or not isinstance(agent, RSA2C):
        return {}
    weights = agent.policy.mean.kernel.weights
    return {"true_weight": round(float(weights[:-useless].sum() / weights.sum()), 4)}


def _robustness(task: Task, agent: Any) -> dict[str, Any]:
    """Mean return under each level of noise and under attacks, and how wrong a measurement may be before an action
    moves by a tenth of its range: the median over visited states of the radius that is proven."""
    if not task.noise:
        return {}
    returns = [evaluate_policy(agent, NOISY_EPISODES, variance).returns for variance in task.noise]
    found: dict[str, Any] = {"noisy": [round(float(each.mean()), 4) for each in returns]}
    if task.environment in EPSILON:
        found["attacked"] = attacked_returns(agent, task.environment)
    if isinstance(agent, RSA2C):
        amount = 0.1 * (agent.action_space.high - agent.action_space.low)
        radius = agent.certified_radius(agent.background, amount)
        found["radius"] = round(float(np.median(radius)), 6)
    return found


def machine() -> str:
    """The machine in words, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cpu()}, {cores} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    asked, folder, results = json.loads(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    task = Task(**{**asked, "noise": tuple(asked["noise"])})
    run = trained(task, folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = row(task, judge(run), peak)
    with holding(results, "results", wait=True):
        append_lines(results / ROWS, json.dumps(found, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()

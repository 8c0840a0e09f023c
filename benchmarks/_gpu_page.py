"""The page that `gpu_training.py` makes of its measurements."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from _provenance import RESULTS

GOALS = {
    "Ant-v5": (2_000, 3_000, 4_000),
    "HalfCheetah-v5": (2_000, 3_000, 4_000),
    "Hopper-v5": (1_000, 2_000, 3_000),
    "Humanoid-v5": (1_000, 3_000, 5_000),
    "Walker2d-v5": (1_000, 2_000, 3_000),
    "Pendulum-v1": (-400, -200, -170),
    "rsa2c/LQR-v0": (-200, -100, -50),
}
BRAX = "Brax's PPO"
SIMULATION = RESULTS / "gpu" / "simulation.md"
INTRODUCTION = """\
`python benchmarks/gpu_training.py measure` trains, `page` makes this page. Seconds are counted from the agent's
construction; without compilation means less the time in which JAX and Numba traced, compiled, or loaded what had been
compiled. Every few seconds the policy is tried, beside the training, by ten episodes in Gymnasium's own environment
with MuJoCo's own solver; a return counts as reached when a trial's mean reaches it.

`python benchmarks/gpu_peer.py` measures Brax's PPO in the same way, in the same simulations, with the settings that its
authors published for their robots of these names.
"""
STARTS = {"cold": "nothing compiled before", "cached": "a new process, compiled before on this machine",
          "compiled": "not the first in its process"}  # fmt: skip


def write_page(folder: Path, out: Path) -> None:
    """Write the page from the measurements in the folder, and what was measured of the simulation alone."""
    parts = ["# Training on a GPU\n", INTRODUCTION]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    for env in dict.fromkeys(each["env"] for each in found):
        parts.append(f"## {env}\n")
        parts += [section(each) for each in found if each["env"] == env and each["algorithm"] != BRAX]
        peers = [section(each) for each in found if each["env"] == env and each["algorithm"] == BRAX]
        parts += [f"### {BRAX}\n", *peers] if peers else []
    parts.append(SIMULATION.read_text(encoding="utf-8"))
    out.write_text("\n".join(parts), encoding="utf-8")


def section(found: dict[str, Any]) -> str:
    """The part of the page about one measurement."""
    goals, seeds = GOALS[found["env"]], [each for each in found["seeds"] if each["curve"]]
    lines = [found["header"], f"- device: {seeds[0]['device'] if seeds else 'none'}",
             f"- algorithm: {found['algorithm']}, {_shown(found['settings'])}"]  # fmt: skip
    if found.get("sharing", 1) > 1:
        lines.append(f"- {found['sharing']} trainings shared the card: alone each would have been faster")
    lines.append("")
    if not seeds:
        return "\n".join([*lines, "No training was tried.\n"])
    columns = " | ".join(f"{goal:,}" for goal in goals)
    lines += [f"Seconds to a return, without compilation:\n\n| seed | {columns} | best trial | the last policy | "
              "the policy kept |", "|---" * (len(goals) + 4) + "|"]  # fmt: skip
    reached = [[first(each, goal) for goal in goals] for each in seeds]
    for each, times in zip(seeds, reached, strict=True):
        best, kept = max(each["curve"], key=lambda trial: trial["mean"]), [_end(one) for one in each["kept"][-1:]]
        cells = [*map(_seconds, times), f"{best['mean']:,.0f}, {_without(best):.0f} s",
                 _end(each["curve"][-1]), *(kept or ["-"])]  # fmt: skip
        lines.append(f"| {each['seed']} | {' | '.join(cells)} |")
    if len(seeds) > 1:
        columns_of = [[np.inf if one is None else one for one in column] for column in zip(*reached, strict=True)]
        lines.append(f"| median | {' | '.join(_seconds(statistics.median(each)) for each in columns_of)} | | | |")
    lines += [f"\nWith compilation:\n\n| start | compilation | {columns} |", "|---" * (len(goals) + 2) + "|"]
    for each in seeds:
        if each["start"] != "compiled":
            cells = [_seconds(first(each, goal, compiling=True)) for goal in goals]
            spent = f"{each['curve'][-1]['compiling']:.0f} s"
            what = f"{STARTS[each['start']]} (seed {each['seed']})"
            lines.append(f"| {what} | {spent} | {' | '.join(cells)} |")
    phases = [{name: spent / each.get("timed", each["epochs"]) for name, spent in each["phases"].items()}
              for each in seeds]  # fmt: skip
    mean_of = {name: float(np.mean([one.get(name, 0.0) for one in phases])) for name in phases[0]}
    told = ", ".join(f"{name} {1e3 * spent:.0f}" for name, spent in mean_of.items() if name != "compile")
    which = "an epoch in which nothing was compiled" if "timed" in seeds[0] else "an epoch"
    return "\n".join([*lines, f"\nMilliseconds of {which}: {told}.\n"])


def first(training: dict[str, Any], goal: float, compiling: bool = False) -> float | None:
    """Seconds to the first trial whose mean reaches a goal."""
    reached = (each for each in training["curve"] if each["mean"] >= goal)
    return next((each["seconds"] if compiling else _without(each) for each in reached), None)


def _without(trial: dict[str, float]) -> float:
    return trial["seconds"] - trial["compiling"]


def _seconds(found: float | None) -> str:
    return "-" if found is None or found == np.inf else f"{found:.0f}"


def _end(trial: dict[str, float]) -> str:
    worst = f"worst of {trial['episodes']}: {trial['worst']:,.0f}"
    return f"{trial['mean']:,.0f} ({worst}), {_without(trial):.0f} s, {trial['steps'] / 1e6:.1f} M steps"


def _shown(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "default settings"

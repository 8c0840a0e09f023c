"""The page of time_to_solution.py, made from its rows; nothing on it is typed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _provenance import header
from rsa2c.reproduce.alone import USUAL
from rsa2c.reproduce.selection import thresholds

Row = dict[str, Any]
KERNEL_AGENTS = {"rsa2c": "rsa2c-kme", "rsa2c-cme": "rsa2c-cme", "advanced-ac": "advanced-ac"}
"""The variants of rsa2c, by the names that rows have."""
AGENTS = {
    **{agent: f"{variant}, default settings" for agent, variant in KERNEL_AGENTS.items()},
    "ppo": "Stable-Baselines3's PPO",
    "sbx-ppo": "SBX's PPO",
    "sac": "Stable-Baselines3's SAC",
    "sbx-sac": "SBX's SAC",
}
SIMULATORS = {
    "gymnasium": "Gymnasium for all",
    "envpool": "EnvPool for all",
    "arrays": "Our arrays for all, as rsa2c is shipped",
}
QUANTITIES = {"seconds": ".2f", "cpu_seconds": ".2f", "steps": ",", "elsewhere": ".0f"}
COLUMNS = (
    "agent", "solved", "seconds", "CPU seconds", "steps", "return from 100 other starts", "seconds / rsa2c",
    "steps / rsa2c",
)  # fmt: skip
INTRODUCTION = """\
Training until the mean return over 20 fixed start states, tried in Gymnasium, reaches a solution. Within a
table everybody trains on the same simulator, on one core and one thread. SBX is Stable-Baselines3 in JAX. Peers have
RL-Zoo's settings, which were tuned for the return after a number of steps (100,000 of PPO and 20,000 of SAC on
Pendulum-v1) and not for this race; SBX's PPO has no state-dependent exploration. Agents are tried after each epoch
(rsa2c's), each rollout (PPO) or every 500 steps (SAC), on BipedalWalker-v3 and Ant-v5 no sooner than 10,000 steps after
the last time; that time is not counted. Nor is compilation, which the last lines have. Cells are
the median over seeds with the least and the most; ratios are of medians, and below 1 the peer is better. A training
tried often and stopped at the first success stops at a lucky moment: the return from 100 other starts says what the
policy is worth."""


def write_page(rows: Sequence[Row], path: Path) -> Path:
    """Write the page; simulators without rows are left out."""
    versions = header("torch", "stable-baselines3", "sbx-rl", "jax")
    parts = ["# Time to solution", versions, INTRODUCTION, _origin(rows)]
    races: dict[tuple[str, str], list[Row]] = {}
    for row in map(USUAL.__or__, rows):
        if not row["cold"] and "curve" not in row:
            # A baseline has RL-Zoo's settings, whatever preset ours have beside it.
            races.setdefault((row["environment"], row["preset"]), []).append(row)
    for (environment, preset), found in races.items():
        settings = "" if preset == USUAL["preset"] else f", preset `{preset}`"
        goal = f"{thresholds(environment)[0]:g}"
        for simulator, title in SIMULATORS.items():
            if some := [row for row in found if row["simulator"] == simulator]:
                parts += [f"## {environment} to {goal}{settings}: {title}", table(some)]
    if first := [row for row in rows if row["cold"]]:
        parts += ["## With compilation", "\n".join(_first(row) for row in first)]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
    return path


def table(rows: Sequence[Row]) -> str:
    """One line for each agent on one simulator."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    own = [row for row in rows if row["agent"] == "rsa2c"]
    for agent, label in AGENTS.items():
        if found := [row for row in rows if row["agent"] == agent]:
            preset = found[0].get("preset", USUAL["preset"])
            label = label.replace(", default settings", f", preset `{preset}`") if preset != USUAL["preset"] else label
            cells = [label, f"{sum(row['solved'] for row in found)} of {len(found)}"]
            cells += [_spread(found, name, form) for name, form in QUANTITIES.items()]
            cells += [_ratio(found, own, "seconds"), _ratio(found, own, "steps")]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _values(rows: Sequence[Row], name: str) -> list[float]:
    """A quantity of each run; times and steps are infinite where the goal was not reached."""
    return [float(row[name]) if row["solved"] or name == "elsewhere" else np.inf for row in rows]


def _spread(rows: Sequence[Row], name: str, form: str) -> str:
    def shown(value: float) -> str:
        return "not reached" if np.isinf(value) else format(int(value) if form == "," else value, form)

    values = _values(rows, name)
    middle, least, most = (shown(float(value)) for value in (np.median(values), min(values), max(values)))
    return middle if least == most else f"{middle} [{least}, {most}]"


def _ratio(rows: Sequence[Row], own: Sequence[Row], name: str) -> str:
    if not own:
        return "-"
    ratio = float(np.median(_values(rows, name)) / np.median(_values(own, name)))
    return "-" if not np.isfinite(ratio) else f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _first(row: Row) -> str:
    if not row["solved"]:
        return f"- {AGENTS[row['agent']]}, seed {row['seed']}: not reached"
    after = "after installation" if row["agent"] == "rsa2c" else "in each process"
    return (
        f"- {AGENTS[row['agent']]}, seed {row['seed']}, first use {after}: {row['seconds']:.1f} s. The whole process, "
        f"with Python's start and the evaluations: {row['process_seconds']:.1f} s."
    )


def _origin(rows: Sequence[Row]) -> str:
    """Where the rows come from."""
    commits = ", ".join(sorted({str(row["commit"]) for row in rows}))
    machines = "; ".join(sorted({row["machine"] for row in rows}))
    load = max((row["load"] for row in rows), default=0.0)
    return f"Commits of the runs: {commits}. Machine: {machines}; largest load average during a run {load:g}."

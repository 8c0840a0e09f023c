"""Trainings that had a machine to themselves, from the rows of `benchmarks/time_to_solution.py`.

Only their clocks are compared: runs of a study share a machine, and their clocks say how busy it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.errors import FileFormatError
from rsa2c.files import PathLike, read_bytes, whole_lines
from rsa2c.reproduce.records import Curve, Record
from rsa2c.reproduce.selection import WHOLE, thresholds

ROWS = Path("time_to_solution") / "runs.jsonl"
USUAL = {"environment": "Pendulum-v1", "preset": "default"}
"""What rows are about that do not say so."""
AGENTS = {
    "rsa2c": "rsa2c-kme",
    "rsa2c-cme": "rsa2c-cme",
    "advanced-ac": "advanced-ac",
    "sac": "sac",
    "ppo": "ppo",
}
"""The variants of the agents of the rows that the paper has too."""
AGENT_OF = {variant: agent for agent, variant in AGENTS.items()}
LARGEST_LOAD = 1.5
"""Load average: one training alone has about 1, a second process makes it 2."""


def read_alone(results: PathLike) -> list[Record]:
    """A record of each training in the rows under the folder of results; none if there are no rows.

    Left out are trainings that compiled, that shared the machine, and that do not say when they were last evaluated
    without success: the moment of their success is unknown. Of a training that was repeated the last row counts.
    """
    path = Path(results) / ROWS
    if not path.exists():
        return []
    try:
        rows = [json.loads(line) for line in whole_lines(read_bytes(path)).decode().splitlines() if line.strip()]
        kept = [USUAL | row for row in rows if row["agent"] in AGENTS and not row["cold"]]
        known = [row for row in kept if "before" in row or "curve" in row]
        found = [_record(row) for row in known if row["load"] <= LARGEST_LOAD]
    except (KeyError, TypeError, ValueError) as error:
        what = f"{path} is damaged ({type(error).__name__}: {error})"
        raise FileFormatError(f"{what}. Delete it and measure again: python benchmarks/time_to_solution.py") from error
    return list({(item.grid, item.run): item for item in found}.values())


def _record(row: Mapping[str, Any]) -> Record:
    """The record of a training that stopped at its solution, or of a whole one."""
    algorithm, environment, simulator = AGENTS[row["agent"]], str(row["environment"]), str(row["simulator"])
    preset = PRESET if algorithm in BASELINES else str(row["preset"])
    curve = _whole(row["curve"]) if "curve" in row else _solution(row, thresholds(environment)[0])
    return Record(
        run=f"{environment}__{algorithm}__{preset}__{simulator}__s{row['seed']}",
        grid=WHOLE if "curve" in row else "time_to_solution",
        environment=environment,
        algorithm=algorithm,
        preset=preset,
        noise=0.0,
        distractors=0,
        seed=int(row["seed"]),
        varied=f"backend={simulator}",
        steps=int(row["steps"]),
        seconds=float(curve.seconds[-1]),
        epochs=0,
        states=0,
        capacity=0,
        weight_ratio=float("nan"),
        gflop=float("nan"),
        gap=float("nan"),
        commit=str(row["commit"]),
        processor=str(row["machine"]),
        versions="",
        returns={},
        curve=curve,
    )


def _solution(row: Mapping[str, Any], goal: float) -> Curve:
    """The last evaluation without success, if there was one, and the success."""
    before = float(row["before"])
    points = [(before, -np.inf)] if before > 0 else []
    if row["solved"]:
        points.append((float(row["seconds"]), goal))
    seconds, means = np.array(points, dtype=np.float64).T
    unknown = np.full(len(points), np.nan)
    return Curve(unknown, seconds, means, unknown, unknown)


def _whole(points: Any) -> Curve:
    """Steps and seconds along a training that was never evaluated."""
    steps, seconds = np.array(points, dtype=np.float64)
    unknown = np.full(len(steps), np.nan)
    return Curve(steps, seconds, unknown, unknown, unknown)

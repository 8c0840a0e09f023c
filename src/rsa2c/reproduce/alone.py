"""Trainings that had a machine to themselves, from the rows of `benchmarks/time_to_solution.py`.

Only their clocks are compared: runs of a study share a machine, and their clocks say how busy it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rsa2c.baselines.settings import PRESET
from rsa2c.errors import FileFormatError
from rsa2c.files import PathLike, read_bytes, whole_lines
from rsa2c.reproduce.records import Curve, Record
from rsa2c.reproduce.selection import thresholds

ROWS = Path("time_to_solution") / "runs.jsonl"
ENVIRONMENT = "Pendulum-v1"
AGENTS = {
    "rsa2c": ("rsa2c-kme", "default"),
    "rsa2c-cme": ("rsa2c-cme", "default"),
    "advanced-ac": ("advanced-ac", "default"),
    "sac": ("sac", PRESET),
    "ppo": ("ppo", PRESET),
}
"""Agents of the rows that the paper has too: variant and preset."""
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
        kept = [row for row in rows if row["agent"] in AGENTS and "before" in row and not row["cold"]]
        found = [_record(row) for row in kept if row["load"] <= LARGEST_LOAD]
    except (KeyError, TypeError, ValueError) as error:
        what = f"{path} is damaged ({type(error).__name__}: {error})"
        raise FileFormatError(f"{what}. Delete it and measure again: python benchmarks/time_to_solution.py") from error
    return list({item.run: item for item in found}.values())


def _record(row: Mapping[str, Any]) -> Record:
    """The curve of a training has its last evaluation without success, if there was one, and its success."""
    algorithm, preset = AGENTS[row["agent"]]
    before, goal, simulator = float(row["before"]), thresholds(ENVIRONMENT)[0], str(row["simulator"])
    points = [(before, -np.inf)] if before > 0 else []
    if row["solved"]:
        points.append((float(row["seconds"]), goal))
    seconds, means = np.array(points, dtype=np.float64).T
    unknown = np.full(len(points), np.nan)
    return Record(
        run=f"{ENVIRONMENT}__{algorithm}__{simulator}__s{row['seed']}",
        grid="time_to_solution",
        environment=ENVIRONMENT,
        algorithm=algorithm,
        preset=preset,
        noise=0.0,
        distractors=0,
        seed=int(row["seed"]),
        varied=f"backend={simulator}",
        steps=int(row["steps"]),
        seconds=float(seconds[-1]),
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
        curve=Curve(unknown, seconds, means, unknown, unknown),
    )

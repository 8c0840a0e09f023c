"""Comparison of runs: curves with intervals over seeds, and a table like the paper's.

Runs that differ only in the seed form one line. Final scores come from `returns.npz` if it exists, and otherwise from
the last evaluation during training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c import statistics
from rsa2c.errors import NotFoundError, RSA2CError
from rsa2c.files import near
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.names import without_seed

INTERVAL_REPETITIONS = 500


@dataclass(frozen=True, eq=False)
class _Row:
    """What the comparison shows about one run."""

    run: str
    path: str
    group: str
    environment: str
    algorithm: str
    seed: int
    steps: int
    total: int
    seconds: float
    curve: tuple[NDArray[np.float64], NDArray[np.float64]]
    scores: dict[float, float]
    """Mean return for each noise variance at evaluation."""
    episodes: int


def comparison_document(folder: Path, runs: Sequence[Run]) -> dict[str, Any]:
    """The data of `comparison.html.j2`."""
    if not runs:
        what = "holds no run folders" if folder.is_dir() else "does not exist"
        raise NotFoundError(f"{folder} {what}.{near(folder)} Give a run folder, or a folder that contains run folders.")
    rows, missing = [], []
    for run in runs:
        try:
            rows.append(_row(RunData.of(run), folder))
        except (RSA2CError, KeyError, IndexError, TypeError, ValueError) as error:
            missing.append(f"{run.path.relative_to(folder)} is left out: {error}")
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    noises = sorted({variance for row in rows for variance in row.scores})
    labels = list(dict.fromkeys(_label(group) for group in groups.values()))
    charts: dict[str, list[dict[str, Any]]] = {}
    for group in groups.values():
        curve = _curve(group)
        if curve is not None:
            # one colour per setting, the same in every environment
            curve["hue"] = labels.index(_label(group))
            charts.setdefault(group[0].environment, []).append(curve)
    return {
        "kind": "comparison",
        "folder": folder.resolve().name,
        "missing": missing,
        "charts": charts,
        "noises": noises,
        "groups": [_summary(group, noises) for group in groups.values()],
        "runs": [
            {
                **{key: getattr(row, key) for key in ("run", "environment", "algorithm", "seed", "steps", "seconds")},
                "unfinished": row.steps < row.total,
                "report": f"{row.path}/report.html" if (folder / row.path / "report.html").exists() else None,
                "scores": [row.scores.get(variance) for variance in noises],
                "episodes": row.episodes,
            }
            for row in rows
        ],
    }


def _row(data: RunData, folder: Path) -> _Row:
    path, evaluations = data.run.path, data.evaluations
    if evaluations is None:
        raise NotFoundError("it was not evaluated yet.")
    results = evaluations["results"]
    if (final := data.returns) is not None:
        scores = dict(zip(final["noise_variance"].tolist(), final["returns"].mean(axis=1).tolist(), strict=True))
        episodes = int(final["returns"].shape[1])
    else:
        noise = float(data.settings.get("noise_variance", 0.0))
        scores, episodes = {noise: float(results[-1].mean())}, int(results.shape[1])
    return _Row(
        run=path.name,
        path=path.relative_to(folder).as_posix(),
        group=without_seed(path.name),
        environment=data.environment,
        algorithm=data.algorithm,
        seed=int(data.settings.get("seed", 0)),
        steps=data.steps,
        total=data.total_timesteps,
        seconds=float(data.metrics[-1].get("seconds") or "nan"),
        curve=(evaluations["timesteps"].astype(np.float64), results.mean(axis=1)),
        scores=scores,
        episodes=episodes,
    )


def _curve(group: list[_Row]) -> dict[str, Any] | None:
    """Mean over seeds with its bootstrap interval, over the range of steps that all runs of the group cover."""
    curves = [row.curve for row in group]
    name = _label(group) + (f", {len(group)} runs" if len(group) > 1 else "")
    if len(curves) == 1:
        steps, mean = curves[0]
        return {"name": name, "x": steps.tolist(), "y": mean.tolist()}
    try:
        grid = statistics.common_grid(curves)
    except RSA2CError:
        return None
    values = statistics.aligned(curves, grid)
    mean, low, high = statistics.curve_interval(values, np.random.default_rng(0), repetitions=INTERVAL_REPETITIONS)
    parts = {"x": grid, "y": mean, "low": low, "high": high}
    return {"name": name, **{key: part.tolist() for key, part in parts.items()}}


def _summary(group: list[_Row], noises: list[float]) -> dict[str, Any]:
    cells = []
    for variance in noises:
        scores = np.array([row.scores[variance] for row in group if variance in row.scores])
        std = scores.std() if len(scores) > 1 else None
        cells.append({"mean": scores.mean(), "std": std, "runs": len(scores)} if len(scores) else None)
    return {
        "name": _label(group),
        "environment": group[0].environment,
        "algorithm": group[0].algorithm,
        "runs": len(group),
        "unfinished": sum(row.steps < row.total for row in group),
        "steps": float(np.mean([row.steps for row in group])),
        "seconds": float(np.mean([row.seconds for row in group])),
        "episodes": min(row.episodes for row in group),
        "cells": cells,
    }


def _label(group: list[_Row]) -> str:
    """The run id without environment, seed and default values."""
    parts = group[0].group.split("__")[1:]
    return ", ".join(part for part in parts if part not in ("default", "n0")) or group[0].algorithm

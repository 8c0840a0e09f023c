"""What a study keeps of its runs: three plain CSV files, from which every table, figure and verdict is made.

`runs.csv` has a row for each run, `curves.csv` one for each evaluation along training, `importances.csv` one for each
feature of a run, early and late in training. They are small enough to be committed; run folders are not.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c import statistics
from rsa2c.agent import RSA2C
from rsa2c.baselines.policy import Baseline
from rsa2c.cost import networks as network_cost
from rsa2c.cost.typical import mean_flops
from rsa2c.envs import lqr
from rsa2c.errors import FileFormatError, NotFoundError
from rsa2c.files import PathLike, write_atomically
from rsa2c.runs.folder import Run, word
from rsa2c.runs.sweep import Job, summary

STAGE = 0.1
"""Share of a run's attributions that counts as its early stage, and as its late one."""
_NUMBERS = {"noise": float, "distractors": int, "seed": int, "steps": int, "seconds": float, "epochs": int,
            "states": int, "weight_ratio": float, "gflop": float, "gap": float}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Curve:
    """Evaluations along training: steps, seconds of training, mean return, (LQR) gap and epoch, each (n,)."""

    steps: NDArray[np.float64]
    seconds: NDArray[np.float64]
    mean: NDArray[np.float64]
    gap: NDArray[np.float64]
    epochs: NDArray[np.float64]

    @property
    def returns(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps and mean return: a curve of `rsa2c.statistics`."""
        return self.steps, self.mean

    def until(self, threshold: float, column: str, before: bool = False) -> float:
        """Steps, seconds or epochs until the mean return is at least `threshold`, infinite where it never is; with
        `before`, those of the evaluation before."""
        return statistics.steps_to_threshold((getattr(self, column), self.mean), threshold, before)


@dataclass(frozen=True, eq=False)
class Record:
    """One finished run."""

    run: str
    grid: str
    environment: str
    algorithm: str
    preset: str
    noise: float
    distractors: int
    seed: int
    varied: str
    """The field that this run changes, as `field=value`; empty for most."""
    steps: int
    seconds: float
    epochs: int
    states: int
    """States in the larger dictionary; 0 for baselines."""
    weight_ratio: float
    gflop: float
    """Billions of operations an epoch, counted by `rsa2c.cost.flops` at the last dictionary, or by `network_cost`."""
    gap: float
    """Excess over the optimal cost at the end, on 1,000 starts; NaN where the optimum is not known or what was trained
    for was another, under noise."""
    commit: str
    processor: str
    """What computed it; empty where the run did not note it."""
    versions: str
    """Of the libraries that computed it."""
    returns: dict[float, tuple[float, float]]
    """Mean and standard deviation over episodes for each noise variance at evaluation."""
    curve: Curve
    importances: dict[str, dict[str, float]] = field(default_factory=dict)
    """Stage, early and late -> feature -> share of the mean absolute attribution."""

    @property
    def mean(self) -> float:
        """Mean return without noise at evaluation."""
        return self.returns[0.0][0]

    @property
    def epoch_ms(self) -> float:
        """Milliseconds an epoch; of a baseline, for each row of its metrics."""
        return 1e3 * self.seconds / max(self.epochs, 1)


def record(grid: str, job: Job, run: Run) -> Record:
    """The record of a finished run folder."""
    from rsa2c.runs.training import load_policy

    row, metrics, evaluations = summary(run), run.read_metrics(), run.read_evaluations()
    policy = load_policy(run)
    at = np.array([float(item["timesteps"]) for item in metrics])
    seconds = np.array([float(item["seconds"]) for item in metrics])
    steps = evaluations["timesteps"].astype(np.float64)
    gaps = evaluations.get("gap", np.full(len(steps), np.nan))
    epochs = np.array([float(item.get("epoch", row)) for row, item in enumerate(metrics, 1)])
    last = metrics[-1]
    return Record(
        run=row["run"],
        grid=grid,
        **{name: row[name] for name in ("environment", "algorithm", "preset", "noise", "distractors", "seed")},
        varied=job.suffix.removeprefix("__"),
        steps=row["steps"],
        seconds=row["seconds"],
        epochs=int(epochs[-1]),
        states=max(int(float(last.get(name, 0))) for name in ("actor_states", "value_states")),
        weight_ratio=float(last.get("weight_ratio", 1.0)),
        gflop=_gflop(policy, row["steps"] / len(metrics)),
        gap=_final_gap(policy),
        commit=str(row["commit"]),
        processor=row["processor"],
        versions=row["versions"],
        returns={
            float(name.removeprefix("mean_")): (mean, row[name.replace("mean_", "std_")])
            for name, mean in row.items()
            if name.startswith("mean_")
        },
        curve=Curve(
            steps,
            np.interp(steps, at, seconds),
            evaluations["results"].mean(axis=1),
            gaps,
            np.interp(steps, at, epochs),
        ),
        importances=_importances(run),
    )


def _gflop(policy: RSA2C | Baseline, row_steps: float) -> float:
    """Operations of an epoch at the last dictionary; of a baseline, for the steps of each row of its metrics."""
    if isinstance(policy, RSA2C):
        sizes = len(policy.feature_names), len(policy.action_names), policy.dictionary_size
        return sum(mean_flops(policy.config, *sizes).values()) / 1e9
    spaces = policy.model.observation_space, policy.model.action_space
    each = network_cost.iteration(policy.algorithm, policy.env_id, *(space.shape[0] for space in spaces))
    return each.flops / each.steps * row_steps / 1e9


def _final_gap(policy: RSA2C | Baseline) -> float:
    if isinstance(policy, RSA2C) and policy.env_id == lqr.LQR.id and not policy.config.noise_variance:
        return lqr.gap(policy.policy_mean)
    return float("nan")


def _importances(run: Run) -> dict[str, dict[str, float]]:
    if not run.attributions_path.exists():
        return {}
    log = run.read_attributions()
    phi = log["phi"]
    count = max(1, round(STAGE * len(phi)))
    names = [str(name) for name in log["feature_names"]]
    stages = {}
    for stage, rows in (("early", phi[:count]), ("late", phi[-count:])):
        mean = rows.mean(axis=0)
        stages[stage] = dict(zip(names, (mean / mean.sum() if mean.sum() > 0 else mean).tolist(), strict=True))
    return stages


def write_records(folder: PathLike, records: Sequence[Record]) -> list[Path]:
    """Write the three files; the paths written."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    levels = sorted({noise for item in records for noise in item.returns})
    plain = ["run", "grid", "environment", "algorithm", "preset", *("noise", "distractors", "seed"), "varied",
             "steps", "seconds", "epochs", "states", "weight_ratio", "gflop", "gap", "commit", "processor",
             "versions"]  # fmt: skip
    runs = [
        {name: getattr(item, name) for name in plain}
        | {
            f"{what}_{word(level)}": value
            for level, pair in item.returns.items()
            for what, value in zip(_STATISTICS, pair, strict=True)
        }
        for item in records
    ]
    columns = [*plain, *(f"{what}_{word(level)}" for level in levels for what in _STATISTICS)]
    curves = [
        {"run": item.run, **dict(zip(_POINTS, (int(steps), f"{seconds:.6g}", mean, gap, round(epoch)), strict=True))}
        for item in records
        for steps, seconds, mean, gap, epoch in zip(*(getattr(item.curve, name) for name in _POINTS), strict=True)
    ]
    shares = [
        {"run": item.run, "stage": stage, "feature": feature, "share": share}
        for item in records
        for stage, features in item.importances.items()
        for feature, share in features.items()
    ]
    return [
        _write(folder / "runs.csv", columns, runs),
        _write(folder / "curves.csv", ["run", *_POINTS], curves),
        _write(folder / "importances.csv", ["run", "stage", "feature", "share"], shares),
    ]


def read_records(folder: PathLike) -> list[Record]:
    """The records of a study's folder."""
    folder = Path(folder)
    curves: dict[str, list[list[float]]] = {}
    shares: dict[str, dict[str, dict[str, float]]] = {}
    try:
        for row in _read(folder / "curves.csv"):
            points = curves.setdefault(row["run"], [])
            points.append([float(row[name]) for name in _POINTS])
        for row in _read(folder / "importances.csv"):
            shares.setdefault(row["run"], {}).setdefault(row["stage"], {})[row["feature"]] = float(row["share"])
        records = []
        for row in _read(folder / "runs.csv"):
            levels = [name.removeprefix("mean_") for name in row if name.startswith("mean_") and row[name]]
            returns = {float(x): (float(row[f"mean_{x}"]), float(row[f"std_{x}"])) for x in levels}
            plain: dict[str, Any] = {
                name: _NUMBERS[name](row[name]) if name in _NUMBERS else row[name]
                for name in row
                if not name.startswith(("mean_", "std_"))
            }
            columns = np.array(curves[row["run"]]).T
            records.append(Record(**plain, returns=returns, curve=Curve(*columns),
                                  importances=shares.get(row["run"], {})))  # fmt: skip
    except (KeyError, ValueError, TypeError) as error:
        what = f"the records in {folder} do not fit together ({type(error).__name__}: {error})"
        raise FileFormatError(f"{what}. Make them again with: rsa2c reproduce {folder.name}") from error
    return records


_STATISTICS = ("mean", "std")
_POINTS = tuple(item.name for item in fields(Curve))


def _write(path: Path, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> Path:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
    write_atomically(path, text.getvalue().encode())
    return path


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        raise NotFoundError(f"{path} does not exist. Make it with: rsa2c reproduce {path.parent.name}")
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"), newline="")))

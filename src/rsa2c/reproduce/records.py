"""What a study keeps from a finished run: every table, figure and verdict is made from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rsa2c import statistics
from rsa2c.agent import RSA2C
from rsa2c.config import Config
from rsa2c.cost import networks as network_cost
from rsa2c.cost.typical import mean_flops
from rsa2c.envs import lqr
from rsa2c.errors import FileFormatError
from rsa2c.reproduce.versions import Settings, settings_of
from rsa2c.runs.data import RunData
from rsa2c.runs.grid import Job
from rsa2c.runs.summary import Summary, summarised

STAGE = 0.1
"""Share of a run's attributions that counts as its early stage, and as its late one."""


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
        """Steps, seconds or epochs until the mean return is at least `threshold`, infinite if it never is; with
        `before`, those of the evaluation before that one."""
        return statistics.steps_to_threshold((getattr(self, column), self.mean), threshold, before)


@dataclass(frozen=True, eq=False, kw_only=True)
class Record(Summary):
    """One finished run of a study."""

    grid: str
    varied: str
    """The field that this run changes, as `field=value`; empty for most."""
    epochs: int
    states: int
    """States in the larger dictionary; 0 for baselines."""
    capacity: int
    """States that a dictionary may have; 0 for baselines, and where it was not recorded."""
    weight_ratio: float
    gflop: float
    """Billions of operations per epoch, counted by `rsa2c.cost` at the last dictionary."""
    gap: float
    """Excess over the optimal cost at the end, on 1,000 starts; NaN if the optimum is not known, or if the run trained
    for another one, under noise."""
    curve: Curve
    settings: Settings = field(default_factory=dict)
    """The settings it was trained with, as text; empty for baselines, and where they are not known."""
    importances: dict[str, dict[str, float]] = field(default_factory=dict)
    """Stage, early and late -> feature -> share of the mean absolute attribution."""

    @property
    def mean(self) -> float:
        """Mean return without noise at evaluation."""
        return self.returns[0.0].mean

    def mean_at(self, noise: float) -> float:
        """Mean return under a noise variance at evaluation; NaN if it was not evaluated there."""
        return self.returns[noise].mean if noise in self.returns else float("nan")

    @property
    def epoch_ms(self) -> float:
        """Milliseconds per epoch; for a baseline, per row of its metrics."""
        return 1e3 * self.seconds / max(self.epochs, 1)


def record(grid: str, job: Job, data: RunData) -> Record:
    """The record of a finished run."""
    last = data.last_row
    states = max(int(float(last.get(name, 0))) for name in ("actor_states", "value_states"))
    curve = _curve(data)
    return Record(
        **summarised(data),
        grid=grid,
        varied=job.changes,
        settings=settings_of(job),
        epochs=int(float(last.get("epoch", len(data.metrics)))),
        states=states,
        capacity=int(data.config.capacity) if isinstance(data.config, Config) else 0,
        weight_ratio=float(last.get("weight_ratio", 1.0)),
        gflop=_gflop(data, states),
        gap=_final_gap(data),
        curve=curve,
        importances=_importances(data),
    )


def _curve(data: RunData) -> Curve:
    evaluations = data.evaluations
    if evaluations is None:
        raise FileFormatError(f"{data.run.evaluations_path} is missing. Restore it from a copy, or train again.")
    at = np.array([float(row["timesteps"]) for row in data.metrics])
    seconds = np.array([float(row["seconds"]) for row in data.metrics])
    epochs = np.array([float(row.get("epoch", number)) for number, row in enumerate(data.metrics, 1)])
    steps = evaluations["timesteps"].astype(np.float64)
    return Curve(
        steps,
        np.interp(steps, at, seconds),
        evaluations["results"].mean(axis=1),
        evaluations.get("gap", np.full(len(steps), np.nan)),
        np.interp(steps, at, epochs),
    )


def _gflop(data: RunData, states: int) -> float:
    """Operations of an epoch at the last dictionary; for a baseline, of the steps of one row of its metrics."""
    if isinstance(data.config, Config):
        features, actions = (len((data.checkpoint or {})[name]) for name in ("feature_names", "action_names"))
        return sum(mean_flops(data.config, features, actions, states).values()) / 1e9
    model = data.agent.model  # type: ignore[union-attr]
    sizes = (space.shape[0] for space in (model.observation_space, model.action_space))
    each = network_cost.iteration(data.algorithm, data.environment, *sizes)
    row_steps = int(float(data.last_row["timesteps"])) / len(data.metrics)
    return each.flops / each.steps * row_steps / 1e9


def _final_gap(data: RunData) -> float:
    known = data.environment == lqr.LQR.id and not data.settings.get("noise_variance")
    if known and isinstance(agent := data.agent, RSA2C):
        return lqr.gap(agent.policy_mean)
    return float("nan")


def _importances(data: RunData) -> dict[str, dict[str, float]]:
    log = data.attributions
    if log is None or not len(log["epoch"]):
        return {}
    phi = log["phi"]
    count = max(1, round(STAGE * len(phi)))
    names = [str(name) for name in log["feature_names"]]
    stages = {}
    for stage, rows in (("early", phi[:count]), ("late", phi[-count:])):
        mean = rows.mean(axis=0)
        stages[stage] = dict(zip(names, (mean / mean.sum() if mean.sum() > 0 else mean).tolist(), strict=True))
    return stages

"""Sweeps: a grid of runs, trained and evaluated side by side.

A sweep is a folder of run folders. A finished run is never repeated and one that was stopped continues from its
checkpoint, so a sweep is continued by starting it again. A run that fails is named at the end and does not stop the
others. A trained run is evaluated over `final_episodes` fixed-seed episodes at each of `final_noise`, and at the noise
it was trained with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rsa2c.errors import ConfigError, RSA2CError
from rsa2c.files import HeldError, PathLike, StorageError
from rsa2c.runs.data import RunData
from rsa2c.runs.executors import Executor, run_all
from rsa2c.runs.folder import Run
from rsa2c.runs.grid import Grid, Job
from rsa2c.runs.summary import Summary

__all__ = ["REMARK", "Grid", "Job", "Progress", "Summary", "SweepError", "check_same", "is_done", "is_whole",
           "run_job", "run_sweep"]  # fmt: skip

REMARK = "Uniform SHAP is Advanced AC: weights that sum to the number of features and are equal change nothing."
LOCK_SECONDS = 60.0
"""How long a run waits for the process that held its folder to end: on another node it may die late."""
Tell = Callable[[Job, RunData], Summary]
"""What a sweep keeps of a finished run."""


class SweepError(RSA2CError):
    """Some runs of a sweep failed; the others are complete."""


def _summary(job: Job, data: RunData) -> Summary:
    return Summary.of(data)


def run_job(job: Job, out: PathLike, tell: Tell = _summary) -> Summary:
    """Train a run, or continue it, evaluate it, and return what `tell` makes of its data."""
    from rsa2c.runs import training

    run = Run(Path(out) / job.run_id)
    if not run.config_path.exists():
        training.train_run(
            job.environment, job.algorithm, job.preset, job.total_timesteps, out, track=False, suffix=job.suffix,
            **job.fields,
        )  # fmt: skip
        data = RunData.of(run)
    else:
        data = RunData.of(run)
        check_same(job, data)
        if not training.is_finished(data, job.total_timesteps):
            _when_free(partial(training.resume_run, run.path, job.total_timesteps, track=False))
            data = RunData.of(run)
    return tell(job, training.judge(data, job.final_episodes, job.final_noise))


def check_same(job: Job, data: RunData) -> None:
    """Refuse a folder whose run was made with settings other than this sweep's."""
    path = data.run.path
    if (data.algorithm, data.environment) != (job.algorithm, job.environment):
        raise ConfigError(f"run {path} is {data.algorithm} on {data.environment}. Use another --out.")
    if data.total_timesteps > job.total_timesteps:
        raise ConfigError(
            f"run {path} was asked to train {data.total_timesteps:,} steps, the sweep asks for "
            f"{job.total_timesteps:,}. Use another --out, or delete that run's folder."
        )
    for name, asked in job.settings().settings().items():
        had = data.settings.get(name)
        if asked not in ("auto", had):
            raise ConfigError(
                f"run {path} was made with {name}={had!r}, the sweep asks for {asked!r}. "
                "Use another --out, or delete that run's folder."
            )


@dataclass
class Progress:
    """The state of a sweep, for a display."""

    jobs: Sequence[Job]
    out: Path
    running: dict[int, float] = field(default_factory=dict)
    """Job numbers, and when each began."""
    rows: dict[int, Summary] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


def run_sweep(
    jobs: Sequence[Job],
    out: PathLike,
    executor: Executor = "processes",
    workers: int | None = None,
    address: str | None = None,
    show: Callable[[Progress, int | None], None] = lambda progress, ended: None,
    tell: Tell = _summary,
) -> Progress:
    """Run every job; `show(progress, i)` is called about once a second and whenever job i ends.

    `tell` is called where the run was made; it must be importable there.
    """
    progress = Progress(jobs, Path(out))
    found = run_all(partial(run_job, out=progress.out.resolve(), tell=tell), jobs, executor, workers, address)
    try:
        progress.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"folder {out} could not be made: {error.strerror or error}. Use another --out.") from error
    with closing(found) as events:
        for event in events:
            index = event.index
            if index is not None and not event.ended:
                progress.running[index] = time.monotonic()
            elif index is not None:
                progress.running.pop(index, None)
                if event.error is None:
                    progress.rows[index] = event.value
                else:
                    progress.errors[index] = event.error
            show(progress, index if event.ended else None)
    return progress


def _when_free(call: Callable[[], Any]) -> Any:
    """Make a call that needs a run's lock, waiting a while for its last holder to end."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return call()
        except HeldError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)


def is_done(job: Job, out: PathLike) -> bool:
    """Whether a run is trained and evaluated as the job asks; also False if its folder cannot be read."""
    run = Run(Path(out) / job.run_id)
    try:
        return run.config_path.exists() and is_whole(job, RunData.of(run))
    except RSA2CError:
        return False


def is_whole(job: Job, data: RunData) -> bool:
    """Whether a run is trained and evaluated as the job asks; one that is damaged or has other settings is an error."""
    from rsa2c.runs import training

    check_same(job, data)
    finished = training.is_finished(data, job.total_timesteps)
    return finished and training.is_judged(data, job.final_episodes, job.final_noise)

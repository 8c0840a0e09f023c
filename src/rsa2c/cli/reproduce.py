"""`rsa2c reproduce`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import tyro

from rsa2c.cli.command import Flag, choice, command, parse
from rsa2c.cli.sweep import display, failures
from rsa2c.errors import RSA2CError, require

if TYPE_CHECKING:
    from rsa2c.reproduce import Preset
    from rsa2c.reproduce.records import Record
    from rsa2c.runs.executors import Executor
    from rsa2c.runs.sweep import Job, Progress


@dataclass
class ReproduceOptions:
    """Which part of the paper, and how thoroughly."""

    target: Annotated[tyro.conf.Positional[str], choice("pendulum", "walker", "ant", "lqr")]
    """Environment of the study."""
    seeds: int | None = None
    """Seeds of each variant; unset: the study's own number, 10 in most of its parts."""
    preset: Annotated[str, choice("default", "paper", "both")] = "both"
    """Our settings, the paper's, or both side by side."""
    grids: tuple[str, ...] = ()
    """Only these parts of the study (see --dry-run); unset: all, which takes hours."""
    quick: Flag = False
    """Two seeds, few steps: a check that everything runs. The numbers mean nothing."""
    runs: str | None = None
    """Folder of the run folders; unset: runs/<target>."""
    out: str | None = None
    """Folder of tables and figures, where records of earlier runs are kept; unset: results/<target>."""
    executor: Annotated[str, choice("processes", "ray")] = "processes"
    """Worker processes on this machine, or a Ray cluster."""
    workers: int | None = None
    """Runs side by side; unset: one for each core."""
    address: str | None = None
    """Ray cluster; unset: one is started on this machine."""
    only_tables: Flag = False
    """Run nothing; make tables and figures from the runs in --runs and the records kept in --out."""
    dry_run: Flag = False
    """List the parts of the study, how many runs are done and how many steps are left."""


@command
def reproduce(arguments: list[str]) -> None:
    """The paper's tables and figures next to ours: runs what is missing, writes everything.

    If started again, it continues and reuses finished runs.
    """
    options = parse(ReproduceOptions, arguments, reproduce)
    from rsa2c import reproduce as study

    found = study.grids(options.target, options.seeds, cast("Preset", options.preset), options.quick, options.grids)
    name = options.target + ("-quick" if options.quick else "")
    runs = Path(options.runs) if options.runs else Path("runs") / name
    if options.dry_run:
        _show_parts(found, runs)
        return
    require("matplotlib.figure", "explain", "Drawing the study's figures")
    out = Path(options.out) if options.out else Path("results") / name
    progress = None if options.only_tables else _run(options, found, runs, out)
    known = {row.run: row for row in progress.rows.values()} if progress else {}
    records, problems = study.collect(found, runs, cast("dict[str, Record]", known))
    for run_id, problem in problems.items():
        print(f"left out: {run_id}: {problem}", file=sys.stderr)
    new = {item.run for item in records}
    if old := [item for item in study.known(out) if item.run not in new]:
        note = f"including {len(old)} records of earlier runs kept in {out}; use another --out for your runs alone"
        print(note, file=sys.stderr)
    if not (options.only_tables or options.quick or options.grids):
        study.keep(options.target, records, out)
        for environment in {job.environment for job in study.jobs_of(found)}:
            study.measure_sizes(environment, out)
    page, *others = study.write(options.target, records, out, runs)
    print(page.read_text("utf-8"))
    print(f"{page} and {len(others)} other files", file=sys.stderr)
    if progress is not None:
        failures(progress)


def _show_parts(found: Mapping[str, list[Job]], runs: Path) -> None:
    from rsa2c.runs.sweep import is_done

    for grid, jobs in found.items():
        left = [job for job in jobs if not is_done(job, runs)]
        steps = sum(job.total_timesteps for job in left)
        print(f"{grid:<24} {len(jobs) - len(left)} of {len(jobs)} runs done, {steps:,} steps left")


def _run(options: ReproduceOptions, found: Mapping[str, list[Job]], runs: Path, out: Path) -> Progress:
    """Run what is missing; a run is recorded where it was made, and its record kept as soon as it ends."""
    from rsa2c import reproduce as study
    from rsa2c.runs.evaluation import terminations_interrupt
    from rsa2c.runs.sweep import run_sweep

    tell = partial(study.recorded, grid_of={job.run_id: grid for grid, jobs in found.items() for job in jobs})
    with terminations_interrupt(), display() as show:

        def keep(progress: Progress, ended: int | None) -> None:
            show(progress, ended)
            if ended in progress.rows:
                with suppress(RSA2CError):  # what cannot be kept now is an error at the end
                    study.keep(options.target, [cast("Record", progress.rows[ended])], out)

        executor = cast("Executor", options.executor)
        return run_sweep(study.jobs_of(found), runs, executor, options.workers, options.address, keep, tell)

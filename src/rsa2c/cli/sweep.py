"""`rsa2c sweep`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import tyro

from rsa2c.cli.command import Flag, choice, command, parse
from rsa2c.errors import EnvError, RSA2CError

if TYPE_CHECKING:
    from rsa2c.runs.executors import Executor
    from rsa2c.runs.sweep import Job, Progress, Summary


@dataclass
class SweepOptions:
    """Which runs, where, and what computes them."""

    file: tyro.conf.Positional[str]
    """YAML file with environments, algorithms, presets, noise, distractors, seeds, total_timesteps, final_episodes,
    final_noise, and any setting of `rsa2c train`, as a value or as a list: docs/sweeps.md has one to copy."""
    out: str | None = None
    """Folder of the run folders; unset: runs/<name of the file>."""
    executor: Annotated[str, choice("processes", "ray")] = "processes"
    """Worker processes on this machine, or a Ray cluster (its nodes must share the folder)."""
    workers: int | None = None
    """Runs side by side; unset: one for each core."""
    address: str | None = None
    """Ray cluster, HOST:PORT or ray://HOST:PORT; unset: one is started on this machine."""
    dry_run: Flag = False
    """List the runs and compute nothing."""


@command
def sweep(arguments: list[str]) -> None:
    """Train and evaluate a grid of runs; if started again, it continues.

    A finished run is never repeated and a stopped one continues from its checkpoint. A run that fails is listed at the
    end and does not stop the others.
    """
    options = parse(SweepOptions, arguments, sweep)
    from rsa2c.envs.single import known_spec
    from rsa2c.runs.evaluation import terminations_interrupt
    from rsa2c.runs.sweep import Grid, is_done, run_sweep

    jobs = Grid.read(options.file).jobs()
    out = Path(options.out) if options.out else Path("runs") / Path(options.file).stem
    if options.dry_run:
        for job in jobs:
            print(f"{out / job.run_id}{'   (done)' if is_done(job, out) else ''}")
        print(f"{len(jobs)} runs", file=sys.stderr)
        for environment in dict.fromkeys(job.environment for job in jobs):
            try:
                known_spec(environment)
            except EnvError as error:
                print(f"will fail: {error}", file=sys.stderr)
        return
    with terminations_interrupt(), display() as show:
        progress = run_sweep(jobs, out, cast("Executor", options.executor), options.workers, options.address, show)
    finish(progress)


def finish(progress: Progress) -> None:
    """Print the results of a sweep; if runs failed, raise an error that lists them."""
    from rsa2c.runs.sweep import REMARK

    if progress.rows:
        print(table(progress))
    print(f"\nfiles   {progress.out}   (one folder per run)")
    if any(job.algorithm == "uniform-shap" for job in progress.jobs):
        print(REMARK)
    failures(progress)


def failures(progress: Progress) -> None:
    """Raise an error that lists the runs that failed, if any did."""
    from rsa2c.runs.sweep import SweepError

    if progress.errors:
        failed = "\n".join(f"  {progress.jobs[i].run_id}\n    {error}" for i, error in sorted(progress.errors.items()))
        others = ", the others are complete" if progress.rows else ""
        raise SweepError(
            f"{len(progress.errors)} of {len(progress.jobs)} runs failed{others}:\n{failed}\n"
            "The same command tries them again."
        )


def table(progress: Progress) -> str:
    """Mean, standard deviation over seeds and interquartile mean of each group of runs, at the lowest noise level."""
    import numpy as np

    from rsa2c.runs.names import without_seed
    from rsa2c.statistics import iqm

    groups: dict[str, list[float]] = {}
    for index, row in sorted(progress.rows.items()):
        job = progress.jobs[index]
        groups.setdefault(without_seed(job.run_id), []).append(_mean(job, row))
    width = max(map(len, groups), default=10)
    lines = [f"{'runs':<{width}}  seeds      mean       std       IQM"]
    for name, values in groups.items():
        array = np.array(values)
        spread = f"{array.std():8.1f}" if len(array) > 1 else f"{'-':>8}"
        lines.append(f"{name:<{width}}  {len(array):5d}  {array.mean():8.1f}  {spread}  {float(iqm(array)):8.1f}")
    return "\n".join(lines)


@contextmanager
def display() -> Iterator[Callable[[Progress, int | None], None]]:
    """Show a sweep as it runs: a table redrawn in place on a terminal, elsewhere a line for each run that ends."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=4) as live:

        def show(progress: Progress, ended: int | None) -> None:
            if ended is not None and ended in progress.errors:
                _line(progress, ended)
            live.update(_panel(progress))

        yield show


def _line(progress: Progress, ended: int | None) -> None:
    if ended is None:
        return
    done = len(progress.rows) + len(progress.errors)
    job = progress.jobs[ended]
    if ended in progress.errors:
        what = f"FAILED: {progress.errors[ended]}"
    else:
        row = progress.rows[ended]
        what = f"{_mean(job, row):.1f} after {row.steps:,} steps in {row.seconds:.1f} s"
    print(f"[{done}/{len(progress.jobs)}] {job.run_id}  {what}", file=sys.stderr, flush=True)


def _panel(progress: Progress) -> Any:
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    from rsa2c.progress import clock
    from rsa2c.runs.folder import Run

    done = len(progress.rows) + len(progress.errors)
    grid = Table.grid(padding=(0, 2))
    total = len(progress.jobs)
    grid.add_row(f"{done} of {total} runs", ProgressBar(total=total, completed=done, width=40))
    if progress.errors:
        grid.add_row("failed", str(len(progress.errors)))
    for index, began in progress.running.items():
        run_id = progress.jobs[index].run_id
        words = clock(time.monotonic() - began)
        with suppress(RSA2CError, OSError, LookupError, TypeError, ValueError):  # not shown now
            last = Run(progress.out / run_id).read_metrics()[-1]
            words += f"   {int(float(last['timesteps'])):,} steps, return {float(last['ep_rew_mean']):.1f}"
        grid.add_row(run_id, words)
    return Panel(grid, title=f"sweep in {progress.out}", expand=False)


def _mean(job: Job, row: Summary) -> float:
    """The mean return at the lowest noise level that the job asks for."""
    return row.returns[min(job.final_noise)].mean

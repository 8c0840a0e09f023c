"""The report: one HTML file with the policy running inside it, or with the runs of a sweep side by side.

    rsa2c.report.write_report("runs/Pendulum-v1__rsa2c-kme__default__n0__s0")

What a run lacks (attributions, a checkpoint, an environment that can be made) is said on the page, and the rest is
shown.
"""

from __future__ import annotations

from pathlib import Path

from rsa2c.errors import ConfigError
from rsa2c.files import PathLike, write_atomically
from rsa2c.report.comparison import comparison_document
from rsa2c.report.gather import run_document
from rsa2c.report.page import render
from rsa2c.runs.folder import Run, find_runs

__all__ = ["write_comparison", "write_report"]


def write_report(run: Run | PathLike, out: PathLike | None = None, episodes: int | None = None) -> Path:
    """Write a run's report, `report.html` in its folder unless `out` says otherwise; the file's path.

    The final score is over `episodes` episodes; unset, over 100, or fewer where an episode is long.
    """
    if episodes is not None and episodes < 1:
        raise ConfigError(f"episodes must be at least 1, got {episodes}.")
    opened = run if isinstance(run, Run) else Run.open(run)
    path = Path(out) if out is not None else opened.path / "report.html"
    document = run_document(opened, episodes)
    write_atomically(path, render("report.html.j2", "report", document).encode())
    return path


def write_comparison(folder: PathLike, out: PathLike | None = None) -> Path:
    """Write the comparison of all runs under a folder, `report.html` in it unless `out` says otherwise."""
    path = Path(out) if out is not None else Path(folder) / "report.html"
    document = comparison_document(Path(folder), find_runs(folder))
    write_atomically(path, render("comparison.html.j2", "comparison", document).encode())
    return path

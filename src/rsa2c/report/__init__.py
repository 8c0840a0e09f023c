"""The report: one HTML file that runs the policy in the browser, or compares the runs of a sweep.

    rsa2c.report.write_report("runs/Pendulum-v1__rsa2c-kme__default__n0__s0")

If something is missing (a log of the training, a checkpoint, an environment that can be made), the page says so and
shows the rest.
"""

from __future__ import annotations

from pathlib import Path

from rsa2c.errors import ConfigError
from rsa2c.files import PathLike, write_atomically
from rsa2c.report.comparison import comparison_document
from rsa2c.report.gather import run_document
from rsa2c.report.page import render
from rsa2c.runs.data import AgentData, RunData
from rsa2c.runs.folder import Run, find_runs
from rsa2c.runs.source import opened

__all__ = ["write_comparison", "write_report"]


def write_report(run: AgentData | Run | PathLike, out: PathLike | None = None, episodes: int | None = None) -> Path:
    """Write a run's report to `out`, by default `report.html` in its folder, and return the path.

    A model file or zoo:ID has a report as well, without the training: by default `report-<name>.html` beside the file,
    and for the zoo in the current folder. The final score is over `episodes` episodes; by default 100, or fewer if
    episodes are long.
    """
    if episodes is not None and episodes < 1:
        raise ConfigError(f"episodes must be at least 1, got {episodes}.")
    if isinstance(run, Run):
        run = RunData.of(run)
    data = run if isinstance(run, AgentData) else opened(run)
    path = Path(out) if out is not None else data.output("report.html")
    document = run_document(data, episodes)
    write_atomically(path, render("report.html.j2", "report", document).encode())
    return path


def write_comparison(folder: PathLike, out: PathLike | None = None) -> Path:
    """Write a comparison of all runs under a folder to `out`, by default `report.html` in that folder."""
    path = Path(out) if out is not None else Path(folder) / "report.html"
    document = comparison_document(Path(folder), find_runs(folder))
    write_atomically(path, render("comparison.html.j2", "comparison", document).encode())
    return path

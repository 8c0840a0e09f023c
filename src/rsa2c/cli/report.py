"""`rsa2c report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from rsa2c.cli.command import command, parse, typed_env


@dataclass
class ReportOptions:
    """Which run, and where to write."""

    run: tyro.conf.Positional[str]
    """Run folder, its name under ./runs, a model file, zoo:ID (`rsa2c zoo` lists them), or a folder of runs (a sweep),
    which are then compared."""
    out: str | None = None
    """HTML file to write; unset: report.html in the folder, or report-<name>.html beside a model file and, for the zoo,
    in the current folder."""
    episodes: int | None = None
    """Episodes of the final score; unset: 100, or fewer if episodes are long."""
    env: str | None = None
    """The environment as module:Name, where the run was trained on one of your own: a run folder imports nothing."""


@command
def report(arguments: list[str]) -> None:
    """Write a run's report, or a sweep's comparison, as one HTML file that runs the policy in the browser."""
    options = parse(ReportOptions, arguments, report)
    from rsa2c.report import write_comparison, write_report
    from rsa2c.runs.folder import find_runs
    from rsa2c.runs.source import opened

    for folder in (Path(options.run), Path("runs") / options.run):
        if folder.is_dir() and not (folder / "config.yaml").exists() and find_runs(folder):
            print(write_comparison(folder, options.out))
            return
    print(write_report(opened(options.run, typed_env(options.env)), options.out, options.episodes))

"""The origin of a measurement: command, commit, versions, processor."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rsa2c.runs.provenance import cpu, provenance

__all__ = ["RESULTS", "command", "cpu", "header", "write"]

RESULTS = Path(__file__).resolve().parent.parent / "results"


def header(*packages: str) -> str:
    """Markdown lines for the top of a results file; `packages` are listed in addition to those rsa2c always lists."""
    versions = dict(provenance()["versions"])
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    lines = [
        f"- command: `{command()}`",
        f"- commit: {provenance()['commit'] or 'none'}",
        f"- processor: {cpu()}, {len(os.sched_getaffinity(0))} cores available to the process; {provenance()['blas']}",
        f"- Python {platform.python_version()}, " + ", ".join(f"{k} {v}" for k, v in versions.items()),
    ]
    return "\n".join(lines) + "\n"


def command() -> str:
    """The command line of this process."""
    return shlex.join(["python", os.path.relpath(sys.argv[0], RESULTS.parent), *sys.argv[1:]])


def write(name: str, title: str, body: str, *packages: str) -> Path:
    """Write results/<name>.md: title, header, body."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.md"
    path.write_text(f"# {title}\n\n{header(*packages)}\n{body.rstrip()}\n", encoding="utf-8")
    return path

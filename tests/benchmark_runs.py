"""Runs a benchmark that queues trainings, with its run folders and results in a folder of the test's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def queued(name, folder, *arguments, code=0):
    """What benchmarks/NAME.py printed; its runs are in folder/runs, its rows in folder/results/NAME."""
    places = ("--folder", str(folder / "runs"), "--results", str(folder / "results" / name))
    command = [sys.executable, BENCHMARKS / f"{name}.py", *arguments, *places]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr

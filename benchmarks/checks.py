"""Runs and counts the tests that try to break a promise: bounds, disk faults, environments, numbers, files.

python benchmarks/checks.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from reliability import record

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {
    "Bounds under 100,000 random and 1,000 attacked perturbations each: actions, value, Shapley values; random "
    "functions and a trained agent": ["tests/test_certify.py", "-m", "slow"],
    "Every call that creates, writes, syncs or renames a file fails once; full and read-only disks": [
        "tests/test_faults.py"
    ],
    "Environments that raise, hang, die, return NaN or change their shape": ["tests/test_misbehaving.py"],
    "Near-duplicate states, constant features, one state, scales from 1e-12 to 1e12, huge rewards (Hypothesis)": [
        "tests/test_properties.py"
    ],
    "Hostile files (Hypothesis and the saved corpus), no pickle": ["tests/test_strangers.py"],
    "Format versions and upgrades": ["tests/test_format.py"],
    "Same seed, same bytes": ["tests/test_determinism.py"],
}


def main() -> None:
    rows = []
    for what, arguments in CHECKS.items():
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
            subprocess.run(command, cwd=ROOT, check=False)
            suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
        tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        rows.append([what, arguments[0].removeprefix("tests/"), tests - skipped - failed, skipped, failed])
    columns = ["what", "in", "tests passed", "skipped", "failed"]
    notes = ["A test fails if a single perturbation breaks a bound or a single fault loses a run."]
    print(record("checks", "Tests that try to break a promise", columns, rows, notes))


if __name__ == "__main__":
    main()

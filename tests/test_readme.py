"""The README's table is that of the records."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import readme_table

RUN = {"environment": "Hopper-v5", "steps": 1_000_000, "algorithm": "rsa2c-kme", "variant": "", "seconds": 120.0}


def test_the_table_has_the_means_of_our_runs_beside_published_figures_at_equal_steps():
    rows = [{**RUN, "mean": 3_000.0}, {**RUN, "mean": 5_000.0}]
    other = {**RUN, "environment": "LunarLanderContinuous-v3", "steps": 500_000, "mean": 100.0}
    ignored = [{**RUN, "variant": "no following", "mean": 1.0}, {**RUN, "algorithm": "ppo", "mean": 1.0}]
    lines = readme_table.table([*rows, other, *ignored]).splitlines()
    assert lines[2:] == [
        "| Hopper-v5 | 1,000,000 | **4,000** | 2 | 2.0 | 2,410 | 3,618 | 2,326 |",
        "| LunarLanderContinuous-v3 | 500,000 | 100 | 1 | 2.0 | – | – | **260** |",
    ]


def test_the_readme_has_the_table_of_the_records():
    if not readme_table.RUNS.exists():
        pytest.skip("no records of the suite here")
    text = readme_table.README.read_text(encoding="utf-8")
    assert text == readme_table.written(text, readme_table.read([readme_table.RUNS])), "run benchmarks/readme_table.py"

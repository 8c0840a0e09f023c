"""The README's table: our returns beside RL-Zoo's published ones at equal training steps.

`python benchmarks/readme_table.py` writes it from results/suite/runs.jsonl (or other such files) into README.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from _earlier import mark
from _rl_zoo import PUBLISHED
from _suite_table import answers
from _suite_tasks import RETURN, TARGETS, Target

ROOT = Path(__file__).parent.parent
README, RUNS = ROOT / "README.md", ROOT / "results" / "suite" / "runs.jsonl"
BEGIN, END = "<!-- python benchmarks/readme_table.py -->", "<!-- end of the table -->"
PEERS = ("PPO", "TRPO", "SAC")
STEPS = {"k": 1_000, "M": 1_000_000}


def table(rows: list[dict[str, Any]]) -> str:
    """The table in Markdown, of the environments that have runs and a published figure at equal steps."""
    lines = ["| task | steps | rsa2c | seeds | minutes | " + " | ".join(PEERS) + " |", "|---" * (5 + len(PEERS)) + "|"]
    for target in TARGETS:
        runs = answers(rows, target) if target.measure == RETURN else []
        peers = _peers(target)
        if runs and any(figure is not None for figure in peers):
            ours = float(np.mean([row["mean"] for row in runs]))
            best = max([ours, *(figure for figure in peers if figure is not None)])
            minutes = np.mean([row["seconds"] for row in runs]) / 60
            shown = [_shown(ours, best) + mark(runs), str(len(runs)), f"{minutes:.1f}"]
            cells = [target.environment, f"{target.steps:,}", *shown, *(_shown(figure, best) for figure in peers)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def written(readme: str, rows: list[dict[str, Any]]) -> str:
    """The README with the table of these rows."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{rest.split(END)[1]}"


def read(paths: list[Path]) -> list[dict[str, Any]]:
    """The rows of some files."""
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def _peers(target: Target) -> list[float | None]:
    """RL-Zoo's figures after as many steps; None where there is none."""
    _, figures = PUBLISHED.get(target.environment, ("", {}))
    equal = {name: mean for name, (mean, _, steps) in figures.items() if _number(steps) == target.steps}
    return [equal.get(name) for name in PEERS]


def _number(steps: str) -> int:
    return int(steps[:-1]) * STEPS[steps[-1]]


def _shown(figure: float | None, best: float) -> str:
    if figure is None:
        return "–"
    return f"**{figure:,.0f}**" if figure == best else f"{figure:,.0f}"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path, default=[RUNS])
    rows = read(parser.parse_args().runs)
    README.write_text(written(README.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Makes results/reliability.md from the records under results/reliability/, which the other scripts here write.

python benchmarks/reliability.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _provenance import RESULTS, command, cpu
from rsa2c.runs.provenance import provenance

FOLDER = RESULTS / "reliability"
ORDER = ("checks", "kills", "messages", "fuzz", "determinism", "soak")
"""Records appear in this order; any others follow, sorted by name."""
INTRODUCTION = """\
# Reliability

How we tried to lose a run, to confuse a file reader or to break the numerics, and what happened.
`python benchmarks/reliability.py` makes this page from the records in `results/reliability/`; `make soak` repeats the
measurements.
"""


def record(name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str]) -> Path:
    """Write results/reliability/<name>.json, with command line and commit, and update the page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {
        "title": title,
        "command": command(),
        "commit": provenance()["commit"] or "none",
        "processor": cpu(),
        "columns": list(columns),
        "rows": [list(row) for row in rows],
        "notes": list(notes),
    }
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    render()
    return path


def render() -> Path:
    """Write the page from the existing records."""
    paths = sorted(FOLDER.glob("*.json"), key=lambda path: (_rank(path.stem), path.stem))
    parts = [INTRODUCTION, *(_section(json.loads(path.read_text("utf-8"))) for path in paths)]
    page = RESULTS / "reliability.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def _section(document: dict[str, Any]) -> str:
    lines = [f"## {document['title']}", ""]
    lines += [f"`{document['command']}`, commit {document['commit']}", ""]
    lines += [_row(document["columns"]), _row(["---"] * len(document["columns"]))]
    lines += [_row(row) for row in document["rows"]]
    lines += ["", *(f"- {note}" for note in document["notes"]), ""]
    return "\n".join(lines)


def _row(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


if __name__ == "__main__":
    print(render())

"""The records of a study as plain CSV files, small enough to be committed; run folders are not.

`runs.csv` has a row per run, `returns.csv` one per run and noise level of its final evaluation, `curves.csv` one per
evaluation along training, `importances.csv` one per feature and stage. Records are appended. If a run is recorded
again, its last record counts: in `runs.csv` the last row; in the others a row with nothing but the run's name says
that the rows of that run above it no longer count. `settings.csv` has the settings that runs were trained with, by the
fingerprint that `runs.csv` has of them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rsa2c.errors import FileFormatError, NotFoundError
from rsa2c.files import PathLike, append_lines, read_bytes, whole_lines, write_atomically
from rsa2c.reproduce.records import Curve, Record
from rsa2c.reproduce.versions import fingerprint
from rsa2c.runs.names import word
from rsa2c.runs.summary import Return

_POINTS = tuple(item.name for item in fields(Curve))
COLUMNS: dict[str, tuple[str, ...]] = {
    "returns.csv": ("run", "grid", "noise_at_evaluation", "episodes", "mean", "std"),
    "curves.csv": ("run", *_POINTS),
    "importances.csv": ("run", "stage", "feature", "share"),
    "runs.csv": ("run", "grid", "environment", "algorithm", "preset", "noise", "distractors", "seed", "varied",
                 "steps", "seconds", "epochs", "states", "capacity", "weight_ratio", "gflop", "gap", "commit",
                 "processor", "versions", "settings"),
}  # fmt: skip
"""The files and their columns, in the order in which they are written: a run counts once it is in `runs.csv`."""
_NUMBERS = {"noise": float, "distractors": int, "seed": int, "steps": int, "seconds": float, "epochs": int,
            "states": int, "capacity": int, "weight_ratio": float, "gflop": float, "gap": float}  # fmt: skip
_OLD = ("mean_", "std_")
"""Prefixes of the columns of `runs.csv` that held returns before there was a `returns.csv`."""
_LATER = {"capacity": "0", "settings": ""}
"""Columns that the first files lack, and what they stand for there."""
SETTINGS = ("settings", "name", "value")
"""The columns of `settings.csv`."""
Rows = dict[str, list[tuple[str, ...]]]
"""Run -> its rows in a file, as text."""


def append_records(folder: PathLike, records: Sequence[Record]) -> list[Path]:
    """Append records to the files of a folder that the caller holds; a run that is already there with the same record
    is left alone. Returns the paths of the files."""
    folder = Path(folder)
    if (folder / "runs.csv").exists() and _columns(folder) != COLUMNS["runs.csv"]:
        _convert(folder)
    known = {name: _grouped(name, _read(folder / name, missing_ok=True)) for name in COLUMNS}
    texts = {name: io.StringIO(newline="") for name in COLUMNS}
    writers = {name: csv.writer(text, lineterminator="\n") for name, text in texts.items()}
    for name, columns in COLUMNS.items():
        if not (folder / name).exists():
            writers[name].writerow(columns)
    for run, rows in {item.run: _rows(item) for item in records}.items():
        if all(known[name].get(run, []) == rows[name] for name in COLUMNS):
            continue
        for name in COLUMNS:
            if known[name].get(run) and name != "runs.csv":
                writers[name].writerow([run, *[""] * (len(COLUMNS[name]) - 1)])
            writers[name].writerows(rows[name])
    _append_settings(folder / "settings.csv", records)
    for name, text in texts.items():
        if text.getvalue():
            append_lines(folder / name, text.getvalue())
    return [folder / name for name in COLUMNS]


def _append_settings(path: Path, records: Sequence[Record]) -> None:
    """Append the settings that the file does not have whole."""
    known = _settings(path)
    new = {fingerprint(item.settings): item.settings for item in records if item.settings}
    rows = [(key, *item) for key, found in new.items() if known.get(key) != found for item in found.items()]
    if not rows:
        return
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows if path.exists() else [SETTINGS, *rows])
    append_lines(path, text.getvalue())


def _settings(path: Path) -> dict[str, dict[str, str]]:
    """The settings of each fingerprint."""
    found: dict[str, dict[str, str]] = {}
    for row in _read(path, missing_ok=True):
        found.setdefault(row["settings"], {})[row["name"]] = row["value"]
    return found


def read_records(folder: PathLike) -> list[Record]:
    """The records of a study's folder, in the order in which their runs first appear."""
    folder = Path(folder)
    try:
        tables = {name: _read(folder / name) for name in COLUMNS if name != "returns.csv"}
        returns = _old_returns(tables["runs.csv"]) if _is_old(folder) else _read(folder / "returns.csv")
        points, shares = (_grouped(name, tables[name]) for name in ("curves.csv", "importances.csv"))
        levels = _grouped("returns.csv", returns)
        last = {row["run"]: row for row in tables["runs.csv"]}
        settings: dict[str, dict[str, str]] = {"": {}, **_settings(folder / "settings.csv")}
        return [
            _record(row, levels[run], points[run], shares.get(run, []), settings[row["settings"]])
            for run, row in last.items()
        ]
    except (KeyError, ValueError, TypeError) as error:
        what = f"the records in {folder} do not fit together ({type(error).__name__}: {error})"
        raise FileFormatError(f"{what}. Make them again with: rsa2c reproduce {folder.name}") from error


def _record(
    row: Mapping[str, str],
    levels: Iterable[tuple[str, ...]],
    points: Iterable[tuple[str, ...]],
    shares: Iterable[tuple[str, ...]],
    settings: dict[str, str],
) -> Record:
    plain: dict[str, Any] = {name: _NUMBERS.get(name, str)(row[name]) for name in COLUMNS["runs.csv"]}
    plain["settings"] = settings
    returns = {
        float(noise): Return(float(mean), float(std), int(episodes) if episodes else None)
        for _, _, noise, episodes, mean, std in levels
    }
    curve = Curve(*np.array([[float(cell) for cell in point[1:]] for point in points]).T)
    importances: dict[str, dict[str, float]] = {}
    for _, stage, feature, share in shares:
        importances.setdefault(stage, {})[feature] = float(share)
    return Record(**plain, returns=returns, curve=curve, importances=importances)


def _rows(item: Record) -> dict[str, list[tuple[str, ...]]]:
    """The rows of a record in each file, as text."""
    points = zip(*(getattr(item.curve, name) for name in _POINTS), strict=True)
    rows: dict[str, list[tuple[Any, ...]]] = {
        "returns.csv": [
            (item.run, item.grid, word(noise), "" if found.episodes is None else found.episodes, found.mean, found.std)
            for noise, found in sorted(item.returns.items())
        ],
        "curves.csv": [
            (item.run, int(steps), float(seconds), float(mean), float(gap), round(epoch))
            for steps, seconds, mean, gap, epoch in points
        ],
        "importances.csv": [
            (item.run, stage, feature, share)
            for stage, features in item.importances.items()
            for feature, share in features.items()
        ],
        "runs.csv": [(*(getattr(item, name) for name in COLUMNS["runs.csv"][:-1]), fingerprint(item.settings))],
    }
    return {name: [tuple(map(_cell, row)) for row in each] for name, each in rows.items()}


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _grouped(name: str, rows: Iterable[Mapping[str, str]]) -> Rows:
    """The rows of each run that count."""
    found: Rows = {}
    for row in rows:
        cells = tuple(row[column] for column in COLUMNS[name])
        voids = all(cell == "" for cell in cells[1:])
        if voids or name == "runs.csv":
            found[cells[0]] = []
        if not voids:
            found.setdefault(cells[0], []).append(cells)
    return found


def _read(path: Path, missing_ok: bool = False) -> list[dict[str, str]]:
    if not path.exists():
        if missing_ok:
            return []
        raise NotFoundError(f"{path} does not exist. Make it with: rsa2c reproduce {path.parent.name}")
    later = _LATER if path.name == "runs.csv" else {}
    return [later | row for row in csv.DictReader(io.StringIO(whole_lines(read_bytes(path)).decode(), newline=""))]


def _columns(folder: Path) -> tuple[str, ...]:
    return tuple(read_bytes(folder / "runs.csv").split(b"\n", 1)[0].decode().rstrip("\r").split(","))


def _is_old(folder: Path) -> bool:
    """Whether `runs.csv` has the returns in columns, one pair per noise level, as the first studies did."""
    return any(name.startswith(_OLD[0]) for name in _columns(folder))


def _old_returns(runs: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The rows of `returns.csv` that such columns stand for; the number of episodes was not recorded."""
    return [
        {"run": row["run"], "grid": row["grid"], "noise_at_evaluation": column.removeprefix(_OLD[0]),
         "episodes": "", "mean": mean, "std": row[column.replace(*_OLD)]}
        for row in runs
        for column, mean in row.items()
        if column.startswith(_OLD[0]) and mean
    ]  # fmt: skip


def _convert(folder: Path) -> None:
    """Give the files of a folder the present columns, once."""
    runs = _read(folder / "runs.csv")
    tables = {"returns.csv": _old_returns(runs)} if _is_old(folder) else {}
    for name, rows in (tables | {"runs.csv": runs}).items():
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, COLUMNS[name], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(folder / name, text.getvalue().encode())

"""The folder of a dataset's explanations: one NPY file for each array of `Explanation`, and what they are.

    values.npy, base_values.npy, data.npy, efficiency_residual.npy    row i belongs to row i of the dataset
    std_error.npy, interactions.npy                                   where there are any
    explanation.json                                                  names, game, settings, means; written last
    progress.json                                                     only while it is not finished

NPY, because a row's number is then its address: the files grow by appending, a crash is repaired by cutting, equal
input gives equal bytes, and NumPy maps arrays larger than memory. A Parquet file is unreadable before its end is
written, and its bytes depend on the library that wrote it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.explanation import OPTIONAL, REQUIRED, Explanation
from rsa2c.attribution.playing import Nodes
from rsa2c.errors import FileFormatError, NotFoundError, RunExistsError
from rsa2c.files import append_rows, mapped, read_bytes, remove, write_atomically

FORMAT = "rsa2c-explained-dataset-1"
FINISHED, PROGRESS = "explanation.json", "progress.json"
Document = dict[str, Any]


@dataclass(frozen=True)
class ExplainedDataset:
    """A finished folder. The arrays stay on disk: `load()` maps them into memory."""

    folder: Path
    asked: Document
    """Dataset, function and settings."""
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    game: str
    """How the values were computed, as `Explanation.game` says it."""
    importances: NDArray[np.float64]
    """(d, m): mean absolute values."""
    largest_residual: float
    """The largest absolute efficiency residual."""

    @property
    def rows(self) -> int:
        """States explained."""
        return self.asked["dataset"]["rows"]

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        top = ", ".join(f"{name} {size:.3g}" for name, size in self.top(3))
        return f"ExplainedDataset({self.folder}: {self.rows:,} states, most important {top}; {self.game})"

    def top(self, k: int) -> list[tuple[str, float]]:
        """The k features with the largest mean absolute value over all states and outputs, largest first."""
        importance = self.importances.mean(axis=1)
        order = np.argsort(-importance, kind="stable")[:k]
        return [(self.feature_names[i], float(importance[i])) for i in order]

    def load(self) -> Explanation:
        """All explanations, with arrays that are read from disk where they are used: `load()[:200]` reads 200."""
        n, d, m = self.rows, len(self.feature_names), len(self.output_names)
        axes = {"T": n, "d": d, "m": m}
        shapes = {name: tuple(axes[axis] for axis in spec.split()) for name, spec in (REQUIRED | OPTIONAL).items()}
        there = [name for name in shapes if name in REQUIRED or (self.folder / f"{name}.npy").exists()]
        arrays = {name: mapped(self.folder / f"{name}.npy", shapes[name]) for name in there}
        return Explanation(feature_names=self.feature_names, output_names=self.output_names, game=self.game, **arrays)

    @classmethod
    def open(cls, folder: str | Path) -> ExplainedDataset:
        """The folder that `explain_dataset` wrote."""
        folder = Path(folder)
        if not (folder / FINISHED).is_file():
            if (folder / PROGRESS).is_file():
                done = Progress.read(folder)
                total = done.asked["dataset"]["rows"]
                raise NotFoundError(
                    f"{folder} is not finished: {done.rows:,} of {total:,} states are explained. "
                    "Run what began it again, with the same settings."
                )
            raise NotFoundError(f"{folder} holds no explanations of a dataset: it has no {FINISHED}.")
        document = _read(folder / FINISHED)
        try:
            return cls(
                folder,
                document["asked"],
                tuple(document["asked"]["features"]),
                tuple(document["asked"]["outputs"]),
                document["game"],
                np.array(document["importances"], dtype=np.float64),
                float(document["largest_residual"]),
            )
        except (LookupError, TypeError, ValueError) as error:
            raise _damaged(folder / FINISHED, error) from error


@dataclass
class Progress:
    """What is safe in an unfinished folder, and what has to be known to continue."""

    asked: Document
    nodes: Nodes | None
    rows: int = 0
    """States whose values are on disk."""
    game: str = ""
    sums: Any = 0.0
    """(d, m): sums of absolute values."""
    largest_residual: float = 0.0

    @classmethod
    def read(cls, folder: Path) -> Progress:
        document = _read(folder / PROGRESS)
        try:
            nodes, sums = document.pop("nodes"), document.pop("sums")
            return cls(**document, nodes=None if nodes is None else Nodes(*nodes), sums=np.array(sums))
        except (LookupError, TypeError, ValueError) as error:
            raise _damaged(folder / PROGRESS, error) from error

    def write(self, folder: Path) -> None:
        document = {**asdict(self), "nodes": self.nodes, "sums": np.asarray(self.sums).tolist()}
        _write(folder / PROGRESS, document)

    def add(self, folder: Path, part: Explanation) -> None:
        """Append the explanations of the next states; a crash at any moment leaves the old progress or the new."""
        for name in (*REQUIRED, *OPTIONAL):
            if (array := getattr(part, name)) is not None:
                append_rows(folder / f"{name}.npy", array, self.rows, self.asked["dataset"]["rows"])
        self.game = part.game
        self.sums = self.sums + np.abs(part.values).sum(axis=0)
        self.largest_residual = max(self.largest_residual, float(np.abs(part.efficiency_residual).max()))
        self.rows += len(part)
        self.write(folder)

    def finish(self, folder: Path) -> None:
        """Write what the arrays are; from now on the folder is finished."""
        document = {
            "asked": self.asked,
            "game": self.game,
            "importances": (self.sums / self.rows).tolist(),
            "largest_residual": self.largest_residual,
        }
        _write(folder / FINISHED, document)
        tidy(folder)


def tidy(folder: Path) -> None:
    """Delete what a finished folder does not need."""
    for path in (folder / PROGRESS, *folder.glob(".*.tmp")):
        remove(path)


def check_same(folder: Path, before: Document, now: Document) -> None:
    """Refuse to continue a folder that was begun with another dataset, function or other settings."""
    begun = f"{folder} was begun with"
    remedy = "Choose another folder (--out, or out=), or delete this one."
    was, given = before["dataset"], now["dataset"]
    if was["rows"] != given["rows"]:
        raise RunExistsError(f"{begun} {was['rows']:,} states, but the dataset now has {given['rows']:,}. {remedy}")
    if was["columns"] != given["columns"]:
        columns = " and ".join(", ".join(each["columns"]) for each in (was, given))
        raise RunExistsError(f"{begun} other columns: {columns}. {remedy}")
    if was["sha256"] != given["sha256"]:
        raise RunExistsError(f"{begun} other states: the dataset has changed since then. Restore it. Or: {remedy}")
    for key, value in now.items():
        if key != "dataset" and before.get(key) != value:
            what = "another agent, function or background" if key == "function" else f"{key} {before.get(key)}"
            raise RunExistsError(f"{begun} {what}{'' if key == 'function' else f', now it is {value}'}. {remedy}")


def _write(path: Path, document: Document) -> None:
    text = json.dumps({"format": FORMAT, **document}, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1)
    write_atomically(path, text.encode() + b"\n")


def _read(path: Path) -> Document:
    try:
        document = json.loads(read_bytes(path))
        if document.pop("format") != FORMAT:
            raise ValueError("it has another format")
        return document
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> FileFormatError:
    return FileFormatError(f"{path} is damaged ({error}). Delete its folder and explain the dataset again.")

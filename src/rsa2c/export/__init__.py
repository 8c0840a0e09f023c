"""Trained policies as code that needs no rsa2c: a C99 header, an ONNX graph, a NumPy file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path

from rsa2c.algorithm.state import Kept, TrainingState
from rsa2c.algorithm.task import Task
from rsa2c.errors import ConfigError, did_you_mean
from rsa2c.export.contents import Contents, contents
from rsa2c.files import write_atomically

SUFFIXES = {"c": ".h", "onnx": ".onnx", "numpy": ".py"}
"""What a policy can be exported to, and how the names of such files end."""


@dataclass(frozen=True)
class Exported:
    """A written file, and what its tables take."""

    path: Path
    to: str
    tables: dict[str, int]
    """Bytes of each table."""
    error: float
    """Largest difference at the visited states between actions in float64 and in the precision of the tables."""

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return sum(self.tables.values())


def export(
    task: Task,
    acting: TrainingState | Kept,
    path: str | PathLike[str],
    to: str | None = None,
    include: Sequence[str] = (),
    precision: str | None = None,
    background: int | None = None,
    filter_weight: float | None = None,
) -> Exported:
    """Write a policy to a file; `Trained.export` says what the arguments mean."""
    path = Path(path)
    to = _target(path, to)
    asked = contents(task, acting, to, tuple(include), precision, background, filter_weight)
    render: Callable[[Contents], bytes] = import_module(f"rsa2c.export.{to}").render
    write_atomically(path, render(asked))
    return Exported(path, to, asked.tables(), asked.error())


def _target(path: Path, to: str | None) -> str:
    """What to export to: as asked for, or by the file's suffix."""
    if to is None:
        found = [name for name, suffix in SUFFIXES.items() if suffix == path.suffix]
        if not found:
            raise ConfigError(
                f"the file's name must end in {', '.join(SUFFIXES.values())}, or `to` must be set to "
                f"{', '.join(map(repr, SUFFIXES))}; got {path.name!r}."
            )
        return found[0]
    if to not in SUFFIXES:
        near = did_you_mean(to, SUFFIXES)
        raise ConfigError(f"to must be one of {', '.join(map(repr, SUFFIXES))}, got {to!r}.{near}")
    return to

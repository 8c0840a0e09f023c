"""The part of Stable-Baselines3's logger that its callbacks and users rely on, without SB3."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from rsa2c.errors import ConfigError
from rsa2c.sb3.tensorboard import Tracker

_NUMBERS = (int, float, np.number)
VERBOSE = (0, 1, 2)


def check_verbose(verbose: int) -> None:
    """Refuse a level that SB3 does not have either."""
    if verbose not in VERBOSE:
        raise ConfigError(f"verbose must be one of {', '.join(map(str, VERBOSE))}, got {verbose!r}.")


class Logger:
    """Values by key: the last of each in `values`, those since the last `dump` in `name_to_value`.

    A dump prints a table where `verbose` is above 0 and writes TensorBoard events where there is a folder for them.
    """

    def __init__(self, verbose: int = 0, folder: Path | None = None) -> None:
        self.verbose, self.dir = verbose, None if folder is None else str(folder)
        self.values: dict[str, Any] = {}
        self.name_to_value: dict[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._excluded: dict[str, tuple[str, ...]] = {}
        self._folder = folder
        self._tracker: Tracker | None = None

    def record(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Remember a value; `exclude` names outputs that do not get it, "stdout" or "tensorboard"."""
        self.values[key] = self.name_to_value[key] = value
        self._excluded[key] = (exclude,) if isinstance(exclude, str) else tuple(exclude or ())

    def record_mean(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Remember the mean of the values given under a key since the last dump."""
        count = self._counts.get(key, 0)
        mean = float(value) if not count else (self.name_to_value[key] * count + float(value)) / (count + 1)
        self.record(key, mean, exclude)
        self._counts[key] = count + 1

    def dump(self, step: int = 0) -> None:
        """Write what was recorded since the last time."""
        if self.verbose and (shown := self._meant_for("stdout")):
            print(table(shown), file=sys.stdout, flush=True)
        if self._folder is not None:
            if self._tracker is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._tracker = Tracker(self._folder)
            meant = self._meant_for("tensorboard").items()
            self._tracker.scalars(step, {key: float(x) for key, x in meant if isinstance(x, _NUMBERS)})  # type: ignore[arg-type]
        self.name_to_value.clear()
        self._counts.clear()

    def _meant_for(self, output: str) -> dict[str, Any]:
        return {key: value for key, value in self.name_to_value.items() if output not in self._excluded[key]}

    def close(self) -> None:
        """Close the file of TensorBoard events; the next dump begins another in the same folder."""
        if self._tracker is not None:
            self._tracker.__exit__(None, None, None)
            self._tracker = None


def new_folder(root: Path, name: str) -> Path:
    """`root/name_k` with the first number k that is free, as SB3 numbers its logs."""
    taken = [path.name.removeprefix(f"{name}_") for path in root.glob(f"{name}_*")]
    return root / f"{name}_{1 + max((int(each) for each in taken if each.isdigit()), default=0)}"


def table(values: dict[str, Any]) -> str:
    """Values as SB3 prints them, the parts of their keys as groups."""
    rows: list[tuple[str, str]] = []
    group = None
    for key in sorted(values):
        head, _, tail = key.rpartition("/")
        if head and head != group:
            rows.append((f"{head}/", ""))
        group = head
        value = values[key]
        number = isinstance(value, float | np.floating)
        rows.append((f"   {tail}" if head else tail, f"{value:.3g}" if number and abs(value) < 1e4 else f"{value:,.0f}"
                     if number else str(value)))  # fmt: skip
    left, right = (max(len(row[side]) for row in rows) for side in (0, 1))
    line = "-" * (left + right + 7)
    return "\n".join([line, *(f"| {name:<{left}} | {value:<{right}} |" for name, value in rows), line])

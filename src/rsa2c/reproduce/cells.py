"""Tables of values, and the one place where a value becomes text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rsa2c import statistics
from rsa2c.statistics import Estimate

NOTHING = "-"
"""Shown for a missing value."""
Show = Callable[[Any], str]


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over runs (divisor n), as the paper prints them."""

    mean: float
    std: float
    runs: int | None = None
    """None for the paper's own results, for which it is not given."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """The spread of some runs' values; None if there are none."""
        return cls(*statistics.mean_std(values), len(values)) if len(values) else None

    def __str__(self) -> str:
        if self.runs == 1:
            return f"{self.mean:.1f} (1)"
        return f"{self.mean:.1f} ± {self.std:.1f}" + ("" if self.runs is None else f" ({self.runs})")


@dataclass(frozen=True)
class Part:
    """How many runs out of a total."""

    count: int
    total: int

    def __str__(self) -> str:
        return f"{self.count} of {self.total}"


def text(value: Any) -> str:
    """A cell as text, by the type of its value."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return number(value)
    return interval(value) if isinstance(value, Estimate) else str(value)


def number(value: float) -> str:
    """Four digits; thousands separated; "never" for what was not reached."""
    if not math.isfinite(value):
        return "never" if value > 0 else NOTHING
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.4g}"


def three_digits(value: float) -> str:
    """A number with three digits."""
    return f"{value:.3g}"


def thousands(value: int) -> str:
    """A whole number, thousands separated."""
    return f"{value:,}"


def interval(item: Estimate, show: Callable[[float], str] = number) -> str:
    """A value and its interval, a dash if it has none."""
    bounds = f"{show(item.low)}, {show(item.high)}" if item.has_interval else NOTHING
    return f"{show(item.value)} [{bounds}]"


@dataclass(frozen=True)
class Table:
    """Named columns of values with notes on how to read them.

    A cell is text, a number, an `Estimate`, a `Spread`, a `Part`, None for nothing, or anything else that `str` prints.
    """

    name: str
    title: str
    columns: list[str]
    rows: list[list[Any]]
    notes: list[str] = field(default_factory=list)
    shown: Mapping[str, Show] = field(default_factory=dict)
    """How the values of a column become text, if not as `text` does."""

    def texts(self) -> list[list[str]]:
        """The cells as text."""
        shows = [self.shown.get(column, text) for column in self.columns]
        return [[show(cell) for show, cell in zip(shows, row, strict=True)] for row in self.rows]

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        return [row[self.columns.index(name)] for row in self.rows]

    def markdown(self) -> str:
        """GitHub's table syntax under a heading."""
        lines = [f"### {self.title}", "", f"| {' | '.join(self.columns)} |", "|" + "---|" * len(self.columns)]
        lines += [f"| {' | '.join(row)} |" for row in self.texts()]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])

    def csv(self) -> str:
        """The same as CSV."""
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator="\n").writerows([self.columns, *self.texts()])
        return out.getvalue()

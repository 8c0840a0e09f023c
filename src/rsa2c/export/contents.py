"""What goes into an exported file: the tables of the controller, and what was asked for besides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rsa2c.algorithm.state import Kept, TrainingState
from rsa2c.algorithm.task import Task
from rsa2c.errors import ConfigError, did_you_mean
from rsa2c.export.tables import Attribution, Controller, Expansion, attribution, controller

PARTS = ("value", "attribution", "familiarity")
PRECISIONS = ("float64", "float32")
DEFAULT_BACKGROUND = 16


@dataclass(frozen=True, eq=False)
class Contents:
    """A controller, the optional parts of its file, and the precision of its tables."""

    controller: Controller
    include: tuple[str, ...]
    dtype: np.dtype
    attributions: dict[str, Attribution]
    """By the name of the attributed function; none unless asked for."""
    filter_weight: float | None
    """Weight of the newest measurement in the filter in front of the policy; None without a filter."""

    def functions(self) -> dict[str, Expansion]:
        """The policy, and the value if it is included."""
        found = {"policy": self.controller.policy}
        if "value" in self.include and self.controller.value is not None:
            found["value"] = self.controller.value
            assert found["value"].form == found["policy"].form, "a configuration has one kernel, tails and clip"
        return found

    def tables(self) -> dict[str, int]:
        """Bytes of each table of the file."""
        counts: dict[str, int] = {}
        for name, function in self.functions().items():
            counts |= {f"{name} {table}": array.size for table, array in function.arrays().items()}
            if name in self.attributions:
                counts[f"{name} attribution"] = sum(array.size for array in self.attributions[name].arrays().values())
        if self.controller.squash != "none":
            counts["action range"] = 2 * len(self.controller.mid)
        return {name: count * self.dtype.itemsize for name, count in counts.items()}

    def error(self) -> float:
        """Largest difference at the visited states between actions in float64 and in the precision of the tables."""
        visited = self.controller.visited
        rounded = self.controller.actions(visited.astype(self.dtype)).astype(np.float64)
        return float(np.abs(rounded - self.controller.actions(visited)).max())


def contents(
    task: Task,
    acting: TrainingState | Kept,
    to: str,
    include: tuple[str, ...],
    precision: str | None,
    background: int | None,
    filter_weight: float | None,
) -> Contents:
    """What a file of the kind `to` is asked to hold; a request that it cannot meet is refused."""
    _check(to, include, precision, background)
    tables = controller(task, acting)
    if "value" in include and tables.value is None:
        raise ConfigError(
            "this agent was trained without a Value Critic (value_fit='none', as in RKHS-AC): leave 'value' out of "
            "include, or train another algorithm."
        )
    made = Contents(tables, include, np.dtype(precision or "float64"), {}, filter_weight)
    if "attribution" in include:
        count = min(DEFAULT_BACKGROUND, len(tables.visited)) if background is None else background
        for name, function in made.functions().items():
            made.attributions[name] = attribution(function, tables.visited, count)
    return made


def _check(to: str, include: tuple[str, ...], precision: str | None, background: int | None) -> None:
    for part in include:
        if part not in PARTS:
            raise ConfigError(f"include may hold {', '.join(PARTS)}, got {part!r}.{did_you_mean(part, PARTS)}")
    if precision is not None and precision not in PRECISIONS:
        near = did_you_mean(precision, PRECISIONS)
        raise ConfigError(f"precision must be {' or '.join(PRECISIONS)}, got {precision!r}.{near}")
    if to != "c" and (precision == "float32" or "attribution" in include):
        what = "attribution" if "attribution" in include else "precision='float32'"
        raise ConfigError(
            f"{what} is available for C only, got to={to!r}. ONNX and NumPy files compute in float64, and "
            "agent.explain gives attributions in Python."
        )
    if background is not None and "attribution" not in include:
        raise ConfigError(
            f"background={background} has no effect without attributions. Include 'attribution', or leave it out."
        )

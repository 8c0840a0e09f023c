"""The paper's own figures and claims, from `paper.yaml`, so that a comparison is generated and never typed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeVar

import yaml

from rsa2c.errors import NotFoundError, did_you_mean

Row = TypeVar("Row", bound="Source")
Named = TypeVar("Named", "Figure", "Claim")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where something is said: the section, and the label of its table or figure if it has one."""

    section: str
    label: str | None = None

    @property
    def where(self) -> str:
        """The place in words, for a table's footnote."""
        return f"section {self.section}" + (f", {self.label}" if self.label else "")


@dataclass(frozen=True, kw_only=True)
class Return(Source):
    """Mean and standard deviation of a method's return under observation noise."""

    environment: str
    algorithm: str
    noise_variance: float
    mean: float
    std: float


@dataclass(frozen=True, kw_only=True)
class Cost(Source):
    """Operations and milliseconds per epoch, epochs and seconds to the solution."""

    environment: str
    algorithm: str
    device: str
    gflop: float
    epochs: int
    epoch_ms: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Setting(Source):
    """A hyper-parameter of one environment; `field` is our config field for it, which takes value * scale."""

    environment: str
    name: str
    unit: str
    value: float
    field: str | None
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Figure(Source):
    """A number of the prose; `high` ends the range if it gives one."""

    id: str
    environment: str
    algorithm: str
    quantity: str
    unit: str
    value: float
    high: float | None = None
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Claim(Source):
    """A sentence that asserts an effect of `subject` (against `against`), and the statistic that would test it."""

    id: str
    environments: tuple[str, ...]
    quote: str
    statistic: str
    subject: tuple[str, ...]
    against: tuple[str, ...]
    direction: Literal["higher", "lower", "similar", "at most", "order"]
    """At most: no higher than what it is compared with, or small, by a margin."""
    order: tuple[str, ...] = ()
    """Features, most important first, if the direction is an order."""
    jointly: bool = False
    """Whether the features of `order` come first in any order."""
    stage: str | None = None
    noise: Literal["largest", "every", "most"] = "largest"
    """The levels of the noise table that a statistic under noise is about."""
    bound: str | None = None
    """The figure of the prose that the statistic is to stay within, by its id."""
    substantial: bool = False
    """Whether the claim is about a substantial, large or significant effect: more than a margin."""
    slight: bool = False
    """Whether the claim is about a slight or marginal effect: it is not refuted by being small."""
    most: bool = False
    """Whether the claim is about most of `against`, not all."""
    one_run: Literal["proves", "refutes"] | None = None
    """What a single run can do to a claim about what can, or cannot, be reached."""
    note: str | None = None


@cache
def document() -> dict[str, Any]:
    """The whole of `paper.yaml`; parsed once, not to be changed."""
    return yaml.safe_load((resources.files("rsa2c.reproduce") / "paper.yaml").read_text("utf-8"))


@cache
def returns() -> tuple[Return, ...]:
    """Every return of the noise tables."""
    return tuple(
        Return(
            section=table["section"],
            label=table["label"],
            environment=table["environment"],
            algorithm=algorithm,
            noise_variance=float(noise),
            mean=float(mean),
            std=float(std),
        )
        for table in document()["returns"]
        for algorithm, cells in table["rows"].items()
        for noise, (mean, std) in zip(table["noise_variance"], cells, strict=True)
    )


@cache
def costs() -> tuple[Cost, ...]:
    """Every row of the cost table."""
    return tuple(
        Cost(section=table["section"], label=table["label"], **dict(zip(table["columns"], row, strict=True)))
        for table in document()["costs"]
        for row in table["rows"]
    )


@cache
def settings() -> tuple[Setting, ...]:
    """Every cell of the hyper-parameter table."""
    table = document()["settings"]
    count = len(table["environments"])
    return tuple(
        Setting(
            section=table["section"],
            label=table["label"],
            environment=environment,
            name=row["name"],
            unit=row["unit"],
            field=row["field"],
            value=float(value),
            scale=float(scale),
        )
        for row in table["rows"]
        for environment, value, scale in zip(
            table["environments"], row["values"], row.get("scale", [1] * count), strict=True
        )
    )


@cache
def figures() -> tuple[Figure, ...]:
    """Numbers that only the prose gives, or gives again."""
    return tuple(_read(Figure, document()["prose"]))


def figure(id: str) -> Figure:
    """The figure of the prose of this id."""
    return _by_id(figures(), id, "figure")


def prose(environment: str, algorithm: str, quantity: str) -> Figure | None:
    """What the prose gives of a method's quantity, or None if it gives nothing."""
    wanted = (environment, algorithm, quantity)
    return next((row for row in figures() if (row.environment, row.algorithm, row.quantity) == wanted), None)


@cache
def claims() -> tuple[Claim, ...]:
    """The effects the paper asserts."""
    return tuple(_read(Claim, document()["claims"]))


def published_return(environment: str, algorithm: str, noise_variance: float = 0.0) -> Return | None:
    """The paper's return of a method under a noise variance, or None if it has none."""
    wanted = (environment, algorithm, noise_variance)
    return next((row for row in returns() if (row.environment, row.algorithm, row.noise_variance) == wanted), None)


def published_cost(environment: str, algorithm: str) -> Cost | None:
    """The paper's cost of a method, or None if it has none."""
    return next((row for row in costs() if (row.environment, row.algorithm) == (environment, algorithm)), None)


def threshold(environment: str) -> float | None:
    """The return from which an environment counts as solved, or None if neither paper nor code names one."""
    rows = {row["environment"]: float(row["value"]) for row in document()["thresholds"]["rows"]}
    return rows.get(environment)


def epochs(environment: str) -> int | None:
    """Epochs of the paper's trainings, or None if it does not give them."""
    found = [row.value for row in settings() if (row.environment, row.name) == (environment, "Epoch")]
    return int(found[0]) if found else None


def claim(id: str) -> Claim:
    """The claim of this id."""
    return _by_id(claims(), id, "claim")


def _by_id(rows: Iterable[Named], id: str, what: str) -> Named:
    found = {row.id: row for row in rows}
    if id not in found:
        raise NotFoundError(f"the paper has no {what} {id!r}.{did_you_mean(id, found)} It has {', '.join(found)}.")
    return found[id]


def _read(kind: type[Row], rows: Iterable[dict[str, Any]]) -> list[Row]:
    """Rows as dataclasses: lists become tuples, whole numbers of float fields floats."""
    floats = {field.name for field in fields(kind) if "float" in str(field.type)}

    def settled(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(value)
        return float(value) if name in floats and value is not None else value

    return [kind(**{name: settled(name, value) for name, value in row.items()}) for row in rows]

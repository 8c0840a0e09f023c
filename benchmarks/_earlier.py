"""What was measured under guidance before the present one, and how pages say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rsa2c.files import read_metadata

AGREEMENT = "weights=agreement"
"""Part of the variant of rows of the guidance before the present one: what critics of two halves of the episodes agreed
on was the weight, and what actions move did not count."""
SHADOWS = "null=shadows"
"""The same for the one before that, which had a null level from permuted shadow features."""
RULES = (AGREEMENT, SHADOWS)
"""The newest first."""
SIGN = "¹"
"""Stands beside figures that rest on such rows."""
LAST_FORMAT = 6
"""Format version of the last models that were trained so."""
RULE = (
    "an earlier guidance, in which attributions were the weights "
    "([what guidance is worth](../docs/method.md#what-guidance-is-worth))"
)
"""Its name on a page of results."""


def under(rule: str, variant: str) -> str:
    """A variant's name in rows of an earlier guidance."""
    return "+".join(part for part in (variant, rule) if part)


def whole(variant: str) -> tuple[str, ...]:
    """A variant's names under the present guidance and every earlier one."""
    return (variant, *(under(rule, variant) for rule in RULES))


def latest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the newest guidance that some of them have."""
    newest = min(map(_age, rows), default=0)
    return [row for row in rows if _age(row) == newest]


def mark(rows: Iterable[Mapping[str, Any]]) -> str:
    """The sign if some of the rows are of an earlier guidance."""
    return SIGN if any(map(_age, rows)) else ""


def _age(row: Mapping[str, Any]) -> int:
    """How many rules are newer than a row's."""
    parts = row["variant"].split("+")
    return next((age for age, rule in enumerate(RULES, 1) if rule in parts), 0)


def note(agents: Iterable[Path]) -> str:
    """What a page says of agents from these files: how many of them had an earlier guidance."""
    found = [read_metadata(path, "model")["version"] <= LAST_FORMAT for path in agents]
    if not any(found):
        return ""
    which = "All" if all(found) else f"{sum(found)} of the"
    return f"{which} {len(found)} agents on this page were trained under {RULE}."

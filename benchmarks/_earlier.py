"""What was measured under the guidance before the present one, and how pages say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rsa2c.files import read_metadata

EARLIER = "null=shadows"
"""Part of the variant of rows of the earlier guidance, which had a null level from permuted shadow features."""
SIGN = "¹"
"""Stands beside figures that rest on such rows."""
LAST_FORMAT = 5
"""Format version of the last models that were trained so."""
RULE = (
    "the guidance before the present one, by shadow features instead of agreement "
    "([what guidance is worth](../docs/method.md#what-guidance-is-worth))"
)
"""Its name on a page of results."""


def earlier(variant: str) -> str:
    """A variant's name in rows of the earlier guidance."""
    return "+".join(part for part in (variant, EARLIER) if part)


def is_earlier(row: Mapping[str, Any]) -> bool:
    """Whether a row is of the earlier guidance."""
    return EARLIER in row["variant"].split("+")


def latest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the present guidance; all if there are none."""
    return [row for row in rows if not is_earlier(row)] or list(rows)


def mark(rows: Iterable[Mapping[str, Any]]) -> str:
    """The sign if some of the rows are of the earlier guidance."""
    return SIGN if any(map(is_earlier, rows)) else ""


def note(agents: Iterable[Path]) -> str:
    """What a page says of agents from these files: how many of them had the earlier guidance."""
    found = [read_metadata(path, "model")["version"] <= LAST_FORMAT for path in agents]
    if not any(found):
        return ""
    which = "All" if all(found) else f"{sum(found)} of the"
    return f"{which} {len(found)} agents on this page were trained under {RULE}."

"""Which records belong to a study as it is now: its steps change, and run ids do not have them.

Records of other steps are of an earlier version of the study, mostly of an earlier default. They are shown as long as
there is nothing else, and are left out as soon as their grid has a run of the present version: rows never mix the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rsa2c.reproduce.records import Record
from rsa2c.runs.names import without_seed

OVERRUN = 0.1
"""A run ends with the epoch in which it has its steps: up to so much later, as a share of them."""


def is_earlier(item: Record, asked: Mapping[str, int]) -> bool:
    """Whether a run was made with other steps than the study asks of its variant; `asked` has those by the run id
    without the seed. Runs of which it asks nothing are no earlier version of anything."""
    steps = asked.get(without_seed(item.run))
    return steps is not None and not steps <= item.steps <= (1.0 + OVERRUN) * steps


def present(records: Sequence[Record], asked: Mapping[str, int]) -> tuple[list[Record], list[str]]:
    """The records to be shown, and what has to be said of earlier ones."""
    earlier: dict[str, list[Record]] = {}
    for item in records:
        if is_earlier(item, asked):
            earlier.setdefault(item.grid, []).append(item)
    begun = {item.grid for item in records if not is_earlier(item, asked)}
    remarks = [_remark(grid, found, asked, grid in begun) for grid, found in earlier.items()]
    return [item for item in records if item.grid not in begun or not is_earlier(item, asked)], remarks


def _remark(grid: str, found: Sequence[Record], asked: Mapping[str, int], is_left_out: bool) -> str:
    had = ", ".join(f"{steps:,}" for steps in sorted({item.steps for item in found}))
    now = ", ".join(f"{steps:,}" for steps in sorted({asked[without_seed(item.run)] for item in found}))
    what = f"{len(found)} runs of the grid {grid} have {had} steps where the study now asks for {now}"
    return what + ("; they are left out" if is_left_out else "; they are shown until it is repeated")

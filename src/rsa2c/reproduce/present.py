"""Which records belong to a study as it is now: its steps and the presets change, and run ids have neither.

Records of other steps or settings are of an earlier version. They are shown as long as there is nothing else, and are
left out as soon as their grid has a run of the present version: a grid never mixes the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rsa2c.reproduce.records import Record
from rsa2c.reproduce.versions import Plan, changes
from rsa2c.runs.names import without_seed

OVERRUN = 0.1
"""A run ends with the epoch in which it has its steps: up to so much later, as a share of them."""


def has_other_steps(item: Record, plans: Mapping[str, Plan]) -> bool:
    """Whether a run has other steps than the study asks of its variant; `plans` has those by the run id without the
    seed. Runs of which it asks nothing are no earlier version of anything."""
    plan = plans.get(without_seed(item.run))
    if plan is None:
        return False
    return not plan.job.total_timesteps <= item.steps <= (1.0 + OVERRUN) * plan.job.total_timesteps


def other_settings(item: Record, plans: Mapping[str, Plan]) -> dict[str, tuple[str, str]]:
    """The settings of a run that its variant has with other values today: then, and now."""
    plan = plans.get(without_seed(item.run))
    return {} if plan is None else changes(item.settings, plan.settings)


def present(records: Sequence[Record], plans: Mapping[str, Plan]) -> tuple[list[Record], list[str]]:
    """The records to be shown, and what has to be said of earlier ones."""
    earlier: dict[str, list[Record]] = {}
    begun = set()
    for item in records:
        if has_other_steps(item, plans) or other_settings(item, plans):
            earlier.setdefault(item.grid, []).append(item)
        else:
            begun.add(item.grid)
    alike: dict[tuple[str, bool], list[Record]] = {}
    for grid, found in earlier.items():
        alike.setdefault((_reason(found, plans), grid in begun), []).extend(found)
    remarks = [_remark(reason, found, is_left_out) for (reason, is_left_out), found in alike.items()]
    old = {id(item) for found in earlier.values() for item in found}
    return [item for item in records if item.grid not in begun or id(item) not in old], remarks


def _reason(found: Sequence[Record], plans: Mapping[str, Plan]) -> str:
    """In what records differ from what the study asks for."""
    reasons = []
    if longer := [item for item in found if has_other_steps(item, plans)]:
        had = ", ".join(f"{steps:,}" for steps in sorted({item.steps for item in longer}))
        today = {plans[without_seed(item.run)].job.total_timesteps for item in longer}
        now = ", ".join(f"{steps:,}" for steps in sorted(today))
        reasons.append(f"have {had} steps where the study now asks for {now}")
    if any(other_settings(item, plans) for item in found):
        reasons.append("were trained with an earlier version of their preset")
    return " and ".join(reasons)


def _remark(reason: str, found: Sequence[Record], is_left_out: bool) -> str:
    grids = list(dict.fromkeys(item.grid for item in found))
    what = f"{len(found)} runs of the grid{'s' if len(grids) > 1 else ''} {', '.join(grids)} {reason}"
    return what + ("; they are left out" if is_left_out else "; they are shown until it is repeated")

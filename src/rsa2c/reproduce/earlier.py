"""What tables say of runs that were trained with an earlier version of their preset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.reproduce.cells import Table
from rsa2c.reproduce.findings import Finding
from rsa2c.reproduce.present import other_settings
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import TWINS, Selection

TABLE, TITLE = "earlier_settings", "Earlier settings"
TODAY, EARLIER, UNKNOWN = "today's", "earlier", "not recorded"


def version(study: Selection, records: Iterable[Record]) -> str:
    """Whether runs have the settings that their preset has today."""
    found = list(records)
    if all(item.algorithm in BASELINES for item in found):
        return "RL-Zoo's"
    kinds = [name for name, has in (
        (TODAY, [item for item in found if item.settings and not other_settings(item, study.plans)]),
        (EARLIER, [item for item in found if other_settings(item, study.plans)]),
        (UNKNOWN, [item for item in found if not item.settings]),
    ) if has]  # fmt: skip
    return " and ".join(kinds)


def earlier_settings(study: Selection) -> Table:
    """For each preset and what has changed in it since, the grids and variants that were trained before."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for item in study.records:
        if found := other_settings(item, study.plans):
            changed = ", ".join(f"{name} {then} ({now})" for name, (then, now) in sorted(found.items()))
            groups.setdefault((item.preset, changed), []).append(item)
    rows: list[list[Any]] = [
        [preset, _listed(item.grid for item in found), ", ".join(study.algorithms(found)),
         _listed(item.commit[:7] for item in found), changed]
        for (preset, changed), found in groups.items()
    ]  # fmt: skip
    notes = [
        "Runs whose preset has other values today, in brackets. Settings that it did not have then, or no longer has, "
        "are not listed. A verdict, or a difference in a table, never compares runs that differ in a setting, but for "
        "those that a variant is made of."
    ]
    return Table(TABLE, TITLE, ["preset", "grids", "variants", "commits", "setting then (today)"], rows,
                 notes)  # fmt: skip


def remark(study: Selection, environment: str) -> list[str]:
    """The remark of a table with runs of earlier settings: their grids, with the variants if others have today's."""
    mine = [item for item in study.records if item.environment == environment and item.algorithm not in BASELINES]
    said = []
    for grid in dict.fromkeys(item.grid for item in mine):
        runs = [item for item in mine if item.grid == grid]
        if old := [item for item in runs if other_settings(item, study.plans)]:
            names = study.algorithms(old)
            said.append(grid if names == study.algorithms(runs) else f"{grid} ({', '.join(names)})")
    if not said:
        return []
    return [f"Trained with an earlier version of their preset (see “{TITLE}”): the runs of {', '.join(said)}."]


def used(study: Selection, finding: Finding) -> list[Record]:
    """The runs of the study that a verdict rests on, but for clocks."""
    claim, has = finding.claim, finding.claim.statistic == "distractor_return"
    names = {TWINS.get(name, name) for name in (*claim.subject, *claim.against)}.union(claim.subject, claim.against)
    return [
        item
        for item in study.records
        if item.environment == finding.environment and item.preset in (finding.preset, PRESET)
        and item.algorithm in names and bool(item.distractors) == has and not item.noise and not item.varied
    ]  # fmt: skip


def newest(study: Selection, records: Sequence[Record]) -> list[Record]:
    """The runs with today's settings, or all if there are none: a figure never mixes them."""
    return [item for item in records if not other_settings(item, study.plans)] or list(records)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))

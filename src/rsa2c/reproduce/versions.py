"""Which settings a run was trained with: presets change with the package, and the names of runs do not.

Every record has the settings of its run. Two runs may be compared if none that both have differs, but for those that
their variants are made of. Settings that one of them lacks belong to choices that the other did not make, or are of
another version of the package; they are not compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rsa2c.baselines.settings import BASELINES
from rsa2c.config import ALGORITHMS
from rsa2c.runs.grid import Job
from rsa2c.runs.names import word

if TYPE_CHECKING:
    from rsa2c.reproduce.records import Record

Settings = Mapping[str, str]
LEFT_OUT = ("seed", "noise_variance", "distractors", "distractor_kind", "epochs_between_evaluations",
            "evaluation_episodes", "step_timeout", "diagnostics")  # fmt: skip
"""Settings that a record has as columns of their own, and those that only watch a training."""


@dataclass(frozen=True)
class Plan:
    """What a study asks of a variant today, by one run of it."""

    target: str
    grid: str
    seeds: int
    job: Job

    @cached_property
    def settings(self) -> Settings:
        """The settings of its runs."""
        return settings_of(self.job)


def settings_of(job: Job) -> dict[str, str]:
    """The settings that a job trains with, as text; a baseline has RL-Zoo's, which are not ours to list."""
    if job.is_baseline:
        return {}
    return {name: word(value) for name, value in job.settings().settings().items() if name not in LEFT_OUT}


def fingerprint(settings: Settings) -> str:
    """A short name for settings; empty where they are not known."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(settings.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:8] if settings else ""


def changes(then: Settings, now: Settings) -> dict[str, tuple[str, str]]:
    """The settings that both have with different values."""
    return {name: (value, now[name]) for name, value in then.items() if now.get(name, value) != value}


def conflict(records: Iterable[Record]) -> str:
    """Why runs must not be compared: a setting in which two of them differ; empty if there is none."""
    kinds = {(item.algorithm, fingerprint(item.settings)): item for item in records if item.algorithm not in BASELINES}
    found = list(kinds.values())
    for number, one in enumerate(found):
        for other in found[:number]:
            own = {*ALGORITHMS[one.algorithm], *ALGORITHMS[other.algorithm]}
            differing = [name for name in changes(one.settings, other.settings) if name not in own]
            if differing:
                name = "guidance" if "guidance" in differing else differing[0]
                return _said(other, one, name, len(differing) - 1)
    return ""


def _said(one: Record, other: Record, name: str, more: int) -> str:
    """One setting in which two runs differ, and how many others there are."""
    names = (one.algorithm, other.algorithm) if one.algorithm != other.algorithm else ("some", "others")
    rest = f", and {more} more" if more else ""
    return f"{names[0]} {name}={one.settings[name]}, {names[1]} {name}={other.settings[name]}{rest}"

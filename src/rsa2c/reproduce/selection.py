"""The records of a study, selected by their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.reproduce import paper
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.versions import Plan

PRESETS = ("paper", "default")
BEYOND = {"Ant-v5": (3000.0,)}
"""Our own thresholds in addition to the paper's: its plateau on Ant is below what standing still reaches."""
ORDER = ("rsa2c-kme", "rsa2c-cme", "shuffled-shap", "uniform-shap", "advanced-ac", "rkhs-ac", "sac", "ppo")
TWINS = {"uniform-shap": "advanced-ac"}
"""Variants that are another one, bit for bit (a test compares bytes): where one was not trained, it has the other's
runs, and tables say so."""

THEORY = "step_rule=polynomial"
"""What runs with the theorem's step sizes vary."""
WHOLE = "epoch_growth"
"""The statistic of the clock that takes whole trainings, and the grid of those: others take trainings that stop at the
solution."""
UNSTABLE = 100.0
"""Larger gaps, beyond a hundred times the optimal cost, count as this: the policy is unstable."""


@dataclass(frozen=True)
class Selection:
    """The records of a study, trainings that were timed alone, what the study asks of a run today, by the run id
    without the seed, and the seed of its bootstrap intervals."""

    records: Sequence[Record]
    alone: Sequence[Record] = ()
    plans: Mapping[str, Plan] = field(default_factory=dict)
    seed: int = 0

    @property
    def rng(self) -> np.random.Generator:
        """A new generator each time, so that a table does not depend on those before it."""
        return np.random.default_rng(self.seed)

    def of(self, **wanted: object) -> list[Record]:
        """Records whose attributes have these values; plain runs (no noise in training, no distractors, nothing
        varied) unless asked otherwise. A variant of `TWINS` that was not trained so has the runs of the other."""
        wanted = {"noise": 0.0, "distractors": 0, "varied": "", **wanted}
        found = [item for item in self.records if all(getattr(item, name) == value for name, value in wanted.items())]
        other = TWINS.get(str(wanted.get("algorithm")))
        if found or other is None:
            return found
        return [replace(item, algorithm=str(wanted["algorithm"])) for item in self.of(**wanted | {"algorithm": other})]

    def timed(self, environment: str, statistic: str) -> list[Record]:
        """The trainings alone that measure a statistic of the clock."""
        found = [item for item in self.alone if item.environment == environment]
        return [item for item in found if (item.grid == WHOLE) == (statistic == WHOLE)]

    def taken_over(self, environment: str) -> dict[str, list[str]]:
        """The variants of `TWINS` that have another's runs somewhere, and the presets under which they do."""

        def settings(algorithm: str) -> set[tuple[str, float, int]]:
            ran = [item for item in self.records if (item.environment, item.algorithm) == (environment, algorithm)]
            return {(item.preset, item.noise, item.distractors) for item in ran if not item.varied}

        lacking = {name: {preset for preset, *_ in settings(other) - settings(name)} for name, other in TWINS.items()}
        return {name: [each for each in PRESETS if each in presets] for name, presets in lacking.items() if presets}

    def theory(self, environment: str, schedule: str = THEORY, **wanted: object) -> list[Record]:
        """Runs with the theorem's step sizes and one of the `schedules`, the study's first unless asked otherwise."""
        return self.of(environment=environment, varied=schedule, **wanted)

    def schedules(self, environment: str) -> list[str]:
        """What runs with the theorem's step sizes varied: the step rule, and beside it the sizes of batches."""
        found = (item.varied for item in self.records if item.environment == environment)
        return list(dict.fromkeys(varied for varied in found if varied.split("__")[0] == THEORY))

    def algorithms(self, records: Iterable[Record] | None = None) -> list[str]:
        """The algorithms present, in the order of the tables."""
        present = {item.algorithm for item in (self.records if records is None else records)}
        return [name for name in ORDER if name in present]

    def presets(self, algorithm: str) -> tuple[str, ...]:
        """The presets a variant is shown under: a baseline has its own in place of `default`."""
        return PRESETS if algorithm not in BASELINES else ("", PRESET)

    def shown(self, environment: str) -> list[str]:
        """Methods that we ran on an environment or for which the paper has figures."""
        ran = self.algorithms(self.of(environment=environment))
        return [name for name in ORDER if name in ran or paper.published_return(environment, name)]


def thresholds(environment: str) -> tuple[float, ...]:
    """Returns from which an environment counts as solved, the paper's first; empty if it names none."""
    published = paper.threshold(environment)
    return (*(() if published is None else (published,)), *BEYOND.get(environment, ()))


def slug(environment: str) -> str:
    """An environment in a file's name."""
    return environment.split("/")[-1].split("-")[0].lower()

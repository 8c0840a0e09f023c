"""The runs of a sweep: environments x algorithms x presets x noise x distractors x seeds, and any field that varies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rsa2c.baselines import settings as rl_zoo
from rsa2c.baselines.settings import BASELINES, PRESET, SETTABLE, BaselineFields, check_algorithm
from rsa2c.config import Config, all_settings, default_timesteps, make_config
from rsa2c.envs.modules import has_module
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError, RSA2CError, did_you_mean
from rsa2c.files import PathLike, StorageError, read_yaml
from rsa2c.runs.names import make_run_id, without_seed, word

AXES = {
    "environments": None,
    "algorithms": ["rsa2c-kme"],
    "presets": ["default"],
    "noise": [0.0],
    "distractors": [0],
    "seeds": [0],
}
"""The named axes of a grid and their values if a file does not give them."""
OPTIONS = {"total_timesteps": None, "final_episodes": 100, "final_noise": [0.0]}
"""The other keys of a sweep file; it may also have any field of `Config`, as a value or as a list."""
INSTEAD = {"seed": "seeds", "noise_variance": "noise"}
"""Fields of `Config` that are axes under another name."""
IN_RUN_ID = ("seed", "noise_variance", "distractors", "distractor_kind")
"""Fields of `Config` that have a place of their own in the run id."""
MOST_RUNS = 10_000
"""Largest number of runs in a sweep."""


@dataclass(frozen=True)
class Job:
    """One run of a sweep: the arguments of `train_run`, and how the trained run is evaluated."""

    environment: str
    algorithm: str
    preset: str
    total_timesteps: int
    fields: dict[str, Any]
    """Fields of `Config` that the sweep sets, the seed among them."""
    varied: tuple[str, ...] = ()
    """Those of them that are axes of the grid and have no place of their own in the run id."""
    final_episodes: int = 100
    final_noise: tuple[float, ...] = (0.0,)

    @property
    def is_baseline(self) -> bool:
        return self.algorithm in BASELINES

    @property
    def suffix(self) -> str:
        """The part of the run id that names varied fields."""
        return "".join(f"__{part}" for part in self._changed(exclude=IN_RUN_ID))

    @property
    def changes(self) -> str:
        """The varied fields, as `field=value`."""
        return "__".join(self._changed())

    def _changed(self, exclude: tuple[str, ...] = ()) -> list[str]:
        return [f"{name}={word(self.fields[name])}" for name in self.varied if name not in exclude]

    @cached_property
    def run_id(self) -> str:
        """The name of the run's folder."""
        config = Config(**{name: self.fields[name] for name in IN_RUN_ID if name in self.fields})
        return make_run_id(self.environment, self.algorithm, self.preset, config) + self.suffix

    def settings(self) -> Config | BaselineFields:
        """The settings of the run, checked before anything is computed."""
        if self.is_baseline:
            return BaselineFields(**self.fields)
        return make_config(self.environment, self.preset, self.algorithm, **self.fields)


@dataclass(frozen=True)
class Grid:
    """The content of a sweep file."""

    axes: dict[str, list[Any]]
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of `Config`: a list is an axis."""

    @classmethod
    def read(cls, path: PathLike) -> Grid:
        """A sweep file."""
        try:
            document = read_yaml(path, "Correct it")
        except NotFoundError as error:
            raise NotFoundError(f"sweep file {error}") from error
        except (FileFormatError, StorageError) as error:
            raise ConfigError(f"sweep file {error}") from error
        return cls.of(document, str(path))

    @classmethod
    def of(cls, document: Any, source: str = "the sweep") -> Grid:
        """The grid of a mapping such as a sweep file has; `source` names it in errors."""
        _check_keys(document, source)
        options = {key: document.get(key, default) for key, default in OPTIONS.items()}
        _check_options(options, source)
        axes = {key: _listed(document.get(key, default), key, source) for key, default in AXES.items()}
        settings = {key: value for key, value in document.items() if key not in AXES and key not in OPTIONS}
        _check_size({**axes, **settings}, source)
        _check_steps(options["total_timesteps"], axes["environments"], source)
        idle = [name for name in settings if name not in SETTABLE]
        if idle and set(axes["algorithms"]) <= set(BASELINES):
            what = f"{source}: {', '.join(axes['algorithms'])} has no setting {', '.join(idle)}"
            raise ConfigError(f"{what}: it trains with RL-Zoo's settings and takes only {', '.join(SETTABLE)}.")
        grid = cls(axes, options, settings)
        with _named(source):
            grid.check_settings()
        return grid

    def check_settings(self) -> None:
        """Refuse presets and settings that do not exist or that no run reads, before anything is computed."""
        for environment, preset in itertools.product(self.axes["environments"], self.axes["presets"]):
            if preset != PRESET:
                make_config(environment, preset)
        # Seeds are checked where a run gets its id; runs that differ only in their seed share everything else
        jobs = {without_seed(job.run_id): job for job in self.jobs()}.values()
        for job in jobs:
            job.settings()
        for name, value in self.settings.items():
            if not any(name in job.fields for job in jobs):
                first = next(job for job in jobs if not job.is_baseline)
                idle = {name: value[0] if isinstance(value, list) else value}
                replace(first, fields=first.fields | idle).settings()  # an error that names its choice

    def jobs(self) -> list[Job]:
        """Every run, seeds outermost: a sweep that is cut short has all variants of its first seeds.

        Variants differ in the settings they read: each run takes those of the grid that have an effect on it.
        """
        lists = {name: value for name, value in self.settings.items() if isinstance(value, list)}
        fixed = {name: value for name, value in self.settings.items() if not isinstance(value, list)}
        jobs: dict[str, Job] = {}
        read: dict[tuple[Any, ...], dict[str, Any]] = {}
        order = ("seeds", "environments", "presets", "distractors", "noise", "algorithms")
        for seed, environment, preset, distractors, noise, algorithm in itertools.product(
            *(self.axes[name] for name in order)
        ):
            for number, values in enumerate(itertools.product(*lists.values())):
                shown = {"seed": seed, "noise_variance": float(noise), "distractors": distractors}
                baseline = algorithm in BASELINES
                variant = environment, preset, algorithm, number
                if variant not in read:
                    read[variant] = _read_by(*variant[:3], {**fixed, **dict(zip(lists, values, strict=True))})
                asked = read[variant]
                job = Job(
                    environment,
                    algorithm,
                    PRESET if baseline else preset,
                    self._steps(environment, algorithm),
                    {**shown, **asked},
                    tuple(name for name in lists if name in asked),
                    int(self.options["final_episodes"]),
                    tuple(sorted({float(noise), *map(float, self.options["final_noise"])})),
                )
                jobs.setdefault(job.run_id, job)
        return list(jobs.values())

    def _steps(self, environment: str, algorithm: str) -> int:
        steps = self.options["total_timesteps"]
        steps = steps.get(environment) if isinstance(steps, Mapping) else steps
        if steps is not None:
            return int(steps)
        baseline = algorithm in BASELINES
        return rl_zoo.settings(algorithm, environment).total_timesteps if baseline else default_timesteps(environment)


def _read_by(environment: str, preset: str, algorithm: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that have an effect on the runs of a variant."""
    if algorithm in BASELINES:
        return {name: value for name, value in settings.items() if name in SETTABLE}
    variant = make_config(environment, preset, algorithm).settings()
    effective = Config.built({**variant, **settings}, {}).settings()
    return {name: value for name, value in settings.items() if name in effective}


def _check_keys(document: Any, source: str) -> None:
    known = set(all_settings(Config)) - set(INSTEAD)
    if not isinstance(document, Mapping):
        raise ConfigError(f"{source} must be a mapping such as `environments: [Pendulum-v1]`, got {document!r}.")
    names = [*AXES, *OPTIONS, *sorted(known)]
    for key in document:
        if key not in names:
            near = f" Use {INSTEAD[key]!r}." if key in INSTEAD else did_you_mean(str(key), names)
            raise ConfigError(
                f"{source}: key {key!r} is unknown.{near} Keys are {', '.join(AXES)}, "
                f"{', '.join(OPTIONS)} and the fields that `rsa2c train --help` lists."
            )


def _check_size(values: Mapping[str, Any], source: str) -> None:
    """Refuse an empty list, and more runs than a sweep may have."""
    lists = {key: value for key, value in values.items() if isinstance(value, list)}
    for key, value in lists.items():
        if not value:
            raise ConfigError(f"{source} has no runs: {key!r} is empty. Give it at least one value.")
    runs = math.prod(map(len, lists.values()))
    if runs > MOST_RUNS:
        raise ConfigError(f"{source} has {runs:,} runs; at most {MOST_RUNS:,} are allowed.")


def _check_steps(steps: Any, environments: list[str], source: str) -> None:
    for name in steps if isinstance(steps, Mapping) else ():
        if name not in environments:
            hint = did_you_mean(str(name), environments)
            raise ConfigError(f"{source}: total_timesteps is given for {name!r}, which is not in environments.{hint}")


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except RSA2CError as error:
        raise ConfigError(f"{source}: {error}") from error


def _check_options(options: Mapping[str, Any], source: str) -> None:
    def is_whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value > 0

    episodes, noise, steps = options["final_episodes"], options["final_noise"], options["total_timesteps"]
    if not is_whole(episodes):
        raise ConfigError(f"{source}: final_episodes must be a positive whole number, got {episodes!r}.")
    numbers = noise if isinstance(noise, list) else [None]
    if not all(isinstance(x, (int, float)) and not isinstance(x, bool) and 0 <= x < float("inf") for x in numbers):
        raise ConfigError(f"{source}: final_noise must be a list of non-negative variances, got {noise!r}.")
    for value in steps.values() if isinstance(steps, Mapping) else [steps]:
        if value is not None and not is_whole(value):
            raise ConfigError(f"{source}: total_timesteps must be a positive whole number, got {value!r}.")


def _listed(value: Any, key: str, source: str) -> list[Any]:
    if key == "seeds" and isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MOST_RUNS:
            raise ConfigError(f"{source}: seeds must be between 1 and {MOST_RUNS:,}, got {value:,}.")
        return list(range(value))
    values = value if isinstance(value, list) else [value] if value is not None else []
    kinds: Any = {"noise": (int, float), "distractors": int, "seeds": int}.get(key, str)
    for item in values:
        wrong = isinstance(item, bool) or not isinstance(item, kinds)
        if wrong or (kinds is not str and not 0 <= item < math.inf):
            raise ConfigError(f"{source}: {key} must hold {_KINDS[key]}, got {item!r}.")
        if key == "environments" and has_module(item):
            raise ConfigError(
                f"{source}: {item!r} names a module, and a file has nothing imported. Train it with: rsa2c train {item}"
            )
        if key == "algorithms":
            with _named(source):
                check_algorithm(item)
    return values


_KINDS = {
    "environments": "environment ids",
    "algorithms": "names",
    "presets": "names",
    "noise": "non-negative variances",
    "distractors": "non-negative whole numbers",
    "seeds": "non-negative whole numbers (or be a single one: that many seeds, from 0)",
}

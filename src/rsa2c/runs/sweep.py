"""Grids of runs: environments x algorithms x presets x noise x distractors x seeds, and whatever field varies.

A sweep is a folder of run folders. A run that is finished there is never repeated and one that was stopped goes on
from its checkpoint, so starting a sweep again is how to continue it. A run that fails is named at the end and stops
no other. When a run is trained it is evaluated over `final_episodes` fixed-seed episodes at each of `final_noise`, and
at the noise it was trained with.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rsa2c.baselines import settings as rl_zoo
from rsa2c.config import Config, all_settings, default_timesteps, make_config
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError, RSA2CError, did_you_mean
from rsa2c.runs.executors import Executor, run_all
from rsa2c.files import HeldError, PathLike, StorageError, read_yaml
from rsa2c.baselines.settings import BASELINES, PRESET, SETTABLE, BaselineFields, check_algorithm
from rsa2c.runs.folder import Run, make_run_id, without_seed, word

AXES = {
    "environments": None,
    "algorithms": ["rsa2c-kme"],
    "presets": ["default"],
    "noise": [0.0],
    "distractors": [0],
    "seeds": [0],
}
"""The named axes of a grid and what they are when a file does not have them."""
OPTIONS = {"total_timesteps": None, "final_episodes": 100, "final_noise": [0.0]}
"""The other keys of a sweep file; beside them it may have any field of `Config`, as a value or as a list."""
INSTEAD = {"seed": "seeds", "noise_variance": "noise"}
"""Fields of `Config` that are axes under another name."""
MOST_RUNS = 10_000
"""Runs of a sweep, at most."""
REMARK = "Uniform SHAP is Advanced AC: weights that sum to the number of features and are equal change nothing."
LOCK_SECONDS = 60.0
"""How long a run waits for the process that held its folder to be gone: on another node it may die late."""


class SweepError(RSA2CError):
    """Some runs of a sweep failed; the others are whole."""


@dataclass(frozen=True)
class Job:
    """One run of a sweep: what `train_run` is told, and how it is judged in the end."""

    environment: str
    algorithm: str
    preset: str
    total_timesteps: int
    fields: dict[str, Any]
    """Fields of `Config` that the sweep sets, the seed among them."""
    varied: tuple[str, ...] = ()
    """Those that are axes of the grid without a place of their own in the run id."""
    final_episodes: int = 100
    final_noise: tuple[float, ...] = (0.0,)

    @property
    def is_baseline(self) -> bool:
        return self.algorithm in BASELINES

    @property
    def suffix(self) -> str:
        """What the run id needs beyond its usual parts."""
        return "".join(f"__{name}={word(self.fields[name])}" for name in self.varied)

    @cached_property
    def run_id(self) -> str:
        """The name of the run's folder."""
        shown = {"seed": 0, "noise_variance": 0.0, "distractors": 0, **self.fields}
        config = Config(**{name: shown[name] for name in ("seed", "noise_variance", "distractors")})
        return make_run_id(self.environment, self.algorithm, self.preset, config) + self.suffix

    def settings(self) -> Config | BaselineFields:
        """What the run is told; settings that do not exist are refused, before anything is computed."""
        if self.is_baseline:
            return BaselineFields(**self.fields)
        return make_config(self.environment, self.preset, self.algorithm, **self.fields)


@dataclass(frozen=True)
class Grid:
    """What a sweep file says."""

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
        """The grid of a mapping such as a sweep file holds; `source` names it in errors."""
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
        options = {key: document.get(key, default) for key, default in OPTIONS.items()}
        _check_options(options, source)
        axes = {key: _listed(document.get(key, default), key, source) for key, default in AXES.items()}
        settings = {key: value for key, value in document.items() if key not in AXES and key not in OPTIONS}
        for key, values in {**axes, **{k: v for k, v in settings.items() if isinstance(v, list)}}.items():
            if not values:
                raise ConfigError(f"{source} has no runs: {key!r} is empty. Give it at least one value.")
        lengths = [len(values) for values in (*axes.values(), *settings.values()) if isinstance(values, list)]
        if math.prod(lengths) > MOST_RUNS:
            raise ConfigError(f"{source} has {math.prod(lengths):,} runs; {MOST_RUNS:,} are the most.")
        grid = cls(axes, options, settings)
        if isinstance(options["total_timesteps"], Mapping):
            for name in options["total_timesteps"]:
                if name not in axes["environments"]:
                    hint = did_you_mean(str(name), axes["environments"])
                    what = f"{source}: total_timesteps is given for {name!r}, which is no environment of it"
                    raise ConfigError(f"{what}.{hint}")
        idle = [name for name in settings if name not in SETTABLE]
        if idle and set(axes["algorithms"]) <= set(BASELINES):
            what = f"{source}: {', '.join(axes['algorithms'])} has no setting {', '.join(idle)}"
            raise ConfigError(f"{what}: it trains with RL-Zoo's and can be told {', '.join(SETTABLE)}.")
        first = {name: value[0] if isinstance(value, list) else value for name, value in settings.items()}
        with _named(source):
            for environment, preset in itertools.product(axes["environments"], axes["presets"]):
                if preset != PRESET:
                    make_config(environment, preset, **first)
            # Seeds are checked where a run gets its id; one of each kind of run has all else
            for job in {without_seed(job.run_id): job for job in grid.jobs()}.values():
                job.settings()
        return grid

    def jobs(self) -> list[Job]:
        """Every run, seeds outermost, so that a sweep cut short has few whole seeds rather than few variants."""
        lists = {name: value for name, value in self.settings.items() if isinstance(value, list)}
        fixed = {name: value for name, value in self.settings.items() if not isinstance(value, list)}
        jobs: dict[str, Job] = {}
        order = ("seeds", "environments", "presets", "distractors", "noise", "algorithms")
        for seed, environment, preset, distractors, noise, algorithm in itertools.product(
            *(self.axes[name] for name in order)
        ):
            for values in itertools.product(*lists.values()):
                shown = {"seed": seed, "noise_variance": float(noise), "distractors": distractors}
                baseline = algorithm in BASELINES
                told = {**fixed, **dict(zip(lists, values, strict=True))}
                if baseline:
                    told = {name: value for name, value in told.items() if name in SETTABLE}
                job = Job(
                    environment,
                    algorithm,
                    PRESET if baseline else preset,
                    self._steps(environment, algorithm),
                    {**shown, **told},
                    tuple(name for name in lists if name in told),
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


def run_job(job: Job, out: PathLike) -> dict[str, Any]:
    """Train a run, or go on with it, evaluate it at last, and say what came of it: the columns of `summary`."""
    from rsa2c.runs import training

    run = Run(Path(out) / job.run_id)
    if run.config_path.exists():
        check_same(job, run)
        if not training.is_finished(run, job.total_timesteps):
            _when_free(partial(training.resume_run, run.path, job.total_timesteps, track=False))
    else:
        training.train_run(
            job.environment, job.algorithm, job.preset, job.total_timesteps, out, track=False, suffix=job.suffix,
            **job.fields,
        )  # fmt: skip
    training.judge(run, job.final_episodes, job.final_noise)
    return summary(run)


def summary(run: Run) -> dict[str, Any]:
    """What a table of runs shows of one, read from its folder."""
    document, metrics, returns = run.read_config(), run.read_metrics(), run.read_returns()
    config = document["config"]
    if not metrics or not {"timesteps", "seconds"} <= set(metrics[-1]):
        raise FileFormatError(f"{run.metrics_path} is missing or damaged. Restore it from a copy, or train anew.")
    last = metrics[-1]
    row = {
        "run": run.path.name,
        "environment": document["environment"],
        "algorithm": document["algorithm"],
        "preset": document["preset"],
        "noise": config.get("noise_variance", 0.0),
        "distractors": config.get("distractors", 0),
        "seed": config.get("seed", 0),
        "steps": int(float(last["timesteps"])),
        "seconds": float(last["seconds"]),
        "commit": document.get("commit"),
        "processor": str(document.get("processor", "")),
        "versions": ", ".join(f"{name} {version}" for name, version in document.get("versions", {}).items()),
    }
    for variance, values in zip(returns["noise_variance"], returns["returns"], strict=True):
        row[f"mean_{word(variance)}"], row[f"std_{word(variance)}"] = float(values.mean()), float(values.std())
    return row


def check_same(job: Job, run: Run) -> None:
    """Refuse a folder whose run was made with other settings than this sweep's."""
    document = run.read_config()
    if document["algorithm"] != job.algorithm or document["environment"] != job.environment:
        held = f"{document['algorithm']} on {document['environment']}"
        raise ConfigError(f"run {run.path} holds {held}. Use another --out.")
    steps = document["total_timesteps"]
    if steps > job.total_timesteps:
        raise ConfigError(
            f"run {run.path} was told to train {steps:,} steps, the sweep asks for {job.total_timesteps:,}. "
            "Use another --out, or delete that run's folder."
        )
    for name, asked in job.settings().settings().items():
        had = document["config"].get(name)
        if asked not in ("auto", had):
            raise ConfigError(
                f"run {run.path} was made with {name}={had!r}, the sweep asks for {asked!r}. "
                "Use another --out, or delete that run's folder."
            )


@dataclass
class Progress:
    """Where a sweep stands, for a display."""

    jobs: Sequence[Job]
    out: Path
    running: dict[int, float] = field(default_factory=dict)
    """Job numbers, and when each began."""
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


def run_sweep(
    jobs: Sequence[Job],
    out: PathLike,
    executor: Executor = "processes",
    workers: int | None = None,
    address: str | None = None,
    show: Callable[[Progress, int | None], None] = lambda progress, ended: None,
) -> Progress:
    """Run every job; `show(progress, i)` is called about once a second and whenever job i ended."""
    progress = Progress(jobs, Path(out))
    found = run_all(partial(run_job, out=progress.out.resolve()), jobs, executor, workers, address)
    try:
        progress.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"folder {out} could not be made: {error.strerror or error}. Use another --out.") from error
    with closing(found) as events:
        for event in events:
            index = event.index
            if index is not None and not event.ended:
                progress.running[index] = time.monotonic()
            elif index is not None:
                progress.running.pop(index, None)
                if event.error is None:
                    progress.rows[index] = event.value
                else:
                    progress.errors[index] = event.error
            show(progress, index if event.ended else None)
    return progress


def _when_free(call: Callable[[], Any]) -> Any:
    """Make a call that needs a run's lock, waiting a while for its last holder to be gone."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return call()
        except HeldError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)


def is_done(job: Job, out: PathLike) -> bool:
    """Whether a run and its last evaluation are there, as the job asks for them."""
    try:
        return is_whole(job, Run(Path(out) / job.run_id))
    except RSA2CError:
        return False


def is_whole(job: Job, run: Run) -> bool:
    """The same of its folder, where what is damaged or was made otherwise is an error."""
    from rsa2c.runs import training

    if not run.config_path.exists():
        return False
    check_same(job, run)
    finished = training.is_finished(run, job.total_timesteps)
    return finished and training.is_judged(run, job.final_episodes, job.final_noise)


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Say in errors which file they are about."""
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
        raise ConfigError(f"{source}: final_noise must be a list of variances, none negative, got {noise!r}.")
    for value in steps.values() if isinstance(steps, Mapping) else [steps]:
        if value is not None and not is_whole(value):
            raise ConfigError(f"{source}: total_timesteps must be a positive whole number, got {value!r}.")


def _listed(value: Any, key: str, source: str) -> list[Any]:
    if key == "seeds" and isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MOST_RUNS:
            raise ConfigError(f"{source}: seeds must lie between 1 and {MOST_RUNS:,}, got {value:,}.")
        return list(range(value))
    values = value if isinstance(value, list) else [value] if value is not None else []
    kinds: Any = {"noise": (int, float), "distractors": int, "seeds": int}.get(key, str)
    for item in values:
        wrong = isinstance(item, bool) or not isinstance(item, kinds)
        if wrong or (kinds is not str and not 0 <= item < math.inf):
            raise ConfigError(f"{source}: {key} must hold {_KINDS[key]}, got {item!r}.")
        if key == "algorithms":
            with _named(source):
                check_algorithm(item)
    return values


_KINDS = {
    "environments": "environment ids",
    "algorithms": "names",
    "presets": "names",
    "noise": "variances, none negative",
    "distractors": "whole numbers, none negative",
    "seeds": "whole numbers, none negative (or be one: that many seeds from 0)",
}

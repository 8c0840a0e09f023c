"""A search for settings with Optuna: it can be stopped and continued, and gives up early on what does not learn.

Every setting is sought as a factor of what the preset has, so that the first trial is the preset itself. Training seeds
begin at 1,000 and the episodes that judge a trial at 20,000, so that a reported score is never one that was tuned on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rsa2c.agent import RSA2C
from rsa2c.config import default_timesteps
from rsa2c.envs import EnvLike, Source
from rsa2c.envs.modules import use_module
from rsa2c.envs.watchdog import native_limit
from rsa2c.errors import ConfigError, DataError, FileFormatError, require
from rsa2c.files import PathLike, holding, write_atomically
from rsa2c.runs.evaluation import evaluate_policy

TRAINING_SEED, EPISODE_SEED = 1_000, 20_000
JOURNAL, BEST = "journal.log", "best.yaml"
EVALUATIONS = 10
"""Evaluations of a training; a trial below the median of the others at the same one is given up."""
STARTUP_TRIALS, WARMUP_EVALUATIONS = 5, 2
"""Trials that are never given up, and evaluations that decide nothing yet."""
SPACE: dict[str, tuple[str, float]] = {
    "kl": ("size", 3.0),
    "gamma": ("gap", 3.0),
    "gae_lambda": ("gap", 3.0),
    "value_lambda": ("gap", 3.0),
    "value_ridge": ("size", 30.0),
    "length_scale": ("size", 1.6),
    "capacity": ("count", 2.0),
    "policy_decay": ("size", 4.0),
}
"""Settings that are sought: what the factor multiplies (the setting, or its gap to 1), and the largest factor."""

Show = Callable[[int, float | None, dict[str, Any]], None]
"""Called after each trial with its number from 0, its score (None if it was given up) and its settings."""


@dataclass(frozen=True)
class Search:
    """What is sought; a folder holds one search and continues no other."""

    environment: str
    algorithm: str | None
    total_timesteps: int
    seeds: int
    episodes: int
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    registered: bool = True
    """Whether the name alone makes the environment, as a sweep needs it."""

    def __post_init__(self) -> None:
        for name in ("total_timesteps", "seeds", "episodes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")

    def document(self) -> dict[str, Any]:
        """As the journal has it."""
        return {**vars(self), "env_kwargs": dict(self.env_kwargs)}


@dataclass(frozen=True)
class Tuned:
    """The result of a search."""

    search: Search
    folder: Path
    settings: dict[str, Any]
    """The best trial's settings, where they differ from the preset's."""
    score: float
    """Its mean return."""
    preset_score: float
    """That of the preset, the first trial."""
    trials: int
    """Trials with a result or given up."""
    given_up: int

    @property
    def flags(self) -> str:
        """The settings as flags of `rsa2c train`."""
        return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in self.settings.items())

    @property
    def document(self) -> str:
        """The settings as YAML: a file of `rsa2c sweep` that tries them on five other seeds, where a file can make the
        environment."""
        search = self.search
        if not search.registered:
            return yaml.safe_dump(self.settings, sort_keys=False)
        named = {} if search.algorithm is None else {"algorithms": [search.algorithm]}
        sweep = {"environments": [search.environment], **named, "seeds": 5, "total_timesteps": search.total_timesteps}
        return yaml.safe_dump({**sweep, **self.settings}, sort_keys=False)


def tune(
    env: EnvLike,
    algorithm: str | None = None,
    total_timesteps: int | None = None,
    out: PathLike = "tune",
    *,
    trials: int = 30,
    seeds: int = 1,
    episodes: int = 20,
    env_kwargs: Mapping[str, Any] | None = None,
    show: Show | None = None,
) -> Tuned:
    """Search until the folder `out` has `trials` trials; those that it has already count.

    A trial trains one agent for each of `seeds` seeds and is worth their mean return over `episodes` episodes.
    """
    optuna = require("optuna", "tune", "A search for settings")
    if trials < 1:
        raise ConfigError(f"trials must be at least 1, got {trials}.")
    use_module(env)
    source = Source.of(env, env_kwargs)
    total = default_timesteps(source.name) if total_timesteps is None else total_timesteps
    registered = source.id is not None and ":" not in source.id and not env_kwargs
    search = Search(source.name, algorithm, total, seeds, episodes, dict(env_kwargs or {}), registered)
    source.check_single("evaluate the trials")
    with closing(RSA2C(source, algorithm, seed=TRAINING_SEED)) as agent:
        preset = agent.config.settings()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with holding(folder, "search"):
        study = _study(optuna, folder, search)
        while (done := len(_finished(study))) < trials:
            if done == 0 and not study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.WAITING]):
                study.enqueue_trial(dict.fromkeys(sought(preset), 1.0))
            # Seeded by what is done, a search that was stopped goes on as if it had not been
            study.sampler = optuna.samplers.TPESampler(seed=TRAINING_SEED + done)
            _try(optuna, study, search, source, preset, show)
        result = _result(study, search, folder)
        write_atomically(folder / BEST, result.document.encode())
    return result


def sought(preset: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """The part of `SPACE` that a preset has and a factor can change."""
    return {
        name: (kind, ratio)
        for name, (kind, ratio) in SPACE.items()
        if preset.get(name) is not None and (1 - preset[name] if kind == "gap" else preset[name]) > 0
    }


def scaled(name: str, value: float, factor: float) -> float | int:
    """A setting times its factor, with three digits; the factor 1 changes nothing.

    "size": value * factor; "gap": 1 - (1 - value) * factor, which stays above 0; "count": a whole number.
    """
    kind = SPACE[name][0]
    if factor == 1.0:
        return value
    if kind == "gap":
        return round(1 - float(f"{min((1 - value) * factor, 0.99):.3g}"), 9)
    return max(1, round(value * factor)) if kind == "count" else float(f"{value * factor:.3g}")


def _study(optuna: Any, folder: Path, search: Search) -> Any:
    """The folder's study; a new one in an empty folder. Trials that a stopped process left under way are closed."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL)))
        pruner = optuna.pruners.MedianPruner(STARTUP_TRIALS, WARMUP_EVALUATIONS + 1)
        study = optuna.create_study(
            storage=storage, study_name="tune", direction="maximize", pruner=pruner, load_if_exists=True
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{folder / JOURNAL} is no journal of a search ({error}). Use another --out.") from error
    known = study.user_attrs.get("search")
    if known is None:
        study.set_user_attr("search", search.document())
    elif known != search.document():
        differs = [name for name, value in search.document().items() if known.get(name) != value]
        had = ", ".join(f"{name}={known.get(name)!r}" for name in differs)
        raise ConfigError(f"{folder} has a search with {had}. Ask for the same, or use another --out.")
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _finished(study: Any) -> list[Any]:
    """Trials with a result, or given up."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.name in ("COMPLETE", "PRUNED")]


def _try(optuna: Any, study: Any, search: Search, source: Source, preset: dict[str, Any], show: Show | None) -> None:
    """One trial. Settings with which the mathematics fails are given up; any other failure stops the search."""
    number, trial, states = len(_finished(study)), study.ask(), optuna.trial.TrialState
    settings = {}
    for name, (_, ratio) in sought(preset).items():
        settings[name] = scaled(name, preset[name], trial.suggest_float(name, 1 / ratio, ratio, log=True))
    changed = {name: value for name, value in settings.items() if value != preset[name]}
    trial.set_user_attr("settings", changed)
    score = None
    try:
        score = _score(trial, search, source, changed)
    except DataError as error:
        trial.set_user_attr("error", str(error))
    except BaseException:
        study.tell(trial, state=states.FAIL)
        raise
    if score is None:
        study.tell(trial, state=states.PRUNED)
    else:
        study.tell(trial, score)
    if show is not None:
        show(number, score, changed)


def _score(trial: Any, search: Search, source: Source, settings: dict[str, Any]) -> float | None:
    """The mean return of the agents of all seeds, or None if the trial is given up."""
    scores = []
    for index in range(search.seeds):
        with closing(RSA2C(source, search.algorithm, seed=TRAINING_SEED + index, **settings)) as agent:
            if not _trained(agent, trial, search, index * EVALUATIONS):
                return None
            scores.append(evaluate_policy(agent, search.episodes, seed=EPISODE_SEED).mean)
    return float(np.mean(scores))


def _trained(agent: RSA2C, trial: Any, search: Search, first: int) -> bool:
    """Train, and report `EVALUATIONS` evaluations as steps `first`, first + 1, ...; whether it was not given up."""
    reported = 0

    def after_epoch(*_: Any) -> bool:
        nonlocal reported
        due = min(EVALUATIONS, int(EVALUATIONS * agent.num_timesteps / search.total_timesteps))
        if due in (reported, EVALUATIONS):
            return True
        reported = due
        trial.report(evaluate_policy(agent, search.episodes, seed=EPISODE_SEED).mean, first + due)
        return not trial.should_prune()

    with native_limit(agent.config.step_timeout):
        agent.learn(search.total_timesteps, callback=after_epoch)
    return agent.num_timesteps >= search.total_timesteps


def _result(study: Any, search: Search, folder: Path) -> Tuned:
    finished = _finished(study)
    complete = [trial for trial in finished if trial.state.name == "COMPLETE"]
    if not complete:
        raise DataError(f"no trial of {folder} could be trained: {finished[0].user_attrs.get('error')}")
    best = max(complete, key=lambda trial: trial.value)
    first = finished[0].value if finished[0].state.name == "COMPLETE" else float("nan")
    settings, given_up = best.user_attrs["settings"], len(finished) - len(complete)
    return Tuned(search, folder, settings, best.value, first, len(finished), given_up)

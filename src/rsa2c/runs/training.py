"""Training in a run folder: metrics, evaluations, checkpoints, signals, and exact continuation after a stop.

An epoch is the unit of everything. Whatever stops a run (Ctrl-C, SIGTERM, an environment that fails, a power
cut), its unfinished epoch is discarded and the folder keeps the last epoch boundary, from which `resume_run`
reaches, byte for byte, the model of a run that was never stopped. `baseline_training` does the same for SAC and PPO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any

import numpy as np

from rsa2c.agent import RSA2C
from rsa2c.algorithm.automatic import check_total
from rsa2c.baselines.policy import BASELINES, Baseline
from rsa2c.config import algorithm_name, default_timesteps, make_config
from rsa2c.envs import EnvLike, Source
from rsa2c.envs.modules import use_module
from rsa2c.envs.names import Names
from rsa2c.envs.watchdog import native_limit
from rsa2c.errors import ConfigError
from rsa2c.files import PathLike, StorageError
from rsa2c.gpu.choosing import PACKAGES
from rsa2c.progress import progress
from rsa2c.runs import baseline_training
from rsa2c.runs.checkpointer import Checkpointer
from rsa2c.runs.data import RunData
from rsa2c.runs.evaluation import (
    EVALUATION_SEED,
    TrainingInterrupted,
    evaluate_agent,
    evaluate_policy,
    signals_ignored,
    terminations_interrupt,
)
from rsa2c.runs.folder import Run
from rsa2c.runs.memory import keep_freed_memory
from rsa2c.runs.names import make_run_id
from rsa2c.sb3.tensorboard import tracker_in

__all__ = [
    "EVALUATION_SEED",
    "TrainingInterrupted",
    "evaluate_agent",
    "is_finished",
    "load_agent",
    "load_policy",
    "resume_run",
    "train_run",
]

FINAL_EPISODES = 100
"""Episodes of a run's final evaluation, from seed 0 on, as `rsa2c evaluate` plays them."""


def train_run(
    env: EnvLike,
    algorithm: str | None = None,
    preset: str = "default",
    total_timesteps: int | None = None,
    out: PathLike = "runs",
    *,
    display: bool = False,
    track: bool = True,
    suffix: str = "",
    env_kwargs: Mapping[str, Any] | None = None,
    feature_names: Names | None = None,
    workers: int = 1,
    cluster: str | None = None,
    **fields: Any,
) -> Run:
    """Train a new agent in a new folder under `out`.

    `env`, `env_kwargs`, `workers` and `cluster` are those of `RSA2C`; an environment that is not an id has to be given
    again to `resume_run`. `fields` are fields of `Config` (for sac and ppo, those of `BaselineFields`); `suffix` is
    appended to the run id.
    """
    if total_timesteps is not None:
        check_total(total_timesteps)
    use_module(env)
    source = Source.of(env, env_kwargs)
    if algorithm in BASELINES:
        if workers != 1 or cluster is not None:
            raise ConfigError(f"{algorithm} trains in this process alone. Leave workers and cluster (--address) out.")
        if source.id is None or feature_names or env_kwargs:
            raise ConfigError(f"{algorithm} trains on ids without env_kwargs and feature_names, got {source.name}.")
        return baseline_training.train(
            source.id, algorithm, preset, total_timesteps, out, suffix, display=display, track=track, **fields
        )
    config = make_config(source.name, preset, algorithm, **fields)
    total = total_timesteps if total_timesteps is not None else default_timesteps(source.name)
    name = algorithm or algorithm_name(config)
    run_id = make_run_id(source.name, name, preset, config) + suffix
    Run.refuse_existing(out, run_id)
    source.check_single("evaluate the agent of a run folder")
    spread: dict[str, Any] = {"workers": workers, "cluster": cluster}
    with closing(RSA2C(source, algorithm, preset=preset, feature_names=feature_names, **spread, **fields)) as agent:
        extra = {"environment": source.name, "algorithm": name, "preset": preset, "total_timesteps": total}
        extra |= _environment(agent, feature_names is not None)
        run = Run.create(out, run_id, agent.config, extra, () if agent.config.device == "cpu" else PACKAGES)
        with run.locked():
            _train(run, agent, total, display, track)
    return run


def _environment(agent: RSA2C, named: bool) -> dict[str, Any]:
    """What `config.yaml` says of an environment beyond its name, where there is something to say."""
    known: dict[str, Any] = {}
    if not agent.task.is_id:
        known["env_is_id"] = False
    if agent.task.env_kwargs:
        known["env_kwargs"] = dict(agent.task.env_kwargs)
    if named:
        known["feature_names"] = list(agent.feature_names)
    return known


def resume_run(
    path: PathLike,
    total_timesteps: int | None = None,
    *,
    env: EnvLike | None = None,
    display: bool = False,
    track: bool = True,
    workers: int = 1,
    cluster: str | None = None,
) -> Run:
    """Continue from a run's last checkpoint to `total_timesteps`, counted from the run's beginning.

    Unset, it is the number the run was created with. A run stopped before its first checkpoint starts over, and so does
    every baseline that was stopped. `env` is the environment of a run that was trained on a factory or an object.
    `workers` and `cluster` are those of `RSA2C`, whatever the run had before.
    """
    run = Run.open(path)
    with run.locked():
        data = RunData.of(run, env)
        total = total_timesteps if total_timesteps is not None else data.total_timesteps
        check_total(total)
        if data.is_baseline:
            return baseline_training.resume(data, total, display=display, track=track)
        with closing(_resumable(data)) as agent:
            if agent.epoch and agent.num_timesteps >= total:
                raise ConfigError(
                    f"run {run.path} has {agent.num_timesteps:,} steps already, {total:,} were asked for. "
                    f"Ask for more with: rsa2c resume {run.path}{run.env_option} --total-timesteps N"
                )
            agent.spread_over(workers, cluster)
            run.rewind(agent.epoch, agent.num_timesteps)
            if total != data.total_timesteps:
                run.write_config({**data.document, "total_timesteps": total})
            _train(run, agent, total, display, track)
    return run


def is_finished(run: Run | RunData, total_timesteps: int | None = None) -> bool:
    """Whether a run has all the environment steps it was asked to make (or `total_timesteps`), and one epoch."""
    data = RunData.of(run)
    total = total_timesteps if total_timesteps is not None else data.total_timesteps
    return data.checkpoint is not None and data.epochs > 0 and data.steps >= total


def judge(run: Run | RunData, episodes: int = FINAL_EPISODES, noise_variances: Sequence[float] = (0.0,)) -> RunData:
    """Evaluate a trained run, with a row of `returns.npz` for each noise variance, and return its data with the result.
    Rows that are already there with as many episodes are kept."""
    data = RunData.of(run)
    if is_judged(data, episodes, noise_variances):
        return data
    rows: dict[float, tuple[np.ndarray, np.ndarray]] = {}
    if (known := data.returns) is not None and known["returns"].shape[1] == episodes:
        rows = {level: (returns, lengths) for level, returns, lengths in zip(*known.values(), strict=True)}
    for variance in set(noise_variances) - set(rows):
        result = evaluate_policy(data.agent, episodes, variance)
        rows[variance] = result.returns, result.lengths
    levels = sorted(rows)
    returns, lengths = (np.stack([rows[level][k] for level in levels]) for k in (0, 1))
    return data.with_returns(data.run.write_returns(np.array(levels, dtype=np.float64), returns, lengths))


def is_judged(run: Run | RunData, episodes: int = FINAL_EPISODES, noise_variances: Sequence[float] = (0.0,)) -> bool:
    """Whether the run has a final evaluation of that many episodes, with at least those noise variances."""
    known = RunData.of(run).returns
    if known is None:
        return False
    return known["returns"].shape[1] == episodes and set(noise_variances) <= set(known["noise_variance"])


def load_policy(run: Run | RunData) -> RSA2C | Baseline:
    """The policy of a run of any algorithm: a kernel agent at its last checkpoint, or a trained baseline."""
    return RunData.of(run).agent


def load_agent(run: Run | RunData) -> RSA2C:
    """The kernel agent of a run at its last checkpoint, or its model if there is no checkpoint."""
    return RunData.of(run).kernel_agent


def _resumable(data: RunData) -> RSA2C:
    """The agent at its last checkpoint; a new one before the first."""
    if data.checkpoint is not None:
        return data.kernel_agent
    _ = data.config  # refuses a setting that does not exist, by name
    env = data.source if data.env is None else Source.of(data.env, data.env_kwargs)
    names = data.document.get("feature_names")
    return RSA2C(env, preset=data.document["preset"], feature_names=names, **data.settings)


def _train(run: Run, agent: RSA2C, total: int, display: bool, track: bool) -> None:
    keep_freed_memory()
    with ExitStack() as stack:
        tracker = stack.enter_context(tracker_in(run.path, agent.num_timesteps if agent.epoch else 0, track))
        show = stack.enter_context(progress(agent, total, enabled=display))
        keeper = Checkpointer(run, agent, total, show, tracker)
        stack.enter_context(terminations_interrupt())
        stack.enter_context(native_limit(agent.config.step_timeout))
        try:
            agent.learn(total - (agent.num_timesteps if agent.epoch else 0), callback=keeper.after_epoch)
            keeper.save()
        except KeyboardInterrupt:
            with signals_ignored():
                keeper.save()
            kept = f"the unfinished epoch is discarded and epoch {keeper.boundary.state.epoch} is saved"
            raise TrainingInterrupted(run, kept) from None
        except Exception as error:
            kept = "The last checkpoint is kept" if run.state_path.exists() else "Nothing was saved yet"
            with suppress(StorageError), signals_ignored():
                keeper.save()
                kept = f"Epoch {keeper.boundary.state.epoch} is saved"
            error.add_note(f"{kept}. Continue with: rsa2c resume {run.path}{run.env_option}")
            raise

"""What is known of a trained agent, and the data of a run folder: every file is read when it is first needed, and only
once."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rsa2c.baselines.settings import BASELINES, BaselineConfig
from rsa2c.config import Config
from rsa2c.errors import ConfigError, EnvError, FileFormatError, NotFoundError
from rsa2c.files import Metadata, read_metadata
from rsa2c.runs.folder import Run

if TYPE_CHECKING:
    # The agent brings Numba and Gymnasium, which a list of runs does not need
    from rsa2c.agent import RSA2C
    from rsa2c.baselines.policy import Baseline
    from rsa2c.envs.source import EnvLike, Source

Arrays = dict[str, np.ndarray]


class AgentData:
    """What is known of a trained agent: the run's log where there is one, and otherwise nothing of it."""

    document: dict[str, Any]
    """What was asked for, as `config.yaml` has it: environment, algorithm, preset, total_timesteps, config."""

    @property
    def name(self) -> str:
        """What a command calls it."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What a page calls it, without folders."""
        return self.name

    def output(self, file_name: str) -> Path:
        """Where a command writes a file about it if it is not told where."""
        raise NotImplementedError

    @property
    def has_kernel_agent(self) -> bool:
        """Whether there is a kernel agent to look at; a run has none before its first checkpoint."""
        return True

    @property
    def agent(self) -> RSA2C | Baseline:
        """The policy."""
        raise NotImplementedError

    @property
    def kernel_agent(self) -> RSA2C:
        """The same, if it has to be a kernel agent."""
        if self.is_baseline:
            raise ConfigError(
                f"run {self.name} is a {self.algorithm} run, a neural network; this needs a kernel agent, such as "
                "--algorithm rsa2c-kme trains."
            )
        return self.agent  # type: ignore[return-value]

    @property
    def environment(self) -> str:
        return self.document["environment"]

    @property
    def algorithm(self) -> str:
        return self.document["algorithm"]

    @property
    def is_baseline(self) -> bool:
        return self.algorithm in BASELINES

    @property
    def total_timesteps(self) -> int:
        """Environment steps that were asked for, those of the warm-up included."""
        return self.document["total_timesteps"]

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as stored, field by field."""
        return self.document["config"]

    @property
    def has_log(self) -> bool:
        """Whether there is a log of the training."""
        return True

    @property
    def metrics(self) -> list[dict[str, str]]:
        """A row for each epoch."""
        return []

    @property
    def evaluations(self) -> Arrays | None:
        """The evaluations during training."""
        return None

    @property
    def attributions(self) -> Arrays | None:
        """Importances and kernel weights during training."""
        return None

    @property
    def returns(self) -> Arrays | None:
        """The returns of the final evaluation."""
        return None

    @property
    def clean_returns(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns and lengths (E,) of the final evaluation without observation noise: the score of the run.

        Episode i was reset with seed i. None before the final evaluation, and if it had noise only.
        """
        if self.returns is None or not (clean := self.returns["noise_variance"] == 0.0).any():
            return None
        return self.returns["returns"][clean][0], self.returns["ep_lengths"][clean][0]

    @property
    def steps(self) -> int:
        """Environment steps done, those of the warm-up included: the number that every list, page and card shows."""
        return self.total_timesteps

    @property
    def which_acts(self) -> str:
        """Which policy acts, in words that follow the steps; nothing to say where it is the last one."""
        step = self.steps if self.is_baseline else self.kernel_agent.acting.steps
        return f"; the policy of step {step:,} was the best and acts" if step < self.steps else ""


@dataclass(frozen=True, eq=False)
class RunData(AgentData):
    """What the files of a run folder say. It does not change when the folder does: after training, read it again."""

    run: Run
    document: dict[str, Any]
    """`config.yaml`, as `Run.read_config` returns it."""

    env: EnvLike | None = None
    """The environment, where the caller has it and the folder does not."""

    @classmethod
    def of(cls, run: Run | RunData, env: EnvLike | None = None) -> RunData:
        """The data of a run; data that were already read are returned unchanged.

        `env` is the environment of a run whose folder cannot make it.
        """
        return run if isinstance(run, RunData) else cls(run, run.read_config(), env)

    @property
    def source(self) -> Source:
        """What makes the environment, from the folder alone; nothing is imported for it."""
        from rsa2c.envs.source import Source

        if not self.document.get("env_is_id", True):
            raise EnvError(
                f"run {self.run.path} was trained on an environment of its own, {self.environment}, which a folder "
                "cannot hold. Pass it: env=... in Python, --env module:Name on the command line."
            )
        return Source(id=self.environment, kwargs=self.env_kwargs)

    @property
    def env_kwargs(self) -> dict[str, Any]:
        """Arguments of the environment."""
        return self.document.get("env_kwargs", {})

    @property
    def name(self) -> str:
        return str(self.run.path)

    @property
    def label(self) -> str:
        return self.run.path.name

    @property
    def has_kernel_agent(self) -> bool:
        return self.run.state_path.exists()

    def output(self, file_name: str) -> Path:
        """In the run's folder."""
        return self.run.path / file_name

    @cached_property
    def config(self) -> Config | BaselineConfig:
        """The run's configuration, checked."""
        try:
            return BaselineConfig(**self.settings) if self.is_baseline else Config.of(self.settings)
        except (TypeError, ConfigError) as error:
            raise FileFormatError(
                f"{self.run.config_path} has no usable configuration: {error} Restore it from a copy."
            ) from error

    @cached_property
    def metrics(self) -> list[dict[str, str]]:
        """The rows of `metrics.csv`; none before the first epoch."""
        return self.run.read_metrics()

    @property
    def last_row(self) -> dict[str, str]:
        """The last row of `metrics.csv`; a trained run without one is damaged."""
        if not self.metrics or not {"timesteps", "seconds"} <= set(self.metrics[-1]):
            raise FileFormatError(
                f"{self.run.metrics_path} is missing or damaged. Restore it from a copy, or train again."
            )
        return self.metrics[-1]

    @cached_property
    def checkpoint(self) -> Metadata | None:
        """Metadata of the last checkpoint (for a baseline: its model, written at the end); None without one."""
        path = self.run.model_path if self.is_baseline else self.run.state_path
        return read_metadata(path, "baseline" if self.is_baseline else "state") if path.exists() else None

    @property
    def epochs(self) -> int:
        """Epochs in the checkpoint; for a baseline, rows of its metrics."""
        return len(self.metrics) if self.is_baseline else self._count("epoch")

    @property
    def steps(self) -> int:
        """Environment steps in the checkpoint, from which the run acts and resumes; those of the warm-up included.

        After a crash the log may be ahead of it. For a baseline before its end, which has none, the log counts.
        """
        if self.is_baseline and self.checkpoint is None and self.metrics:
            return int(float(self.last_row["timesteps"]))
        return self._count("num_timesteps")

    def _count(self, name: str) -> int:
        if self.checkpoint is None:
            return 0
        count = self.checkpoint.get(name)
        if type(count) is not int or count < 0:
            path = self.run.model_path if self.is_baseline else self.run.state_path
            raise FileFormatError(f"{path} has no usable {name}, got {count!r}. Restore it from a copy.")
        return count

    @cached_property
    def evaluations(self) -> Arrays | None:
        """`Run.read_evaluations`; None if the run was never evaluated."""
        return self.run.read_evaluations() if self.run.evaluations_path.exists() else None

    @cached_property
    def attributions(self) -> Arrays | None:
        """`Run.read_attributions`; None if there are none."""
        return self.run.read_attributions() if self.run.attributions_path.exists() else None

    @cached_property
    def returns(self) -> Arrays | None:
        """`Run.read_returns`; None before the final evaluation."""
        return self.run.read_returns() if self.run.returns_path.exists() else None

    def with_returns(self, returns: Arrays) -> RunData:
        """The same data after a final evaluation, so that nothing else is read again."""
        other = copy.copy(self)
        vars(other)["returns"] = returns
        return other

    @cached_property
    def agent(self) -> RSA2C | Baseline:
        """The policy: a kernel agent at its last checkpoint, or a trained baseline."""
        if self.is_baseline:
            from rsa2c.runs import baseline_training

            return baseline_training.load(self)
        from rsa2c.agent import RSA2C
        from rsa2c.algorithm.snapshot import Snapshot

        if self.run.state_path.exists():
            return RSA2C.of(Snapshot.load(self.run.state_path, kind="state"), self.env)
        if self.run.model_path.exists():
            return RSA2C.load(self.run.model_path, self.env)
        again = f"rsa2c resume {self.run.path}{self.run.env_option}"
        raise NotFoundError(f"run {self.run.path} has no checkpoint yet. Train it with: {again}")

"""Finding an agent by the name that a user gives: a run folder, a model file or an agent of the zoo."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rsa2c.agent import RSA2C
from rsa2c.baselines.policy import Baseline
from rsa2c.envs import EnvLike
from rsa2c.files import PathLike
from rsa2c.runs.data import AgentData, Arrays, RunData
from rsa2c.runs.folder import Run
from rsa2c.zoo import Card, is_zoo, located


@dataclass(frozen=True, eq=False)
class ModelData(AgentData):
    """An agent in one file. There is no log of its training; a file of the zoo has a card with its score."""

    source: str
    """Path of the file, or zoo:ID."""
    loaded: RSA2C
    card: Card | None

    @classmethod
    def of(cls, source: str, env: EnvLike | None = None) -> ModelData:
        """The agent of a model file, a checkpoint or the zoo."""
        return cls(source, RSA2C.load(source, env), Card.of(located(source)) if is_zoo(source) else None)

    @property
    def name(self) -> str:
        return self.source

    @property
    def label(self) -> str:
        return self.source if is_zoo(self.source) else Path(self.source).name

    def output(self, file_name: str) -> Path:
        """Beside a model file, and for the zoo in the current folder; the agent's name is part of the file's."""
        folder = Path() if is_zoo(self.source) else Path(self.source).parent
        wanted = Path(file_name)
        return folder / f"{wanted.stem}-{Path(located(self.source)).stem}{wanted.suffix}"

    @property
    def agent(self) -> RSA2C:
        return self.loaded

    @property
    def document(self) -> dict[str, Any]:  # type: ignore[override]
        agent = self.loaded
        found: dict[str, Any] = {
            "environment": agent.env_id,
            "algorithm": agent.algorithm,
            "preset": agent.preset,
            "total_timesteps": max(agent.num_timesteps, 1),
            "config": agent.config.settings(),
        }
        if self.card is None:
            return found
        known = {"total_timesteps": self.card.total_timesteps, "versions": self.card.versions}
        return {**found, **known, "commit": self.card.commit}

    @property
    def steps(self) -> int:
        return self.loaded.num_timesteps if self.card is None else self.card.steps

    @property
    def has_log(self) -> bool:
        return False

    @property
    def returns(self) -> Arrays | None:
        if self.card is None:
            return None
        return {
            "noise_variance": np.zeros(1),
            "returns": np.array([self.card.returns]),
            "ep_lengths": np.array([self.card.lengths]),
        }


def opened(source: PathLike, env: EnvLike | None = None) -> AgentData:
    """What a command was given: zoo:ID, a model file, a run folder, or the name of a run under ./runs; `env` is the
    environment, where no file can make it."""
    if is_zoo(source) or os.path.isfile(source):
        return ModelData.of(str(source), env)
    return RunData.of(Run.open(source), env)


def load(source: PathLike) -> RSA2C | Baseline:
    """The agent of zoo:ID, of a model file, of a run folder, or of a run under ./runs.

        agent = rsa2c.load("zoo:Pendulum-v1")
        agent.predict(observation)

    `learn` trains on from what the file holds; for the zoo that is the policy that acts, rounded.
    """
    return opened(source).agent

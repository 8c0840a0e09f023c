"""Schedules over epochs, and what "auto" means.

Schedules run on absolute epochs, never on a total, so that training on is the same as having trained longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rsa2c.config import Config
from rsa2c.errors import ConfigError, EnvError

SMALL_BATCH, LARGE_BATCH = 4800, 8000


@dataclass(frozen=True)
class Sizes:
    """The numbers of a configuration that may say "auto", once they are settled."""

    n_envs: int
    horizon: int
    capacity: int
    kl: float

    @classmethod
    def of(cls, config: Config) -> Sizes:
        """Those of a settled configuration."""
        return cls(int(config.n_envs), int(config.horizon), int(config.capacity), float(config.kl))

    @property
    def epoch_steps(self) -> int:
        """Environment steps of an epoch."""
        return self.n_envs * self.horizon


def linear(start: float, end: float, epoch: int, epochs: int) -> float:
    """From `start` to `end` over `epochs`, then constant."""
    return start + (end - start) * min(1.0, epoch / epochs)


def geometric(start: float, end: float | None, epoch: int, epochs: int) -> float:
    """The same on a logarithmic scale; constant if there is no end."""
    return start if end is None else float(start * (end / start) ** min(1.0, epoch / epochs))


def polynomial(start: float, power: float, epoch: int) -> float:
    """start (t+1)^-power: 3/4 for the actor and 1/2 for the critic in the paper's theorem."""
    return start * (epoch + 1.0) ** -power


def settle_sizes(config: Config, d: int, m: int, limit: int | None) -> Config:
    """Every "auto" that depends on the environment's dimensions alone."""
    settled: dict[str, int | float] = {}
    if config.horizon == "auto":
        if limit is None:
            raise ConfigError("this environment has no episode limit, so horizon='auto' has no answer. Set horizon.")
        settled["horizon"] = limit
    horizon = int(settled.get("horizon", config.horizon))
    if config.n_envs == "auto":
        steps = np.clip(1600 * d, SMALL_BATCH, LARGE_BATCH)
        settled["n_envs"] = int(np.clip(round(steps / horizon), 1, 96))
    if config.capacity == "auto":
        settled["capacity"] = int(np.clip(round(148 * np.sqrt(d)), 256, 1024))
    if config.kl == "auto":
        settled["kl"] = 0.03 if m == 1 else 0.02
    return config.updated(**settled)


def settle_length_scale(config: Config, x: NDArray) -> Config:
    """l = factor * sqrt(E|x - x'|^2 / 2) over normalised warm-up states: features that never vary do not count."""
    if config.length_scale != "auto":
        return config
    spread = float(np.sqrt(np.sum(np.var(x, axis=0))))
    if spread == 0:
        raise EnvError("no observation varied in the warm-up, so length_scale='auto' has no answer. Set length_scale.")
    return config.updated(length_scale=config.length_scale_factor * spread)

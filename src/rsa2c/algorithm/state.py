"""The state of a training, and the random streams of an epoch.

Every random draw of epoch t comes from generators seeded by (seed, t, phase), so a state needs no generator to continue
exactly where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.following import Scale
from rsa2c.algorithm.weights import Importances
from rsa2c.config import Config
from rsa2c.kernel.rkhs import RKHSFunction

COLLECT, ADMIT, ATTRIBUTE, WARMUP, KEEP, SMOOTH = range(6)
"""Random streams of an epoch."""


@dataclass(frozen=True, eq=False)
class Kept:
    """The policy to act with, and what belongs to its epoch: the same as in `TrainingState`."""

    policy: GaussianPolicy
    value: RKHSFunction | None
    advantage: RKHSFunction
    background: NDArray[np.float64]
    epoch: int
    steps: int
    score: float
    """Mean return of the episodes that confirmed it and of those in which it was tried again."""
    episodes: int
    """Their number."""


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Everything that an epoch reads and replaces; nothing in it is ever changed in place."""

    policy: GaussianPolicy
    value: RKHSFunction | None
    """The Value Critic, in reward units; None for a method without one."""
    advantage: RKHSFunction
    """w_A on the actor's dictionary: the advantage of u at s is w_A(s)^T Sigma^-1 (u - h(s))."""
    importances: Importances
    scale: Scale
    """Moving averages of the visited states' means and variances."""
    background: NDArray[np.float64]
    """(b, d): raw states visited last, the background of explanations."""
    epoch: int
    """Finished epochs."""
    steps: int
    """Environment steps so far, those of the warm-up included."""
    warmup_steps: int
    """Environment steps of the warm-up."""
    kept: Kept | None = None
    """The best policy so far; None before the first trial, and where the last policy is to act."""
    environments: tuple[Any, ...] = ()
    """What environments that go on from one epoch to the next carry over, arrays (n_envs, ...), on a device its own;
    nothing where every epoch starts afresh."""

    def counted_anew(self) -> TrainingState:
        """The same, with steps that count from zero."""
        kept = None if self.kept is None else replace(self.kept, steps=0)
        return replace(self, steps=0, warmup_steps=0, kept=kept)


def generator(config: Config, epoch: int, *stream: int) -> np.random.Generator:
    """The generator of one random stream of an epoch."""
    return np.random.default_rng([config.seed, epoch, *stream])


def environment_seed(rng: np.random.Generator) -> int:
    """A seed for environments side by side: that of the last of them, seed + i, is still within 32 signed bits."""
    return int(rng.integers(2**31 - 2**16))


def dtype_of(config: Config) -> type:
    """Precision of batch features and their Gram products."""
    return np.float32 if config.precision == "float32" else np.float64

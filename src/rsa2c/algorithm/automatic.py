"""What `"auto"` means: settings that follow from the environment's dimensions and the spread of its states.

The exploration noise that a training begins with is in `first_noise.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.config import Config, FollowingScale, KLStep, NoisyTraining, PolynomialStep
from rsa2c.errors import ConfigError, EnvError

STEPS_PER_FEATURE, SMALL_BATCH, LARGE_BATCH = 1600, 4800, 8000
"""Steps of an epoch where the scale is frozen grow with the number of features: 4,800 for three, as in the paper, and
no more than 8,000, which serve 105."""
MOST_ENVIRONMENTS = 96
"""More environments side by side are no faster on one core."""
CAPACITY_FACTOR, SMALL_CAPACITY, LARGE_CAPACITY = 148, 256, 1024
"""Dictionary capacity grows with the square root of the number of features: 256 for 3, 725 for 24, 1,024 for 105."""
FOLLOWING_BATCH = 4000
"""Steps of an epoch where the scale follows: small batches and steps learn fastest. With noise in training there are
twice as many, because the environments differ in their level of it."""
FOLLOWING_LENGTH = 1.35
"""Wide kernels generalise from a few thousand steps of a robot; d - 2 because three features, as Pendulum-v1 has, need
a finer one."""
LARGEST_GROWTH = 20
"""Batches that grow end at this many times the first: larger ones would be few, and the last would overshoot the steps
that were asked for."""
LARGEST_GAMMA = 0.993
"""Discount where episodes are long. Where they are shorter than 143 steps it looks no further than they last: values
of what comes after would rest on no data. With 0.993 two of six trainings of a motor with episodes of 50 steps ran
away; with 0.98 none of the six did, and all ended with a better policy (other seeds still did: `plausible.py`)."""
ENDLESS_HORIZON = 1000
"""Steps of each environment per epoch where episodes have no limit: as long as those of Gymnasium's robots."""
FEW_FEATURES, LARGEST_KL = 7, 1.0
"""Up to so many features a step's KL is bounded at every state. Plants have few, and their costs are those of rare
states, such as starts far from the set point, at which a step of small mean KL may leap: of 60 trainings of twelve
plants 14 ended with more than twice the cost of a hand-tuned controller without the bound, and 3 with it, 6 of 60 with
other seeds (results/plants.md, results/research.md). On LunarLanderContinuous-v3, with 8 features, it costs a quarter
of the return."""
KL_OF_ONE_ACTION, KL_OF_MANY = 0.03, 0.02
"""KL of a step; one action dimension tolerates more."""


@dataclass(frozen=True)
class Sizes:
    """The numbers of a configuration that may be "auto", once they are settled."""

    n_envs: int
    horizon: int
    capacity: int

    @classmethod
    def of(cls, config: Config) -> Sizes:
        """Those of a settled configuration."""
        return cls(int(config.n_envs), int(config.horizon), int(config.capacity))

    @property
    def epoch_steps(self) -> int:
        """Environment steps of an epoch, before any growth (`horizon_at`)."""
        return self.n_envs * self.horizon


def horizon_at(config: Config, steps: int, epoch: int) -> int:
    """Steps of each environment in epoch t, which begins after `steps` environment steps.

    Whole multiples of the horizon, so that episodes stay whole where the horizon is one: with `batch_doubling`
    `LARGEST_GROWTH` at most, with `batch_power` (t+1)^batch_power, rounded.
    """
    horizon = Sizes.of(config).horizon
    if config.batch_doubling is not None:
        horizon *= min(LARGEST_GROWTH, 1 + steps // config.batch_doubling)
    if isinstance(config.step, PolynomialStep):
        horizon *= round((epoch + 1) ** config.step.batch_power)
    return horizon


def check_total(steps: Any) -> None:
    """Refuse anything but a positive, finite number of environment steps."""
    if not (isinstance(steps, int | float | np.number) and 0 < steps < math.inf):
        raise ConfigError(f"total_timesteps must be a positive, finite number, got {steps!r}.")


def last_step(config: Config, steps: int, epoch: int, goal: int) -> int:
    """Environment steps at the end of the epoch that reaches `goal`, where `epoch` begins after `steps`; one epoch at
    least."""
    while True:
        steps += Sizes.of(config).n_envs * horizon_at(config, steps, epoch)
        epoch += 1
        if steps >= goal:
            return steps


def settle_sizes(config: Config, d: int, m: int, limit: int | None, brought: int | None = None) -> Config:
    """Every "auto" that depends on the environment's dimensions alone; `brought` is the number of environments, where
    it came with them: then each makes as many episodes in an epoch as fill the batch."""
    settled: dict[str, Any] = {}
    following = isinstance(config.scale, FollowingScale)
    steps = FOLLOWING_BATCH if following else int(np.clip(STEPS_PER_FEATURE * d, SMALL_BATCH, LARGE_BATCH))
    if following and isinstance(config.robust, NoisyTraining):
        steps *= 2
    if config.horizon == "auto":
        horizon = ENDLESS_HORIZON if limit is None else limit
        settled["horizon"] = horizon * (1 if brought is None else max(1, round(steps / (brought * horizon))))
    if config.n_envs == "auto":
        horizon = int(settled.get("horizon", config.horizon))
        settled["n_envs"] = int(np.clip(round(steps / horizon), 1, MOST_ENVIRONMENTS))
    if config.gamma == "auto":
        settled["gamma"] = LARGEST_GAMMA if limit is None else min(LARGEST_GAMMA, 1 - 1 / limit)
    if config.capacity == "auto":
        capacity = round(CAPACITY_FACTOR * np.sqrt(d))
        settled["capacity"] = int(np.clip(capacity, SMALL_CAPACITY, LARGE_CAPACITY))
    if isinstance(config.step, KLStep) and config.step.kl == "auto":
        settled["kl"] = KL_OF_ONE_ACTION if m == 1 else KL_OF_MANY
    if isinstance(config.step, KLStep) and config.step.kl_largest == "auto":
        settled["kl_largest"] = LARGEST_KL if d <= FEW_FEATURES else None
    return config.updated(**settled)


def settle_length_scale(config: Config, x: NDArray) -> Config:
    """From normalised warm-up states x (N, d), in which constant features do not count.

    With a frozen scale l = factor * sqrt(E|x - x'|^2 / 2). Where the scale follows the visited states every feature
    that varies has unit variance, and l = 1.35 sqrt(max(1, d - 2)) for d of them.
    """
    if config.length_scale != "auto":
        return config
    spread = float(np.sqrt(np.sum(np.var(x, axis=0))))
    if spread == 0:
        raise EnvError("no observation varied in the warm-up, so length_scale='auto' has no answer. Set length_scale.")
    if isinstance(config.scale, FollowingScale):
        varying = int(np.sum(np.ptp(x, axis=0) > 0))
        return config.updated(length_scale=FOLLOWING_LENGTH * max(1, varying - 2) ** 0.5)
    return config.updated(length_scale=config.scale.length_scale_factor * spread)

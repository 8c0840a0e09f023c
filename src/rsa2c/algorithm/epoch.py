"""RSA2C: one epoch of the paper's Algorithm 1, as a function from state to state.

Collect with the current policy, let the dictionaries grow, fit the Value Critic, attribute it by RKHS-SHAP, make the
attributions the kernel's feature weights, fit the Advantage Critic, step the Actor, keep the best policy. An epoch that
fails returns nothing, and the state it was given is still what it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numba.core.event import install_timer
from numpy.typing import NDArray

from rsa2c.algorithm import diagnostics
from rsa2c.algorithm.admission import admit
from rsa2c.algorithm.automatic import horizon_at
from rsa2c.algorithm.fits import Estimate
from rsa2c.algorithm.keeping import keep_best
from rsa2c.algorithm.observing import Observe
from rsa2c.algorithm.phases import explore, roll_out, step_actor
from rsa2c.algorithm.projection import follow_states
from rsa2c.algorithm.reweighting import attribute_and_reweight
from rsa2c.algorithm.robust import Smoothness
from rsa2c.algorithm.state import ADMIT, COLLECT, TrainingState, generator
from rsa2c.algorithm.work import Basis, Work
from rsa2c.algorithm.workers import Spread, Workers
from rsa2c.config import Config
from rsa2c.kernel.rkhs import RKHSFunction

BACKGROUND_STATES = 256
"""Visited states kept as the background of explanations: the game's error falls as 1/sqrt of their number, and 256
keep a model file small."""
PHASES = ("collect", "admit", "value", "attribute", "advantage", "actor")
"""The phases of an epoch, in order; `EpochRecord.seconds` has the time of each."""
COMPILE = "compile"
"""What `EpochRecord.seconds` calls the time that Numba spent compiling, or loading what it had compiled before. It is
in no phase: otherwise the first attribution of a run would seem to take seconds."""

Around = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True, eq=False)
class EpochRecord:
    """What is known of an epoch besides the state it led to."""

    metrics: dict[str, float]
    """The epoch's row of `metrics.csv`."""
    seconds: dict[str, float]
    """Phase -> seconds, and `COMPILE` -> seconds."""
    work: Work
    attribution: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    """Mean absolute attribution and kernel weight of each feature, (d,) both, where attributions were due."""
    spread: Spread = field(default_factory=Spread)
    episodes: list[tuple[float, int]] = field(default_factory=list)
    """Return and length of each episode that ended by itself, environment after environment."""


def epoch(
    state: TrainingState, workers: Workers, config: Config, around: Around = nullcontext, observe: Observe | None = None
) -> tuple[TrainingState, EpochRecord]:
    """The state after one epoch with the environments of `workers`, and the epoch's record; `around(phase)` is entered
    around each phase, and `observe` is called after each step of the environments."""
    clock, t, began = _Clock(around), state.epoch, workers.mark()
    policy, horizon = explore(state.policy, config, t), horizon_at(config, state.steps, t)
    before = Basis.of(policy.mean.dictionary)
    with clock("collect"):
        workers.restore(state.environments)
        samples = roll_out(policy, workers, horizon, config, generator(config, t, COLLECT), observe, state.steps)
    with clock("admit"):
        policy, value, scale, followed = follow_states(
            policy, state.value, state.scale, samples, config, t, generator(config, t, ADMIT, 2)
        )
        mean, value, growths = admit(policy.mean, value, samples, config, t, generator(config, t, ADMIT))
        policy = replace(policy, mean=mean)
    with clock("value"):
        value_basis = Basis.of(value.dictionary) if value is not None else None
        value = workers.fits.value(value, samples, config, t)
        estimate = workers.fits.estimate(value, samples, config)
    with clock("attribute"):
        guided = attribute_and_reweight(policy, value, state.importances, samples, estimate, config, t, scale.varies)
    with clock("advantage"):
        actor_basis, penalty = Basis.of(guided.policy.mean.dictionary), Smoothness.of(config, policy, t, state.steps)
        fit = workers.fits.advantage(guided.policy, samples, estimate, config, penalty)
    with clock("actor"):
        policy_after, kl = step_actor(guided.policy, fit, samples, estimate, config, state)
    after = replace(
        state,
        policy=policy_after,
        value=guided.value,
        advantage=replace(policy_after.mean, coefficients=fit.weights),
        importances=guided.importances,
        scale=scale,
        background=samples.thinned(BACKGROUND_STATES, generator(config, t + 1, ADMIT, 1)),
        epoch=t + 1,
        steps=state.steps + workers.n_envs * horizon,
        environments=workers.environments,
    )
    after = replace(after, kept=keep_best(after, state.steps, workers, config))
    metrics = _metrics(after, estimate, kl)
    if config.diagnostics:
        with clock("diagnose"):
            metrics |= diagnostics.of_epoch(samples, estimate, fit, policy.mean, guided.policy, guided.value)
    sizes = workers.n_envs * horizon, samples.n, samples.points, *_dimensions(policy_after.mean)
    work = Work(*sizes, before, actor_basis, value_basis, len(np.unique(guided.policy.sigma)), growths, guided.work,
                guided.reprojections, followed, t)  # fmt: skip
    return after, EpochRecord(metrics, clock.all, work, guided.attribution, workers.spread_since(began), samples.ended)


def _metrics(state: TrainingState, estimate: Estimate, kl: float) -> dict[str, float]:
    """The epoch's row of metrics."""
    weights = state.policy.mean.kernel.weights
    return {
        "epoch": state.epoch,
        "timesteps": state.steps,
        "ep_rew_mean": estimate.episode_return,
        "ep_len_mean": estimate.episode_length,
        "sigma": float(np.mean(state.policy.sigma)),
        "kl": kl,
        "explained_variance": estimate.explained,
        "actor_states": state.policy.mean.dictionary.size,
        "value_states": state.value.dictionary.size if state.value is not None else 0,
        "weight_ratio": float(weights.max() / weights.min()),
    }


def _dimensions(mean: RKHSFunction) -> tuple[int, int]:
    """Features d and action dimensions m."""
    return mean.kernel.dimension, len(mean.output_names)


@dataclass
class _Clock:
    """Times the phases of an epoch, each inside what the caller wraps around it, and compilation apart."""

    around: Around
    seconds: dict[str, float] = field(default_factory=dict)
    compiling: float = 0.0

    @property
    def all(self) -> dict[str, float]:
        """Phase -> seconds, and `COMPILE` -> seconds."""
        return {**self.seconds, COMPILE: self.compiling}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        compiling: list[float] = []
        began = time.perf_counter()
        with install_timer("numba:compiler_lock", compiling.append), self.around(phase):
            yield
        self.seconds[phase] = time.perf_counter() - began - sum(compiling)
        self.compiling += sum(compiling)

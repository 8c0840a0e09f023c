"""Whoever holds the environments of a training: this process, or others that it asks.

`Workers` is both the interface and the plain case, one share in this process. `remote.py` has several shares elsewhere.
A training is the same in both: the same requests, answered by the same `Share`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.fits import Fits
from rsa2c.algorithm.observing import Observe
from rsa2c.algorithm.samples import Samples, environments_per_block
from rsa2c.algorithm.shares import Rollout, Share, Span
from rsa2c.config import Config
from rsa2c.envs import Source, episode_limit, make_env


@dataclass(frozen=True)
class Traffic:
    """What requests to workers have cost so far."""

    requests: int = 0
    """Requests to all workers together."""
    sent: int = 0
    """Bytes sent, to each worker."""
    received: int = 0
    """Bytes received."""
    busy: float = 0.0
    """Seconds in which workers worked, added over workers."""
    longest: float = 0.0
    """Seconds in which the slowest worker of each request worked."""
    waited: float = 0.0
    """Seconds in which the driver waited; those beyond `longest` went into the transport."""
    replaced: int = 0
    """Workers replaced."""

    def __sub__(self, earlier: Traffic) -> Traffic:
        return Traffic(*(a - b for a, b in zip(astuple(self), astuple(earlier), strict=True)))

    def plus(self, **more: float) -> Traffic:
        """With some of its numbers increased."""
        return replace(self, **{name: getattr(self, name) + amount for name, amount in more.items()})


@dataclass(frozen=True)
class Spread:
    """What it took to spread an epoch over workers. It is in no model: a result does not depend on how it was made."""

    workers: int = 1
    bytes: int = 0
    """Sent to the workers and received from them, all together."""
    idle: float = 0.0
    """Share of the epoch's time in which a worker had nothing to do, on average."""
    replaced: int = 0
    """Workers that were lost, or too slow, and replaced."""

    def __str__(self) -> str:
        replaced = f", {self.replaced} replaced" if self.replaced else ""
        return f"{self.workers} workers, {self.bytes / 1e6:.1f} MB an epoch, idle {self.idle:.0%}{replaced}"


class Workers:
    """One share, of all environments, in this process."""

    count = 1
    """Processes other than this one that work; 1 where this one does."""
    traffic = Traffic()
    """Nothing travels here."""
    fits = Fits()
    """Who computes the fits of an epoch."""
    environments: tuple[Any, ...] = ()
    """What environments carry over to the next epoch, arrays (n_envs, ...), on a device its own; nothing where every
    epoch starts afresh."""
    steps_between_trials: int | None = None
    """Training steps between two trials of the policy; None leaves them to `keeping.py`."""
    first_trial: int | None = None
    """Training steps before the first one, from which they double; None if it comes as late as the others."""
    tries_side_by_side = False
    """Whether many episodes of several policies take hardly longer than one, with `side_by_side`."""

    def __init__(self, env: VectorEnv[Any, Any, Any], config: Config) -> None:
        self.n_envs, self.episode_limit = env.num_envs, episode_limit(env)
        per_block = environments_per_block(self.n_envs, Sizes.of(config).horizon)
        self.share = Share(env, Span(0, self.n_envs, per_block), config)

    def restore(self, environments: tuple[Any, ...]) -> None:
        """Go on with what environments carried over; here every rollout starts them afresh."""

    def warm_up_steps(self, steps: int) -> int:
        """Steps of each environment in the warm-up, where `steps` make enough episodes."""
        return steps

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """The answer of every share to the same request."""
        return [getattr(self.share, method)(*arguments)]

    def ask_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answer of every share to a request of its own."""
        return [getattr(self.share, method)(*arguments[0])]

    def roll_out(self, plan: Rollout, observe: Observe | None = None) -> Samples:
        """Roll out in all environments; `observe` is called after each step, where they are in this process."""
        counts, points, ended = zip(*self.ask("roll_out", plan, *([] if observe is None else [observe])), strict=True)
        return Samples(self, list(counts), sum(points), [each for some in ended for each in some])

    def first_episodes(
        self, policy: GaussianPolicy, steps: int, seed: int, errors: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], int]:
        """The policy's return without exploration noise in the first episode of each environment, and the longest's
        length; `errors` (n_envs, d) are standard deviations of noise on the observations."""
        returns, lengths = zip(*self.ask("first_episodes", policy, steps, seed, errors), strict=True)
        return np.concatenate(returns), max(lengths)

    def side_by_side(
        self, policies: Sequence[GaussianPolicy], steps: int, seed: int, errors: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """(policies, episodes): the same for several policies from the same starts, where that takes no longer."""
        raise NotImplementedError

    def start_states(self, count: int, seed: int) -> NDArray[Any]:
        """At least `count` first observations, from seeds that follow on `seed`."""
        rounds = -(-count // self.n_envs)
        found = np.concatenate(self.ask("start_states", rounds, self.n_envs, seed), axis=1)
        return found.reshape(-1, found.shape[2])

    def mark(self) -> tuple[float, Traffic]:
        """Now, for `spread_since`."""
        return time.perf_counter(), self.traffic

    def spread_since(self, mark: tuple[float, Traffic]) -> Spread:
        """What travelled since then, and how long workers waited."""
        return Spread()

    def close(self) -> None:
        """Let go of whatever is elsewhere; environments in this process belong to the caller."""


def training_env(source: Source, config: Config, n_envs: int | None) -> VectorEnv[Any, Any, Any]:
    """Environments to train in, with what the configuration adds to them."""
    return make_env(
        source,
        n_envs,
        backend="auto" if source.vector is not None else config.backend,
        noise_variance=config.noise_variance,
        distractors=config.distractors,
        distractor_kind=config.distractor_kind,
        threads=config.threads,
    )

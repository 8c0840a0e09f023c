"""One worker's share of a training: some of its environments, and the blocks of transitions that come from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.batch import Batch
from rsa2c.algorithm.observing import Observe
from rsa2c.algorithm.robust import filter_weight
from rsa2c.algorithm.rollout import collect, start_states
from rsa2c.algorithm.samples import Block, BlockFunction, blocks_of
from rsa2c.algorithm.sensors import sensors
from rsa2c.algorithm.state import environment_seed
from rsa2c.algorithm.streams import Streams
from rsa2c.algorithm.sums import Nodes, TreeSum
from rsa2c.algorithm.trials import first_episodes
from rsa2c.config import Config

NOISE_SEEDS = 2**63
"""Noise is seeded by a number below this one, drawn for each rollout."""


@dataclass(frozen=True, eq=False)
class Rollout:
    """What all environments do in an epoch. Environment i starts from `seed` + i and draws from the stream
    (`noise_seed`, i)."""

    policy: GaussianPolicy
    steps: int
    seed: int
    noise_seed: int
    dtype: type
    correlation: float
    restart_p: float
    errors: NDArray[np.float64] | None = None
    """(n_envs, d): standard deviations of noise on the observations; None for none."""

    @classmethod
    def drawn(
        cls,
        rng: np.random.Generator,
        policy: GaussianPolicy,
        steps: int,
        dtype: type = np.float64,
        correlation: float = 0.0,
        restart_p: float = 0.0,
    ) -> Rollout:
        """With seeds from a generator."""
        seed, noise_seed = environment_seed(rng), int(rng.integers(NOISE_SEEDS))
        return cls(policy, steps, seed, noise_seed, dtype, correlation, restart_p)


@dataclass(frozen=True)
class Span:
    """Which environments a share has: `count` from number `first` on, `per_block` to a block, from whole blocks on."""

    first: int
    count: int
    per_block: int

    @property
    def first_block(self) -> int:
        """Number of its first block."""
        return self.first // self.per_block


class Share:
    """Environments, and after a rollout its blocks. Its methods are what a driver may ask of it."""

    def __init__(self, env: VectorEnv[Any, Any, Any], span: Span, config: Config) -> None:
        self.env, self.span, self.step_timeout, self.filter = env, span, config.step_timeout, filter_weight(config)
        self.blocks: list[Block] = []

    def roll_out(self, plan: Rollout, observe: Observe | None = None) -> tuple[list[int], int, list[tuple[float, int]]]:
        """Roll out afresh: the number of transitions in each block, of points in all, and the episodes that ended."""
        first, count = self.span.first, self.span.count
        rng = Streams(plan.noise_seed, first, count)
        act = plan.policy.sampler(rng, plan.dtype, plan.correlation)
        self.blocks = []
        batch = collect(
            self.env,
            act,
            plan.policy.mean.kernel.metric,
            plan.steps,
            plan.seed + first,
            rng,
            restart_p=plan.restart_p,
            dtype=plan.dtype,
            step_timeout=self.step_timeout,
            observe=observe,
            sensors=sensors(plan.errors, rng, first, count, self.filter),
        )
        self.blocks = blocks_of(batch, self.span.per_block, self.span.first_block)
        return [block.batch.n for block in self.blocks], len(batch.points), batch.ended

    def reduce(self, function: BlockFunction, arguments: tuple[Any, ...]) -> Nodes:
        """Sums of `function` over the blocks, as far as they can be added without those of other shares."""
        tree = TreeSum()
        for block in self.blocks:
            tree.add(0, block.number, function(block, *arguments))
        return tree.nodes

    def take(
        self, function: BlockFunction, positions: NDArray[np.int64], arguments: tuple[Any, ...]
    ) -> NDArray[Any] | None:
        """Rows at positions among the share's transitions, in their order; None for no positions."""
        found: NDArray[Any] | None = None
        first = 0
        for block in self.blocks:
            here = np.flatnonzero((positions >= first) & (positions < first + block.batch.n))
            if len(here):
                rows = function(block, positions[here] - first, *arguments)
                if found is None:
                    found = np.empty((len(positions), *rows.shape[1:]), rows.dtype)
                found[here] = rows
            first += block.batch.n
        return found

    def batches(self) -> list[Batch]:
        """The transitions themselves."""
        return [block.batch for block in self.blocks]

    def set_values(self, values: list[NDArray[np.float64]]) -> None:
        """Every block takes its values (N + S,) of a fit that was made elsewhere."""
        for block, each in zip(self.blocks, values, strict=True):
            block.values = each

    def first_episodes(
        self, policy: GaussianPolicy, steps: int, seed: int, errors: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], int]:
        """See `trials.py`; `errors` are as in `Rollout`."""
        first, count = self.span.first, self.span.count
        seen = sensors(errors, Streams(seed, first, count), first, count, self.filter)
        return first_episodes(policy, self.env, steps, seed + first, self.step_timeout, seen)

    def start_states(self, rounds: int, n_envs: int, seed: int) -> NDArray[Any]:
        """(rounds, count, d): first observations, where a round of all `n_envs` environments takes as many seeds."""
        first, count = self.span.first, self.span.count
        starts = [start_states(self.env, count, seed + k * n_envs + first, self.step_timeout) for k in range(rounds)]
        return np.stack(starts)

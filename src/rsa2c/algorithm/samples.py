"""The transitions of an epoch, in blocks, wherever they are.

A block holds the transitions of some environments that stand side by side. Fits need sums over transitions: a function
gives them for one block, and `Samples.reduce` adds them over all blocks in a fixed order (`sums.py`). The function
runs where the block is, in this process or with a worker, and only its sums travel. Single rows, such as candidates for
a dictionary, are drawn by their positions and fetched with `Samples.take`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.batch import Batch, between, joined
from rsa2c.algorithm.sums import Moments, TreeSum
from rsa2c.kernel.algebra import NUMPY, Algebra
from rsa2c.kernel.metric import Metric

if TYPE_CHECKING:
    from rsa2c.algorithm.workers import Workers

BLOCK_STEPS = 1000
"""Steps of a block, at least: products of fewer rows are slow, and each block adds matrices as large as a fit's."""


@dataclass(eq=False)
class Block:
    """Transitions of some environments, and what was computed for them in this epoch."""

    batch: Batch
    features: NDArray[Any] | None = None
    """k_D at the points, or at the states, for the dictionary of the last fit."""
    values: NDArray[np.float64] | None = None
    """(N + S,): the Value Critic at every point."""
    advantage: NDArray[np.float64] | None = None
    """(N,): advantages in reward units."""
    number: int = 0
    """Its place among all blocks of the epoch."""


BlockFunction = Callable[..., Any]
"""Takes a block and arguments; defined in a module, so that it can be sent by name."""


class Samples:
    """All blocks of an epoch: `counts` has, for each holder of blocks, the transitions in each of its blocks, and
    `ended` the returns and lengths of the episodes that ended by themselves."""

    algebra: Algebra = NUMPY
    """What operates on dictionaries."""

    def __init__(self, workers: Workers, counts: list[list[int]], points: int, ended: list[tuple[float, int]]) -> None:
        self.workers, self.points, self.ended = workers, points, ended
        self.blocks = [len(each) for each in counts]
        self.bounds = np.cumsum([0, *(sum(each) for each in counts)])

    @property
    def n(self) -> int:
        """Number of transitions N."""
        return int(self.bounds[-1])

    def reduce(self, function: BlockFunction, *arguments: Any) -> Any:
        """The sum over blocks of what `function(block, *arguments)` returns: something with `+`, or a tuple of such."""
        tree = TreeSum()
        for nodes in self.workers.ask("reduce", function, arguments):
            for (level, number), value in nodes.items():
                tree.add(level, number, value)
        return tree.total()

    def take(self, function: BlockFunction, positions: NDArray[np.int64], *arguments: Any) -> NDArray[Any]:
        """Rows at these positions among all N, in their order, of what `function(block, index, *arguments)` gives for
        an index within its block."""
        holder = np.searchsorted(self.bounds, positions, side="right") - 1
        mine = [positions[holder == i] - first for i, first in enumerate(self.bounds[:-1])]
        replies = self.workers.ask_each("take", [(function, each, arguments) for each in mine])
        rows = next(reply for reply, each in zip(replies, mine, strict=True) if len(each))
        found = np.empty((len(positions), *rows.shape[1:]), rows.dtype)
        for i, reply in enumerate(replies):
            if reply is not None:
                found[holder == i] = reply
        return found

    def first_half(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these transitions are in the first half of the episodes. They end nearest to the middle of all
        transitions; a single episode is cut there."""
        middle = self.n // 2
        before, after = (int(steps) for steps in self.around(middle))
        between_episodes = [each for each in (middle - before, middle + after) if 0 < each < self.n]
        return positions < min(between_episodes, key=lambda each: abs(each - middle), default=middle)

    def around(self, position: int) -> NDArray[np.int64]:
        """(2,): steps of an episode before this transition and from it on."""
        return self.take(_around, np.array([position]))[0]

    def thinned(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """At most `count` of the raw states, drawn without replacement."""
        everything = self.n <= count
        drawn = np.arange(self.n) if everything else rng.choice(self.n, count, replace=False)
        return self.raw_states(drawn)

    def raw_states(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The raw states (k, d) of the transitions at these positions."""
        return self.take(raw_states, positions)

    def measure(self, metric: Metric) -> None:
        """Put every block into the coordinates of another metric."""
        self.reduce(_measured, metric)

    def moments(self) -> Moments:
        """Those of the raw states, feature by feature."""
        return self.reduce(_state_moments)

    def batches(self) -> list[Batch]:
        """The transitions of every block, for rules that need more than sums."""
        return [batch for batches in self.workers.ask("batches") for batch in batches]

    def gathered(self) -> Batch:
        """The same as one batch."""
        return joined(self.batches())

    def give_values(self, values: list[NDArray[np.float64]]) -> None:
        """Give every block the Value Critic at its points, in the order of `batches`."""
        bounds = np.cumsum([0, *self.blocks])
        self.workers.ask_each("set_values", [(values[a:b],) for a, b in pairwise(bounds)])


def raw_states(block: Block, index: NDArray) -> NDArray[np.float64]:
    """Raw states (k, d) of the transitions at an index."""
    return block.batch.raw[index + block.batch.segment[index]]


def states(block: Block, index: NDArray) -> NDArray[Any]:
    """The same in the metric's coordinates."""
    return block.batch.points[index + block.batch.segment[index]]


def _around(block: Block, index: NDArray) -> NDArray[np.int64]:
    return steps_around(block.batch.ends, index)


def steps_around(ends: NDArray[np.bool_], index: NDArray) -> NDArray[np.int64]:
    """(k, 2): steps of the episode before each of these transitions and from it on, where `ends` (N,) are the last
    steps of episodes."""
    bounds = np.concatenate([[0], np.flatnonzero(ends) + 1])
    place = np.searchsorted(bounds, index, side="right")
    return np.stack([index - bounds[place - 1], bounds[place] - index], axis=1)


def _measured(block: Block, metric: Metric) -> int:
    block.batch = block.batch.measured(metric)
    return block.batch.n


def _state_moments(block: Block) -> Moments:
    return Moments.of(block.batch.raw_states)


def environments_per_block(n_envs: int, horizon: int) -> int:
    """Environments whose transitions are one block; it depends on nothing but the sizes of the training."""
    return min(n_envs, -(-BLOCK_STEPS // horizon))


def blocks_of(batch: Batch, per_block: int, first: int = 0) -> list[Block]:
    """A batch as blocks of `per_block` environments each, the last one perhaps of fewer, numbered from `first` on."""
    assert batch.lengths is not None, "a rollout says how many transitions each environment made"
    ends = np.cumsum(batch.lengths)
    bounds = [0, *ends[per_block - 1 :: per_block]]
    if len(batch.lengths) % per_block:
        bounds.append(ends[-1])
    return [Block(between(batch, int(a), int(b)), number=k) for k, (a, b) in enumerate(pairwise(bounds), first)]

"""A batch of transitions, cut to those of some environments, or joined from several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Coordinates = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Batch:
    """The N transitions of an epoch, one environment after the other, each in time order, no reset steps.

    A segment is a stretch of one episode. Its L transitions share L + 1 points, the last of which is the
    final observation: transition i leads from `points[i + segment[i]]` to `points[i + segment[i] + 1]`.
    """

    points: NDArray[Any]  # (N + S, d) observations in the metric's coordinates, segment after segment
    raw: NDArray[np.float64]  # (N + S, d) the same as the environment gave them
    segment: NDArray[np.int64]  # (N,) number of each transition's segment, 0 ... S - 1
    latents: NDArray[Any]  # (N, m) u as drawn, before squashing
    means: NDArray[Any]  # (N, m) h(s)
    rewards: NDArray[np.float64]  # (N,) in the environment's units
    terminated: NDArray[np.bool_]  # (N,) the episode ended, and no value follows
    truncated: NDArray[np.bool_]  # (N,) the environment stopped it, and its value continues
    cut: NDArray[np.bool_]  # (N,) we stopped it, by the restart kernel or at the end of the epoch
    episode_returns: NDArray[np.float64]  # of episodes that ended by themselves
    episode_lengths: NDArray[np.int64]
    lengths: NDArray[np.int64] | None = None  # transitions of each environment, where it is known

    ROWS: ClassVar[tuple[str, ...]] = ("points", "raw", "segment", "latents", "means", "rewards", "terminated",
                                       "truncated", "cut", "episode_returns", "episode_lengths")  # fmt: skip

    @property
    def n(self) -> int:
        return len(self.rewards)

    @property
    def ended(self) -> list[tuple[float, int]]:
        """Return and length of each episode that ended by itself."""
        return list(zip(self.episode_returns.tolist(), self.episode_lengths.tolist(), strict=True))

    @property
    def ends(self) -> NDArray[np.bool_]:
        """Last transition of each segment (N,)."""
        return self.terminated | self.truncated | self.cut

    @property
    def state_index(self) -> NDArray[np.int64]:
        """Rows of `points` that hold the states (N,); the next states are one row further."""
        return np.arange(self.n) + self.segment

    @property
    def states(self) -> NDArray[Any]:
        return self.points[self.state_index]

    @property
    def raw_states(self) -> NDArray[np.float64]:
        """(N, d): the states in raw observation units."""
        return self.raw[self.state_index]

    def measured(self, metric: Coordinates) -> Batch:
        """The same transitions in the coordinates of another metric."""
        return replace(self, points=metric(self.raw).astype(self.points.dtype))

    @property
    def next_states(self) -> NDArray[Any]:
        return self.points[self.state_index + 1]


def finished_episodes(
    rewards: NDArray[np.float64], over: NDArray[np.bool_], ends: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns and lengths of the episodes that ended by themselves (`over`), in transitions whose segments end where
    `ends` says; all arguments are (N,)."""
    last = np.flatnonzero(ends)
    first = np.concatenate([[0], last[:-1] + 1])
    complete = over[last]
    return np.add.reduceat(rewards, first)[complete], (last - first + 1)[complete]


def between(batch: Batch, first: int, last: int) -> Batch:
    """The transitions first ... last - 1, which are those of whole environments."""
    if first == 0 and last == batch.n:
        return batch
    part, earlier = slice(first, last), int(batch.segment[first])
    rows = slice(first + earlier, last + int(batch.segment[last - 1]) + 1)
    rewards, terminated, truncated = batch.rewards[part], batch.terminated[part], batch.truncated[part]
    ends = terminated | truncated | batch.cut[part]
    returns, lengths = finished_episodes(rewards, terminated | truncated, ends)
    return Batch(
        batch.points[rows],
        batch.raw[rows],
        batch.segment[part] - earlier,
        batch.latents[part],
        batch.means[part],
        rewards,
        terminated,
        truncated,
        batch.cut[part],
        returns,
        lengths,
    )


def joined(batches: Iterable[Batch]) -> Batch:
    """Several batches as one, in their order."""
    every = list(batches)
    if len(every) == 1:
        return every[0]
    segments = np.cumsum([0, *(len(each.points) - each.n for each in every)])
    fields = {name: np.concatenate([getattr(each, name) for each in every]) for name in Batch.ROWS}
    fields["segment"] = np.concatenate([each.segment + k for each, k in zip(every, segments, strict=False)])
    return Batch(**fields)

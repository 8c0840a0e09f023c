"""Advantages and returns of a batch, from its rewards and values."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.batch import Batch
from rsa2c.errors import DataError


def advantages(batch: Batch, values: NDArray[Any], gamma: float, lam: float) -> NDArray[np.float64]:
    """GAE(lambda) (N,) from the values (N + S,) of `batch.points`.

    delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t) and A_t = sum_k (gamma lambda)^k delta_{t+k},
    the sum stopping with the segment.
    """
    _check_values(batch, values)
    return _gae(batch.rewards, values.astype(np.float64), batch.segment, batch.terminated, batch.ends, gamma, lam)


def discounted_returns(batch: Batch, values: NDArray[Any] | None, gamma: float) -> NDArray[np.float64]:
    """Discounted returns to go (N,); a segment that did not terminate continues with its last point's value.

    `values` (N + S,) are those of `batch.points`; None counts nothing after the segment.
    """
    if values is None:
        values = np.zeros(len(batch.points))
    _check_values(batch, values)
    return _returns(batch.rewards, values.astype(np.float64), batch.segment, batch.terminated, batch.ends, gamma)


@numba.njit(cache=True)
def _gae(rewards, values, segment, terminated, ends, gamma, lam):  # type: ignore[no-untyped-def]
    out = np.empty(len(rewards))
    ahead = 0.0
    for i in range(len(rewards) - 1, -1, -1):
        here = i + segment[i]
        after = 0.0 if terminated[i] else values[here + 1]
        delta = rewards[i] + gamma * after - values[here]
        ahead = delta if ends[i] else delta + gamma * lam * ahead
        out[i] = ahead
    return out


@numba.njit(cache=True)
def _returns(rewards, values, segment, terminated, ends, gamma):  # type: ignore[no-untyped-def]
    out = np.empty(len(rewards))
    ahead = 0.0
    for i in range(len(rewards) - 1, -1, -1):
        if terminated[i]:
            ahead = 0.0
        elif ends[i]:
            ahead = values[i + segment[i] + 1]
        ahead = rewards[i] + gamma * ahead
        out[i] = ahead
    return out


def _check_values(batch: Batch, values: NDArray[Any]) -> None:
    if values.shape != (len(batch.points),):
        raise DataError(
            f"values must have one entry for each of the batch's {len(batch.points)} points, got shape {values.shape}."
        )

"""What a policy sees of the observations that environments give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.streams import Streams
from rsa2c.errors import DataError


class Sensors:
    """Observations as they are."""

    def every(self, observations: NDArray[Any], first: NDArray[np.bool_]) -> NDArray[Any]:
        """(n, d): what is seen of all environments at a step; episodes begin with it in those of `first` (n,)."""
        return observations

    def some(self, observations: NDArray[Any], which: NDArray[np.int64]) -> NDArray[Any]:
        """(k, d): what is seen besides of the environments `which` (k,): the end of an episode, where the next one has
        begun at the same step."""
        return observations


class NoisySensors(Sensors):
    """With Gaussian noise of standard deviations (n, d), independent for every step and feature."""

    def __init__(self, deviations: NDArray[np.float64], streams: Streams) -> None:
        self.deviations, self.streams = deviations, streams

    def every(self, observations: NDArray[Any], first: NDArray[np.bool_]) -> NDArray[Any]:
        return observations + self.deviations * self.streams.sensor_noise(observations.shape[1])

    def some(self, observations: NDArray[Any], which: NDArray[np.int64]) -> NDArray[Any]:
        return observations + self.deviations[which] * self.streams.single_noise(which, observations.shape[1])


class FilteredSensors(Sensors):
    """A low-pass filter behind other sensors, whose errors it damps; it forgets where an episode begins."""

    def __init__(self, inner: Sensors, weight: float) -> None:
        self.inner, self.weight = inner, weight
        self._filtered: NDArray[np.float64] | None = None

    def every(self, observations: NDArray[Any], first: NDArray[np.bool_]) -> NDArray[Any]:
        self._filtered = low_pass(self.weight, self.inner.every(observations, first), self._filtered, first)
        return self._filtered

    def some(self, observations: NDArray[Any], which: NDArray[np.int64]) -> NDArray[Any]:
        assert self._filtered is not None, "no episode ends before it began"
        return low_pass(self.weight, self.inner.some(observations, which), self._filtered[which])


EXACT = Sensors()


def sensors(
    errors: NDArray[np.float64] | None, streams: Streams, first: int, count: int, weight: float | None = None
) -> Sensors:
    """Those of the environments `first` ... `first + count - 1`, where `errors` (n_envs, d) has the standard
    deviations of all; None for no noise. With `weight` they are low-pass filtered."""
    measured = EXACT if errors is None else NoisySensors(errors[first : first + count], streams)
    return measured if weight is None else FilteredSensors(measured, weight)


def low_pass(
    weight: float, measured: NDArray[Any], before: NDArray[np.float64] | None, first: Any = False
) -> NDArray[np.float64]:
    """y = x where an episode begins, elsewhere y' + weight (x - y'), for measurements x (..., d).

    `before` is y', what was seen one step before, None where all episodes begin; `first` (...) says which do.
    """
    x = np.asarray(measured, dtype=np.float64)
    if before is None:
        return x.copy()
    return np.where(np.expand_dims(first, -1), x, before + weight * (x - before))


def low_passed(weight: float, episode: NDArray[Any]) -> NDArray[np.float64]:
    """(T, d): an episode's measurements, one after the other through the filter."""
    seen: list[NDArray[np.float64]] = []
    for measured in episode:
        seen.append(low_pass(weight, measured, seen[-1] if seen else None))
    return np.array(seen).reshape(np.shape(episode))


def remembering(weight: float, measured: Any, state: Any, episode_start: Any) -> NDArray[np.float64]:
    """What a policy behind the filter sees of one observation (d,) or a batch (N, d), in the convention of
    Stable-Baselines3's recurrent policies: `state` is what this returned one step before."""
    x = np.asarray(measured, dtype=np.float64)
    if episode_start is None or (state is None and not np.all(episode_start)):
        raise DataError(
            "this agent sees measurements through a filter (robust='filter'), so predict must know what it saw one "
            "step before and where episodes begin. Write action, state = agent.predict(observation, state, "
            "episode_start), with state=None and episode_start=True at the first step of an episode."
        )
    first = np.broadcast_to(np.asarray(episode_start, dtype=bool), x.shape[:-1])
    if state is not None and np.shape(state) != x.shape:
        raise DataError(
            f"state must be what predict returned one step before, of the observation's shape {x.shape}, got the shape "
            f"{np.shape(state)}. Pass state=None and episode_start=True where an episode begins."
        )
    return low_pass(weight, x, state, first)

"""What a policy sees of the observations that environments give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.streams import Streams


class Sensors:
    """Observations as they are."""

    def every(self, observations: NDArray[Any]) -> NDArray[Any]:
        """(n, d): what is seen of all environments at a step."""
        return observations

    def some(self, observations: NDArray[Any], which: NDArray[np.int64]) -> NDArray[Any]:
        """(k, d): what is seen besides of the environments `which` (k,): the end of an episode, where the next one has
        begun at the same step."""
        return observations


class NoisySensors(Sensors):
    """With Gaussian noise of standard deviations (n, d), independent for every step and feature."""

    def __init__(self, deviations: NDArray[np.float64], streams: Streams) -> None:
        self.deviations, self.streams = deviations, streams

    def every(self, observations: NDArray[Any]) -> NDArray[Any]:
        return observations + self.deviations * self.streams.sensor_noise(observations.shape[1])

    def some(self, observations: NDArray[Any], which: NDArray[np.int64]) -> NDArray[Any]:
        return observations + self.deviations[which] * self.streams.single_noise(which, observations.shape[1])


EXACT = Sensors()


def sensors(errors: NDArray[np.float64] | None, streams: Streams, first: int, count: int) -> Sensors:
    """Those of the environments `first` ... `first + count - 1`, where `errors` (n_envs, d) has the standard
    deviations of all; None for no noise."""
    return EXACT if errors is None else NoisySensors(errors[first : first + count], streams)

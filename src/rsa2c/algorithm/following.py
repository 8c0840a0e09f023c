"""The kernel's inputs follow the states that the policy visits.

Where means and standard deviations are frozen on what an untrained policy sees, the states of a policy that runs are
several deviations wide, and the kernel no longer tells them apart. Here they are moving averages over epochs. When the
standard deviation of some feature has drifted, the kernel takes the new ones and the policy is re-projected, inside the
same trust region as a change of feature weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rsa2c.kernel.metric import Metric, smallest_std

NEWEST = 0.3
"""Share of the newest batch in the moving averages: three epochs are half of them."""
DRIFT = 0.15
"""Change of log standard deviation of any feature from which the kernel takes the new ones."""
CLIP = 1000.0
"""Standard deviations beyond which inputs do not differ: with the knee, 13.8 units from the mean."""
KNEE = 2.0
"""Standard deviations from which distances grow as their logarithm. 1 costs 8% on HalfCheetah-v5 and 3% on Hopper-v5
and Walker2d-v5; without a knee InvertedDoublePendulum-v5 and LunarLanderContinuous-v3 suffer."""


@dataclass(frozen=True, eq=False)
class Scale:
    """Moving averages of means (d,) and variances (d,) of raw observations."""

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]

    @classmethod
    def of(cls, observations: NDArray) -> Scale:
        """Those of raw observations (N, d)."""
        return cls(observations.mean(axis=0, dtype=np.float64), observations.var(axis=0, dtype=np.float64))

    @property
    def varies(self) -> NDArray[np.bool_]:
        """(d,): the features that vary; where the scale is frozen, those that did in the warm-up."""
        return np.sqrt(self.variance) >= smallest_std(self.mean)

    def updated(self, mean: NDArray, variance: NDArray) -> Scale:
        """With a share of the newest observations' mean (d,) and variance (d,)."""
        return Scale((1 - NEWEST) * self.mean + NEWEST * mean, (1 - NEWEST) * self.variance + NEWEST * variance)

    def followed(self, metric: Metric) -> Metric:
        """The metric on the scale of these averages; itself where no standard deviation has drifted far enough."""
        moved = metric.rescaled(self.mean, np.sqrt(self.variance))
        return moved if np.any(np.abs(np.log(moved.std / metric.std)) > DRIFT) else metric

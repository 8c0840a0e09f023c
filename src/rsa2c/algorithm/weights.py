"""Which features count, and the kernel weights that follow.

`Importances` averages what is measured of each feature while training: what critics of two halves of the episodes say
of it (`guidance.py`), and what actions do to it (`influence.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rsa2c.config import AgreementGuidance

REPEATED = (0.65, 0.85)
"""The share a / b from which a feature counts, and from which it counts in full. Useless features that drift have up to
0.55 on Hopper-v5, and up to 0.85 on an oven while the policy still uses them; the target of Reacher-v5 and the oven's
set point, which no action moves, 0.7 to 0.95. With 0.5 and 0.75 the pendulum with 30 drifts keeps a third of its
weight."""
MOVED = (3.0, 6.0)
"""The same for what actions move, in standard deviations of what chance does to a feature that they do not. Of these
features up to one in sixty is above three by chance at first, where squares of few numbers are averaged."""
NEGLIGIBLE = 2e-3
"""Share of a source's largest importance that is taken off first: where states are sparse both critics fall to their
mean, along useless features as well, and agree on that. It is about half of this share in `tests/test_guidance.py`."""
SHORTEST_LENGTH_SCALE = 0.6
"""No feature's length scale falls below this many standard deviations: a finer kernel does not generalise."""


@dataclass(frozen=True, eq=False)
class Importances:
    """Moving averages of each feature's importance, one row per source, and of what actions move."""

    agreed: NDArray[np.float64]
    """(sources, d): what both halves say."""
    alone: NDArray[np.float64]
    """(sources, d): what each half says by itself, mean of both."""
    explained: NDArray[np.float64]
    """(sources,): share of each source's variance that the attribution critics explain."""
    moved: NDArray[np.float64]
    """(d,): what actions do to each feature (`influence.influence`)."""
    updates: int = 0

    @classmethod
    def none(cls, dimension: int) -> Importances:
        """Before anything was measured."""
        return cls(np.zeros((0, dimension)), np.zeros((0, dimension)), np.zeros(0), np.zeros(dimension))

    def updated(self, measured: Measured, moved: NDArray, decay: float) -> Importances:
        """A plain mean over the first measurements, then an average that forgets with `decay`."""
        if self.updates == 0:
            return Importances(measured.agreed, measured.alone, measured.explained, moved, 1)
        keep = min(decay, self.updates / (self.updates + 1.0))
        return Importances(
            agreed=keep * self.agreed + (1 - keep) * measured.agreed,
            alone=keep * self.alone + (1 - keep) * measured.alone,
            explained=keep * self.explained + (1 - keep) * measured.explained,
            moved=keep * self.moved + (1 - keep) * moved,
            updates=self.updates + 1,
        )

    def repeated(self) -> NDArray[np.float64]:
        """(d,): the share of a feature's importance on which the halves agree, the largest of all sources."""
        negligible = NEGLIGIBLE * self.agreed.max(axis=1, initial=0.0, keepdims=True)
        agreed = self.agreed - negligible
        return np.divide(agreed, self.alone, out=np.zeros_like(agreed), where=self.alone > 0).max(axis=0, initial=0.0)

    def reasons(self, decay: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(d,) both: whether each feature counts, from 0 to 1, because actions move it, and because its importance
        repeats; `decay` is that of the averages, and says how many measurements are in them."""
        measurements = min(float(self.updates), (1 + decay) / (1 - decay)) if decay < 1 else float(self.updates)
        return _ramp(self.moved * np.sqrt(measurements), MOVED), _ramp(self.repeated(), REPEATED)

    def counts(self, decay: float) -> NDArray[np.float64]:
        """(d,): whether each feature counts, for either reason."""
        return np.maximum(*self.reasons(decay))

    def weights(self, rule: AgreementGuidance, length_scale: float, varies: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(d,): kernel weights w_i = f + (1 - f) n u_i / sum_l u_l with u_i whether feature i counts, over the n
        features that vary; one for all others.

        They sum to d, less what the shortest length scale cuts off. f = floor^e, where e is the share of the value's
        variance that is explained: what little explains the value says little about which features are useless.
        """
        counts = np.where(varies, self.counts(rule.moment_decay), 0.0)
        if counts.sum() == 0:
            return np.ones_like(counts)
        floor = rule.weight_floor ** float(self.explained[0])
        weights = np.where(varies, floor + (1 - floor) * varies.sum() * counts / counts.sum(), 1.0)
        return np.minimum(weights, (length_scale / SHORTEST_LENGTH_SCALE) ** 2)


def _ramp(x: NDArray, ends: tuple[float, float]) -> NDArray[np.float64]:
    """0 up to the first end, 1 from the second on, and linear between them."""
    return np.clip((x - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Measured:
    """One measurement of what `Importances` averages, and what is logged of it."""

    agreed: NDArray[np.float64]
    alone: NDArray[np.float64]
    explained: NDArray[np.float64]
    logged: NDArray[np.float64]
    """(d,): mean absolute attribution of the first source, whatever the statistic that guides, or the root of another
    importance."""

"""Sets of observation perturbations that certificates hold for and attacks search: l2 balls and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import ConfigError, DataError, did_you_mean

Norm = Literal["l2", "linf"]
Units = Literal["raw", "normalised"]
Array = NDArray[np.float64]


def unit_scale(policy: Any, units: str) -> float | Array:
    """Raw size of one unit: 1, or with `units="normalised"` the standard deviation of each feature."""
    if units not in get_args(Units):
        raise ConfigError(f"units must be one of {', '.join(get_args(Units))}, got {units!r}.")
    if units == "raw":
        return 1.0
    metric = getattr(getattr(getattr(policy, "policy_mean", None), "kernel", None), "metric", None)
    if metric is None:
        raise ConfigError(
            f"units='normalised' needs an agent with a kernel, which {type(policy).__name__} does not have. "
            "Use units='raw'."
        )
    return np.asarray(metric.std, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Region:
    """All perturbations D with |D / scale| <= epsilon in l2 or l-infinity norm.

    `epsilon` is one number or one per state; `scale` is the raw size of one unit, one number or one per feature.
    """

    epsilon: float | Array
    norm: Norm = "l2"
    scale: float | Array = 1.0

    def __post_init__(self) -> None:
        if self.norm not in get_args(Norm):
            near = did_you_mean(self.norm, get_args(Norm)) if isinstance(self.norm, str) else ""
            raise ConfigError(f"norm must be 'l2' or 'linf', got {self.norm!r}.{near}")
        epsilon = np.asarray(self.epsilon, dtype=np.float64)
        if epsilon.ndim > 1 or not np.all(np.isfinite(epsilon) & (epsilon >= 0)):
            raise ConfigError(f"epsilon must be finite and >= 0, one number or one per state, got {epsilon.tolist()}.")
        scale = np.asarray(self.scale, dtype=np.float64)
        if scale.ndim > 1 or not np.all(np.isfinite(scale) & (scale > 0)):
            raise ConfigError(f"scale must be positive, one number or one per feature, got {scale.tolist()}.")

    def radii(self, states: int) -> Array:
        """(N,): epsilon of each state."""
        epsilon = np.asarray(self.epsilon, dtype=np.float64)
        if epsilon.ndim and len(epsilon) != states:
            raise DataError(f"epsilon must be one number or one for each of the {states} states, got {len(epsilon)}.")
        return np.broadcast_to(epsilon, (states,))

    def sampled(self, rngs: Sequence[np.random.Generator], d: int) -> Array:
        """(N, d): a perturbation drawn uniformly from the set for each generator."""
        if self.norm == "linf":
            unit = np.array([rng.uniform(-1.0, 1.0, d) for rng in rngs])
        else:
            directions = np.array([rng.standard_normal(d) for rng in rngs])
            share = np.array([rng.uniform() ** (1.0 / d) for rng in rngs])
            unit = directions * (share / np.linalg.norm(directions, axis=1))[:, None]
        return unit * self.radii(len(rngs))[:, None] * self.scale

    def projected(self, perturbations: ArrayLike) -> Array:
        """The nearest perturbations inside the set, in units of `scale`."""
        unit = np.asarray(perturbations, dtype=np.float64) / self.scale
        epsilon = self.radii(len(unit))[:, None]
        if self.norm == "linf":
            return np.clip(unit, -epsilon, epsilon) * self.scale
        length = np.linalg.norm(unit, axis=1, keepdims=True)
        return unit * np.minimum(1.0, epsilon / np.maximum(length, np.finfo(float).tiny)) * self.scale

    def steepest(self, gradient: Array) -> Array:
        """The perturbation on the set's boundary along which a function with this gradient (N, d) grows most."""
        unit = gradient * self.scale
        epsilon = self.radii(len(unit))[:, None]
        if self.norm == "linf":
            return epsilon * np.sign(unit) * self.scale
        length = np.linalg.norm(unit, axis=1, keepdims=True)
        return epsilon * unit / np.maximum(length, np.finfo(float).tiny) * self.scale

"""What is known of an environment's features before training: observations under random actions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from rsa2c.envs.source import Source

Array = NDArray[np.float64]
SAMPLE_STEPS = 1_000
"""Steps under random actions in which features are measured: autocorrelations are then known to a few per cent."""
_BY_ID: dict[tuple[str, str], Sample] = {}
_BY_SOURCE: WeakKeyDictionary[Source, Sample] = WeakKeyDictionary()
"""Samples that were made: an evaluation makes many environments, and measures one."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Observations (T, d) under random actions, and which of them begin an episode (T,)."""

    observations: Array
    begins: NDArray[np.bool_]

    @cached_property
    def std(self) -> Array:
        """(d,)"""
        return np.asarray(self.observations.std(axis=0))

    @cached_property
    def autocorrelation(self) -> Array:
        """(d,): correlation of each feature with itself a step later, within episodes; 0 of one that does not vary."""
        later = np.flatnonzero(~self.begins[1:]) + 1
        a, b = (self.observations[rows] - self.observations[rows].mean(axis=0) for rows in (later - 1, later))
        scale = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
        return np.divide((a * b).sum(axis=0), scale, out=np.zeros(a.shape[1]), where=scale > 0)


def sample_of(source: Source) -> Sample:
    """Observations of an environment under random actions, made once."""
    known: Any = _BY_SOURCE if source.id is None else _BY_ID
    key = source if source.id is None else (source.id, json.dumps(source.kwargs, sort_keys=True, default=repr))
    if key not in known:
        known[key] = _sampled(source)
    return known[key]


def _sampled(source: Source) -> Sample:
    from rsa2c.envs.single import make_single

    source.check_single("measure its features")
    single, rng = make_single(source), np.random.default_rng(0)
    try:
        seen, begins = [single.reset(seed=0)[0]], [True]
        while len(seen) < SAMPLE_STEPS:
            action = random_actions(single.action_space, rng.random(single.action_space.shape))
            observation, _, terminated, truncated, _ = single.step(action)
            seen.append(observation)
            begins.append(False)
            if terminated or truncated:
                seen.append(single.reset()[0])
                begins.append(True)
    finally:
        single.close()
    return Sample(np.array(seen, dtype=np.float64), np.array(begins))


def random_actions(space: Any, uniform: Array) -> NDArray[Any]:
    """Actions (..., m) uniform between their bounds, from numbers in [0, 1); those without bounds within +-1."""
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, -1.0), np.where(bounded, space.high, 1.0)
    return np.asarray(low + uniform * (high - low), dtype=space.dtype)

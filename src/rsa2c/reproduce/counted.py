"""Operations of a method that was not run: they follow from its settings and the size of its dictionaries."""

from __future__ import annotations

import numpy as np

from rsa2c.algorithm.automatic import Sizes, settle_sizes
from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.config import Config, make_config
from rsa2c.cost import networks
from rsa2c.cost.typical import mean_flops
from rsa2c.envs.known import find
from rsa2c.errors import NotFoundError
from rsa2c.reproduce.records import Curve, Record


def sizes(environment: str, preset: str) -> list[int]:
    """Dictionaries as they are after the warm-up at most, half full, and full."""
    config = _settled(environment, preset, "rsa2c-kme")
    capacity = Sizes.of(config).capacity
    return sorted({min(config.initial_centres, capacity), capacity // 2, capacity})


def counted(environment: str, preset: str, algorithm: str, states: int = 0) -> Record:
    """What a study would count of one epoch (of a baseline: of one iteration) with dictionaries of `states` states.

    It has no return and no clock.
    """
    features, actions, _ = _dimensions(environment)
    if algorithm in BASELINES:
        each = networks.iteration(algorithm, environment, features, actions)
        return _record(environment, PRESET, algorithm, 0, each.steps, each.flops)
    config = _settled(environment, preset, algorithm)
    flops = sum(mean_flops(config, features, actions, states).values())
    return _record(environment, preset, algorithm, states, Sizes.of(config).epoch_steps, flops)


def _dimensions(environment: str) -> tuple[int, int, int]:
    """Features, action dimensions and the steps of an episode."""
    known = find(environment)
    if known is None:
        raise NotFoundError(f"nothing is known about {environment}; its dimensions are in a file of rsa2c.envs.known.")
    return len(known.features), len(known.actions), known.episode_limit


def _settled(environment: str, preset: str, algorithm: str) -> Config:
    features, actions, limit = _dimensions(environment)
    return settle_sizes(make_config(environment, preset, algorithm), features, actions, limit)


def _record(environment: str, preset: str, algorithm: str, states: int, steps: int, flops: float) -> Record:
    nothing = np.empty(0)
    return Record(
        run="", grid="", environment=environment, algorithm=algorithm, preset=preset, noise=0.0, distractors=0, seed=0,
        varied="", steps=steps, seconds=float("nan"), epochs=1, states=states, capacity=0, weight_ratio=float("nan"),
        gflop=flops / 1e9, gap=float("nan"), commit="", processor="", versions="", returns={},
        curve=Curve(nothing, nothing, nothing, nothing, nothing),
    )  # fmt: skip

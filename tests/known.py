"""Real environments beside the facts about them, for tests."""

from __future__ import annotations

from functools import cache

import gymnasium as gym
import numpy as np
import pytest

from rsa2c.envs import make_single
from rsa2c.envs.known import find
from rsa2c.errors import MissingExtraError


@cache
def made(env_id: str) -> gym.Env:
    """The environment itself, shared by the tests."""
    if env_id == "LunarLander-v3":
        return make_single(lambda: gym.make(env_id, continuous=True))
    try:
        return make_single(env_id)
    except MissingExtraError as error:
        if "mujoco<3" in str(error):  # Pusher-v4
            pytest.skip(str(error))
        raise


def named(env_id: str, observation: np.ndarray) -> dict[str, float]:
    """An observation's features by name."""
    return dict(zip((feature.name for feature in find(env_id).features), observation.tolist(), strict=True))

"""Environments: one door, `make_env`, for whatever a user has as an environment.

Names are loaded when first used, so that the facts in `rsa2c.envs.known` can be read without Gymnasium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsa2c.lazy import lazy

if TYPE_CHECKING:
    from rsa2c.envs.checks import check_spaces
    from rsa2c.envs.lqr import LQREnv, LQRVector
    from rsa2c.envs.making import Backend, backend_of, make_env
    from rsa2c.envs.names import action_names, env_id, episode_limit, feature_names, units
    from rsa2c.envs.pendulum import PendulumVector
    from rsa2c.envs.single import make_single
    from rsa2c.envs.source import EnvLike, Source
    from rsa2c.envs.wrappers import Distractors, ObservationNoise

__all__ = [
    "Backend",
    "Distractors",
    "EnvLike",
    "LQREnv",
    "LQRVector",
    "ObservationNoise",
    "PendulumVector",
    "Source",
    "action_names",
    "backend_of",
    "check_spaces",
    "env_id",
    "episode_limit",
    "feature_names",
    "make_env",
    "make_single",
    "units",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "checks": ["check_spaces"],
        "lqr": ["LQREnv", "LQRVector"],
        "making": ["Backend", "backend_of", "make_env"],
        "names": ["action_names", "env_id", "episode_limit", "feature_names", "units"],
        "pendulum": ["PendulumVector"],
        "single": ["make_single"],
        "source": ["EnvLike", "Source"],
        "wrappers": ["Distractors", "ObservationNoise"],
    },
)

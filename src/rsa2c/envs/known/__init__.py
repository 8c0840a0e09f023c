"""The facts about each environment this package knows: one module per environment, found by Gymnasium id.

    find("Pendulum-v1").features[2]    # Quantity(name='angular velocity', unit='rad/s')

Facts are plain data. Looking them up imports the module of that environment and nothing else: no Gymnasium, no NumPy.
"""

from __future__ import annotations

from importlib import import_module

from rsa2c.envs.known.facts import USUAL_TIMESTEPS, Known, Quantity, RLZoo, Settings, Skill

__all__ = ["USUAL_TIMESTEPS", "Known", "Quantity", "RLZoo", "Settings", "Skill", "find", "known_ids"]

_MODULES = {
    "Ant-v4": "ant",
    "Ant-v5": "ant",
    "BipedalWalker-v3": "bipedal_walker",
    "BipedalWalkerHardcore-v3": "bipedal_walker",
    "HalfCheetah-v4": "half_cheetah",
    "HalfCheetah-v5": "half_cheetah",
    "Hopper-v4": "hopper",
    "Hopper-v5": "hopper",
    "Humanoid-v4": "humanoid",
    "Humanoid-v5": "humanoid",
    "HumanoidStandup-v4": "humanoid",
    "HumanoidStandup-v5": "humanoid",
    "InvertedDoublePendulum-v4": "inverted_double_pendulum",
    "InvertedDoublePendulum-v5": "inverted_double_pendulum",
    "InvertedPendulum-v4": "inverted_pendulum",
    "InvertedPendulum-v5": "inverted_pendulum",
    "LunarLander-v3": "lunar_lander",
    "LunarLanderContinuous-v3": "lunar_lander",
    "MountainCarContinuous-v0": "mountain_car",
    "Pendulum-v1": "pendulum",
    "Pusher-v4": "pusher",
    "Pusher-v5": "pusher",
    "Reacher-v4": "reacher",
    "Reacher-v5": "reacher",
    "Swimmer-v4": "swimmer",
    "Swimmer-v5": "swimmer",
    "Walker2d-v4": "walker2d",
    "Walker2d-v5": "walker2d",
    "rsa2c/LQR-v0": "lqr",
}
"""Each id's module, so that only that one is imported; its table `KNOWN` has the facts."""


def find(env_id: str) -> Known | None:
    """The facts about an environment, or None if it is not one of `known_ids()`."""
    module = _MODULES.get(env_id)
    return None if module is None else import_module(f"{__name__}.{module}").KNOWN[env_id]


def known_ids() -> list[str]:
    """The ids of all environments with facts, sorted."""
    return sorted(_MODULES)

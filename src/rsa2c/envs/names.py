"""What the numbers of an environment are called: its id, its features, its actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

AnyEnv = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]

# Gymnasium's documentation lists force before torque, but MuJoCo's cfrc_ext, a spatial vector, begins with
# the torque: a standing Ant's weight is in the last component.
_WRENCH = ("torque x", "torque y", "torque z", "force x", "force y", "force z")
_ANT_LEGS = ("front left", "front right", "back left", "back right")
_ANT_JOINTS = tuple(f"{leg} {joint}" for leg in _ANT_LEGS for joint in ("hip", "ankle"))
_ANT_BODIES = ("torso", *(f"{leg} {part}" for leg in _ANT_LEGS for part in ("leg", "aux", "ankle")))
_XYZ = ("x", "y", "z")
_CHEETAH_JOINTS = tuple(f"{side} {part}" for side in ("back", "front") for part in ("thigh", "shin", "foot"))
_HOPPER_JOINTS = ("thigh", "leg", "foot")
_WALKER_LEG = ("hip {} angle", "hip {} speed", "knee {} angle", "knee {} speed", "leg {} ground contact")

_FEATURES: dict[str, tuple[str, ...]] = {
    "Pendulum-v1": ("cos θ", "sin θ", "angular velocity"),
    "rsa2c/LQR-v0": ("x", "x velocity", "θ", "θ velocity"),
    "BipedalWalker-v3": (
        "hull angle",
        "hull angular velocity",
        "horizontal velocity",
        "vertical velocity",
        *(name.format(leg) for leg in (1, 2) for name in _WALKER_LEG),
        *(f"lidar {i}" for i in range(1, 11)),
    ),
    "Ant-v5": (
        "torso z",
        *(f"torso orientation {axis}" for axis in ("w", *_XYZ)),
        *(f"{joint} angle" for joint in _ANT_JOINTS),
        *(f"torso velocity {axis}" for axis in _XYZ),
        *(f"torso angular velocity {axis}" for axis in _XYZ),
        *(f"{joint} velocity" for joint in _ANT_JOINTS),
        *(f"{body} contact {component}" for body in _ANT_BODIES for component in _WRENCH),
    ),
    "Hopper-v5": (
        "torso z",
        "torso angle",
        *(f"{joint} angle" for joint in _HOPPER_JOINTS),
        "torso velocity x",
        "torso velocity z",
        "torso angular velocity",
        *(f"{joint} velocity" for joint in _HOPPER_JOINTS),
    ),
    "HalfCheetah-v5": (
        "front tip z",
        "front tip angle",
        *(f"{joint} angle" for joint in _CHEETAH_JOINTS),
        "front tip velocity x",
        "front tip velocity z",
        "front tip angular velocity",
        *(f"{joint} velocity" for joint in _CHEETAH_JOINTS),
    ),
}

_ACTIONS: dict[str, tuple[str, ...]] = {
    "Pendulum-v1": ("torque",),
    "rsa2c/LQR-v0": ("force",),
    "BipedalWalker-v3": ("hip 1", "knee 1", "hip 2", "knee 2"),
    # the motors start with the back right leg, the joints in the observation with the front left one
    "Ant-v5": (*_ANT_JOINTS[6:], *_ANT_JOINTS[:6]),
    "Hopper-v5": _HOPPER_JOINTS,
    "HalfCheetah-v5": _CHEETAH_JOINTS,
}


def feature_names(env: AnyEnv | str, d: int, distractors: int = 0) -> tuple[str, ...]:
    """Names of the d features of an environment or id; x0, x1, ... where they are not known.

    The last ones are noise_1, noise_2, ... where `Distractors` wraps the environment; for an id,
    `distractors` says how many.
    """
    k = distractors if isinstance(env, str) else _appended(env)
    known = _FEATURES.get(env if isinstance(env, str) else env_id(env), ())
    true = known if len(known) == d - k else tuple(f"x{i}" for i in range(d - k))
    return (*true, *(f"noise_{i}" for i in range(1, k + 1)))


def action_names(env: AnyEnv | str, m: int) -> tuple[str, ...]:
    """Names of the m actions of an environment or id; a0, a1, ... where they are not known."""
    known = _ACTIONS.get(env if isinstance(env, str) else env_id(env), ())
    return known if len(known) == m else tuple(f"a{i}" for i in range(m))


def env_id(env: AnyEnv) -> str:
    """The Gymnasium id of an environment or vector environment, or its class name where it has none."""
    spec = _spec(env)
    if spec is not None:
        return str(spec.id)
    base: Any = env.unwrapped
    inside = getattr(base, "envs", None)
    return str(getattr(base, "env_id", type(inside[0].unwrapped if inside else base).__name__))


def episode_limit(env: AnyEnv) -> int | None:
    """Steps after which the environment truncates an episode, or None where it never does."""
    limit = getattr(env.unwrapped, "episode_limit", None)
    if limit is None:
        spec = _spec(env)
        limit = None if spec is None else spec.max_episode_steps
    return None if limit is None else int(limit)


def _spec(env: AnyEnv) -> Any:
    """The spec of an environment; of the first inside, for a vector environment that has none of its own."""
    if env.spec is not None:
        return env.spec
    inside = getattr(env.unwrapped, "envs", None)
    return inside[0].spec if inside else None


def _appended(env: Any) -> int:
    """Number of distractor features added by the wrappers around an environment."""
    k = 0
    while env is not None:
        k += getattr(getattr(env, "disturbance", None), "k", 0)
        inside = env.__dict__.get("envs")
        env = inside[0] if inside else env.__dict__.get("env")
    return k

"""Physical units of features and actions, where the environment's documentation gives them."""

from __future__ import annotations

from collections.abc import Sequence

_EXACT = {
    "Pendulum-v1": {"angular velocity": "rad/s", "torque": "N m"},
    "rsa2c/LQR-v0": {"x": "m", "x velocity": "m/s", "θ": "rad", "θ velocity": "rad/s", "force": "N"},
    # its velocities are scaled, its lidar ranges are fractions
    "BipedalWalker-v3": {"hull angle": "rad", **{f"{j} {i} angle": "rad" for j in ("hip", "knee") for i in (1, 2)}},
}
_MUJOCO = ("Ant-v5", "Hopper-v5", "HalfCheetah-v5")


def units(env_id: str, names: Sequence[str]) -> list[str]:
    """A unit for each name, empty where there is none or it is not known."""
    if env_id in _MUJOCO:
        return [_mujoco(name) for name in names]
    known = _EXACT.get(env_id, {})
    return [known.get(name, "") for name in names]


def _mujoco(name: str) -> str:
    if name.startswith("noise_"):
        return ""
    if " contact " in name:
        return "N m" if "torque" in name else "N"
    if "velocity" in name:
        linear = name.startswith(("torso velocity", "front tip velocity"))
        return "m/s" if linear else "rad/s"
    return "rad" if name.endswith("angle") else "m" if name.endswith(" z") and "orientation" not in name else ""

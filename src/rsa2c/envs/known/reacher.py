"""Reacher: an arm with two joints in the horizontal plane, and a target."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, by_id
from rsa2c.envs.known.mujoco import motors, rates

JOINTS = ("shoulder", "elbow")

FEATURES = (
    *(Quantity(f"cos {joint} angle") for joint in JOINTS),
    *(Quantity(f"sin {joint} angle") for joint in JOINTS),
    Quantity("target x", "m"),
    Quantity("target y", "m"),
    *rates(JOINTS),
    Quantity("fingertip minus target x", "m"),
    Quantity("fingertip minus target y", "m"),
)
ACTIONS = motors(JOINTS)

KNOWN = by_id(
    # v4 has the vertical distance too, which is always 0
    Known("Reacher-v4", (*FEATURES, Quantity("fingertip minus target z", "m")), ACTIONS, 50),
    Known("Reacher-v5", FEATURES, ACTIONS, 50),
)

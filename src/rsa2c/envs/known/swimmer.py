"""Swimmer: three links in a viscous fluid, in the horizontal plane."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, by_id
from rsa2c.envs.known.mujoco import EPISODE_LIMIT, angles, motors, rates

JOINTS = ("front joint", "rear joint")

FEATURES = (
    Quantity("torso angle", "rad"),
    *angles(JOINTS),
    Quantity("torso velocity x", "m/s"),
    Quantity("torso velocity y", "m/s"),
    Quantity("torso angular velocity", "rad/s"),
    *rates(JOINTS),
)
ACTIONS = motors(JOINTS)

KNOWN = by_id(
    Known("Swimmer-v4", FEATURES, ACTIONS, EPISODE_LIMIT),
    Known("Swimmer-v5", FEATURES, ACTIONS, EPISODE_LIMIT),
)

"""Hopper: a planar one-legged robot."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, by_id
from rsa2c.envs.known.mujoco import EPISODE_LIMIT, PLANAR_POSITION, PLANAR_VELOCITY, angles, motors, rates

JOINTS = ("thigh", "leg", "foot")

FEATURES = (*PLANAR_POSITION, *angles(JOINTS), *PLANAR_VELOCITY, *rates(JOINTS))
ACTIONS = motors(JOINTS)

KNOWN = by_id(
    Known("Hopper-v4", FEATURES, ACTIONS, EPISODE_LIMIT),
    Known("Hopper-v5", FEATURES, ACTIONS, EPISODE_LIMIT),
)

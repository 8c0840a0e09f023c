"""Walker2d: a planar two-legged robot."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, by_id
from rsa2c.envs.known.mujoco import EPISODE_LIMIT, PLANAR_POSITION, PLANAR_VELOCITY, angles, motors, rates

# The model calls the joints after the limb below them: thigh, leg, foot.
JOINTS = tuple(f"{side} {joint}" for side in ("right", "left") for joint in ("hip", "knee", "ankle"))

# Velocities are clipped to +-10.
FEATURES = (*PLANAR_POSITION, *angles(JOINTS), *PLANAR_VELOCITY, *rates(JOINTS))
ACTIONS = motors(JOINTS)

KNOWN = by_id(
    Known("Walker2d-v4", FEATURES, ACTIONS, EPISODE_LIMIT),
    Known("Walker2d-v5", FEATURES, ACTIONS, EPISODE_LIMIT),
)

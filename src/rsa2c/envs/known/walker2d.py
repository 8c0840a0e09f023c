"""Walker2d: a planar two-legged robot."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Skill, by_id
from rsa2c.envs.known.mujoco import EPISODE_LIMIT, PLANAR_POSITION, PLANAR_VELOCITY, angles, motors, rates

# The model calls the joints after the limb below them: thigh, leg, foot.
JOINTS = tuple(f"{side} {joint}" for side in ("right", "left") for joint in ("hip", "knee", "ankle"))

# Velocities are clipped to +-10.
FEATURES = (*PLANAR_POSITION, *angles(JOINTS), *PLANAR_VELOCITY, *rates(JOINTS))
ACTIONS = motors(JOINTS)
# one that stands has 1 a step; another 1 is a metre a second
SKILL = Skill("walks for 1,000 steps without falling", 2_000.0, whole_episodes=True)

KNOWN = by_id(
    Known("Walker2d-v4", FEATURES, ACTIONS, EPISODE_LIMIT, skill=SKILL),
    Known("Walker2d-v5", FEATURES, ACTIONS, EPISODE_LIMIT, skill=SKILL),
)

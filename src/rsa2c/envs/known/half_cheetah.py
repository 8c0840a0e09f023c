"""HalfCheetah: a planar two-legged runner."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Skill, by_id
from rsa2c.envs.known.mujoco import EPISODE_LIMIT, PLANAR_POSITION, PLANAR_VELOCITY, angles, motors, rates

JOINTS = tuple(f"{side} {part}" for side in ("back", "front") for part in ("thigh", "shin", "foot"))

# Gymnasium's documentation speaks of the front tip, but the root joints are those of the torso. Its z is measured from
# the height in the model, 0.7 m.
FEATURES = (*PLANAR_POSITION, *angles(JOINTS), *PLANAR_VELOCITY, *rates(JOINTS))
ACTIONS = motors(JOINTS)
# more than a metre a second on average; one that lies still has 0
SKILL = Skill("runs forward", 1_000.0)

KNOWN = by_id(
    Known("HalfCheetah-v4", FEATURES, ACTIONS, EPISODE_LIMIT, skill=SKILL),
    Known("HalfCheetah-v5", FEATURES, ACTIONS, EPISODE_LIMIT, skill=SKILL),
)

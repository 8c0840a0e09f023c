"""Walker2d: a planar two-legged robot."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Skill, by_id, mujoco_rl_zoo
from rsa2c.envs.known.mujoco import EPISODE_LIMIT, PLANAR_POSITION, PLANAR_VELOCITY, angles, motors, rates

# The model calls the joints after the limb below them: thigh, leg, foot.
JOINTS = tuple(f"{side} {joint}" for side in ("right", "left") for joint in ("hip", "knee", "ankle"))

# Velocities are clipped to +-10.
FEATURES = (*PLANAR_POSITION, *angles(JOINTS), *PLANAR_VELOCITY, *rates(JOINTS))
ACTIONS = motors(JOINTS)
# one that stands has 1 a step; another 1 is a metre a second
SKILL = Skill("walks for 1,000 steps without falling", 2_000.0, whole_episodes=True)

RL_ZOO = mujoco_rl_zoo(
    "Walker2d-v4",
    gamma=0.99,
    batch_size=32,
    n_steps=512,
    learning_rate=5.05041e-05,
    ent_coef=0.000585045,
    clip_range=0.1,
    n_epochs=20,
    gae_lambda=0.95,
    max_grad_norm=1,
    vf_coef=0.871923,
)

KNOWN = by_id(
    Known("Walker2d-v4", FEATURES, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
    Known("Walker2d-v5", FEATURES, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
)

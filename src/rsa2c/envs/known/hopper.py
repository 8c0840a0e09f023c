"""Hopper: a planar one-legged robot."""

from __future__ import annotations

from rsa2c.envs.known.facts import WIDE_NETWORK, Known, Skill, by_id, mujoco_rl_zoo
from rsa2c.envs.known.mujoco import EPISODE_LIMIT, PLANAR_POSITION, PLANAR_VELOCITY, angles, motors, rates

JOINTS = ("thigh", "leg", "foot")

FEATURES = (*PLANAR_POSITION, *angles(JOINTS), *PLANAR_VELOCITY, *rates(JOINTS))
ACTIONS = motors(JOINTS)
# one that stands has 1 a step; another 1 is a metre a second
SKILL = Skill("hops for 1,000 steps without falling", 2_000.0, whole_episodes=True)

RL_ZOO = mujoco_rl_zoo(
    "Hopper-v4",
    gamma=0.999,
    batch_size=32,
    n_steps=512,
    learning_rate=9.80828e-05,
    ent_coef=0.00229519,
    clip_range=0.2,
    n_epochs=5,
    gae_lambda=0.99,
    max_grad_norm=0.7,
    vf_coef=0.835671,
    policy_kwargs=WIDE_NETWORK,
)

KNOWN = by_id(
    Known("Hopper-v4", FEATURES, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
    Known("Hopper-v5", FEATURES, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
)

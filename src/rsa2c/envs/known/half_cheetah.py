"""HalfCheetah: a planar two-legged runner."""

from __future__ import annotations

from rsa2c.envs.known.facts import WIDE_NETWORK, Known, Skill, by_id, mujoco_rl_zoo
from rsa2c.envs.known.mujoco import EPISODE_LIMIT, PLANAR_POSITION, PLANAR_VELOCITY, angles, motors, rates

JOINTS = tuple(f"{side} {part}" for side in ("back", "front") for part in ("thigh", "shin", "foot"))

# Gymnasium's documentation speaks of the front tip, but the root joints are those of the torso. Its z is measured from
# the height in the model, 0.7 m.
FEATURES = (*PLANAR_POSITION, *angles(JOINTS), *PLANAR_VELOCITY, *rates(JOINTS))
ACTIONS = motors(JOINTS)
# more than a metre a second on average; one that lies still has 0
SKILL = Skill("runs forward", 1_000.0)

RL_ZOO = mujoco_rl_zoo(
    "HalfCheetah-v4",
    gamma=0.98,
    batch_size=64,
    n_steps=512,
    learning_rate=2.0633e-05,
    ent_coef=0.000401762,
    clip_range=0.1,
    n_epochs=20,
    gae_lambda=0.92,
    max_grad_norm=0.8,
    vf_coef=0.58096,
    policy_kwargs=WIDE_NETWORK,
)

KNOWN = by_id(
    Known("HalfCheetah-v4", FEATURES, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
    Known("HalfCheetah-v5", FEATURES, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
)

"""InvertedPendulum: a pole on a cart."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, Skill, by_id, mujoco_rl_zoo
from rsa2c.envs.known.mujoco import EPISODE_LIMIT

FEATURES = (
    Quantity("cart x", "m"),
    Quantity("pole angle", "rad"),
    Quantity("cart velocity", "m/s"),
    Quantity("pole angular velocity", "rad/s"),
)
# The force on the cart is 100 N per unit of the action.
ACTIONS = (Quantity("cart force"),)
# 1 for each step that the pole is up
SKILL = Skill("keeps the pole up for 1,000 steps", 1_000.0, whole_episodes=True)

RL_ZOO = mujoco_rl_zoo(
    "InvertedPendulum-v4",
    gamma=0.999,
    batch_size=64,
    n_steps=32,
    learning_rate=0.000222425,
    ent_coef=1.37976e-07,
    clip_range=0.4,
    n_epochs=5,
    gae_lambda=0.9,
    max_grad_norm=0.3,
    vf_coef=0.19816,
)

KNOWN = by_id(
    Known("InvertedPendulum-v4", FEATURES, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
    Known("InvertedPendulum-v5", FEATURES, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
)

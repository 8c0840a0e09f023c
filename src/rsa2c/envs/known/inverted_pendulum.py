"""InvertedPendulum: a pole on a cart."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, Skill, by_id
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

KNOWN = by_id(
    Known("InvertedPendulum-v4", FEATURES, ACTIONS, EPISODE_LIMIT, skill=SKILL),
    Known("InvertedPendulum-v5", FEATURES, ACTIONS, EPISODE_LIMIT, skill=SKILL),
)

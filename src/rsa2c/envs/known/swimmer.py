"""Swimmer: three links in a viscous fluid, in the horizontal plane."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, RLZoo, Settings, by_id
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

# Strokes pay off late: with the general rule's discount it learns to wriggle, and stays at about 50. With these lambdas
# and RL-Zoo's discount of 0.9999, 98 to 320 after 600,000 steps (three tuning seeds); with 0.999, 151 to 355; with this
# one, 299 to 357.
EXCEPTIONS = {"gamma": 0.9995, "value_lambda": 1.0, "gae_lambda": 0.99}

RL_ZOO = RLZoo(
    "Swimmer-v4",
    {
        "sac": Settings(1_000_000, arguments={"learning_starts": 10_000, "gamma": 0.9999}),
        "ppo": Settings(1_000_000, normalise=True, arguments={"gamma": 0.9999}),
    },
)

KNOWN = by_id(
    Known("Swimmer-v4", FEATURES, ACTIONS, EPISODE_LIMIT, exceptions=EXCEPTIONS, rl_zoo=RL_ZOO),
    Known("Swimmer-v5", FEATURES, ACTIONS, EPISODE_LIMIT, exceptions=EXCEPTIONS, rl_zoo=RL_ZOO),
)

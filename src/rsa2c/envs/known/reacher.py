"""Reacher: an arm with two joints in the horizontal plane, and a target."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, by_id, mujoco_rl_zoo
from rsa2c.envs.known.mujoco import motors, rates

JOINTS = ("shoulder", "elbow")

FEATURES = (
    *(Quantity(f"cos {joint} angle") for joint in JOINTS),
    *(Quantity(f"sin {joint} angle") for joint in JOINTS),
    Quantity("target x", "m"),
    Quantity("target y", "m"),
    *rates(JOINTS),
    Quantity("fingertip minus target x", "m"),
    Quantity("fingertip minus target y", "m"),
)
ACTIONS = motors(JOINTS)

RL_ZOO = mujoco_rl_zoo(
    "Reacher-v4",
    gamma=0.9,
    batch_size=32,
    n_steps=512,
    learning_rate=0.000104019,
    ent_coef=7.52585e-08,
    clip_range=0.3,
    n_epochs=5,
    gae_lambda=1.0,
    max_grad_norm=0.9,
    vf_coef=0.950368,
)

KNOWN = by_id(
    # v4 has the vertical distance too, which is always 0
    Known("Reacher-v4", (*FEATURES, Quantity("fingertip minus target z", "m")), ACTIONS, 50, rl_zoo=RL_ZOO),
    Known("Reacher-v5", FEATURES, ACTIONS, 50, rl_zoo=RL_ZOO),
)

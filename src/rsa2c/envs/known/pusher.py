"""Pusher: an arm with seven joints that pushes an object to a goal on a table."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, by_id
from rsa2c.envs.known.mujoco import angles, axes, rates

JOINTS = (
    "shoulder pan",
    "shoulder lift",
    "upper arm roll",
    "elbow flex",
    "forearm roll",
    "wrist flex",
    "wrist roll",
)

FEATURES = (
    *angles(JOINTS),
    *rates(JOINTS),
    *axes("fingertip", "m"),
    *axes("object", "m"),
    *axes("goal", "m"),
)
# These motors have gear 1, so that an action is a torque.
ACTIONS = tuple(Quantity(joint, "N m") for joint in JOINTS)

KNOWN = by_id(Known("Pusher-v4", FEATURES, ACTIONS, 100), Known("Pusher-v5", FEATURES, ACTIONS, 100))

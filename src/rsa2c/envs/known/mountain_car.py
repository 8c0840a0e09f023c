"""MountainCarContinuous: a car too weak to drive straight up its hill."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, by_id

KNOWN = by_id(
    Known(
        "MountainCarContinuous-v0",
        # velocity is added to the position at each step; a unit of force adds 0.0015 to the velocity
        (Quantity("position", "m"), Quantity("velocity", "m/step")),
        (Quantity("force"),),
        999,
    )
)

"""MountainCarContinuous: a car too weak to drive straight up its hill."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, Skill, by_id

KNOWN = by_id(
    Known(
        "MountainCarContinuous-v0",
        # velocity is added to the position at each step; a unit of force adds 0.0015 to the velocity
        (Quantity("position", "m"), Quantity("velocity", "m/step")),
        (Quantity("force"),),
        999,
        # the flag gives 100, force costs: no other return is above 0
        skill=Skill("reaches the flag", 1.0),
    )
)

"""The vocabulary that MuJoCo's robots share: names and units of the numbers in their observations."""

from __future__ import annotations

from collections.abc import Iterable

from rsa2c.envs.known.facts import Quantity

EPISODE_LIMIT = 1_000

AXES = ("x", "y", "z")


def axes(name: str, unit: str) -> tuple[Quantity, ...]:
    """The x, y and z components of a vector."""
    return tuple(Quantity(f"{name} {axis}", unit) for axis in AXES)


def angles(joints: Iterable[str]) -> tuple[Quantity, ...]:
    """Positions of hinges."""
    return tuple(Quantity(f"{joint} angle", "rad") for joint in joints)


def rates(joints: Iterable[str]) -> tuple[Quantity, ...]:
    """Velocities of hinges."""
    return tuple(Quantity(f"{joint} velocity", "rad/s") for joint in joints)


def contacts(bodies: Iterable[str]) -> tuple[Quantity, ...]:
    """External forces on bodies (`cfrc_ext`).

    Gymnasium's documentation lists force before torque, but MuJoCo's spatial vectors begin with the rotational part: a
    standing Ant's weight is in the last component.
    """
    return tuple(
        part
        for body in bodies
        for part in (*axes(f"{body} contact torque", "N m"), *axes(f"{body} contact force", "N"))
    )


def motors(joints: Iterable[str]) -> tuple[Quantity, ...]:
    """Actions: control signals, which MuJoCo multiplies by each motor's gear to get a torque. They have no unit."""
    return tuple(Quantity(joint) for joint in joints)


# A torso that moves in space (a free joint without x and y). Its orientation is a quaternion.
FREE_POSITION = (Quantity("torso z", "m"), *(Quantity(f"torso orientation {axis}") for axis in ("w", *AXES)))
FREE_VELOCITY = (*axes("torso velocity", "m/s"), *axes("torso angular velocity", "rad/s"))

# A torso that moves in the vertical plane (without x).
PLANAR_POSITION = (Quantity("torso z", "m"), Quantity("torso angle", "rad"))
PLANAR_VELOCITY = (
    Quantity("torso velocity x", "m/s"),
    Quantity("torso velocity z", "m/s"),
    Quantity("torso angular velocity", "rad/s"),
)

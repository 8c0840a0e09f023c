"""LunarLander: a craft with two legs that lands between two flags."""

from __future__ import annotations

from rsa2c.envs.known.facts import Known, Quantity, by_id

# Positions are fractions of half the window (10 m, 6.67 m) from the landing pad. Velocities are in m/s times 0.2 (x)
# and 0.133 (y), the angular velocity in rad/s times 0.4.
FEATURES = (
    Quantity("horizontal position"),
    Quantity("vertical position"),
    Quantity("horizontal velocity"),
    Quantity("vertical velocity"),
    Quantity("angle", "rad"),
    Quantity("angular velocity"),
    Quantity("right leg ground contact"),
    Quantity("left leg ground contact"),
)
# Throttles: the main engine is off below 0, the side engines between -0.5 and 0.5.
ACTIONS = (Quantity("main engine"), Quantity("side engines"))

KNOWN = by_id(
    Known("LunarLander-v3", FEATURES, ACTIONS, 1_000),  # with continuous=True
    Known("LunarLanderContinuous-v3", FEATURES, ACTIONS, 1_000),
)

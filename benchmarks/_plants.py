"""Small plants as control engineers write them, in the units of their machines; `own_plants.py` trains on them.

`Plant` has what they share: a state that begins at random between two bounds, all of it observed.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

GRAVITY = 9.81  # m/s^2


class Plant(gymnasium.Env):
    """A plant is the bounds of its first states and of its actions, and what one sampling period does."""

    observation_names: ClassVar[tuple[str, ...]]
    action_names: ClassVar[tuple[str, ...]]
    starts: ClassVar[tuple[list[float], list[float]]]
    bounds: ClassVar[tuple[float, float]]

    def __init__(self) -> None:
        self.observation_space = Box(-np.inf, np.inf, (len(self.observation_names),), np.float64)
        self.action_space = Box(*self.bounds, (len(self.action_names),), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.state: list[float] = self.np_random.uniform(*self.starts).tolist()
        return self.observed(), {}

    def step(self, action: NDArray) -> Any:
        reward, terminated = self.advance(*np.asarray(action, np.float64).tolist())
        return self.observed(), reward, terminated, False, {}

    def observed(self) -> NDArray[np.float64]:
        return np.array(self.state)

    def advance(self, *action: float) -> tuple[float, bool]:
        """Move the state by one sampling period; the reward, and whether the episode terminates."""
        raise NotImplementedError


def cart_and_pole(state: list[float], force: float, seconds: float) -> list[float]:
    """Position, speed, angle from upright and its speed, after a force; 1 kg and 0.1 kg, 1 m of pole."""
    x, v, angle, turn = state
    sine, cosine = math.sin(angle), math.cos(angle)
    push = (force + 0.05 * turn**2 * sine) / 1.1
    bend = (GRAVITY * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    v, turn = v + seconds * (push - 0.05 * bend * cosine / 1.1), turn + seconds * bend
    return [x + seconds * v, v, angle + seconds * turn, turn]


class CartPole(Plant):
    """Balances a pole on a cart at the middle of its rail; ends where it falls."""

    observation_names = ("position [m]", "speed [m/s]", "angle [rad]", "rate [rad/s]")
    action_names = ("force [N]",)
    starts, bounds = ([-0.5, -0.1, -0.1, -0.1], [0.5, 0.1, 0.1, 0.1]), (-10.0, 10.0)

    def advance(self, *action: float) -> tuple[float, bool]:
        self.state = x, _, angle, _ = cart_and_pole(self.state, action[0], 0.02)
        fallen = abs(angle) > 0.25 or abs(x) > 2.0
        return 1.0 - 0.2 * x**2 - 5.0 * angle**2 - 0.001 * action[0] ** 2, fallen


class SwingUp(Plant):
    """Swings a pole up from hanging and holds it, at 100 Hz. Buffers stop the cart; nothing ends the episode."""

    observation_names = ("position [m]", "speed [m/s]", "cos(angle)", "sin(angle)", "rate [rad/s]")
    action_names = ("force [N]",)
    starts, bounds = ([-0.1, 0.0, math.pi - 0.1, 0.0], [0.1, 0.0, math.pi + 0.1, 0.0]), (-10.0, 10.0)

    def advance(self, *action: float) -> tuple[float, bool]:
        x, v, angle, turn = cart_and_pole(self.state, action[0], 0.01)
        if abs(x) > 2.0:
            x, v = math.copysign(2.0, x), 0.0
        self.state = [x, v, angle, turn]
        return 0.5 + 0.5 * math.cos(angle) - 0.05 * x**2 - 0.0005 * action[0] ** 2, False

    def observed(self) -> NDArray[np.float64]:
        x, v, angle, turn = self.state
        return np.array([x, v, math.cos(angle), math.sin(angle), turn])


class Docking(Plant):
    """Brings a satellite of 20 kg to the dock and to rest there."""

    observation_names = ("along [m]", "across [m]", "speed along [m/s]", "speed across [m/s]")
    action_names = ("thrust along [N]", "thrust across [N]")
    starts, bounds = ([-10.0, -10.0, -0.5, -0.5], [10.0, 10.0, 0.5, 0.5]), (-5.0, 5.0)

    def advance(self, *action: float) -> tuple[float, bool]:
        x, y, v, w = self.state
        v, w = v + 0.5 * action[0] / 20, w + 0.5 * action[1] / 20
        x, y = x + 0.5 * v, y + 0.5 * w
        self.state = [x, y, v, w]
        return -(0.01 * (x**2 + y**2) + 0.1 * (v**2 + w**2) + 0.001 * (action[0] ** 2 + action[1] ** 2)), False


class Heater(Plant):
    """Brings an oven to a set point. Heat takes five samples of ten seconds to arrive: the last inputs are observed."""

    observation_names = ("temperature [C]", "set point [C]", *(f"heating {i + 1} samples ago [kW]" for i in range(5)))
    action_names = ("heating [kW]",)
    starts, bounds = ([20.0, 60.0] + 5 * [0.0], [150.0, 140.0] + 5 * [0.0]), (0.0, 4.0)

    def advance(self, *action: float) -> tuple[float, bool]:
        temperature, set_point, *inputs = self.state
        temperature += 10.0 / 300.0 * (20.0 + 50.0 * inputs[-1] - temperature)
        self.state = [temperature, set_point, action[0], *inputs[:-1]]
        return -(0.01 * (temperature - set_point) ** 2 + 0.05 * (action[0] - inputs[0]) ** 2), False


def heater() -> gymnasium.Env:
    """The oven for a thousand seconds."""
    return gymnasium.wrappers.TimeLimit(Heater(), 100)


class Drone(Plant):
    """A drone in a vertical plane hovers at a point by two rotors; ends where it turns over or leaves."""

    observation_names = ("x [m]", "z [m]", "vx [m/s]", "vz [m/s]", "pitch [rad]", "rate [rad/s]")
    action_names = ("left rotor [N]", "right rotor [N]")
    starts, bounds = ([-1.0, -1.0, -0.5, -0.5, -0.2, -0.2], [1.0, 1.0, 0.5, 0.5, 0.2, 0.2]), (0.0, 10.0)

    def advance(self, *action: float) -> tuple[float, bool]:
        x, z, vx, vz, pitch, rate = self.state
        thrust, moment = sum(action), 0.2 * (action[1] - action[0])
        vx, vz = vx - 0.02 * math.sin(pitch) * thrust, vz + 0.02 * (math.cos(pitch) * thrust - GRAVITY)
        rate += 0.02 * moment / 0.05
        self.state = [x + 0.02 * vx, z + 0.02 * vz, vx, vz, pitch + 0.02 * rate, rate]
        lost = abs(x) > 3.0 or abs(z) > 3.0 or abs(pitch) > 1.5
        return 1.0 - 0.05 * (x**2 + z**2) - 0.005 * (vx**2 + vz**2) - 0.05 * pitch**2 - 0.005 * rate**2, lost


class PressureVessel(Plant):
    """Holds the pressure of a vessel of 10 l by a compressor; leaks. Everything is in SI units, the cost as well."""

    observation_names = ("pressure [Pa]", "inflow [m^3/s]", "set point [Pa]")
    action_names = ("demanded inflow [m^3/s]",)
    starts, bounds = ([1.0e5, 0.0, 2.0e5], [4.0e5, 5e-4, 3.5e5]), (0.0, 1e-3)

    def advance(self, *action: float) -> tuple[float, bool]:
        pressure, inflow, set_point = self.state
        inflow += 0.5 * (action[0] - inflow)
        leak = 2e-9 * (pressure - 101325.0)
        pressure += 1.0 * 101325.0 * (inflow - leak) / 0.01
        self.state = [pressure, inflow, set_point]
        return -((pressure - set_point) ** 2), False


class Positioner(Plant):
    """Moves a stage to a mark: a reward of 1 within a millimetre, and none elsewhere."""

    observation_names = ("distance [mm]", "speed [mm/s]")
    action_names = ("force [N]",)
    starts, bounds = ([-10.0, -5.0], [10.0, 5.0]), (-1.0, 1.0)

    def advance(self, *action: float) -> tuple[float, bool]:
        distance, speed = self.state
        speed += 0.05 * (20.0 * action[0] - 0.5 * speed)
        self.state = [distance + 0.05 * speed, speed]
        return float(abs(self.state[0]) < 1.0), False


class Cruise(Plant):
    """Holds a car's speed on a hilly road. The slope is not observed; the integral of the error tells of it."""

    observation_names = ("speed error [m/s]", "integral of the error [m]", "set speed [m/s]")
    action_names = ("drive [kN]",)
    starts, bounds = ([-3.0, 0.0, 20.0, -0.04], [3.0, 0.0, 30.0, 0.04]), (-4.0, 4.0)

    def advance(self, *action: float) -> tuple[float, bool]:
        error, integral, wanted, slope = self.state
        slope = 0.98 * slope + 0.005 * self.np_random.standard_normal()
        drag = 0.0005 * (wanted + error) ** 2
        error += 0.5 * (action[0] - drag - 1.2 * GRAVITY * slope) / 1.2
        self.state = [error, min(max(integral + 0.5 * error, -20.0), 20.0), wanted, slope]
        return -(error**2 + 0.01 * action[0] ** 2), False

    def observed(self) -> NDArray[np.float64]:
        return np.array(self.state[:3])

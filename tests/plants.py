"""Environments as users write them, for tests: a heated tank with a level, in several forms."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Tank(gym.Env):
    """A heated tank: inflow and heating power hold level and temperature; it has no episode limit of its own."""

    observation_names = ("level [m]", "temperature [K]", "demand [l/s]")
    action_names = ("inflow [l/s]", "heating [kW]")

    def __init__(self, setpoint=320.0, render_mode=None):
        self.setpoint, self.render_mode = setpoint, render_mode
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Box(np.array([0.0, 0.0]), np.array([4.0, 50.0]), dtype=np.float64)
        self.state = np.zeros(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array([1.0, 300.0, 1.5]) + self.np_random.uniform(-0.2, 0.2, 3)
        return self.state.copy(), {}

    def step(self, action):
        level, temperature, demand = self.state
        inflow, heating = np.clip(action, self.action_space.low, self.action_space.high)
        level = np.clip(level + 0.05 * (inflow - demand), 0.0, 2.0)
        temperature = temperature + 0.05 * (heating / 4.2 - inflow * (temperature - 290.0) / 10.0)
        self.state = np.array([level, temperature, np.clip(demand + 0.02 * self.np_random.normal(), 1.0, 2.0)])
        reward = -((level - 1.0) ** 2) - 0.001 * (temperature - self.setpoint) ** 2
        return self.state.copy(), float(reward), False, False, {"level": level}


class DictTank(Tank):
    """The same with observations by name."""

    observation_names = None

    def __init__(self, **options):
        super().__init__(**options)
        box = spaces.Box(-np.inf, np.inf, (), np.float64)
        self.observation_space = spaces.Dict(
            {"tank": spaces.Dict({"level": box, "temperature": box}), "demand": spaces.Box(0.0, 9.0, (1,), np.float32)}
        )

    def _named(self, observation):
        level, temperature, demand = observation
        return {"tank": {"level": level, "temperature": temperature}, "demand": np.array([demand], np.float32)}

    def reset(self, **options):
        observation, info = super().reset(**options)
        return self._named(observation), info

    def step(self, action):
        observation, *rest = super().step(action)
        return self._named(observation), *rest


def make_tank(setpoint=320.0):
    """A factory, with a limit in a wrapper."""
    return gym.wrappers.TimeLimit(Tank(setpoint), 40)


class Unrecorded(gym.ActionWrapper):
    """A wrapper that does not record its arguments, so that Gymnasium cannot make it again."""

    def action(self, action):
        return action


if "rsa2c-tests/Tank-v0" not in gym.registry:
    gym.register("rsa2c-tests/Tank-v0", Tank, max_episode_steps=30)

"""For control engineers: two tanks in a row, from equations to C.

A pump fills the upper tank, which drains into the lower one. The level of the lower tank is to be held at a set point.
Needs rsa2c alone. Takes some seconds.
"""

import math

import gymnasium
import numpy as np

import rsa2c

SAMPLING_TIME = 2.0  # seconds
AREA, OUTLET, GRAVITY = 0.0154, 5e-5, 9.81  # m^2, m^2, m/s^2


class TwoTanks(gymnasium.Env):
    """Observes both levels and the set point; sets the flow of the pump."""

    observation_names = ("upper level [m]", "lower level [m]", "set point [m]")
    action_names = ("pump [l/s]",)
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,), np.float64)
    action_space = gymnasium.spaces.Box(0.0, 0.2, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.levels = self.np_random.uniform(0.1, 0.5, 2)
        self.set_point = self.np_random.uniform(0.2, 0.4)
        return self.observed(), {}

    def step(self, action):
        upper, lower = self.levels
        drained, left = (OUTLET * math.sqrt(2 * GRAVITY * level) for level in (upper, lower))
        upper += SAMPLING_TIME * (float(action[0]) / 1000 - drained) / AREA
        lower += SAMPLING_TIME * (drained - left) / AREA
        self.levels = np.clip([upper, lower], 0.0, 1.0)
        return self.observed(), -100 * float(self.levels[1] - self.set_point) ** 2, False, False, {}

    def observed(self):
        return np.array([*self.levels, self.set_point])


class Steady:
    """The flow that holds the lower tank at its set point once it is there: what the agent has to beat."""

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        set_point = np.asarray(observation)[..., 2:]
        return 1000 * OUTLET * np.sqrt(2 * GRAVITY * set_point), state


def limited():
    return gymnasium.wrappers.TimeLimit(TwoTanks(), 100)


def main() -> None:
    agent = rsa2c.RSA2C(limited, seed=0).learn(100_000)
    print("learned     ", rsa2c.evaluate(agent, limited, episodes=50))
    print("steady flow ", rsa2c.evaluate(Steady(), limited, episodes=50))
    for name, importance in agent.explain(agent.background[:100], of="action").top(3):
        print(f"  {name:16} {importance:.2f}")
    print("certified   ", agent.certify([[0.3, 0.3, 0.3]], epsilon=0.002).deviation[0], "l/s for errors of 2 mm")
    exported = agent.export("two_tanks.h", precision="float32")
    print("exported    ", exported.path, exported.bytes, "bytes of tables")


if __name__ == "__main__":
    main()

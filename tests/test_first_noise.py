"""The first standard deviation: less than usual where the usual one fells what would stand."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import rsa2c

LIMIT = 200


class Ledge(gymnasium.Env):
    """A walk on a ledge, moved by the actions: it ends where they add up to `width`, or by itself after `patience`."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, width=np.inf, patience=10**9):
        self.width, self.patience = width, patience

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0.0, 0
        return np.array([0.0, self.np_random.uniform()]), {}

    def step(self, action):
        self.place, self.steps = self.place + float(action[0]), self.steps + 1
        over = abs(self.place) > self.width or self.steps >= self.patience
        return np.array([self.place, self.np_random.uniform()]), 1.0 - self.place**2, over, False, {}


def agent(width=np.inf, patience=10**9, **settings):
    """White noise of standard deviation s leaves the ledge after about (width / s)^2 steps."""
    made = {"seed": 0, "n_envs": 4, **settings}
    return rsa2c.RSA2C(lambda: gymnasium.wrappers.TimeLimit(Ledge(width, patience), LIMIT), **made)


@pytest.mark.parametrize("width, expected, rollouts", [(np.inf, 0.7, 1), (4.4, 0.4, 2), (2.9, 0.2, 3), (1.45, 0.1, 4)])
def test_the_largest_noise_that_lets_it_stand(width, expected, rollouts):
    """Rollouts that were tried before it are counted as steps."""
    made = agent(width)
    assert made.config.exploration.sigma_initial == expected
    np.testing.assert_array_equal(made.policy.sigma, [expected])
    assert made.num_timesteps == rollouts * 10 * LIMIT


def test_what_falls_without_noise_has_the_usual_one():
    made = agent(width=3.0, patience=20)
    assert made.config.exploration.sigma_initial == 0.7 and made.num_timesteps == 10 * LIMIT


def test_what_no_noise_lets_stand_has_the_usual_one():
    made = agent(width=0.2)
    assert made.config.exploration.sigma_initial == 0.7 and made.num_timesteps == 4 * 10 * LIMIT


def test_a_number_is_taken_as_it_is():
    made = agent(width=2.9, sigma_initial=0.5)
    assert made.config.exploration.sigma_initial == 0.5 and made.num_timesteps == 10 * LIMIT


def test_episodes_longer_than_the_rollouts_say_nothing():
    """With 100 environments a warm-up of ten episodes has 20 steps of each."""
    assert agent(width=2.9, n_envs=100).config.exploration.sigma_initial == 0.7


def test_a_schedule_begins_there_too():
    made = agent(width=2.9, sigma="scheduled", sigma_final=0.1, sigma_epochs=10)
    made.learn(2 * made.num_timesteps)
    assert made.config.exploration.sigma_initial == 0.2 and made.policy.sigma[0] < 0.2


def test_robots_on_four_legs_and_on_one():
    pytest.importorskip("mujoco")
    assert rsa2c.RSA2C("Ant-v5", sigma_initial="auto", seed=1000).policy.sigma[0] == 0.4
    assert rsa2c.RSA2C("Hopper-v5", seed=1000).policy.sigma[0] == 0.7

"""A learned adversary: its environment, its size, and that it does more harm than chance."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import rsa2c
from rsa2c.adversary import Attacked, learn_attack
from rsa2c.errors import ConfigError
from rsa2c.robustness.attacks import make_attack


class Follower:
    """Pushes the tank's level to where it believes the middle to be."""

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        return np.clip(-5.0 * np.asarray(observation), -1.0, 1.0), state


class Tank(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.t = self.np_random.uniform(-0.2, 0.2, 1), 0
        return self.level, {}

    def step(self, action):
        self.level, self.t = self.level + 0.2 * action, self.t + 1
        return self.level, -float(self.level[0] ** 2), False, self.t >= 30, {}


def test_the_adversary_is_paid_for_what_the_policy_loses():
    attacked, tank = Attacked(Tank(), Follower(), np.array([0.1])), Tank()
    (start, _), _ = attacked.reset(seed=4), tank.reset(seed=4)
    for push in (1.0, -0.5, 0.0):
        action, _ = Follower().predict(start + 0.1 * push)
        expected = tank.step(action)
        start, reward, *rest = attacked.step(np.array([push]))
        assert np.array_equal(start, expected[0]) and reward == -expected[1] and tuple(rest) == expected[2:]


def test_a_learned_attack_stays_in_its_box_and_does_more_harm_than_chance():
    victim, epsilon = Follower(), 0.15
    attack = learn_attack(victim, Tank, epsilon, total_timesteps=12_000, seed=1, n_envs=20, horizon=30, capacity=24)
    states = np.linspace(-0.5, 0.5, 40)[:, None]
    assert np.abs(attack(states, []) - states).max() <= epsilon + 1e-12
    random = make_attack("random", victim, epsilon, "linf")
    clean, chance, learned = (
        rsa2c.evaluate(victim, Tank, episodes=20, attack=each).returns.mean() for each in (None, random, attack)
    )
    assert learned < 1.5 * chance < 0 and learned < 1.5 * clean


def test_bad_sizes_are_refused():
    with pytest.raises(ConfigError, match="epsilon must be finite"):
        learn_attack(Follower(), Tank, -1.0)
    with pytest.raises(ConfigError, match="units='normalised' needs an agent with a kernel"):
        learn_attack(Follower(), Tank, 0.1, units="normalised")

"""The noise that a training begins with: less where the usual one fells what would stand, and correlated in time where
white noise finds nothing."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import rsa2c
from rsa2c.algorithm.first_noise import autocorrelation, pays, silent
from rsa2c.algorithm.shares import Rollout

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


def test_rewards_are_silent_where_they_only_charge_for_the_action():
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (500, 2))
    charged = -0.1 * np.sum(actions**2, axis=1) + 0.3 * actions[:, 0] - 2.0
    assert silent(actions, charged) and silent(actions, np.full(500, -1.0)) and silent(actions, np.zeros(500))
    assert not silent(actions, charged + 0.01 * rng.standard_normal(500))

    seldom, often = np.zeros(500), np.zeros(500)
    seldom[:4], often[:20] = 1.0, 1.0  # a goal met by chance in under 1% of the steps is as good as none
    assert silent(actions, seldom) and silent(actions, charged + 50 * seldom)
    assert not silent(actions, often) and not silent(actions, charged + 50 * often)


class Moving(gymnasium.Env):
    """A mass that the action pushes, seen with the other features `more(steps, random number)`; moving pays `wage`, and
    resting pays 1 - `wage`."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, wage=1.0, more=lambda steps, random: 0.0, ends=False):
        self.wage, self.more, self.ends = wage, more, ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.speed, self.place, self.steps = 0.0, 0.0, 0
        return self.observed(), {}

    def step(self, action):
        self.speed, self.steps = self.speed + 0.1 * float(action[0]), self.steps + 1
        self.place += 0.1 * self.speed
        moves = abs(self.speed) > 0.5
        over = self.ends and self.steps == 150
        return self.observed(), self.wage if moves else 1.0 - self.wage, over, False, {}

    def observed(self):
        return np.array([self.place, self.speed, self.more(self.steps, self.np_random.uniform())])


def correlation(**arguments):
    made = rsa2c.RSA2C(lambda: gymnasium.wrappers.TimeLimit(Moving(**arguments), LIMIT), seed=0, n_envs=4)
    return made.config.exploration.noise_correlation, made.num_timesteps // (10 * LIMIT)


def test_noise_is_correlated_where_states_are_slow_and_it_pays():
    """The rollout that compares is counted; it is made where states are slow only."""
    assert correlation(wage=1.0) == (0.9, 2)
    assert correlation(wage=0.0) == (0.0, 2), "it costs to move"
    assert correlation(wage=1.0, more=lambda steps, random: random) == (0.0, 1), "a fast feature"
    assert correlation(wage=1.0, more=lambda steps, random: steps / LIMIT) == (0.9, 2)
    assert correlation(wage=1.0, ends=True) == (0.0, 1), "an episode that terminates says something"
    assert correlation(wage=0.5) == (0.9, 1), "silent rewards"


def test_autocorrelation_is_within_segments():
    """Against the plain formula, in a batch of episodes of 73 steps, the last of them cut; a constant is left out."""
    made = rsa2c.RSA2C(lambda: gymnasium.wrappers.TimeLimit(Moving(), 73), seed=0, n_envs=2, horizon=300)
    batch = made.workers.roll_out(Rollout.drawn(np.random.default_rng(0), made.policy, 300)).gathered()
    lengths = np.bincount(batch.segment) + 1
    ends = np.cumsum(lengths)
    assert len(set(lengths)) > 1 and ends[-1] == len(batch.raw)
    segments = [batch.raw[end - length : end, :2] for end, length in zip(ends, lengths, strict=True)]
    away = [points - points.mean(axis=0) for points in segments]
    products = [each[t] * each[t + 10] for each in away for t in range(len(each) - 10)]
    expected = np.mean(products, axis=0) / np.mean(np.concatenate(away) ** 2, axis=0)
    np.testing.assert_allclose(autocorrelation(batch, 10), expected, rtol=1e-9)
    assert len(autocorrelation(batch, 80)) == 0, "no segment is that long"


def test_what_pays_is_half_a_standard_deviation():
    rng = np.random.default_rng(0)
    white = rng.standard_normal(10_000)
    assert pays(white, white + 0.6) and not pays(white, white + 0.4) and not pays(white, white - 1.0)
    assert not pays(np.zeros(10), np.zeros(10))

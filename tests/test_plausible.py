"""Values that rewards do not allow: how they are recognised, and that a training is saved from them."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import rsa2c
from rsa2c.algorithm.plausible import LARGEST_RIDGE, plausible, range_of_rewards, ridges
from rsa2c.algorithm.sums import Range

GAMMA = 0.9


def allowed(low, high, rewards=(-2.0, 0.0), known=None, gamma=GAMMA):
    return plausible(Range(low, high), Range(*rewards), None if known is None else Range(*known), gamma)


@pytest.mark.parametrize("constant", [0.0, -50.0, 1e4])
@pytest.mark.parametrize("low, high, expected", [
    (-20.0, 0.0, True),
    (-15.0, 4.9, True),
    (-20.0, 6.6, True),
    (-20.0, 6.7, False),
    (-26.7, 0.0, False),
    (3_000.0, 8_000.0, False),
])  # fmt: skip
def test_values_are_discounted_sums_of_rewards(low, high, expected, constant):
    """Rewards between -2 and 0 and a discount of 0.9 allow -20 to 0. A quarter of that, or of the values' own range, is
    let pass. A constant in all rewards changes nothing."""
    shift = constant / (1 - GAMMA)
    assert allowed(low + shift, high + shift, rewards=(constant - 2.0, constant)) is expected


def test_what_is_known_is_allowed():
    """A batch without reward does not refute values that earlier batches have shown."""
    assert not allowed(0.0, 7.0, rewards=(0.0, 0.0))
    assert allowed(0.0, 7.0, rewards=(0.0, 0.0), known=(0.0, 9.0))
    assert not allowed(0.0, 9.1, rewards=(0.0, 0.0), known=(0.0, 9.0))


def test_rewards_that_never_change_leave_room_for_rounding():
    assert allowed(10.0 - 1e-12, 10.0 + 1e-12, rewards=(1.0, 1.0)) and not allowed(9.0, 9.1, rewards=(1.0, 1.0))


def test_without_a_discount_values_have_no_bound():
    assert allowed(-1e9, 1e9, gamma=1.0)


def test_after_a_termination_nothing_is_earned():
    rewards, none = np.array([1.0, 2.0]), np.array([False, False])
    assert range_of_rewards(rewards, none) == Range(1.0, 2.0)
    assert range_of_rewards(rewards, ~none) == Range(0.0, 2.0)


def test_ranges_join_in_any_order():
    first, second = Range.of(np.array([1.0, -3.0])), Range.of(np.array([[4.0], [0.0]]), np.array([-1.0]))
    assert first + second == second + first == Range(-3.0, 4.0)


def test_ridges_grow_to_an_end():
    found = list(ridges(5e-6))
    np.testing.assert_allclose(found, [5e-6 * 10**k for k in range(6)])
    assert found[-1] <= LARGEST_RIDGE and list(ridges(3.0)) == [3.0]


class Motor(gymnasium.Env):
    """The motor of docs/controller.md: the error of its angle can grow without end."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-12.0, 12.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform([-np.pi, -5.0], [np.pi, 5.0])
        return self.state, {}

    def step(self, action):
        error, speed = self.state
        speed += 0.02 * (2.0 * action[0] - speed) / 0.1
        error -= 0.02 * speed
        self.state = np.array([error, speed])
        return self.state, -(error**2) - 0.002 * speed**2 - 0.0005 * action[0] ** 2, False, False, {}


@pytest.mark.parametrize("seed", [1000, 1001])
def test_a_motor_does_not_run_away(seed):
    """With these seeds the first fit gave positive values where every reward is negative, and the return fell from
    -213 to -1,392 and from -236 to -1,085 within eight epochs."""
    agent = rsa2c.RSA2C(lambda: gymnasium.wrappers.TimeLimit(Motor(), 50), "advanced-ac", seed=seed)
    agent.learn(40_000)
    returns = [row["ep_rew_mean"] for row in agent.history]
    assert max(returns[1:]) < 0 and min(returns[1:]) > returns[0] and returns[-1] > -30
    assert agent.value(agent.background).max() < 60

"""The linear-quadratic benchmark: its dynamics, and the optimum that is known in closed form."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from probes import rollout
from rsa2c.envs import LQREnv, LQRVector, lqr, make_env


def test_our_lqr_vector_is_the_single_environment_step_for_step():
    ours, single_ones = make_env("rsa2c/LQR-v0", 4), make_env("rsa2c/LQR-v0", 4, backend="gymnasium")
    assert isinstance(ours, LQRVector) and isinstance(single_ones.envs[0].unwrapped, LQREnv)
    # the first part of each episode only: the plant is unstable, rounding grows
    for seed in (0, 1):
        a, b = rollout(ours, 60, seed, 15.0), rollout(single_ones, 60, seed, 15.0)
        for mine, theirs in zip(a, b, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


def test_lqr_leaves_the_rails_by_truncation_and_clips_its_force():
    env = gym.make("rsa2c/LQR-v0").unwrapped
    env.reset(seed=0)
    env.state = np.array([9.99, 5.0, 0.0, 0.0])
    _, _, terminated, truncated, _ = env.step(np.zeros(1))
    assert truncated and not terminated
    env.state = np.zeros(4)
    _, reward, _, _, _ = env.step(np.array([50.0]))
    assert reward == pytest.approx(-lqr.P2 * lqr.ACTION_BOUND**2)


def test_lqr_optimal_gain_closes_the_gap():
    p3, gain = lqr.riccati()
    a, b, gamma = lqr.A, lqr.B, lqr.GAMMA
    closed = a - b @ gain
    # the value of the closed loop, summed term by term, and the two stationarity conditions
    total, power = np.zeros((4, 4)), np.eye(4)
    for t in range(5000):
        total += gamma**t * power.T @ (lqr.P1 + lqr.P2 * gain.T @ gain) @ power
        power = closed @ power
    np.testing.assert_allclose(total, p3, rtol=1e-9)
    np.testing.assert_allclose(lqr.P2 * gain, gamma * b.T @ p3 @ closed, rtol=1e-9)
    assert abs(lqr.gap(lambda s: -s @ gain.T)) < 1e-9
    starts = lqr.fixed_starts(20)
    best = lqr.optimal_cost(starts)
    np.testing.assert_allclose(lqr.policy_cost(lambda s: -s @ gain.T, starts), best, rtol=1e-9)
    assert (lqr.policy_cost(lambda s: -1.2 * s @ gain.T, starts) > best).all()
    assert lqr.gap(lambda s: 0.0 * s[:, :1]) == np.inf and lqr.gap(lambda s: 1e3 * s[:, :1]) == np.inf
    alone = lqr.policy_cost(lambda s: 0.0 * s[:, :1], starts)
    assert np.isfinite(alone).all() and alone.mean() > lqr.HOPELESS * best.mean()
    assert lqr.fixed_starts(50).shape == (50, 4) and (abs(lqr.fixed_starts(50)) <= lqr.START_HIGH).all()


def test_lqr_is_gymnasiums_cart_pole_linearised():
    plant = gym.make("CartPole-v1").unwrapped
    small = 1e-5
    for i in range(5):
        state, force = np.zeros(4), 0.0
        if i < 4:
            state[i] = small
        else:
            force = small
        plant.reset(seed=0)
        plant.state, plant.force_mag = tuple(state), force
        moved, *_ = plant.step(1)
        predicted = lqr.dynamics(state[None], np.array([[force]]))[0]
        np.testing.assert_allclose(moved, predicted, atol=1e-11)

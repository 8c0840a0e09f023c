"""What actions move, from their noise: against loops, on features that no action moves, and on those that it does."""

from dataclasses import replace

import numpy as np
import pytest

from rsa2c import RSA2C
from rsa2c.algorithm.batch import Batch
from rsa2c.algorithm.influence import LAGS, influence, influence_sums
from rsa2c.algorithm.samples import Block, blocks_of
from rsa2c.algorithm.sums import TreeSum

SIGMA = np.array([0.5, 2.0])


def correlated(rng, shape, rho):
    """Noise of unit variance, correlated along the first axis."""
    noise = rng.normal(size=shape)
    for t in range(1, len(noise)):
        noise[t] = rho * noise[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    return noise


def batch_of(points, noise):
    """Episodes of equal length, one in each environment: points (episodes, steps + 1, d), noise (episodes, steps, m)
    in standard deviations."""
    episodes, steps, m = noise.shape
    n, means = episodes * steps, np.random.default_rng(0).normal(size=(episodes * steps, m))
    ends = np.arange(n) % steps == steps - 1
    none = np.zeros(n, bool)
    return Batch(
        points=points.reshape(-1, points.shape[2]),
        raw=points.reshape(-1, points.shape[2]),
        segment=np.repeat(np.arange(episodes), steps),
        latents=means + noise.reshape(n, m) * SIGMA[:m],
        means=means,
        rewards=np.zeros(n),
        terminated=none,
        truncated=ends,
        cut=none,
        episode_returns=np.zeros(episodes),
        episode_lengths=np.full(episodes, steps),
        lengths=np.full(episodes, steps),
    )


def found(batch, correlation=0.0, m=2):
    return influence(influence_sums(Block(batch), SIGMA[:m], correlation))


def plant(rng, episodes=4, steps=500, drifts=6, rho=0.0):
    """A mass with friction pushed by noise, its position by Euler's explicit rule, and features that drift."""
    noise = np.stack([correlated(rng, (steps, 2), rho) for _ in range(episodes)])
    points = np.empty((episodes, steps + 1, 2 + drifts))
    points[:, 0] = rng.normal(size=points[:, 0].shape)
    for t in range(steps):
        position, velocity, rest = points[:, t, 0], points[:, t, 1], points[:, t, 2:]
        points[:, t + 1, 0] = position + 0.1 * velocity
        points[:, t + 1, 1] = 0.98 * velocity - 0.05 * position + 0.02 * noise[:, t, 0]
        points[:, t + 1, 2:] = 0.995 * rest + 0.1 * rng.normal(size=rest.shape)
    return batch_of(points, noise)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_sums_are_those_of_a_loop_over_episodes(correlation):
    batch = plant(np.random.default_rng(1), episodes=3, steps=40, rho=correlation)
    points, noise = batch.points.reshape(3, 41, -1), ((batch.latents - batch.means) / SIGMA).reshape(3, 40, 2)
    statistics = []
    for lag in LAGS:
        changes, states, fresh = [], [], []
        for episode in range(3):
            for t in range(40 - lag + 1):
                if correlation and t == 0:
                    continue
                e = noise[episode, t]
                if correlation:
                    e = (e - correlation * noise[episode, t - 1]) / np.sqrt(1 - correlation**2)
                changes.append(points[episode, t + lag] - points[episode, t])
                states.append([1.0, *points[episode, t]])
                fresh.append(e)
        rest = changes - states @ np.linalg.lstsq(states, np.array(changes), rcond=None)[0]
        squared = np.square(np.transpose(fresh) @ rest).mean(axis=0)
        statistics.append((squared / np.square(rest).sum(axis=0) - 1) * np.sqrt(2 / 2))
    expected = np.mean(statistics, axis=0)
    np.testing.assert_allclose(found(batch, correlation)[1:], expected[1:], rtol=1e-5)


def test_sums_of_blocks_are_those_of_all():
    batch = plant(np.random.default_rng(2), episodes=5, steps=30)
    tree = TreeSum()
    for block in blocks_of(batch, 2):
        tree.add(0, block.number, influence_sums(block, SIGMA, 0.3))
    np.testing.assert_allclose(influence(tree.total()), found(batch, 0.3), rtol=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_what_no_action_moves_has_mean_zero_and_unit_spread_at_most(rho):
    """However slowly it changes, and beside features that actions do move."""
    useless = np.concatenate([found(plant(np.random.default_rng(seed), rho=rho), rho)[2:] for seed in range(60)])
    assert abs(useless.mean()) < 3 * useless.std() / np.sqrt(60), "six of a training have noise in common"
    assert 0.5 < useless.std() < 1.15


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_what_actions_move_stands_out_at_once(rho):
    """The position is moved two steps later, which its change within one does not show."""
    moved = np.stack([found(plant(np.random.default_rng(seed), rho=rho), rho)[:2] for seed in range(5)])
    assert moved.min() > 50


def test_nothing_is_said_of_features_that_stand_still_or_follow_from_the_state():
    batch = plant(np.random.default_rng(3))
    clock = np.tile(np.arange(501) / 500.0, 4)
    points = np.column_stack([batch.points, np.ones(len(clock)), clock])
    known = found(replace(batch, points=points))
    np.testing.assert_array_equal(known[-2:], 0.0)
    again = found(replace(batch, points=np.column_stack([points, 2 * points[:, 1]])))
    np.testing.assert_allclose(again[:-1], known, rtol=1e-4)
    np.testing.assert_allclose(again[-1], known[1], rtol=1e-4)


def test_an_epoch_too_short_for_a_lag_says_nothing_of_it():
    assert np.all(np.isfinite(found(plant(np.random.default_rng(4), episodes=4, steps=2))))
    np.testing.assert_array_equal(found(plant(np.random.default_rng(4), episodes=1, steps=1), 0.5), 0.0)


def test_a_training_finds_what_its_actions_move():
    """Pendulum-v1's velocity, and none of five drifts. The direction in which torque moves cos and sin of the angle
    changes with the angle, so they hardly show."""
    agent = RSA2C("Pendulum-v1", seed=3, distractors=5, distractor_kind="drift", attribution_every=1)
    for _ in range(12):
        agent.run_epoch()
    moved = agent.importances.moved * np.sqrt(agent.importances.updates)
    assert moved[2] > 50 and np.abs(moved[3:]).max() < 5

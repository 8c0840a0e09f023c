"""Observation noise and distractors, on single and on vector environments."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from probes import counters, rollout
from rsa2c.envs import Distractors, ObservationNoise, make_env
from rsa2c.envs.distractors import Noise
from rsa2c.envs.wrappers import AddedNoise, VectorDisturbed
from rsa2c.errors import ConfigError


def test_noise_has_the_variance_asked_and_leaves_the_state_alone():
    clean, noisy = make_env("Pendulum-v1", 50), make_env("Pendulum-v1", 50, noise_variance=0.04)
    a, b = rollout(clean, 199, 0), rollout(noisy, 199, 0)
    np.testing.assert_array_equal(a[1], b[1])
    noise = (b[0] - a[0]).reshape(-1, 3)
    assert b[0].dtype == a[0].dtype
    np.testing.assert_allclose(noise.var(axis=0), 0.04, rtol=0.06)  # 10,000 draws: standard error 1.4%
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.01)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.05
    assert noisy.single_observation_space.contains(np.full(3, 1e6, np.float32))


def test_distractors_are_fresh_standard_normals_after_the_true_features():
    env = make_env("Pendulum-v1", 40, distractors=4)
    a, b = rollout(make_env("Pendulum-v1", 40), 150, 0), rollout(env, 150, 0)
    np.testing.assert_array_equal(a[0], b[0][..., :3])
    extra = b[0][..., 3:]
    np.testing.assert_allclose(extra.reshape(-1, 4).std(axis=0), 1.0, rtol=0.05)
    assert abs(np.corrcoef(extra[:-1, :, 0].ravel(), extra[1:, :, 0].ravel())[0, 1]) < 0.05
    assert env.single_observation_space.shape == (7,) and env.observation_space.shape == (40, 7)
    both = make_env("Pendulum-v1", 200, distractors=4, noise_variance=3.0)  # noise on the distractors too
    assert rollout(both, 20, 0)[0][..., 3:].var() == pytest.approx(4.0, rel=0.05)


def test_single_wrappers_repeat_under_a_seed_and_keep_the_environments_own_randomness():
    for wrap in (lambda e: ObservationNoise(e, 0.5), lambda e: Distractors(e, 3)):
        env, plain = wrap(gym.make("Pendulum-v1")), gym.make("Pendulum-v1")
        draws = []
        for seed in (4, 4, 5):
            first, _ = env.reset(seed=seed)
            draws.append([first, *(env.step(np.zeros(1, np.float32))[0] for _ in range(3))])
        np.testing.assert_array_equal(draws[0], draws[1])
        assert (np.array(draws[0]) != np.array(draws[2])).any()
        again, _ = env.reset()  # goes on with the generator, does not repeat
        assert not np.array_equal(again, draws[2][0])
        plain.reset(seed=5)
        for _ in range(3):
            state, *_ = plain.step(np.zeros(1, np.float32))
        if isinstance(env, Distractors):
            np.testing.assert_array_equal(draws[2][-1][:3], state)
        assert env.observation_space.shape == draws[0][0].shape
        assert env.spec.id == "Pendulum-v1" and gym.make(env.spec).observation_space == env.observation_space


def test_noise_may_have_a_variance_for_each_feature():
    env = ObservationNoise(gym.make("Pendulum-v1"), np.array([0.0, 1.0, 0.0]))
    observation, _ = env.reset(seed=0)
    state, _ = env.env.reset(seed=0)
    np.testing.assert_array_equal(observation != state, [False, True, False])
    with pytest.raises(ConfigError, match="2 noise variances given for 3 features"):
        ObservationNoise(gym.make("Pendulum-v1"), np.ones(2))


def test_final_observations_are_disturbed_too():
    env = VectorDisturbed(counters(3, AutoresetMode.SAME_STEP), Noise(2))
    env = VectorDisturbed(env, AddedNoise(0.25))
    env.reset(seed=0)
    for _ in range(3):
        *_, infos = env.step(np.zeros((3, 1), np.float32))
    final = infos["final_obs"][0]  # the first Counter ends its first episode at step 3
    assert final.shape == (4,) and infos["final_obs"][1] is None
    assert 0 < abs(final[1] - 3.0) < 3.0 and 0 < abs(final[0]) < 3.0

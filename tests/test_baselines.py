"""SB3's agents behind our `predict`, with RL-Zoo's settings."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import rsa2c
from rsa2c.baselines import Baseline, make_baseline, settings, train_baseline
from rsa2c.errors import ConfigError, MissingExtraError
from rsa2c.evaluate import Policy

pytest.importorskip("stable_baselines3")

SMALL = {"policy_kwargs": {"net_arch": [8]}}


def test_settings_are_rl_zoos():
    assert settings("sac", "Pendulum-v1").arguments == {"learning_rate": 1e-3}
    assert settings("ppo", "Pendulum-v1").n_envs == 4
    assert settings("ppo", "Ant-v5").normalise
    assert settings("sac", "Ant-v5").arguments == {"learning_starts": 10_000}
    with pytest.raises(ConfigError, match="Did you mean 'sac'"):
        settings("sca", "Pendulum-v1")


def test_ppo_trains_and_is_evaluated():
    seen = []

    def callback(local_names, _):
        seen.append(local_names["self"].num_timesteps)
        return True

    small = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, **SMALL}
    baseline = train_baseline("ppo", "Pendulum-v1", 128, seed=1, callback=callback, **small)
    assert isinstance(baseline, Policy)
    assert seen[-1] == baseline.model.num_timesteps == 128
    result = rsa2c.evaluate(baseline, "Pendulum-v1", episodes=2)
    assert np.all(result.returns < 0)


def test_sac_with_noise_and_distractors():
    baseline = train_baseline(
        "sac", "Pendulum-v1", 40, learning_starts=20, batch_size=8, distractors=2, noise_variance=0.1, **SMALL
    )
    action, _ = baseline.predict(np.zeros((3, 5)), deterministic=True)
    assert action.shape == (3, 1)


def test_equal_seeds_give_equal_policies():
    actions = [
        make_baseline("sac", "Pendulum-v1", seed, **SMALL).predict(np.zeros((1, 3)), deterministic=True)[0]
        for seed in (3, 3, 4)
    ]
    assert actions[0] == actions[1] != actions[2]


def test_normalised_observations_reach_the_model():
    class Model:
        def predict(self, observation, *_):
            return observation, None

    class Normaliser:
        def normalize_obs(self, observation):
            return observation * 2

    assert Baseline(Model(), Normaliser()).predict([1.0])[0] == [2.0]
    assert Baseline(Model()).predict([1.0])[0] == [1.0]


def test_without_sb3_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rsa2c\[baselines\]'"):
        make_baseline("sac", "Pendulum-v1")

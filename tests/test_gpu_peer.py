"""Brax's PPO beside ours: its policy in NumPy, and our simulations as its environments."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

from benchmark_runs import BENCHMARKS

sys.path.append(str(BENCHMARKS))
jax = pytest.importorskip("jax", reason="training on a device needs JAX, which the extra gpu installs")
pytest.importorskip("brax", reason="the benchmark beside Brax needs Brax: pip install brax")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that Brax needs
    from brax.training.acme import running_statistics, specs
    from brax.training.agents.ppo import networks

    from _brax import Simulated

from gpu_peer import Network  # noqa: E402
from rsa2c.gpu.environments import environment  # noqa: E402


def test_the_policy_in_numpy_is_braxs(tmp_path):
    made = networks.make_ppo_networks(5, 2, preprocess_observations_fn=running_statistics.normalize)
    observations = np.random.default_rng(0).normal(3.0, 2.0, (7, 5)).astype(np.float32)
    normaliser = running_statistics.init_state(specs.Array((5,), np.dtype("float32")))
    normaliser = running_statistics.update(normaliser, observations)
    policy = made.policy_network.init(jax.random.PRNGKey(1))
    act = networks.make_inference_fn(made)((normaliser, policy), deterministic=True)
    expected, _ = act(observations, jax.random.PRNGKey(2))
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 4.0])
    Network.of(low, high, normaliser, policy).save(tmp_path / "policy.npz")
    actions, _ = Network.load(tmp_path / "policy.npz").predict(observations)
    np.testing.assert_allclose(actions, low + (high - low) * (np.asarray(expected) + 1) / 2, atol=1e-5)


def test_an_environment_steps_as_ours():
    env = environment("Pendulum-v1")
    simulated, key = Simulated(env), jax.random.PRNGKey(0)
    state, own = simulated.reset(key), env.reset(key)
    np.testing.assert_allclose(state.obs, env.observe(own))
    state = simulated.step(state, np.array([0.25]))
    own, reward, *_ = env.step(own, np.array([0.5]))
    np.testing.assert_allclose(state.obs, env.observe(own), rtol=1e-6)
    assert state.reward == pytest.approx(float(reward)) and state.done == 0.0

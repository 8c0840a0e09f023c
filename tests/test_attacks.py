"""Attacks: inside their region, as strong as exact answers where those are known, and no part of the environment."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import rsa2c
from rsa2c.errors import ConfigError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF, Laplace
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.attacks import ATTACKS, BoxSearch, ascend, make_attack
from rsa2c.robustness.regions import Region
from rsa2c.robustness.targets import differenced, policy_target, pulled

NORMS = ("l2", "linf")


class Linear:
    """A policy a = clip(G s), with nothing an attacker could differentiate."""

    def __init__(self, gain: np.ndarray) -> None:
        self.gain = gain

    def predict(self, observation: Any, state: Any = None, start: Any = None, deterministic: bool = True) -> Any:
        return np.clip(np.asarray(observation) @ self.gain.T, -2.0, 2.0).astype(np.float32), state


@pytest.fixture(scope="module")
def agent() -> rsa2c.RSA2C:
    return rsa2c.RSA2C("Pendulum-v1", "advanced-ac", seed=0).learn(20_000)


def generators(n: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, i]) for i in range(n)]


def size(perturbations: np.ndarray, norm: str, scale: Any) -> np.ndarray:
    return np.linalg.norm(perturbations / scale, 2 if norm == "l2" else np.inf, axis=1)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", list(ATTACKS))
def test_attacks_stay_in_their_region_and_move(agent: rsa2c.RSA2C, name: str, norm: str) -> None:
    states, std = agent.background[:30], agent.policy_mean.kernel.metric.std
    for units, scale in (("raw", 1.0), ("normalised", std)):
        moved = make_attack(name, agent, 0.1, norm, units)(states, generators(30))
        assert np.all(size(moved - states, norm, scale) <= 0.1 * (1 + 1e-9))
        assert np.all(size(moved - states, norm, scale) > 0.001)


@pytest.mark.parametrize("norm", NORMS)
def test_random_perturbations_fill_the_region(norm: str) -> None:
    drawn = size(Region(2.0, norm).sampled(generators(4000), 3), norm, 1.0)
    assert drawn.max() <= 2.0
    assert np.mean(drawn <= 1.0) == pytest.approx(1 / 8, abs=0.02)  # the volume of half the radius


@pytest.mark.parametrize("kernel", [RBF, Laplace])
def test_pull_is_the_weighted_gradient(kernel: type) -> None:
    rng = np.random.default_rng(0)
    metric = Metric(rng.normal(size=4), rng.uniform(0.5, 2, 4), 1.5, rng.uniform(0.5, 2, 4))
    dictionary = Dictionary(kernel(1.5, metric), rng.normal(size=(12, 4)), np.zeros(12))
    function = RKHSFunction(dictionary, rng.normal(size=(12, 3)), ("a", "b", "c"))
    states, weights = 2 * rng.normal(size=(7, 4)), rng.normal(size=(7, 3))
    slow = np.array([w @ function.gradient(s) for s, w in zip(states, weights, strict=True)])
    assert pulled(function, states, weights) == pytest.approx(slow, rel=1e-9, abs=1e-12)


def test_differences_are_the_gradient_of_a_smooth_score() -> None:
    rng = np.random.default_rng(1)
    states, rows = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    found = differenced(lambda s, r: np.sum(np.sin(s) * r, axis=1), states, Region(0.01), rows)
    assert found == pytest.approx(np.cos(states) * rows, abs=1e-4)


@pytest.mark.parametrize(("name", "env"), [("sac", "Pendulum-v1"), ("ppo", "Pendulum-v1"), ("ppo", "Swimmer-v5")])
def test_torch_gradients_of_stable_baselines_models_are_those_of_their_predictions(name: str, env: str) -> None:
    pytest.importorskip("stable_baselines3")
    from rsa2c.baselines.policy import make_baseline

    baseline, rng = make_baseline(name, env), np.random.default_rng(4)
    d = baseline.model.observation_space.shape[0]
    states = rng.normal(size=(6, d))
    if baseline.normaliser is not None:
        baseline.normaliser.obs_rms.mean, baseline.normaliser.obs_rms.var = rng.normal(size=(2, d)) ** 2
        states[0, 0] = 1e3  # beyond the normaliser's clip
    region = Region(0.01)
    target = policy_target(baseline, region)
    weights = rng.normal(size=target.mean(states).shape)
    slow = differenced(lambda s, w: np.sum(target.mean(s) * w, axis=1), states, region, weights)
    assert target.pull(states, weights) == pytest.approx(slow, rel=0.02, abs=0.01 * np.abs(slow).max())
    if name == "ppo":
        network = make_attack("critic", baseline, 0.05).network
        slow = differenced(network.value, states, region)
        assert network.value_gradient(states) == pytest.approx(slow, rel=0.02, abs=0.01 * np.abs(slow).max())


@pytest.mark.parametrize("norm", NORMS)
def test_ascent_of_a_linear_score_ends_at_its_maximiser(norm: str) -> None:
    rng = np.random.default_rng(2)
    slope, scale = rng.normal(size=(6, 4)), rng.uniform(0.2, 3, 4)
    region, states = Region(0.3, norm, scale), rng.normal(size=(6, 4))
    moved = ascend(lambda s: np.sum(slope * s, axis=1), lambda s: slope, states, region, generators(6))
    gained = np.sum(slope * (moved - states), axis=1)
    dual = np.linalg.norm(slope * scale, 2 if norm == "l2" else 1, axis=1)
    assert gained == pytest.approx(0.3 * dual, rel=0.02)
    assert np.all(gained <= 0.3 * dual * (1 + 1e-9))


def test_box_search_finds_the_best_corner() -> None:
    rng = np.random.default_rng(3)
    mix = rng.normal(size=(3, 4))

    def action(states: np.ndarray) -> np.ndarray:
        return np.tanh(np.atleast_2d(states) @ mix.T)

    states = 0.3 * rng.normal(size=(10, 4))
    moved = BoxSearch(Region(0.2, "linf"), action)(states, generators(10))
    corners = 0.2 * np.array(list(product((-1.0, 1.0), repeat=4)))
    for state, found in zip(states, moved, strict=True):
        reachable = np.sum((action(state + corners) - action(state)) ** 2, axis=1)
        assert np.sum((action(found) - action(state)) ** 2) == pytest.approx(reachable.max(), rel=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_mad_is_stronger_than_chance_with_and_without_gradients(agent: rsa2c.RSA2C, norm: str) -> None:
    gain = np.array([[0.4, -0.2, 0.1]])
    for policy in (agent, Linear(gain)):
        states = agent.background[:30]

        def change(name: str, policy: Any = policy, states: np.ndarray = states) -> float:
            moved = make_attack(name, policy, 0.05, norm)(states, generators(30))
            return float(np.abs(policy.predict(moved)[0] - policy.predict(states)[0]).mean())

        assert change("mad") > 1.3 * change("random")
        assert change("box") > 1.3 * change("random")
    exact = 0.05 * np.linalg.norm(gain, 2 if norm == "l2" else np.inf)
    if norm == "l2":
        assert change("mad") == pytest.approx(exact, rel=0.05)


def test_critic_attack_lowers_the_advantage(agent: rsa2c.RSA2C) -> None:
    states = agent.background[:30]
    moved = make_attack("critic", agent, 0.1)(states, generators(30))
    gain = np.sum(agent.advantage(states) * (agent.policy_mean(moved) - agent.policy_mean(states)), axis=1)
    assert np.all(gain <= 1e-9) and gain.mean() < 0


def test_stable_baselines_models_are_attacked_as_they_are() -> None:
    pytest.importorskip("torch")
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.PPO("MlpPolicy", "Pendulum-v1", n_steps=64, seed=0, device="cpu")
    states = np.random.default_rng(0).uniform(-1, 1, (10, 3))
    for name in ATTACKS:
        moved = make_attack(name, model, 0.1)(states, generators(10))
        assert np.all(size(moved - states, "l2", 1.0) <= 0.1 * (1 + 1e-9))
    result = rsa2c.evaluate(model, "Pendulum-v1", episodes=2, max_steps=5, attack=make_attack("mad", model, 0.1))
    assert np.all(np.isfinite(result.returns))


def test_an_attack_of_size_zero_changes_nothing_and_episodes_do_not_meet(agent: rsa2c.RSA2C) -> None:
    def returns(episodes: int, seed: int = 0, **options: Any) -> np.ndarray:
        return rsa2c.evaluate(agent, "Pendulum-v1", episodes=episodes, seed=seed, max_steps=60, **options).returns

    clean = returns(4)
    for name in ATTACKS:
        assert returns(4, attack=make_attack(name, agent, 0.0)) == pytest.approx(clean, rel=1e-4), name
    attack = make_attack("mad", agent, 0.5)
    attacked = returns(4, attack=attack)
    assert not np.allclose(attacked, clean, rtol=1e-3)
    assert returns(1, seed=2, attack=attack)[0] == pytest.approx(attacked[2], rel=1e-6)


def test_mistakes_are_named(agent: rsa2c.RSA2C) -> None:
    with pytest.raises(ConfigError, match=r"attack 'mda' is unknown.*Did you mean 'mad'"):
        make_attack("mda", agent, 0.1)
    with pytest.raises(ConfigError, match="needs a critic of states, which Linear does not have"):
        make_attack("critic", Linear(np.ones((1, 3))), 0.1)
    with pytest.raises(ConfigError, match="units='normalised' needs an agent with a kernel"):
        make_attack("random", Linear(np.ones((1, 3))), 0.1, units="normalised")

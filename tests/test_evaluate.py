from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit, TransformReward

from probes import Broken, Counter, Forgetful
from rsa2c.envs import Distractors, ObservationNoise
from rsa2c.errors import ConfigError, DataError, EnvError
from rsa2c.evaluation import EvaluationResult, Policy, evaluate


class Feedback:
    """A damped spring by elementwise arithmetic: an action does not depend on what else is in the batch."""

    def __init__(self, m: int = 1) -> None:
        self.m, self.batches = m, []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.batches.append(len(observation))
        torque = -4.0 * observation[:, 1] - 0.7 * observation[:, 2]
        return np.repeat(np.clip(torque, -1.0, 1.0)[:, None], self.m, axis=1), None


def by_hand(policy, env: gym.Env, seed: int) -> tuple[float, int]:
    observation, _ = env.reset(seed=seed)
    total, steps, over = 0.0, 0, False
    while not over:
        action = policy.predict(observation[None])[0][0].astype(env.action_space.dtype)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, steps, over = total + reward, steps + 1, terminated or truncated
    return total, steps


def test_returns_are_those_of_episodes_run_one_by_one():
    result = evaluate(Feedback(), "Pendulum-v1", episodes=70, seed=10)  # more than run side by side
    assert result.returns.shape == result.lengths.shape == (70,) and (result.lengths == 200).all()
    for i in (0, 1, 63, 64, 69):
        expected = by_hand(Feedback(), gym.make("Pendulum-v1"), 10 + i)
        assert (result.returns[i], result.lengths[i]) == expected
    assert result.mean == result.returns.mean() and result.std == result.returns.std() > 0


@pytest.mark.parametrize(
    "disturbed",
    [{}, {"noise_variance": 0.1}, {"distractors": 2, "noise_variance": 0.1}]
    + [{"distractors": 2, "distractor_kind": kind, "noise_variance": 0.1} for kind in ("drift", "twin")],
)
def test_an_episode_does_not_depend_on_how_many_run_beside_it(disturbed):
    many = evaluate(Feedback(), "Pendulum-v1", episodes=50, seed=3, **disturbed)
    one = evaluate(Feedback(), "Pendulum-v1", episodes=1, seed=3 + 40, **disturbed)
    assert many.returns[40] == one.returns[0]
    assert len(np.unique(many.returns)) == 50


def test_noise_is_the_wrappers_and_costs_return():
    clean = evaluate(Feedback(), "Pendulum-v1", episodes=20)
    noisy = evaluate(Feedback(), "Pendulum-v1", episodes=20, noise_variance=0.5)
    assert (noisy.returns != clean.returns).all()
    expected = by_hand(Feedback(), ObservationNoise(gym.make("Pendulum-v1"), 0.5), 7)
    assert (noisy.returns[7], noisy.lengths[7]) == expected
    both = evaluate(Feedback(), "Pendulum-v1", episodes=8, distractors=3, noise_variance=0.5)
    wrapped = ObservationNoise(Distractors(gym.make("Pendulum-v1"), 3), 0.5)
    assert both.returns[7] == by_hand(Feedback(), wrapped, 7)[0]


def test_every_episode_has_an_environment_of_its_own():
    result = evaluate(Constant(), Forgetful, episodes=70)  # a used one would pay more
    np.testing.assert_array_equal(result.returns, np.full(70, 1.0 + 2.0 + 3.0 + 4.0))


def test_episodes_of_different_lengths_leave_the_batch_as_they_end():
    lengths = iter((3, 6, 2, 4))
    policy = SimpleNamespace(batches=[])

    def predict(observation, state=None, episode_start=None, deterministic=False):
        policy.batches.append((len(observation), bool(episode_start.all()), deterministic))
        return np.zeros((len(observation), 1)), None

    policy.predict = predict
    result = evaluate(policy, lambda: Counter((next(lengths),), (True,)), episodes=4, deterministic=False)
    np.testing.assert_array_equal(result.lengths, [3, 6, 2, 4])
    np.testing.assert_array_equal(result.returns, [n * (n + 1) / 2 for n in (3, 6, 2, 4)])
    assert [size for size, _, _ in policy.batches] == [4, 4, 3, 2, 1, 1]
    assert [start for _, start, _ in policy.batches] == [True] + 5 * [False]
    assert not any(deterministic for *_, deterministic in policy.batches)


def test_small_returns_are_shown_with_their_digits():
    lengths = np.array([3, 3])
    assert str(EvaluationResult(np.array([-12.34, -12.34]), lengths)) == "-12.3 +- 0.0 over 2 episodes"
    assert str(EvaluationResult(np.array([-0.00121, -0.00321]), lengths)) == "-0.00221 +- 0.001 over 2 episodes"


def test_a_recurrent_policy_keeps_a_state_for_each_episode():
    class Recurrent:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            state = np.where(episode_start, 0.0, 0.0 if state is None else state) + 1.0
            # the state counts the steps of its own episode
            alive = observation[:, 1] == state - 1.0
            assert alive.any() and len(observation) == 3
            return np.zeros((3, 1)), state

    lengths = iter((3, 6, 2))
    result = evaluate(Recurrent(), lambda: Counter((next(lengths),), (False,)), episodes=3)
    np.testing.assert_array_equal(result.lengths, [3, 6, 2])


def test_a_factorys_wrappers_are_kept():
    def doubled() -> gym.Env:
        return TransformReward(gym.make("Pendulum-v1"), lambda reward: 2.0 * reward)

    plain, twice = (evaluate(Feedback(), env, episodes=3) for env in ("Pendulum-v1", doubled))
    np.testing.assert_allclose(twice.returns, 2.0 * plain.returns)
    limited = evaluate(Feedback(), lambda: TimeLimit(gym.make("Pendulum-v1"), 20), episodes=3)
    assert (limited.lengths == 20).all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"policy": "Pendulum-v1"}, "an object with a method predict.*; str has none"),
        ({"policy": Feedback}, "an object with a method predict.*; Feedback is a class"),
        ({"seed": "0"}, "seed must be a non-negative whole number, got '0'"),
        ({"seed": -1}, "seed must be a non-negative whole number, got -1"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(arguments, says):
    with pytest.raises(ConfigError, match=says):
        evaluate(**{"policy": Feedback(), "env": "Pendulum-v1", "episodes": 1, **arguments})


def test_max_steps_stops_longer_episodes(monkeypatch):
    result = evaluate(Feedback(), "Pendulum-v1", episodes=2, max_steps=10)
    assert (result.lengths == 10).all()
    monkeypatch.setattr(import_module("rsa2c.evaluation"), "_PATIENCE", 50)
    with pytest.raises(EnvError, match=r"Counter has no episode limit.*50 steps\. Pass max_steps"):
        evaluate(Constant(), lambda: Counter((10**9,)), episodes=2)
    assert evaluate(Constant(), lambda: Counter((10**9,)), episodes=2, max_steps=70).lengths[0] == 70


class Constant:
    def __init__(self, value: float = 0.0, shape: tuple[int, ...] = (1,)) -> None:
        self.value, self.shape = value, shape

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        return np.full((len(observation), *self.shape), self.value), None


def test_noise_in_normalised_units_is_scaled_by_the_agents_metric():
    std = np.array([0.5, 2.0, 4.0])
    agent = Feedback()
    agent.policy_mean = SimpleNamespace(kernel=SimpleNamespace(metric=SimpleNamespace(std=std)))
    result = evaluate(agent, "Pendulum-v1", episodes=2, noise_variance=0.01, units="normalised")
    wrapped = ObservationNoise(gym.make("Pendulum-v1"), 0.01 * std**2)
    assert result.returns[1] == by_hand(Feedback(), wrapped, 1)[0]
    with pytest.raises(ConfigError, match="needs an agent with a kernel, which Feedback does not have"):
        evaluate(Feedback(), "Pendulum-v1", episodes=1, units="normalised")
    with pytest.raises(ConfigError, match="units must be one of raw, normalised"):
        evaluate(agent, "Pendulum-v1", episodes=1, units="std")


@pytest.mark.parametrize(("what", "value"), [("observation", np.nan), ("reward", np.inf)])
def test_numbers_that_are_not_finite_are_named(what, value):
    with pytest.raises(EnvError, match=f"Broken: the {what} is {value} at step 4 of episode 0"):
        evaluate(Constant(), lambda: Broken(what, value), episodes=2)


def test_bad_arguments_are_refused():
    for arguments in ({"episodes": 0}, {"episodes": 1.5}, {"max_steps": 0}):
        with pytest.raises(ConfigError, match=next(iter(arguments))):
            evaluate(Constant(), "Pendulum-v1", **arguments)
    with pytest.raises(ConfigError, match="predict"):
        evaluate(object(), "Pendulum-v1")
    with pytest.raises(ConfigError, match="noise variance"):
        evaluate(Constant(), "Pendulum-v1", noise_variance=-1.0)
    with pytest.raises(EnvError, match="Did you mean 'Pendulum-v1'"):
        evaluate(Constant(), "Pendulun-v1")
    with pytest.raises(EnvError, match="continuous actions only"):
        evaluate(Constant(), "CartPole-v1")
    with pytest.raises(DataError, match=r"actions of shape \(2, 3\) at step 0, expected \(2, 1\)"):
        evaluate(Constant(shape=(3,)), "Pendulum-v1", episodes=2)
    with pytest.raises(DataError, match="diverged"):
        evaluate(Constant(np.nan), "Pendulum-v1", episodes=2)


def test_interval_of_the_mean():
    result = EvaluationResult(np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4, dtype=int))
    low, high = result.interval()
    half = 3.182446 * np.sqrt(5 / 3) / 2  # t quantile for 3 degrees of freedom
    assert (low, high) == pytest.approx((2.5 - half, 2.5 + half), rel=1e-6)
    assert np.isnan(EvaluationResult(np.ones(1), np.ones(1, dtype=int)).interval()).all(), "one episode has none"
    assert str(result) == "2.5 +- 1.1 over 4 episodes"


def test_a_stable_baselines3_model_is_a_policy_as_it_is():
    baselines = pytest.importorskip("stable_baselines3")
    model = baselines.PPO("MlpPolicy", "Pendulum-v1", seed=0, device="cpu", policy_kwargs={"net_arch": [4]})
    assert isinstance(model, Policy)
    result = evaluate(model, "Pendulum-v1", episodes=3, seed=5)
    expected = by_hand_sb3(model, 6)
    assert result.returns[1] == pytest.approx(expected, rel=1e-3)


def by_hand_sb3(model, seed: int) -> float:
    env = gym.make("Pendulum-v1")
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + reward, terminated or truncated
    return total


def test_an_agent_of_other_features_is_refused_by_name():
    class Three:
        feature_names = ("a", "b", "c")

        def predict(self, observation, state=None, episode_start=None, deterministic=True):
            return np.zeros((len(observation), 1)), None

    with pytest.raises(DataError, match=r"an agent of 3 features cannot act in Pendulum-v1, which has 5"):
        evaluate(Three(), "Pendulum-v1", episodes=1, distractors=2)

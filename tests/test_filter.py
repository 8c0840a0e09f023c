"""A low-pass filter in front of policy and critics: wherever the agent acts, it acts behind the filter."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import rsa2c
from compiled import GCC, NO_GCC, library
from probes import counters
from rsa2c.adversary import learn_attack
from rsa2c.algorithm.rollout import collect
from rsa2c.algorithm.sensors import EXACT, FilteredSensors, NoisySensors
from rsa2c.algorithm.streams import Streams
from rsa2c.cli import main
from rsa2c.errors import ConfigError, DataError
from rsa2c.report.episodes import replay
from rsa2c.robustness.attacks import make_attack
from test_robust import steady

WEIGHT = 0.3
SMALL: dict[str, Any] = {"robust": "filter", "robust_filter": WEIGHT, "n_envs": 4, "horizon": 50, "seed": 3}


def slowly(episode, weight=WEIGHT):
    """The filter, one number after the other."""
    seen = np.array(episode, dtype=np.float64)
    for t in range(1, len(seen)):
        for i in range(seen.shape[1]):
            seen[t, i] = weight * episode[t][i] + (1 - weight) * seen[t - 1, i]
    return seen


def check_episodes(clean, seen, at_least):
    """Every episode of the batch `seen` is that of `clean` through the filter, its last state included."""
    assert np.array_equal(seen.rewards, clean.rewards) and np.array_equal(seen.segment, clean.segment)
    episodes = np.split(np.arange(len(clean.raw)), np.flatnonzero(clean.ends)[:-1] + np.arange(1, clean.ends.sum()) + 1)
    for rows in episodes:
        np.testing.assert_allclose(seen.raw[rows], slowly(clean.raw[rows]), atol=1e-9)
    assert len(episodes) >= at_least and np.abs(seen.raw - clean.raw).max() > 0.1


@pytest.fixture(scope="module")
def agent():
    return rsa2c.RSA2C("Pendulum-v1", capacity=40, **SMALL).learn(4_000)


@pytest.mark.parametrize("restart_p", [0.0, 0.1])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_episode_is_filtered_by_itself(mode, restart_p):
    n = 3

    def batch(weight):
        sensors = EXACT if weight is None else FilteredSensors(EXACT, weight)
        draws = Streams(11, 0, n)
        return collect(counters(n, mode), steady(n), lambda s: s, 300, 0, draws, restart_p=restart_p, sensors=sensors)

    check_episodes(batch(None), batch(WEIGHT), at_least=100)


def test_noise_enters_before_the_filter():
    n, weight, deviations = 4, 0.2, np.full((4, 2), 5.0)

    def batch(sensors):
        env = counters(n, AutoresetMode.NEXT_STEP, lengths=((10**6, 1),))
        return collect(env, steady(n), lambda s: s, 3_000, 0, Streams(11, 0, n), sensors=sensors)

    noisy = batch(NoisySensors(deviations, Streams(7, 0, n)))
    both = batch(FilteredSensors(NoisySensors(deviations, Streams(7, 0, n)), weight))
    each = len(noisy.raw) // n
    for i in range(n):
        rows = slice(i * each, (i + 1) * each)
        np.testing.assert_allclose(both.raw[rows], slowly(noisy.raw[rows], weight), atol=1e-8)
    settled = both.raw[100:each, 0]  # the episode's number, 0, and nothing but noise
    assert settled.std() == pytest.approx(5.0 * np.sqrt(weight / (2 - weight)), rel=0.1)


def test_training_sees_what_the_filter_makes_of_the_environments():
    """An untrained policy acts alike whatever it sees, so its first epoch differs by the filter alone."""
    settings = {name: value for name, value in SMALL.items() if not name.startswith("robust")}
    plain, filtering = rsa2c.RSA2C("Pendulum-v1", **settings), rsa2c.RSA2C("Pendulum-v1", **SMALL)
    assert filtering.state.scale.variance[2] < plain.state.scale.variance[2], "the warm-up is filtered too"
    for each in (plain, filtering):
        each.run_epoch()
    clean, seen = (each.workers.share.blocks[0].batch for each in (plain, filtering))
    assert np.array_equal(seen.rewards, clean.rewards)
    for first in range(0, len(clean.raw), 51):
        np.testing.assert_allclose(seen.raw[first : first + 51], slowly(clean.raw[first : first + 51]), atol=1e-12)


def hand(agent, seed, noise=None, steps=200):
    """The return of an episode, and its measurements, with the filter and the policy's mean written out."""
    env = gymnasium.make("Pendulum-v1")
    observation, _ = env.reset(seed=seed)
    total, seen, measured = 0.0, None, []
    for _ in range(steps):
        x = observation if noise is None else noise(observation)
        measured.append(np.array(x, dtype=np.float64))
        seen = measured[-1] if seen is None else seen + WEIGHT * (measured[-1] - seen)
        action = agent.policy.bounds.action(agent.policy_mean(seen)).astype(np.float32)
        observation, reward, *_ = env.step(action)
        total += float(reward)
    return total, np.array(measured)


def test_evaluating_is_a_loop_by_hand(agent):
    found = rsa2c.evaluate(agent, "Pendulum-v1", episodes=3, seed=5)
    np.testing.assert_allclose(found.returns, [hand(agent, 5 + i)[0] for i in range(3)], rtol=1e-6)
    unfiltered = rsa2c.evaluate(agent.policy, "Pendulum-v1", episodes=3, seed=5)
    assert not np.isclose(unfiltered.returns, found.returns, rtol=1e-3).any()
    alone = rsa2c.evaluate(agent, gymnasium.make("Pendulum-v1"), episodes=3, seed=5)
    assert np.array_equal(alone.returns, found.returns)


def test_noise_of_an_evaluation_enters_before_the_filter(agent):
    def noise(rng):
        return lambda x: (x + np.sqrt(0.05) * rng.standard_normal(3)).astype(x.dtype)

    found = rsa2c.evaluate(agent, "Pendulum-v1", episodes=2, seed=5, noise_variance=0.05)
    expected = [hand(agent, 5 + i, noise(np.random.default_rng([1, 5 + i])))[0] for i in range(2)]
    np.testing.assert_allclose(found.returns, expected, rtol=1e-6)


def test_trials_are_filtered(agent):
    returns, _ = agent.workers.first_episodes(agent.policy, 200, 5)
    np.testing.assert_allclose(returns, [hand(agent, 5 + i)[0] for i in range(4)], rtol=1e-5)


def test_predict_needs_to_know_where_episodes_begin(agent):
    observations = np.random.default_rng(0).normal(size=(5, 2, 3))
    state, starts = None, np.array([[True, True], [False, False], [False, True], [False, False], [True, False]])
    for measured, first in zip(observations, starts, strict=True):
        action, state = agent.predict(measured, state, first)
        assert np.array_equal(action, agent.policy.predict(state)[0])
    np.testing.assert_allclose(state[0], observations[4, 0])
    np.testing.assert_allclose(state[1], slowly(observations[2:, 1])[-1])
    one, memory = agent.predict(observations[0, 0], None, True)
    assert one.shape == (1,) and np.array_equal(memory, observations[0, 0])
    np.testing.assert_allclose(agent.predict(observations[1, 0], memory, False)[1], slowly(observations[:2, 0])[1])
    for arguments in ((), (None, False), (memory, None)):
        with pytest.raises(DataError, match=r"a filter .robust='filter'., .* with state=None and episode_start=True"):
            agent.predict(observations[0, 0], *arguments)
    with pytest.raises(DataError, match=r"observation's shape \(2, 3\), got the shape \(3,\)"):
        agent.predict(observations[0], memory, False)


def test_stable_baselines_evaluates_it_filtered(agent):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    env = make_vec_env("Pendulum-v1", n_envs=2, seed=5)
    returns, _ = evaluate_policy(agent, env, n_eval_episodes=2, return_episode_rewards=True)
    np.testing.assert_allclose(sorted(returns), sorted(hand(agent, 5 + i)[0] for i in range(2)), rtol=1e-5)


def test_a_saved_agent_filters(agent, tmp_path):
    agent.save(tmp_path / "agent.safetensors")
    loaded = rsa2c.load(tmp_path / "agent.safetensors")
    assert loaded.filter_weight == WEIGHT
    first, again = (rsa2c.evaluate(each, "Pendulum-v1", episodes=2).returns for each in (agent, loaded))
    assert np.array_equal(first, again)


def test_states_of_an_episode_are_filtered_ones(agent):
    total, measured = hand(agent, 5)
    np.testing.assert_allclose(agent.filtered(measured), slowly(measured), atol=1e-12)
    episode = replay(agent, 5)
    np.testing.assert_allclose(episode.observations, slowly(measured), atol=1e-5)
    assert episode.total == pytest.approx(total, rel=1e-6)
    expected = agent.policy.predict(np.array(episode.observations))[0]
    np.testing.assert_allclose(episode.actions, expected, atol=1e-5)
    plain = rsa2c.load("zoo:Pendulum-v1")
    assert plain.filter_weight is None and np.array_equal(plain.filtered(measured), measured)


def test_a_certificate_holds_whatever_measurements_were_wrong(agent):
    """Errors of all measurements, each inside the region, leave the filtered state inside it, which is convex."""
    rng, epsilon = np.random.default_rng(0), 0.05
    _, measured = hand(agent, 5)
    states = agent.filtered(measured)
    certificate = agent.certify(states, epsilon)
    largest = 0.0
    for _ in range(20):
        errors = rng.normal(size=measured.shape)
        errors *= epsilon / np.linalg.norm(errors, axis=1, keepdims=True)
        errors = np.where(rng.random() < 0.5, errors, errors[:1])
        moved = np.abs(agent.policy.predict(agent.filtered(measured + errors))[0] - certificate.action)
        assert np.all(moved <= certificate.deviation + 1e-6)
        largest = max(largest, float((moved / certificate.deviation).max()))
    assert largest > 0.5


@pytest.mark.parametrize("kind", ["random", "mad", "critic", "box"])
def test_attacks_know_the_filter_and_keep_their_size(agent, kind):
    rngs = [np.random.default_rng(i) for i in range(3)]
    states, before = agent.background[:3], agent.background[3:6]
    attack = make_attack(kind, agent, 0.1, "linf", "normalised")
    size = 0.1 * agent.policy_mean.kernel.metric.std
    for memory in (None, before):
        moved = np.abs(attack(states, rngs, memory) - states)
        assert np.all(moved <= size * (1 + 1e-9)) and moved.max() > 0.3 * size.min()
    if kind == "mad":

        def change(perturbed):
            acted = [agent.policy_mean(agent.predict(each, before, False)[1]) for each in (perturbed, states)]
            return np.abs(acted[0] - acted[1]).sum(axis=1)

        drawn = [states + size * rngs[0].uniform(-1, 1, states.shape) for _ in range(200)]
        assert np.all(change(attack(states, rngs, before)) >= 0.95 * np.max([change(each) for each in drawn], axis=0))
    found = rsa2c.evaluate(agent, "Pendulum-v1", episodes=2, attack=attack)
    assert not np.array_equal(found.returns, rsa2c.evaluate(agent, "Pendulum-v1", episodes=2).returns)


def test_an_adversary_learns_against_the_filter(agent):
    attack = learn_attack(agent, "Pendulum-v1", 0.1, total_timesteps=100, n_envs=2, horizon=50, capacity=20)
    assert np.isfinite(rsa2c.evaluate(agent, "Pendulum-v1", episodes=1, attack=attack).returns).all()


def test_a_device_has_no_filter():
    pytest.importorskip("jax")
    with pytest.raises(ConfigError, match="needs a robust other than 'filter'"):
        rsa2c.RSA2C("Pendulum-v1", device="jax-cpu", robust="filter")


FUNCTION = """#include "{header}"
void run(const double *s, double *actions, double *values, int n) {{
    double filtered[RSA2C_FEATURES];
    for (int t = 0; t < n; t++) {{
        rsa2c_act(s + t * RSA2C_FEATURES, filtered, t == 0, actions + t * RSA2C_ACTIONS);
        values[t] = rsa2c_value(filtered);
    }}
}}
"""


@pytest.fixture(scope="module")
def expected(agent):
    """Measurements of an episode, and actions and values behind the filter."""
    _, measured = hand(agent, 5)
    seen = slowly(measured)
    return measured, agent.policy.bounds.action(agent.policy_mean(seen)), agent.value(seen)[:, 0]


@pytest.mark.skipif(GCC is None, reason=NO_GCC)
def test_exported_c_filters(agent, expected, tmp_path):
    measured, actions, values = expected
    agent.export(tmp_path / "controller.h", include=("value",))
    source = tmp_path / "run.c"
    source.write_text(FUNCTION.format(header=tmp_path / "controller.h"))
    acted, valued = np.empty(actions.shape), np.empty(len(actions))
    library(source).run(*(each.ctypes for each in (measured, acted, valued)), len(measured))
    np.testing.assert_allclose(acted, actions, atol=1e-11)
    np.testing.assert_allclose(valued, values, rtol=1e-9)


def test_exported_numpy_filters(agent, expected, tmp_path):
    measured, actions, values = expected
    agent.export(tmp_path / "controller.py", include=("value",))
    module: dict[str, Any] = {}
    exec((tmp_path / "controller.py").read_text(), module)
    filtered = None
    for x, action, value in zip(measured, actions, values, strict=True):
        acted, filtered = module["act"](x, filtered)
        np.testing.assert_allclose(acted, action, atol=1e-11)
        assert module["value"](filtered) == pytest.approx(value, rel=1e-9)
    with pytest.raises(TypeError):
        module["act"](measured[0])


def test_exported_onnx_filters(agent, expected, tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    measured, actions, values = expected
    agent.export(tmp_path / "controller.onnx", include=("value",))
    session = onnxruntime.InferenceSession(str(tmp_path / "controller.onnx"), providers=["CPUExecutionProvider"])
    before = measured[:1]
    for x, action, value in zip(measured.astype(np.float32), actions, values, strict=True):
        found = session.run(["action", "value", "filtered"], {"observation": x[None], "before": before})
        before = found[2]
        np.testing.assert_allclose(found[0][0], action, atol=1e-5)
        assert found[1][0] == pytest.approx(value, rel=1e-4)
    with pytest.raises(ValueError, match="before"):
        session.run(None, {"observation": measured[:1].astype(np.float32)})


def test_a_run_is_trained_judged_and_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = ["--n-envs", "4", "--horizon", "50", "--capacity", "20", "--evaluation-episodes", "1"]
    flags = ["--robust", "filter", "--robust-filter", "0.4", "--total-timesteps", "1", "--out", "runs"]
    assert main(["train", "Pendulum-v1", *flags, *tiny]) == 0
    [path] = (tmp_path / "runs").iterdir()
    assert rsa2c.load(path).filter_weight == 0.4
    assert main(["evaluate", str(path), "--episodes", "2", "--noise-variance", "0.01"]) == 0
    assert main(["evaluate", str(path), "--episodes", "2", "--attack", "mad", "--epsilon", "0.05"]) == 0
    assert main(["resume", str(path), "--total-timesteps", "3000"]) == 0
    page = (path / "report.html").read_text(encoding="utf-8")
    assert "is missing:" not in page


def test_a_pool_is_filtered_environment_by_environment():
    pytest.importorskip("envpool")
    n = 3

    def batch(sensors):
        idle = np.zeros((n, 3))
        draws = Streams(11, 0, n)
        env = rsa2c.make_env("Hopper-v5", n, backend="envpool")
        return collect(env, lambda x: (idle, idle, idle), lambda s: s, 300, 0, draws, sensors=sensors)

    check_episodes(batch(EXACT), batch(FilteredSensors(EXACT, WEIGHT)), at_least=6)

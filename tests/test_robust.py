"""Robust training: noise on what policy and critics see, and a smoothness penalty in the actor's step."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import rsa2c
from probes import counters
from rsa2c.algorithm import keeping
from rsa2c.algorithm.actor import step_direction
from rsa2c.algorithm.fits import Fits
from rsa2c.algorithm.phases import roll_out
from rsa2c.algorithm.robust import (
    Smoothness,
    changed_features,
    noise_levels,
    training_errors,
    trial_errors,
    widened,
)
from rsa2c.algorithm.rollout import collect
from rsa2c.algorithm.sensors import NoisySensors
from rsa2c.algorithm.streams import Streams
from rsa2c.algorithm.workers import Workers
from rsa2c.cli import main
from rsa2c.config import Config, NoisyTraining, NoRobustness, SmoothPolicy, WiderScale
from rsa2c.errors import ConfigError, Notice
from rsa2c.runs.folder import Run
from test_workers import content, trained

SMALL: dict[str, Any] = {"n_envs": 4, "horizon": 50, "capacity": 40, "seed": 3}
NOISE: dict[str, Any] = {"robust": "noise", "robust_noise": 0.2, "robust_ramp": 4_000}
SCALE: dict[str, Any] = {"robust": "scale", "robust_noise": 0.2}
FILTER: dict[str, Any] = {"robust": "filter", "robust_filter": 0.3}
SMOOTH: dict[str, Any] = {"robust": "smooth", "robust_noise": 0.2, "robust_ramp": 4_000, "robust_penalty": 0.5}


def steady(n: int):
    """The same action whatever is seen."""

    def act(x):
        return np.zeros((n, 1)), np.zeros((n, 1)), np.full((n, 1), 0.5)

    return act


@pytest.mark.parametrize("restart_p", [0.0, 0.1])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_noise_is_independent_for_every_row_and_leaves_rewards_alone(mode, restart_p):
    deviations, n = np.array([[0.0, 0.0], [0.1, 3.0], [0.2, 6.0]]), 3

    def batch(noisy):
        streams = Streams(11, 0, n)
        sensors = {"sensors": NoisySensors(deviations, streams)} if noisy else {}
        return collect(counters(n, mode), steady(n), lambda s: s, 1200, 0, streams, restart_p=restart_p, **sensors)

    clean, noisy = batch(False), batch(True)
    for name in ("rewards", "terminated", "truncated", "cut", "segment", "lengths", "episode_returns"):
        assert np.array_equal(getattr(noisy, name), getattr(clean, name)), name
    assert np.array_equal(noisy.points, noisy.raw)
    segments = np.concatenate([[0], np.flatnonzero(clean.ends) + 1])[:-1] + np.arange(clean.ends.sum())
    owner = np.repeat(np.arange(n), clean.lengths)[np.flatnonzero(clean.ends)]
    who = np.repeat(owner, np.diff([*segments, len(clean.raw)]))
    error = noisy.raw - clean.raw
    assert not error[who == 0].any(), "an environment without noise stays as it is"
    standard = error[who > 0] / deviations[who[who > 0]]
    assert len(np.unique(standard.round(9), axis=0)) == len(standard), "no row repeats the noise of another"
    for i in (1, 2):
        np.testing.assert_allclose(error[who == i].std(axis=0), deviations[i], rtol=0.1)
    assert abs(np.mean(standard)) < 0.05 and abs(np.corrcoef(standard.T)[0, 1]) < 0.06
    after = standard[1:] * standard[:-1]
    assert abs(after.mean()) < 0.05, "nor from one step to the next"


def test_levels_are_a_mixture():
    levels = noise_levels(10, 0.4, 0.0)
    assert np.array_equal(levels, [0, 0, 0, 0, *(np.arange(1, 7) / 6)])
    assert not noise_levels(5, 1.0, 0.3).any() and (noise_levels(5, 0.0, 0.99) > 0).all()
    rng = np.random.default_rng(0)
    drawn = np.sort([level for _ in range(500) for level in noise_levels(8, 0.5, rng.random()) if level])
    assert len(drawn) == 4 * 500 and np.abs(drawn - (np.arange(2000) + 0.5) / 2000).max() < 0.02, "uniform on (0, 1]"


def test_errors_have_the_stated_units_and_grow_with_the_steps():
    agent = rsa2c.RSA2C("Pendulum-v1", **SMALL)
    std = agent.policy.mean.kernel.metric.std
    config = agent.config.updated(**{**NOISE, "robust_ramp": 1000, "robust_clean": 0.25})

    def errors(config, steps, seed=0):
        found = training_errors(config, agent.policy, 8, steps, np.random.default_rng(seed))
        assert found is not None and found.shape == (8, 3)
        return found

    full = errors(config, 1000)
    levels = full[:, 0] / std[0]
    np.testing.assert_allclose(full, np.outer(levels, std))
    assert np.sum(levels == 0) == 2 and 0.2 * 5 / 6 < levels.max() <= 0.2
    np.testing.assert_allclose(errors(config, 250), 0.25 * full)
    assert np.array_equal(errors(config, 10**6), full) and not errors(config, 0).any()
    assert not np.array_equal(errors(config, 1000, seed=1) == 0, full == 0), "others are clean in another epoch"
    np.testing.assert_allclose(errors(config.updated(robust_units="raw"), 1000), full / std)
    tried = trial_errors(config, agent.policy, 8)
    np.testing.assert_allclose(tried, 0.2 * np.outer([0, 0, *((np.arange(6) + 0.5) / 6)], std))
    assert training_errors(agent.config, agent.policy, 8, 10**6, np.random.default_rng(0)) is None
    assert trial_errors(agent.config, agent.policy, 8) is None


def test_policy_critics_and_scale_see_the_noise_and_rewards_do_not():
    """An untrained policy acts alike whatever it sees, so its first epoch differs by the noise alone."""
    fields = {**SMALL, "robust_clean": 0.0, "robust_noise": 2.0, "robust_units": "raw", "robust_ramp": 1}
    plain, noisy = rsa2c.RSA2C("Pendulum-v1", **SMALL), rsa2c.RSA2C("Pendulum-v1", robust="noise", **fields)
    before = noisy.state
    for agent in (plain, noisy):
        agent.run_epoch()
    clean, seen = (agent.workers.share.blocks[0].batch for agent in (plain, noisy))
    assert np.array_equal(seen.rewards, clean.rewards) and np.array_equal(seen.latents, clean.latents)
    metric = noisy.state.policy.mean.kernel.metric
    np.testing.assert_allclose(seen.points, metric(seen.raw), atol=1e-5)
    variance = (seen.raw - clean.raw).reshape(4, -1).var(axis=1)
    levels = np.sort(np.sqrt(variance))
    np.testing.assert_allclose(np.diff(levels), 0.5, atol=0.15)
    np.testing.assert_allclose(
        noisy.state.scale.variance, 0.7 * before.scale.variance + 0.3 * seen.raw_states.var(axis=0), rtol=1e-9
    )
    assert (noisy.state.scale.variance > plain.state.scale.variance + 0.1).all()
    np.testing.assert_allclose(metric.std, np.sqrt(noisy.state.scale.variance + 4.0))
    assert plain.sizes.n_envs == noisy.sizes.n_envs == 4


def test_a_batch_under_noise_has_twice_the_environments():
    fields = {"backend": "gymnasium", "capacity": 20}
    plain, noisy = (rsa2c.RSA2C("InvertedPendulum-v5", robust=robust, **fields) for robust in ("none", "noise"))
    assert noisy.sizes.n_envs == 2 * plain.sizes.n_envs


def test_errors_in_standard_deviations_widen_all_alike():
    agent = rsa2c.RSA2C("Pendulum-v1", **SMALL, **NOISE)
    variance = np.array([1.0, 4.0, 0.01])
    np.testing.assert_allclose(widened(variance, agent.config), 1.04 * variance)
    np.testing.assert_array_equal(widened(variance, agent.config.updated(robust="none")), variance)


def test_a_wider_scale_includes_the_errors():
    """Training sees what it would see anyway; the kernel's standard deviations are those of wrong measurements."""
    plain = rsa2c.RSA2C("Pendulum-v1", **SMALL)
    wide = rsa2c.RSA2C("Pendulum-v1", **SMALL, robust="scale", robust_noise=3.0)
    for agent in (plain, wide):
        agent.run_epoch()
    clean, seen = (agent.workers.share.blocks[0].batch for agent in (plain, wide))
    assert np.array_equal(seen.raw, clean.raw) and np.array_equal(seen.rewards, clean.rewards)
    variance = wide.state.scale.variance
    np.testing.assert_array_equal(variance, plain.state.scale.variance)
    np.testing.assert_allclose(wide.policy_mean.kernel.metric.std, np.sqrt(variance + 9.0))
    np.testing.assert_allclose(seen.points, wide.policy_mean.kernel.metric(seen.raw), atol=1e-5)
    np.testing.assert_array_equal(trial_errors(wide.config, wide.policy, 4), np.outer([0, 0, 0.75, 2.25], np.ones(3)))


@pytest.mark.parametrize("kind", ["noise", "smooth"])
def test_errors_that_grow_widen_the_scale_too(kind):
    """The penalty would see nothing but the policy's size where errors lead out of the kernel's reach."""
    agent = rsa2c.RSA2C("Pendulum-v1", **SMALL, robust=kind, robust_noise=3.0, robust_units="raw")
    agent.run_epoch()
    metric, visited = agent.policy_mean.kernel.metric, agent.background[:50]
    np.testing.assert_allclose(metric.std, np.sqrt(agent.state.scale.variance + 9.0))
    wrong = visited + 3.0 * np.random.default_rng(0).standard_normal(visited.shape)
    kernel = agent.policy_mean.kernel
    alike = np.diag(kernel(metric(visited), metric(wrong)))
    narrow = np.diag(kernel(metric(visited), metric(visited + (wrong - visited) * metric.std / 0.01)))
    assert np.median(alike) > 0.3 > 0.01 > np.median(narrow)


def test_trials_have_the_mixture_at_full_size_the_same_for_both_policies(monkeypatch):
    agent = rsa2c.RSA2C("InvertedPendulum-v5", backend="gymnasium", keep="best", **SMALL, **NOISE)
    seen: list[Any] = []
    plain = Workers.first_episodes

    def watched(self, policy, steps, seed, errors=None):
        seen.append((policy, errors))
        return plain(self, policy, steps, seed, errors)

    monkeypatch.setattr(Workers, "first_episodes", watched)
    monkeypatch.setattr(keeping, "STEPS_BETWEEN_TRIALS", 1)
    monkeypatch.setattr(keeping, "STEPS_PER_EPISODE", 1)
    first = keeping.keep_best(agent.state, 0, agent.workers, agent.config)
    newest = replace(agent.state, policy=agent.policy.with_sigma(0.1), kept=first)
    keeping.keep_best(newest, 0, agent.workers, agent.config)
    assert {id(policy) for policy, _ in seen} == {id(agent.state.policy), id(newest.policy)}
    expected = trial_errors(agent.config, agent.policy, 4)
    assert all(np.array_equal(errors, expected) for _, errors in seen), "whatever the ramp has reached"
    again = keeping.keep_best(agent.state, 0, agent.workers, agent.config)
    assert first is not None and again is not None and first.score == again.score
    seen.clear()
    keeping.keep_best(agent.state, 0, agent.workers, agent.config.updated(robust="none"))
    assert seen and all(errors is None for _, errors in seen)


def test_trials_act_on_what_they_see():
    agent = rsa2c.RSA2C("Pendulum-v1", **SMALL).learn(1)
    quiet, loud = (np.full((4, 3), level) for level in (0.0, 3.0))
    clean, still, noisy, repeated = (
        agent.workers.first_episodes(agent.policy, 200, 5, errors)[0] for errors in (None, quiet, loud, loud)
    )
    assert np.array_equal(clean, still) and np.array_equal(noisy, repeated) and not np.isclose(noisy, clean).any()


@pytest.fixture
def rolled():
    """An agent with a policy of two distinct standard deviations, a rollout of it in two blocks, and its fit."""
    fields = {**SMALL, "n_envs": 2, "horizon": 1000, "capacity": 30, "guidance": "none", "precision": "float64"}
    agent = rsa2c.RSA2C("Swimmer-v5", **{**fields, **SMOOTH})
    policy, rng = agent.policy, np.random.default_rng(4)
    coefficients = rng.normal(size=policy.mean.coefficients.shape)
    policy = replace(policy, mean=replace(policy.mean, coefficients=coefficients), sigma=np.array([0.3, 0.8]))
    samples = roll_out(policy, agent.workers, 1000, agent.config, rng)
    fits = Fits()
    value = fits.value(agent.state.value, samples, agent.config, 0)
    return agent, policy, samples, fits.estimate(value, samples, agent.config)


def perturbed(block, deviations, seed):
    states = block.batch.raw_states
    return states, states + deviations * np.random.default_rng([seed, block.number]).standard_normal(states.shape)


def moment(agent, dictionary, deviations, seed):
    """N M, one pair of states and one centre at a time."""
    kernel = dictionary.kernel
    total = np.zeros((dictionary.size, dictionary.size))
    for block in agent.workers.share.blocks:
        for row, other in zip(*perturbed(block, deviations, seed), strict=True):
            differences = kernel.metric(np.stack([row, other]))[:, None] - dictionary.centres
            here, there = np.exp(-0.5 * np.sum((differences * kernel.scales) ** 2, axis=2))
            total += np.outer(there - here, there - here)
    return total


def test_the_penalty_and_the_direction_are_those_of_slow_formulas(rolled):
    agent, policy, samples, estimate = rolled
    dictionary, coefficients, config = policy.mean.dictionary, policy.mean.coefficients, agent.config
    penalty = Smoothness.of(config, policy, 7, 1000)
    assert penalty is not None and penalty.weight == pytest.approx(0.5 * 1000 / 4000)
    np.testing.assert_allclose(penalty.deviations, 0.2 * policy.mean.kernel.metric.std)
    plain = Fits().advantage(policy, samples, estimate, config)
    fit = Fits().advantage(policy, samples, estimate, config, penalty)
    assert len(agent.workers.share.blocks) == 2 and plain.penalty is None
    for name in ("second_moment", "gradient", "spread"):
        assert np.array_equal(getattr(fit, name), getattr(plain, name)), name
    np.testing.assert_allclose(fit.weights, plain.weights, rtol=1e-9, atol=1e-12)

    expected = moment(agent, dictionary, penalty.deviations, penalty.seed)
    every = np.eye(dictionary.size)
    total = samples.reduce(changed_features, dictionary, every, penalty.deviations, penalty.seed)
    np.testing.assert_allclose(total, expected, rtol=1e-8, atol=1e-9)
    for metric in ("fisher", "rkhs", "euclidean"):
        direction = step_direction(fit, dictionary, metric)
        for j, variance in enumerate(policy.sigma**2):
            pull = penalty.weight * expected / samples.n @ coefficients[:, j] / variance
            right = fit.gradient[:, j] - pull
            system = {
                "fisher": fit.second_moment / variance + config.advantage.advantage_ridge * dictionary.gram,
                "rkhs": dictionary.cholesky @ dictionary.cholesky.T,
                "euclidean": every,
            }[metric]
            np.testing.assert_allclose(direction[:, j], np.linalg.solve(system, right), rtol=1e-6, atol=1e-8)
            assert np.linalg.norm(pull) > 0.01 * np.linalg.norm(fit.gradient[:, j]), "the penalty matters"


def test_the_penalty_is_what_errors_change_of_the_mean(rolled):
    """sum C * gradient = rho E|h(s + delta) - h(s)|^2 / sigma^2, since the penalty is quadratic."""
    agent, policy, samples, estimate = rolled
    penalty = Smoothness.of(agent.config, policy, 7, 10**6)
    assert penalty is not None and penalty.weight == 0.5
    fit = Fits().advantage(policy, samples, estimate, agent.config, penalty)
    pairs = [perturbed(block, penalty.deviations, penalty.seed) for block in agent.workers.share.blocks]
    before, after = (np.vstack(states) for states in zip(*pairs, strict=True))
    change = policy.mean(after) - policy.mean(before)
    assert fit.penalty is not None and fit.damped_penalty is not None
    found = np.sum(policy.mean.coefficients * fit.penalty, axis=0)
    np.testing.assert_allclose(found, 0.5 * np.mean(change**2, axis=0) / policy.sigma**2, rtol=1e-8)
    calmer = replace(policy.mean, coefficients=policy.mean.coefficients - 1e-3 * fit.damped_penalty)
    assert np.mean((calmer(after) - calmer(before)) ** 2) < np.mean(change**2)


@pytest.mark.parametrize("fields", [
    {**NOISE, "keep": "best", "restart_p": 0.01},
    {**NOISE, "env": "InvertedPendulum-v5", "backend": "gymnasium", "horizon": 500, "n_envs": 4},
    {**SMOOTH, "horizon": 600},
    {**FILTER, "keep": "best", "restart_p": 0.01},
])  # fmt: skip
def test_the_model_does_not_depend_on_how_environments_are_spread(fields, monkeypatch):
    monkeypatch.setattr(keeping, "STEPS_BETWEEN_TRIALS", 6000)
    alone = trained(1, 2, **fields)
    assert content(trained(2, 2, **fields)) == content(alone)
    size = "robust_filter" if fields["robust"] == "filter" else "robust_noise"
    assert content(trained(1, 2, **{**fields, size: 0.1})) != content(alone)


@pytest.mark.parametrize("fields", [SCALE, NOISE, SMOOTH, FILTER])
def test_resuming_is_going_on(fields, tmp_path):
    agent = rsa2c.RSA2C("Pendulum-v1", **SMALL, **fields)
    for _ in range(2):
        agent.run_epoch()
    agent.save(tmp_path / "agent.safetensors")
    loaded = rsa2c.RSA2C.load(tmp_path / "agent.safetensors")
    assert loaded.config.robust == agent.config.robust
    for each in (agent, loaded):
        each.run_epoch()
        each.run_epoch()
    for name, array in agent.get_parameters().items():
        assert np.array_equal(array, loaded.get_parameters()[name]), name


def test_a_setting_needs_its_choice():
    assert Config().robust == NoRobustness() and Config().settings()["robust"] == "none"
    assert Config.of(robust="noise").robust == NoisyTraining(0.1, "normalised", 1_000_000, 0.5)
    assert Config.of(robust="scale", scaling="following").robust == WiderScale(0.1)
    assert Config.of(robust="smooth").robust == SmoothPolicy(0.1, "normalised", 1_000_000, 0.1)
    for settings, says in (
        ({"robust_noise": 0.2}, "robust_noise has no effect with robust='none': .*'scale' or 'noise' or 'smooth'"),
        ({"robust": "scale", "scaling": "following", "robust_ramp": 9}, "robust_ramp has no effect with robust='sca"),
        ({"robust": "scale", "scaling": "following", "robust_units": "raw"}, "robust_units has no effect with rob"),
        ({"robust": "scale", "scaling": "frozen"}, "robust='scale' needs scaling='following', got scaling='frozen'"),
        ({"robust": "noise", "robust_penalty": 1.0}, "robust_penalty has no effect with robust='noise'"),
        ({"robust": "smooth", "robust_clean": 0.1}, "robust_clean has no effect with robust='smooth'"),
        ({"robust": "noisy"}, "robust must be one of 'none', .*, 'smooth', 'filter', got 'noisy'. Did you mean"),
        ({"robust": "noise", "robust_noise": 0.0}, "robust_noise must be positive"),
        ({"robust": "filter", "robust_noise": 0.1}, "robust_noise has no effect with robust='filter'"),
        ({"robust": "filter", "robust_filter": 1.0}, "robust_filter must be below 1"),
        ({"robust": "noise", "robust_clean": 1.1}, r"robust_clean must lie in \[0, 1\]"),
        ({"robust": "noise", "robust_noise": 1.0}, "robust_noise must be below 1 .* robust_units='raw'"),
    ):
        with pytest.raises(ConfigError, match=says):
            Config.of(settings)
    assert Config.of(robust="noise", robust_noise=2.0, robust_units="raw").robust.robust_noise == 2.0


def test_the_command_line_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = ["--n-envs", "4", "--horizon", "50", "--capacity", "20", "--evaluation-episodes", "1"]
    flags = [
        "--robust",
        "noise",
        "--robust-noise",
        "0.05",
        "--robust-ramp",
        "1",
        "--total-timesteps",
        "1",
        "--out",
        "runs",
    ]
    assert main(["train", "Pendulum-v1", *flags, *tiny]) == 0
    [path] = (tmp_path / "runs").iterdir()
    config = Run(path).read_config()["config"]
    assert (config["robust"], config["robust_noise"], config["robust_clean"]) == ("noise", 0.05, 0.5)


@pytest.mark.parametrize(("steps", "told"), [(400, True), (4_000, False)])
def test_a_training_that_ends_within_the_ramp_is_told_so(steps, told):
    agent = rsa2c.RSA2C("Pendulum-v1", **SMALL, **{**NOISE, "robust_ramp": 1_000})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        agent.learn(steps, callback=lambda _locals, _globals: False)
    messages = [str(one.message) for one in caught if one.category is Notice]
    assert bool(messages) == told
    if told:
        assert "robust_ramp is 1,000 environment steps and training ends after 400" in messages[0]
        assert "40%" in messages[0] and "half of the steps, 200." in messages[0]

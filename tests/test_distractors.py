"""Every kind of useless feature: what it shows, when it forgets, and what it is called."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rsa2c
from probes import Counter, Spaces, counters, rollout
from rsa2c.algorithm.rollout import collect
from rsa2c.algorithm.snapshot import pack
from rsa2c.config import Config
from rsa2c.envs import Distractors, feature_names, make_env
from rsa2c.envs import distractors as module
from rsa2c.envs.distractors import KINDS, Jumps, distractors_of
from rsa2c.envs.sample import Sample, sample_of
from rsa2c.envs.source import Source
from rsa2c.envs.wrappers import VectorDisturbed
from rsa2c.errors import ConfigError, EnvError
from rsa2c.runs.evaluation import evaluate_policy

PENDULUM = Source(id="Pendulum-v1")
MODES = list(AutoresetMode)
LEVELS = np.linspace(0.05, 0.95, 19)


def pendulums(kind, n=50, k=4):
    """Features of Pendulum and distractors, over 150 steps of n environments."""
    seen = rollout(make_env("Pendulum-v1", n, distractors=k, distractor_kind=kind), 150, 0, scale=2.0)[0]
    return seen[..., :3].astype(np.float64), seen[..., 3:].astype(np.float64)


def lag(series):
    """Correlation of features (T, n, k) with themselves a step later."""
    return [np.corrcoef(series[:-1, :, j].ravel(), series[1:, :, j].ravel())[0, 1] for j in range(series.shape[2])]


def test_the_configuration_knows_every_kind():
    assert all(Config(distractors=1, distractor_kind=kind).distractor_kind == kind for kind in KINDS)
    with pytest.raises(ConfigError, match=r"distractor_kind must be 'noise' or 'drift'.*Did you mean 'drift'"):
        Config(distractor_kind="drifts")
    with pytest.raises(ConfigError, match=r"distractor_kind must be one of noise, drift.*Did you mean 'twin'"):
        make_env("Pendulum-v1", 2, distractors=1, distractor_kind="twins")


@pytest.mark.parametrize("kind", KINDS)
def test_true_features_are_those_of_the_plain_environment(kind):
    plain = rollout(make_env("Pendulum-v1", 3), 210, 4)
    env = make_env("Pendulum-v1", 3, distractors=5, distractor_kind=kind)
    first, again = rollout(env, 210, 4), rollout(env, 210, 4)
    np.testing.assert_array_equal(first[0][..., :3], plain[0])
    np.testing.assert_array_equal(first[0], again[0], err_msg="equal seeds give equal bytes")
    assert first[0].dtype == plain[0].dtype and env.single_observation_space.contains(first[0][0, 0])
    assert (rollout(env, 5, 5)[0][..., 3:] != first[0][:6, :, 3:]).any()
    env.close()


def test_a_drift_is_as_slow_as_the_feature_it_imitates():
    _, drift = pendulums("drift")
    expected = sample_of(PENDULUM).autocorrelation[[0, 1, 2, 0]]
    assert np.all(expected > 0.9)
    np.testing.assert_allclose(lag(drift), expected, atol=0.02)
    np.testing.assert_allclose(drift[0].std(axis=0), 1.0, atol=0.3)
    assert abs(np.corrcoef(drift[..., 0].ravel(), drift[..., 3].ravel())[0, 1]) < 0.15


def test_autocorrelations_are_taken_within_episodes():
    x = np.array([0.0, 1.0, 0.0, 1.0, 10.0, 11.0, 10.0, 11.0])[:, None]
    sample = Sample(np.hstack([x, np.ones_like(x)]), np.array([1, 0, 0, 0, 1, 0, 0, 0], bool))
    a, b = x[[0, 1, 2, 4, 5, 6], 0], x[[1, 2, 3, 5, 6, 7], 0]
    np.testing.assert_allclose(sample.autocorrelation, [np.corrcoef(a, b)[0, 1], 0.0])


def test_a_copy_is_the_feature_plus_noise_of_its_own_deviation():
    true, copies = pendulums("copies")
    noise = (copies - true[..., [0, 1, 2, 0]]).reshape(-1, 4)
    np.testing.assert_allclose(noise.std(axis=0), sample_of(PENDULUM).std[[0, 1, 2, 0]], rtol=0.03)
    assert abs(np.corrcoef(noise[:, 0], noise[:, 3])[0, 1]) < 0.05


def test_a_permuted_feature_has_the_right_values_and_no_content():
    true, shown = pendulums("permuted")
    for j in range(4):
        values, drawn = sample_of(PENDULUM).observations[:, j % 3], shown[..., j].ravel()
        assert np.isin(drawn.astype(np.float32), values.astype(np.float32)).all()
        assert np.abs(np.quantile(drawn, LEVELS) - np.quantile(values, LEVELS)).max() < 0.2 * values.std()
        assert abs(np.corrcoef(true[..., j % 3].ravel(), drawn)[0, 1]) < 0.05
    assert abs(np.corrcoef(shown[..., 0].ravel(), shown[..., 1].ravel())[0, 1]) < 0.05
    assert np.all(np.abs(lag(shown)) < 0.05)


def test_a_twin_runs_on_its_own():
    """Episodes of a Counter last 3 and 5 steps; a twin resets itself on the step after."""
    env = make_env(lambda: Counter(lengths=(100,)), 2)
    env = VectorDisturbed(env, distractors_of("twin", 4, Source(factory=Counter)))
    seen = rollout(env, 12, 0)[0]
    np.testing.assert_array_equal(seen[:, 0, 1], np.arange(13))
    one = [(0, t) for t in range(4)] + [(1, t) for t in range(6)] + [(2, t) for t in range(3)]
    np.testing.assert_array_equal(seen[:, 0, 2:4], one)
    np.testing.assert_array_equal(seen[:, 1, 4:6], one)
    _, twin = pendulums("twin", n=3)
    true = pendulums("noise", n=3)[0]
    np.testing.assert_allclose(np.hypot(twin[..., 0], twin[..., 1]), 1.0, atol=1e-6)
    assert np.all(np.abs(twin[..., :3] - true).max(axis=(0, 1)) > 0.5) and len(np.unique(twin[0, :, 0])) == 3


@pytest.mark.parametrize("kind", ["jumps", "drift"])
@pytest.mark.parametrize("mode", MODES)
def test_levels_last_an_episode_its_final_observation_included(kind, mode, monkeypatch):
    """Without jumps a level is constant; so is a drift of autocorrelation one, which the limit of rho prevents."""
    monkeypatch.setattr(module, "JUMP_PROBABILITY", 0.0)
    made = distractors_of(kind, 2, Source(factory=Counter))
    if kind == "drift":
        made.rho = np.ones(2)
    env = VectorDisturbed(counters(3, mode), made)

    def still(x):
        return np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((3, 1))

    batch = collect(env, still, lambda raw: raw, 40, 0, np.random.default_rng(0), restart_p=0.05)
    owner = np.repeat(np.arange(batch.segment[-1] + 1), np.bincount(batch.segment) + 1)
    levels = [np.unique(batch.raw[owner == segment, 2:], axis=0) for segment in range(owner[-1] + 1)]
    assert [len(rows) for rows in levels] == [1] * len(levels)
    assert len(np.unique(np.concatenate(levels)[:, 0])) == len(levels) > 20
    np.testing.assert_array_equal(np.diff(batch.raw[:, 1])[np.diff(owner) == 0], 1.0)  # the Counters' own steps


def test_levels_jump_as_often_as_they_should():
    jumps = Jumps(20)
    rng = np.random.default_rng(0)
    jumps.ready(50, 0)
    x = np.zeros((50, 1))

    def drawn():
        return np.array([jumps.draw(1, rng) for _ in range(50)])

    jumps.first(x, drawn(), np.arange(50))
    changes = []
    for _ in range(100):
        before = jumps.shown.copy()
        jumps.next(x, drawn())
        changes.append(np.mean(before != jumps.shown))
    assert np.mean(changes) == pytest.approx(module.JUMP_PROBABILITY, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_an_environment_shows_what_it_would_show_alone(kind):
    """Whatever runs beside it: the second of three is a single one that has its seed."""
    single = Distractors(gym.make("Pendulum-v1"), 5, kind)
    vector = SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 3, autoreset_mode=AutoresetMode.DISABLED)
    vector = VectorDisturbed(vector, distractors_of(kind, 5, PENDULUM))
    actions = np.random.default_rng(1).uniform(-2, 2, (2, 200, 3, 1)).astype(np.float32)
    for seed, episode in zip((9, None), actions, strict=True):
        one, many = single.reset(seed=None if seed is None else seed + 1)[0], vector.reset(seed=seed)[0]
        np.testing.assert_array_equal(one, many[1])
        for t, action in enumerate(episode):
            if t in (20, 21, 80):
                vector.reset(options={"reset_mask": np.array([True, False, t == 80])})
            np.testing.assert_array_equal(single.step(action[1])[0], vector.step(action)[0][1])
    for env in (single, vector):
        env.close()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "noise"])
def test_a_resumed_training_goes_on_exactly(kind, tmp_path):
    settings = {"n_envs": 2, "horizon": 30, "capacity": 30, "initial_centres": 10, "seed": 5, "restart_p": 0.05}
    agent = rsa2c.RSA2C("Pendulum-v1", distractors=4, distractor_kind=kind, **settings)
    agent.run_epoch()
    agent.save(tmp_path / "model.safetensors")
    resumed = rsa2c.RSA2C.load(tmp_path / "model.safetensors")
    for each in (agent, resumed):
        each.run_epoch()
    ours, theirs = (pack(each.snapshot(), False)[0] for each in (agent, resumed))
    assert {name: array.tobytes() for name, array in ours.items()} == {
        name: array.tobytes() for name, array in theirs.items()
    }
    returns = [evaluate_policy(each, 2).returns for each in (agent, resumed)]
    np.testing.assert_array_equal(*returns)


def test_names_say_what_they_are():
    def named(kind, k=4):
        return feature_names(make_env("Pendulum-v1", 1, distractors=k, distractor_kind=kind), 3 + k)[3:]

    assert named("noise", 2) == ("noise_1", "noise_2") and named("drift", 2) == ("drift_1", "drift_2")
    assert named("jumps", 1) == ("level_1",)
    assert named("copies") == (
        "copy of cos θ", "copy of sin θ", "copy of angular velocity", "copy of cos θ (2)"
    )  # fmt: skip
    assert named("permuted", 1) == ("permuted cos θ",) and named("twin", 2)[1] == "another's sin θ"
    twice = Distractors(Distractors(gym.make("Pendulum-v1"), 1), 2)
    assert feature_names(twice, 6)[3:] == ("noise_1", "noise_2", "noise_3")


def test_what_cannot_be_imitated_is_refused():
    alone = Counter()
    with pytest.raises(EnvError, match="Counter was given as an object that cannot be made again"):
        make_env(alone, distractors=1, distractor_kind="twin")
    assert make_env(alone, distractors=1, distractor_kind="drift").single_observation_space.shape == (3,)

    class Still(Counter):
        def observe(self):
            return np.ones(2)

    with pytest.raises(EnvError, match=r"no feature of Still varied.*distractor_kind='noise'"):
        make_env(Still, 2, distractors=1, distractor_kind="drift")
    with pytest.raises(EnvError, match=r"no single one can be made.*measure its features"):
        make_env(_wrapped(), distractors=1, distractor_kind="permuted")
    with pytest.raises(EnvError, match=r"Pendulum-v1 has 2 features here and 3 where it is made again"):
        VectorDisturbed(counters(2, AutoresetMode.NEXT_STEP), distractors_of("copies", 3, PENDULUM))


def _wrapped():
    """A vector environment from which no single one can be made."""
    return VectorDisturbed(counters(2, AutoresetMode.NEXT_STEP), distractors_of("noise", 1, None))


def test_whole_numbers_get_fractions_beside_them():
    env = Distractors(_Whole(), 2)
    observation, _ = env.reset(seed=0)
    assert observation.dtype == env.observation_space.dtype == np.float64
    assert np.all(observation[1:] != np.round(observation[1:]))


class _Whole(Spaces):
    def __init__(self):
        super().__init__(gym.spaces.Box(0, 9, (1,), np.int64), gym.spaces.Box(-1, 1, (1,), np.float32))

    def reset(self, *, seed=None, options=None):
        return np.array([3]), {}

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from probes import Counter, Forgetful, Spaces, counters, rollout
from rsa2c import envs
from rsa2c.envs import (
    Distractors,
    LQRVector,
    PendulumVector,
    action_names,
    env_id,
    episode_limit,
    feature_names,
    make_env,
    single,
)
from rsa2c.envs.pool import EnvPoolVector
from rsa2c.errors import ConfigError, EnvError, MissingExtraError, RSA2CError, did_you_mean, require

FLAT = spaces.Box(-1.0, 1.0, (3,), np.float32)


def test_our_pendulum_is_gymnasiums_step_for_step():
    ours, theirs = make_env("Pendulum-v1", 5), make_env("Pendulum-v1", 5, backend="gymnasium")
    assert isinstance(ours, PendulumVector)
    for seed in (0, 7):  # 450 steps: two truncations, two starts drawn after them; torques beyond the bound
        a, b = rollout(ours, 450, seed, scale=3.0), rollout(theirs, 450, seed, scale=3.0)
        np.testing.assert_array_equal(a[0], b[0])
        # Gymnasium squares scalars with pow, which rounds another way once in a thousand
        np.testing.assert_allclose(a[1], b[1], rtol=0, atol=1e-9)
        np.testing.assert_array_equal(a[2], b[2])
        np.testing.assert_array_equal(a[3], b[3])
        assert a[0].dtype == b[0].dtype and a[3].sum() == 10
    ours.reset(seed=1)
    theirs.reset(seed=1)
    for _ in range(199):  # torques in float64, where a step is exact to the last digit or two
        action = np.random.default_rng(0).uniform(-3, 3, (5, 1))
        np.testing.assert_allclose(ours.step(action)[1], theirs.step(action)[1], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(ours.states, [env.unwrapped.state for env in theirs.envs])
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space


def test_partial_reset_touches_the_masked_environments_alone():
    for env in (PendulumVector(4), LQRVector(4)):
        before, _ = env.reset(seed=3)
        env.step(np.zeros((4, 1)))
        moved, *_ = env.step(np.zeros((4, 1)))
        mask = np.array([False, True, False, True])
        after, _ = env.reset(options={"reset_mask": mask})
        np.testing.assert_array_equal(after[~mask], moved[~mask])
        assert (after[mask] != moved[mask]).any(axis=1).all()
        assert (after[mask] != before[mask]).any(axis=1).all()
        for step in range(1, env.known.episode_limit + 1):
            *_, truncated, _ = env.step(np.zeros((4, 1)))
            if step == env.known.episode_limit - 2 and isinstance(env, PendulumVector):
                np.testing.assert_array_equal(truncated, ~mask)  # the others are two steps ahead


def test_a_reset_after_the_end_is_the_only_one():
    env, still = PendulumVector(2), np.zeros((2, 1))
    env.reset(seed=0)
    for _ in range(200):
        *_, truncated, _ = env.step(still)
    assert truncated.all()
    mask = np.array([True, False])
    first, _ = env.reset(options={"reset_mask": mask})
    second, rewards, *_ = env.step(still)
    assert (rewards == 0.0).tolist() == [False, True]  # the masked one moves, the other resets only now
    assert np.abs(second - first)[0].max() < 1.1 and env._steps.tolist() == [1, 0]
    for _ in range(199):
        *_, truncated, _ = env.step(still)
    assert truncated.tolist() == [True, False]
    env.reset()
    _, rewards, *_ = env.step(still)
    assert (rewards != 0.0).all()


@pytest.mark.parametrize("name", ["Pendulum-v1", "rsa2c/LQR-v0"])
@pytest.mark.parametrize("backend", ["auto", "gymnasium"])
def test_reset_with_a_seed_starts_afresh(name, backend):
    env = make_env(name, 3, backend=backend, noise_variance=0.01, distractors=2)
    first = rollout(env, 30, 5)
    second = rollout(env, 30, 5)
    other = rollout(env, 30, 6)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (first[0] != other[0]).any()


def test_gymnasium_backend_makes_environments_anew_with_a_seed():
    env = make_env(Forgetful, 2, backend="gymnasium")
    np.testing.assert_array_equal(rollout(env, 6, 1)[1], rollout(env, 6, 1)[1])
    kept = env.envs
    env.reset()
    assert env.envs is kept  # without a seed an episode simply follows


@pytest.mark.parametrize(("name", "d"), [("Pendulum-v1", 3), ("BipedalWalker-v3", 24), ("Ant-v5", 105)])
def test_envpool_gives_gymnasiums_interface(name, d):
    pytest.importorskip("envpool")
    env = make_env(name, 3, backend="envpool")
    reference = gym.spec(name)
    assert isinstance(env, EnvPoolVector) and env.single_observation_space.shape == (d,)
    assert episode_limit(env) == reference.max_episode_steps and env_id(env) == name
    a, b = rollout(env, 80, 11), rollout(env, 80, 11)
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)
    observations, rewards, terminated, truncated = a
    assert rewards.dtype == np.float64
    ends = np.argwhere(terminated | truncated)
    assert len(ends) or name == "Pendulum-v1"
    for t, i in ends[ends[:, 0] < 79]:  # the step after an end resets
        assert rewards[t + 1, i] == 0.0 and not (terminated | truncated)[t + 1, i]
        assert np.abs(observations[t + 2, i] - observations[t + 1, i]).max() > 0
    mask = np.array([True, False, False])
    some, _ = env.reset(options={"reset_mask": mask})
    np.testing.assert_array_equal(some[~mask], observations[-1][~mask])
    assert (some[mask] != observations[-1][mask]).any()


def test_envpool_pendulum_moves_like_gymnasiums():
    pytest.importorskip("envpool")
    pool = make_env("Pendulum-v1", 4, backend="envpool")
    observations, rewards, _, truncated = rollout(pool, 250, 2)
    assert truncated[199].all() and truncated.sum() == 4
    ours = PendulumVector(4)
    ours.reset(seed=0)
    cos, sin, speed = observations[0].T.astype(np.float64)
    ours.states[:] = np.stack([np.arctan2(sin, cos), speed], axis=1)
    rng = np.random.default_rng(2)
    for t in range(20):
        observation, reward, *_ = ours.step(rng.uniform(-1, 1, (4, 1)))
        np.testing.assert_allclose(observation, observations[t + 1], atol=1e-4)
        np.testing.assert_allclose(reward, rewards[t], atol=1e-4)


def test_auto_takes_envpool_where_it_has_the_environment():
    pytest.importorskip("envpool")
    assert isinstance(make_env("BipedalWalker-v3", 2).unwrapped, EnvPoolVector)
    assert isinstance(make_env("MountainCarContinuous-v0", 2, backend="gymnasium").unwrapped, SyncVectorEnv)


def test_envpool_missing_or_without_the_id(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "envpool", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'rsa2c\[fast\]'"):
            make_env("Pendulum-v1", 2, backend="envpool")
    with pytest.raises(EnvError, match="factory"):
        make_env(Counter, 2, backend="envpool")
    pytest.importorskip("envpool")
    with pytest.raises(EnvError, match=r"EnvPool has no environment 'rsa2c/LQR-v0'.*backend='gymnasium'"):
        make_env("rsa2c/LQR-v0", 2, backend="envpool")


def test_unknown_environment_names_the_nearest():
    with pytest.raises(EnvError, match=r"'Pendulom-v1'.* Did you mean 'Pendulum-v1'\?"):
        make_env("Pendulom-v1")
    for name in ("no such thing", "Pendulum-v99", "nomodule:Env-v0"):
        with pytest.raises(EnvError, match="Gymnasium has no environment"):
            make_env(name)
    with pytest.raises(EnvError, match="got int"):
        make_env(3)


def test_missing_simulator_names_the_extra(monkeypatch):
    def without_mujoco(*args, **kwargs):
        raise gym.error.DependencyNotInstalled("No module named 'mujoco'")

    monkeypatch.setattr(single.gym, "make", without_mujoco)
    with pytest.raises(MissingExtraError, match=r"Ant-v5 needs .*mujoco.*pip install 'rsa2c\[envs\]'"):
        make_env("Ant-v5", backend="gymnasium")


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (FLAT, spaces.Discrete(3), r"actions Discrete\(3\).*continuous"),
        (FLAT, spaces.MultiDiscrete([2, 2]), "continuous.*round it to the nearest level"),
        (FLAT, spaces.Tuple([FLAT, FLAT]), "continuous.*Join its continuous parts"),
        (FLAT, spaces.Box(-1, 1, (2, 2)), r"actions Box of shape \(2, 2\)"),
        (spaces.Box(0, 255, (64, 64, 3), np.uint8), FLAT, r"Box of shape \(64, 64, 3\).*FlattenObservation"),
        (spaces.Dict({"a": FLAT, "b": spaces.Discrete(2)}), FLAT, r"entry 'b' is Discrete\(2\).*FilterObservation"),
        (spaces.Tuple([FLAT, FLAT]), FLAT, "flat vector.*Return a Dict, whose keys name the features"),
        (spaces.MultiDiscrete([2, 2]), FLAT, "flat vector.*as 0 and 1"),
        (spaces.Box(-1, 1, (0,)), FLAT, "empty"),
    ],
)
def test_unsupported_spaces_are_refused(observation, action, message):
    with pytest.raises(EnvError, match="Spaces has.*" + message):
        make_env(lambda: Spaces(observation, action), 2)


def test_bad_arguments_are_refused():
    for arguments in ({"n_envs": 0}, {"n_envs": 2.5}, {"n_envs": True}, {"threads": 0}, {"backend": "fast"}):
        with pytest.raises(ConfigError, match=next(iter(arguments))):
            make_env("Pendulum-v1", **arguments)
    for name, bad in (("noise_variance", (-1.0, np.nan)), ("distractors", (-1, 1.5))):
        for value in bad:
            with pytest.raises(ConfigError, match=name.replace("_", " ")):
                make_env("Pendulum-v1", 2, **{name: value})
    with pytest.raises(EnvError, match=r"a factory must make a gymnasium\.Env, got int, which does not have"):
        make_env(lambda: 3)
    one = Counter()
    with pytest.raises(EnvError, match="same environment twice"):
        make_env(lambda: one, 2)


def test_vector_environments_are_used_as_they_are():
    env = counters(3, AutoresetMode.SAME_STEP)
    assert make_env(env) is env and make_env(env, 3) is env
    with pytest.raises(ConfigError, match="n_envs is 2, but the VectorEnv given has 3"):
        make_env(env, 2)
    assert make_env(env, distractors=2).single_observation_space.shape == (4,)


def test_feature_and_action_names():
    assert feature_names("Pendulum-v1", 3) == ("cos θ", "sin θ", "angular velocity")
    assert action_names("Pendulum-v1", 1) == ("torque",)
    assert feature_names(Counter(), 2) == ("x0", "x1") and action_names("Other-v0", 2) == ("a0", "a1")
    assert feature_names("Pendulum-v1", 5) == ("x0", "x1", "x2", "x3", "x4")  # not the five features we know
    for env in (make_env("Pendulum-v1", 2, distractors=2, noise_variance=0.1), make_env(_distracted, 2)):
        assert feature_names(env, 5)[2:] == ("angular velocity", "noise_1", "noise_2")
    assert feature_names("Pendulum-v1", 5, distractors=2)[3:] == ("noise_1", "noise_2")


def _distracted() -> gym.Env:
    return Distractors(gym.make("Pendulum-v1"), 2)


def test_identity_and_episode_limit():
    assert env_id(make_env("Pendulum-v1", 2)) == "Pendulum-v1" == env_id(make_env(_distracted, 2))
    assert episode_limit(make_env(_distracted, 2)) == 200 == episode_limit(make_env("rsa2c/LQR-v0"))
    assert env_id(make_env(Counter, 2)) == "Counter" and episode_limit(make_env(Counter, 2)) is None


def test_every_public_name_loads_and_no_other():
    assert all(getattr(envs, name) is not None for name in envs.__all__)
    with pytest.raises(AttributeError, match=r"'rsa2c\.envs' has no attribute 'make_nothing'"):
        _ = envs.make_nothing


def test_errors_are_what_their_names_say():
    assert issubclass(EnvError, RuntimeError) and issubclass(EnvError, RSA2CError)
    assert did_you_mean("lamda", ["lambda", "gamma"]) == " Did you mean 'lambda'?"
    assert did_you_mean("zzz", ["lambda"]) == ""
    assert require("json", "fast").__name__ == "json"
    with pytest.raises(MissingExtraError, match=r"Export needs 'no_such_module'.*'rsa2c\[fast\]'"):
        require("no_such_module", "fast", "Export")

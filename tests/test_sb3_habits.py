"""What users of Stable-Baselines3 expect of an agent beside its callbacks (`test_sb3_callbacks.py`)."""

from __future__ import annotations

import re
import warnings

import gymnasium as gym
import numpy as np
import pytest

from rsa2c import RSA2C, Config, KernelExplainer, evaluate, make_config, make_env
from rsa2c.algorithm.snapshot import pack
from rsa2c.envs import backend_of
from rsa2c.errors import ConfigError, DataError, EnvError
from rsa2c.progress import _line, _Meter
from rsa2c.sb3.methods import WITHOUT_USE

SMALL = {"n_envs": 2, "horizon": 50, "capacity": 24, "initial_centres": 12, "seed": 3}


def tensors(agent):
    return {name: array.tobytes() for name, array in pack(agent.snapshot(), checkpoint=False)[0].items()}


@pytest.fixture
def agent():
    return RSA2C("Pendulum-v1", **SMALL)


# Steps


def test_learn_means_environment_steps_with_the_warm_up(agent):
    warmup = agent.num_timesteps
    assert warmup == 2000
    agent.learn(2500)
    assert agent.num_timesteps == 2500 and agent.epoch == 5
    agent.learn(150)
    assert agent.num_timesteps == 2700, "rounded up to whole epochs"


def test_the_display_never_ends_above_its_total(agent, capsys):
    agent.learn(2450, progress_bar=True)
    text = capsys.readouterr().err
    assert "2,450/2,450 steps (+50 to the end of the epoch)" in text
    meter = _Meter(agent, 2500)
    assert "2,500/2,500 steps  " in _line(meter), "nothing to name where the goal is an epoch's end"


def test_sb3s_progress_bar_ends_at_its_total(agent):
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")
    bar = callbacks.ProgressBarCallback()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm's rich bar is experimental
        agent.learn(2470, callback=bar)
        assert (bar.pbar.n, bar.pbar.total) == (500, 500)
        agent.learn(30, callback=bar)
        assert (bar.pbar.n, bar.pbar.total) == (100, 100)


def test_counting_from_zero_again(agent):
    agent.learn(2100)
    agent.learn(200, reset_num_timesteps=True)
    assert (agent.num_timesteps, agent.epoch) == (200, 3)
    assert agent.learn(100, reset_num_timesteps=False).num_timesteps == 300
    fresh = RSA2C("Pendulum-v1", **SMALL).learn(2100, reset_num_timesteps=True)
    assert fresh.num_timesteps == 2100, "a first call has nothing to reset"


# Callbacks beyond SB3's own tests


def test_a_callback_sees_each_step_and_each_episode():
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")

    class Watch(callbacks.BaseCallback):
        def __init__(self):
            super().__init__()
            self.rewards, self.episodes, self.hooks, self.torques = [], [], [], []

        def _on_rollout_start(self):
            self.hooks.append("start")

        def _on_step(self):
            self.rewards.append(np.array(self.locals["rewards"]))
            self.episodes += [info["episode"] for info in self.locals["infos"] if "episode" in info]
            self.torques += [info["torque"] for info in self.locals["infos"] if "torque" in info]
            for info in np.array(self.locals["infos"], dtype=object)[self.locals["dones"]]:
                assert info["TimeLimit.truncated"] and info["terminal_observation"].shape == (3,)
            return True

        def _on_rollout_end(self):
            self.hooks.append("end")

    class Told(gym.Wrapper):
        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "torque": float(action[0])}

    watch = Watch()
    agent = RSA2C(lambda: Told(gym.make("Pendulum-v1", max_episode_steps=20)), **SMALL)
    agent.learn(1, callback=watch)
    assert watch.n_calls == 50 and watch.hooks == ["start", "end"]
    assert [one["l"] for one in watch.episodes] == [20] * 4
    first = np.sum(watch.rewards[:20], axis=0)
    np.testing.assert_allclose([one["r"] for one in watch.episodes[:2]], first)
    assert len(watch.torques) == 2 * 50 - 2 * 2, "reset steps have no info of a step"


def test_watching_changes_nothing(agent):
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")
    evaluation = callbacks.EvalCallback(gym.make("Pendulum-v1"), eval_freq=20, n_eval_episodes=1, verbose=0, warn=False)
    agent.learn(2200, callback=evaluation)
    assert tensors(agent) == tensors(RSA2C("Pendulum-v1", **SMALL).learn(2200))


def test_a_stopped_epoch_is_discarded_and_made_again(agent):
    class Stop:
        calls = 0

        def on_step(self):
            self.calls += 1
            return self.calls < 70

    agent.learn(2300, callback=Stop())
    assert (agent.epoch, agent.num_timesteps, agent.state.steps) == (1, 2140, 2100)
    assert tensors(agent.learn(200)) == tensors(RSA2C("Pendulum-v1", **SMALL).learn(2300))


def test_training_envs_can_be_looked_at():
    pytest.importorskip("stable_baselines3")
    agent = RSA2C("Pendulum-v1", backend="gymnasium", **SMALL)
    envs = agent.get_env()
    assert envs.num_envs == 2 and envs.get_attr("spec")[0].id == "Pendulum-v1"
    assert envs.env_method("get_wrapper_attr", "max_speed") == [8, 8]
    arrays = RSA2C("Pendulum-v1", **SMALL).get_env()
    with pytest.raises(EnvError, match="backend='gymnasium'"):
        arrays.env_method("reset")


@pytest.mark.parametrize("options", [{}, {"backend": "gymnasium"}, {"distractors": 2}])
def test_whoever_plays_in_the_training_envs_disturbs_no_training(options):
    """`vec_env = model.get_env()` is how SB3's first example goes on after training."""
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    agent = RSA2C("Pendulum-v1", **SMALL, **options)

    def play(_locals, _globals):
        envs = agent.get_env()
        actions, _ = agent.predict(envs.reset())
        _, rewards, dones, infos = envs.step(actions)
        assert rewards.shape == dones.shape == (2,) and len(infos) == 2
        envs.close()
        return True

    agent.learn(2200, callback=play)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # SB3 warns of environments without its Monitor
        mean, _ = evaluation.evaluate_policy(agent, agent.get_env(), n_eval_episodes=2)
    assert -2000.0 < mean < 0.0
    assert tensors(agent) == tensors(RSA2C("Pendulum-v1", **SMALL, **options).learn(2200))


# Logs


def test_logs_have_sb3s_names_and_intervals(tmp_path, capsys):
    agent = RSA2C("Pendulum-v1", verbose=1, **SMALL)
    agent.learn(2400, log_interval=2)
    text = capsys.readouterr().out
    assert text.count("ep_rew_mean") == 2 and "total_timesteps" in text and "rollout/" in text
    assert agent.logger.values["time/total_timesteps"] == 2400
    with pytest.raises(ConfigError, match="verbose must be one of 0, 1, 2, got 3"):
        RSA2C("Pendulum-v1", verbose=3, **SMALL)


def test_tensorboard_folders_are_numbered_as_sb3s(tmp_path):
    pytest.importorskip("tensorboard")
    for _ in range(2):
        agent = RSA2C("Pendulum-v1", tensorboard_log=tmp_path, **SMALL).learn(2100, tb_log_name="tank")
    agent.learn(100, tb_log_name="tank")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tank_1", "tank_2"]
    agent.learn(100, tb_log_name="tank", reset_num_timesteps=True)
    assert (tmp_path / "tank_3").is_dir()


def test_sb3s_logger_can_be_set(agent, tmp_path):
    configure = pytest.importorskip("stable_baselines3.common.logger").configure
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    agent.learn(2200)
    agent.logger.close()
    assert "rollout/ep_rew_mean" in (tmp_path / "progress.csv").read_text().splitlines()[0]


def test_means_are_recorded(agent):
    agent.logger.record_mean("a", 1.0)
    agent.logger.record_mean("a", 3.0)
    assert agent.logger.values["a"] == 2.0
    agent.dump_logs()
    assert agent.logger.name_to_value == {} and agent.logger.values["a"] == 2.0


# Parameters, seeds, spaces


def test_parameters_are_copies_that_can_be_set_again(agent, tmp_path):
    agent.learn(2200)
    kept, action = agent.get_parameters(), agent.predict(np.ones(3))[0]
    agent.save(tmp_path / "a")
    agent.learn(300)
    assert not np.array_equal(agent.predict(np.ones(3))[0], action)
    agent.set_parameters(kept)
    np.testing.assert_array_equal(agent.predict(np.ones(3))[0], action)
    agent.learn(100)
    agent.set_parameters(tmp_path / "a")
    np.testing.assert_array_equal(agent.predict(np.ones(3))[0], action)
    agent.set_parameters({"policy/sigma": np.array([0.25])}, exact_match=False)
    assert agent.policy.sigma.tolist() == [0.25]
    with pytest.raises(DataError, match=r"misses .*background"):
        agent.set_parameters({"policy/sigma": np.array([0.25])})
    with pytest.raises(DataError, match=r"'policy/sigmo'.* Did you mean 'policy/sigma'\?"):
        agent.set_parameters({"policy/sigmo": np.array([0.25])}, exact_match=False)
    with pytest.raises(DataError, match="do not fit together"):
        agent.set_parameters({"policy/sigma": np.array([-1.0])}, exact_match=False)


def test_a_seed_can_be_set_later(agent):
    agent.learn(2100)
    other = RSA2C("Pendulum-v1", **SMALL).learn(2100)
    other.set_random_seed(99)
    assert tensors(agent.learn(100)) != tensors(other.learn(100)) and other.config.seed == 99
    observation = np.ones(3)
    for each in (agent, other):
        each.set_random_seed(5)
    a, b = (each._prediction_rng.random() for each in (agent, other))
    assert a == b
    assert not np.array_equal(
        agent.predict(observation, deterministic=False)[0], agent.predict(observation, deterministic=False)[0]
    )


def test_spaces_and_the_policys_own_predict(agent, tmp_path):
    assert agent.observation_space == gym.make("Pendulum-v1").observation_space
    assert agent.action_space.high.tolist() == [2.0] and agent.n_envs == 2
    observation = np.array([1.0, 0.0, 0.1])
    np.testing.assert_array_equal(agent.policy.predict(observation)[0], agent.predict(observation)[0])
    with pytest.raises(ConfigError, match="needs rng"):
        agent.policy.predict(observation, deterministic=False)
    agent = RSA2C(lambda: gym.make("Pendulum-v1"), **SMALL)
    agent.save(tmp_path / "a")
    alone = RSA2C.load(tmp_path / "a")
    assert alone.observation_space.shape == (3,) and alone.action_space.high.tolist() == [2.0]


# Environments


def test_an_environment_is_compared_at_once(agent, tmp_path):
    agent.save(tmp_path / "a")
    with pytest.raises(EnvError, match=r"shapes \(\(3,\), \(1,\)\), MountainCarContinuous-v0 has \(\(2,\), \(1,\)\)"):
        RSA2C.load(tmp_path / "a", env="MountainCarContinuous-v0")

    def stronger():
        return gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-3.0), np.float32(3.0))

    with pytest.raises(EnvError, match=r"actions between \[-2.\] and \[2.\], Pendulum-v1 between \[-3.\] and \[3.\]"):
        RSA2C.load(tmp_path / "a", env=stronger)
    with pytest.raises(EnvError, match="actions between"):
        agent.set_env(stronger)
    assert agent.learn(1).epoch == 1, "a refused environment changes nothing"


def test_another_environment_can_be_set(agent):
    for made in (lambda: gym.make("Pendulum-v1", g=1.0), gym.make("Pendulum-v1", g=1.0)):
        agent.set_env(made)
        agent.learn(1)
        assert agent.env.envs[0].unwrapped.g == 1.0
    agent.set_env("Pendulum-v1")
    assert backend_of(agent.env) == "arrays"


def test_another_number_of_environments_is_refused_at_once(agent, tmp_path):
    three = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 3)
    says = r"trains in 2 environments side by side, Pendulum-v1 was given as 3\. Give 2, or a function that makes one"
    with pytest.raises(EnvError, match=says):
        agent.set_env(three)
    agent.save(tmp_path / "a")
    with pytest.raises(EnvError, match=says):
        RSA2C.load(tmp_path / "a", env=three)


def test_what_a_saved_agent_has_already_is_named(agent, tmp_path):
    agent.save(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"got algorithm, custom_objects, n_envs\. Leave out all but env"):
        RSA2C.load(tmp_path / "a", algorithm="rsa2c-kme", custom_objects={}, n_envs=3)


@pytest.mark.parametrize("steps", [0, -5, "1000", float("nan"), float("inf"), None])
def test_steps_that_are_no_positive_number_are_refused(agent, steps):
    with pytest.raises(ConfigError, match=f"total_timesteps must be a positive, finite number, got {steps!r}"):
        agent.learn(steps)


def test_sb3s_vecenv_trains_as_gymnasiums_environments_do():
    """Resets in the same step and not in the next, so all but the rollouts' first episodes differ."""
    env_util = pytest.importorskip("stable_baselines3.common.env_util")
    vec = env_util.make_vec_env("Pendulum-v1", n_envs=2)
    agent = RSA2C(vec, **SMALL).learn(1)
    assert agent.env_id == "Pendulum-v1" and agent.episode_limit == 200
    assert agent.feature_names == ("cos θ", "sin θ", "angular velocity")
    assert tensors(agent) == tensors(RSA2C(env_util.make_vec_env("Pendulum-v1", n_envs=2), **SMALL).learn(1))
    assert repr(RSA2C("Pendulum-v1", **SMALL).get_env()).startswith("TrainingEnvs(")
    own = make_env("Pendulum-v1", 2, backend="gymnasium")
    a, b = agent.env.reset(seed=7)[0], own.reset(seed=7)[0]
    np.testing.assert_array_equal(a, b)
    agent.get_env().reset()  # the caller's own, not closed


def test_sb3s_habits_of_construction():
    for env in ("MlpPolicy", "MultiInputPolicy"):
        with pytest.raises(ConfigError, match=r"Write RSA2C\(env\) instead of RSA2C\('M"):
            RSA2C(env, "Pendulum-v1")
    with pytest.raises(ConfigError, match="algorithm is a name"):
        RSA2C("Pendulum-v1", gym.make("Pendulum-v1"))
    assert RSA2C("Pendulum-v1", device="cpu", **SMALL).n_envs == 2
    with pytest.raises(ConfigError, match="device must be one of 'auto', 'cpu', 'cuda', 'jax-cpu', got 'mps'"):
        RSA2C("Pendulum-v1", device="mps")
    for name in WITHOUT_USE:
        with pytest.raises(ConfigError, match=f"RSA2C has no {name}: .*. Leave it out"):
            RSA2C("Pendulum-v1", **{name: 1})
    assert not WITHOUT_USE.keys() & make_config("Pendulum-v1").settings().keys()


def test_an_observation_with_its_infos_is_refused_with_what_to_write(agent):
    with pytest.raises(DataError, match=r"Write obs, info = env.reset\(\)"):
        agent.predict(gym.make("Pendulum-v1").reset(seed=0))


def test_what_is_no_observation_is_refused(agent):
    with pytest.raises(DataError, match=r"states must be numbers of the shape \(3,\) or \(N, 3\), got str"):
        agent.predict("upright")


def test_sb3s_evaluate_policy_and_ours_agree(agent):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    agent.learn(2300)
    env = gym.make("Pendulum-v1")
    env.reset(seed=0)
    mean, _ = evaluation.evaluate_policy(agent, env, n_eval_episodes=1, warn=False)
    assert np.isfinite(mean) and evaluate(agent, env, episodes=1).returns.shape == (1,)


def episodes(agent):
    return [(each["r"], each["l"]) for each in agent.ep_info_buffer]


def test_the_last_episodes_of_training_are_in_ep_info_buffer(tmp_path):
    """SB3's habit: np.mean([each["r"] for each in model.ep_info_buffer])."""
    sizes = {**SMALL, "horizon": 450}
    agent = RSA2C("Pendulum-v1", **sizes)
    assert episodes(agent) == []
    agent.learn(2900)
    assert [length for _, length in episodes(agent)] == [200] * 4, "two in each environment, the third was cut"
    assert np.mean([total for total, _ in episodes(agent)]) == pytest.approx(agent.history[0]["ep_rew_mean"])
    first = episodes(agent)
    agent.learn(900)
    assert episodes(agent)[:4] == first and len(episodes(agent)) == 8
    assert agent.ep_info_buffer.maxlen == 100 and 0 < agent.ep_info_buffer[0]["t"] <= agent.ep_info_buffer[-1]["t"]
    agent.save(tmp_path / "a")
    assert episodes(RSA2C.load(tmp_path / "a")) == []
    agent.learn(900, reset_num_timesteps=True)
    assert len(episodes(agent)) == 4


def test_ep_info_buffer_does_not_depend_on_workers():
    sizes = {"n_envs": 4, "horizon": 500, "capacity": 24, "initial_centres": 12}
    alone, spread = (RSA2C("Pendulum-v1", workers=workers, **sizes).learn(2000) for workers in (1, 2))
    assert episodes(alone) == episodes(spread) and len(episodes(alone)) == 8
    spread.close()


def test_a_callback_finds_episodes_in_ep_info_buffer_as_they_end():
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")

    class Watching(callbacks.BaseCallback):
        seen = ()

        def _on_step(self):
            self.seen += (len(self.model.ep_info_buffer),)
            return True

    sizes, watching = {**SMALL, "horizon": 450}, Watching()
    agent = RSA2C("Pendulum-v1", **sizes).learn(2900, callback=watching)
    assert watching.seen == (0,) * 199 + (2,) * 201 + (4,) * 50, "step 201 resets"
    expected = sorted(episodes(RSA2C("Pendulum-v1", **sizes).learn(2900)))
    np.testing.assert_allclose(sorted(episodes(agent)), expected, rtol=1e-12)


# Reading


def test_everything_prints_as_something_readable(agent):
    agent.learn(2200)
    assert repr(agent) == "<RSA2C Pendulum-v1, rsa2c-kme: 2,200 steps, 2 epochs, remembers 24 + 24 states>"
    assert repr(agent.policy_mean) == "RKHSFunction(3 features -> torque; 24 states, RBF kernel)"
    assert repr(agent.policy).startswith("GaussianPolicy(mean=RKHSFunction(") and len(repr(agent.policy)) < 200
    explanation = agent.explain(agent.background[:5], of="action")
    assert repr(explanation).startswith("Explanation(torque: 5 states, 3 features, most important ")
    certificate = agent.certify(agent.background[:5], epsilon=0.01)
    says = r"Certificate\(5 states, l2 errors up to 0.01 move torque by at most [\d.e-]+\)"
    assert re.fullmatch(says, repr(certificate))
    assert float(repr(certificate).rpartition(" ")[2][:-1]) == pytest.approx(certificate.deviation.max(), rel=0.01)
    assert repr(agent.prototypes(agent.background[0], k=2)).startswith("Prototypes of torque\n   state  similar")
    score = evaluate(agent, "Pendulum-v1", episodes=3)
    assert repr(score) == f"EvaluationResult({score})" and repr(score).endswith(" over 3 episodes)")
    explainer = KernelExplainer(agent.policy_mean, agent.background)
    assert repr(explainer) == f"KernelExplainer(3 features -> torque; {len(agent.background)} background states)"
    assert repr(Config()) == "Config.of()"
    shown = "Config.of(seed=3, value_fit='td', value_step=0.05)"
    assert repr(Config.of(seed=3, value_fit="td", value_step=0.05)) == shown
    config = agent.config
    assert eval(repr(config), {"Config": Config}) == config

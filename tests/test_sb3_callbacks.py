"""Stable-Baselines3's own tests of its callbacks (tests/test_callbacks.py, 2.8), adapted to this agent.

What differs, and why: the agent stands in for every model class (`MODELS` are its forms, in place of A2C, PPO, ...);
environments with discrete actions are replaced by continuous ones; steps are counted from the end of the warm-up, which
is made with the agent; and there is no replay buffer to save.
"""

from __future__ import annotations

import itertools
import os
import warnings

import gymnasium as gym
import numpy as np
import pytest

from rsa2c import RSA2C
from rsa2c.errors import Notice

callbacks = pytest.importorskip("stable_baselines3.common.callbacks")

import torch as th  # noqa: E402
from stable_baselines3.common.callbacks import (  # noqa: E402
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    LogEveryNTimesteps,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.envs import BitFlippingEnv, IdentityEnvBox  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

SMALL = {"n_envs": 1, "horizon": 128, "capacity": 24, "initial_centres": 12}
MODELS = {
    "default": {},
    "gymnasium": {"backend": "gymnasium"},
    "advanced-ac": {"algorithm": "advanced-ac"},
    "rkhs-ac": {"algorithm": "rkhs-ac"},
    "paper": {"preset": "paper"},
    "two environments": {"n_envs": 2, "horizon": 64},
}


def learned(model):
    """Steps after the warm-up."""
    return model.num_timesteps - model.state.warmup_steps


@pytest.mark.parametrize("form", MODELS)
def test_callbacks(tmp_path, form):
    log_folder = tmp_path / "logs/callbacks/"
    model = RSA2C("Pendulum-v1", **{**SMALL, **MODELS[form]})
    checkpoint_callback = CheckpointCallback(save_freq=512, save_path=log_folder)
    eval_env = gym.make("Pendulum-v1")
    callback_on_best = StopTrainingOnRewardThreshold(reward_threshold=-1200, verbose=1)
    callback_no_model_improvement = StopTrainingOnNoModelImprovement(max_no_improvement_evals=2, min_evals=1, verbose=1)
    eval_callback = EvalCallback(
        eval_env,
        callback_on_new_best=callback_on_best,
        callback_after_eval=callback_no_model_improvement,
        best_model_save_path=log_folder,
        log_path=log_folder,
        eval_freq=32,
        n_eval_episodes=2,
        warn=False,
    )
    checkpoint_on_event = CheckpointCallback(save_freq=1, save_path=log_folder, name_prefix="event")
    event_callback = EveryNTimesteps(n_steps=128, callback=checkpoint_on_event)
    log_callback = LogEveryNTimesteps(n_steps=64)
    callback_max_episodes = StopTrainingOnMaxEpisodes(max_episodes=100, verbose=1)
    callback = CallbackList([checkpoint_callback, eval_callback, event_callback, log_callback, callback_max_episodes])
    model.learn(128, callback=callback)

    assert model.observation_space.contains(callback.locals["new_obs"][0])
    assert checkpoint_callback.locals["new_obs"] is callback.locals["new_obs"]
    assert event_callback.locals["new_obs"] is callback.locals["new_obs"]
    assert checkpoint_on_event.locals["new_obs"] is callback.locals["new_obs"]
    assert event_callback.num_timesteps == model.num_timesteps
    assert event_callback.n_calls * model.n_envs == learned(model)

    model.learn(128, callback=None)
    model.learn(128, callback=[checkpoint_callback, eval_callback], progress_bar=True)
    model.learn(128, callback=lambda _locals, _globals: True)
    assert RSA2C.load(log_folder / "best_model").env_id == "Pendulum-v1"

    if form != "two environments":
        return
    max_episodes, n_envs, max_episode_length = 1, 2, 100
    envs = make_vec_env("Pendulum-v1", n_envs=n_envs, seed=0, env_kwargs={"max_episode_steps": max_episode_length})
    model = RSA2C(envs, capacity=24, horizon=256)
    callback_max_episodes = StopTrainingOnMaxEpisodes(max_episodes=max_episodes, verbose=1)
    model.learn(512, callback=CallbackList([callback_max_episodes]))
    assert callback_max_episodes.n_episodes // n_envs == max_episodes
    assert learned(model) // n_envs == max_episode_length


def test_eval_callback_vec_env():
    """Random actions earn 1 of 20; 150 trainings with other states ended between 10 and 19."""
    seeds = itertools.count()

    def make():
        env = IdentityEnvBox(ep_length=20)
        env.observation_space.seed(next(seeds))  # it draws its states from there
        return env

    eval_env = DummyVecEnv([make] * 3)
    model = RSA2C(make, seed=0, n_envs=10, horizon=20, capacity=64)
    eval_callback = EvalCallback(eval_env, eval_freq=100, warn=False)
    model.learn(40_000, callback=eval_callback)
    assert eval_callback.last_mean_reward > 5.0, "SB3's task is discrete, and solved exactly"


class AlwaysFailCallback(BaseCallback):
    def __init__(self, *args, callback_false_value, **kwargs):
        super().__init__(*args, **kwargs)
        self.callback_false_value = callback_false_value

    def _on_step(self) -> bool:
        return self.callback_false_value


@pytest.mark.parametrize("backend", ["arrays", "gymnasium"])
@pytest.mark.parametrize("callback_false_value", [False, np.bool_(0), th.tensor(0, dtype=th.bool)])
def test_callbacks_can_cancel_runs(backend, callback_false_value):
    assert not callback_false_value
    model = RSA2C("Pendulum-v1", backend=backend, **SMALL)
    alwaysfailcallback = AlwaysFailCallback(callback_false_value=callback_false_value)
    model.learn(10, callback=alwaysfailcallback)
    assert alwaysfailcallback.n_calls == 1
    assert (learned(model), model.epoch) == (1, 0)


def test_eval_success_logging(tmp_path):
    n_bits, n_envs = 2, 2
    eval_env = DummyVecEnv([lambda: BitFlippingEnv(n_bits=n_bits, continuous=True)] * n_envs)
    eval_callback = EvalCallback(eval_env, eval_freq=250, log_path=tmp_path, warn=False)
    model = RSA2C(lambda: BitFlippingEnv(n_bits=n_bits, continuous=True), seed=0, n_envs=4, horizon=500, capacity=64)
    model.learn(30_000, callback=eval_callback)
    assert len(eval_callback._is_success_buffer) > 0
    assert np.mean(eval_callback._is_success_buffer) > 0.5


def test_eval_callback_logs_are_written_with_the_correct_timestep(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = RSA2C("Pendulum-v1", tensorboard_log=tmp_path, verbose=1, seed=1, **SMALL)
    warmup, eval_freq = model.num_timesteps, 101
    eval_callback = EvalCallback(gym.make("Pendulum-v1"), eval_freq=eval_freq, warn=False)
    model.learn(warmup + 500, callback=eval_callback)
    acc = EventAccumulator(str(tmp_path / "RSA2C_1"))
    acc.Reload()
    events = acc.scalars.Items("eval/mean_reward")
    assert len(events) == 5
    for event in events:
        assert (event.step - warmup) % eval_freq == 0


def test_eval_friendly_error():
    train_env = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    eval_env = DummyVecEnv([lambda: gym.make("Pendulum-v1")])
    eval_env = VecNormalize(eval_env, training=False, norm_reward=False)
    _ = train_env.reset()
    original_obs = train_env.get_original_obs()
    with pytest.warns(Notice) as said:
        model = RSA2C(train_env, seed=0, horizon=100, capacity=24)
    assert {str(each.message).split(":")[0] for each in said} == {
        f"Pendulum-v1 is wrapped in VecNormalize({part}=True)" for part in ("norm_obs", "norm_reward")
    }
    eval_callback = EvalCallback(eval_env, eval_freq=100, warn=False)
    model.learn(100, callback=eval_callback)
    assert np.allclose(train_env.normalize_obs(original_obs), eval_env.normalize_obs(original_obs))
    eval_callback = EvalCallback(gym.make("Pendulum-v1"), eval_freq=100, warn=False)
    with pytest.warns(Warning, match="not of the same type"), warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        with pytest.raises(AssertionError):
            model.learn(100, callback=eval_callback)


def test_checkpoint_additional_info(tmp_path):
    dummy_vec_env = DummyVecEnv([lambda: gym.make("Pendulum-v1")])
    checkpoint_dir = tmp_path / "checkpoints"
    checkpoint_callback = CheckpointCallback(
        save_freq=200, save_path=checkpoint_dir, save_replay_buffer=True, save_vecnormalize=True, verbose=2
    )
    with pytest.warns(Notice):
        model = RSA2C(VecNormalize(dummy_vec_env), seed=0, horizon=200, capacity=24)
    steps = model.num_timesteps + 200
    model.learn(200, callback=checkpoint_callback)
    assert os.path.exists(checkpoint_dir / f"rl_model_{steps}_steps.zip")
    assert os.path.exists(checkpoint_dir / f"rl_model_vecnormalize_{steps}_steps.pkl")
    assert RSA2C.load(checkpoint_dir / f"rl_model_{steps}_steps.zip").env_id == "Pendulum-v1"
    VecNormalize.load(checkpoint_dir / f"rl_model_vecnormalize_{steps}_steps.pkl", dummy_vec_env)


def test_eval_callback_chaining(tmp_path):
    called = []

    class DummyCallback(BaseCallback):
        def _on_step(self):
            assert isinstance(self.parent, EvalCallback)
            assert hasattr(self.parent, "best_mean_reward")
            called.append(self.num_timesteps)
            return True

    stop_on_threshold_callback = StopTrainingOnRewardThreshold(reward_threshold=-200, verbose=1)
    eval_callback = EvalCallback(
        gym.make("Pendulum-v1"),
        best_model_save_path=tmp_path,
        log_path=tmp_path,
        eval_freq=32,
        deterministic=True,
        render=False,
        callback_on_new_best=CallbackList([DummyCallback(), stop_on_threshold_callback]),
        callback_after_eval=CallbackList([DummyCallback()]),
        warn=False,
    )
    model = RSA2C("Pendulum-v1", **{**SMALL, "horizon": 64})
    model.learn(64, callback=eval_callback)
    assert called

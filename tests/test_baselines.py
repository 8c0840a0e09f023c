"""SB3's agents behind our `predict`, with RL-Zoo's settings, in our run folders."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import rsa2c
from rsa2c.baselines.policy import Baseline, baseline_config, make_baseline, settings, train_baseline
from rsa2c.baselines.settings import BaselineConfig, Settings
from rsa2c.cli import main
from rsa2c.envs.distractors import KINDS
from rsa2c.envs.known import RLZoo, pendulum
from rsa2c.errors import ConfigError, EnvError, FileFormatError, MissingExtraError, NotFoundError, RunExistsError
from rsa2c.evaluation import Policy
from rsa2c.files import StorageError
from rsa2c.runs import baseline_training as baseline_runs
from rsa2c.runs import training
from rsa2c.runs.folder import Run
from rsa2c.runs.training import TrainingInterrupted, is_finished, load_agent, load_policy, resume_run, train_run

sb3 = pytest.importorskip("stable_baselines3")

SMALL = {"policy_kwargs": {"net_arch": [8]}}
TINY = {
    "sac": Settings(60, arguments={"learning_starts": 20, "batch_size": 8, **SMALL}),
    "ppo": Settings(
        64,
        n_envs=2,
        normalise=True,
        arguments={
            "n_steps": 8,
            "batch_size": 8,
            "n_epochs": 1,
            "use_sde": True,
            "policy_kwargs": {"net_arch": [8], "activation_fn": "ReLU", "ortho_init": False},
        },
    ),
}
ENV = "Pendulum-v1"


def evaluate_every(steps, monkeypatch):
    """Train with `TINY` on the pendulum, and evaluate so often."""
    monkeypatch.setitem(pendulum.KNOWN, ENV, replace(pendulum.PENDULUM, rl_zoo=RLZoo(ENV, TINY, steps)))


@pytest.fixture
def tiny(monkeypatch):
    """Networks of eight units, and an evaluation every 25 steps."""
    evaluate_every(25, monkeypatch)
    monkeypatch.setattr(baseline_runs, "ROW_STEPS", 10)


def run_in(out, name="sac", total_timesteps=None, **fields):
    return train_run(
        ENV, name, total_timesteps=total_timesteps, out=out, track=False, **{"evaluation_episodes": 2, **fields}
    )


OBSERVATIONS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def actions(policy, observations=OBSERVATIONS):
    return policy.predict(observations, deterministic=True)[0]


@pytest.mark.parametrize("name", ["sac", "ppo"])
def test_a_run_leaves_the_files_of_a_run(tiny, tmp_path, name):
    run = run_in(tmp_path, name, seed=3)
    assert run.path.name == f"Pendulum-v1__{name}__rl-zoo__n0__s3"
    files = {".lock", "config.yaml", "metrics.csv", "evaluations.npz", "model.safetensors", "model.zip"}
    assert {path.name for path in run.path.iterdir()} == files
    document = run.read_config()
    assert (document["environment"], document["preset"], document["total_timesteps"]) == (
        ENV,
        "rl-zoo",
        TINY[name].total_timesteps,
    )
    assert {"torch", "stable_baselines3", "gymnasium"} <= set(document["versions"])
    assert BaselineConfig(**document["config"]) == baseline_config(name, ENV, seed=3, evaluation_episodes=2)
    rows, evaluations = run.read_metrics(), run.read_evaluations()
    steps = [int(row["timesteps"]) for row in rows]
    assert steps == sorted(set(steps)) and steps[-1] == evaluations["timesteps"][-1] >= TINY[name].total_timesteps
    expected = {"sac": [25, 50, 60], "ppo": [32, 64]}[name]
    assert evaluations["timesteps"].tolist() == expected
    assert evaluations["results"].shape == evaluations["ep_lengths"].shape == (len(expected), 2)
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("name", ["sac", "ppo"])
def test_what_is_read_acts_as_what_was_trained(tiny, tmp_path, name):
    run = run_in(tmp_path, name)
    policy = load_policy(run)
    assert isinstance(policy, Policy) and isinstance(policy, Baseline)
    again = rsa2c.evaluate(policy, ENV, episodes=2, seed=training.EVALUATION_SEED)
    np.testing.assert_array_equal(again.returns, run.read_evaluations()["results"][-1])
    own = getattr(sb3, name.upper()).load(run.path / "model.zip", device="cpu")
    seen = OBSERVATIONS if policy.normaliser is None else policy.normaliser.normalize_obs(OBSERVATIONS)
    np.testing.assert_array_equal(actions(policy), actions(own, seen))
    assert policy.num_timesteps == own.num_timesteps == run.read_evaluations()["timesteps"][-1]
    assert (policy.normaliser is not None) == TINY[name].normalise


def test_the_normalisers_statistics_are_kept(tiny, tmp_path, monkeypatch):
    trained = []
    save = baseline_runs.save
    monkeypatch.setattr(baseline_runs, "save", lambda baseline, run: (trained.append(baseline), save(baseline, run)))
    kept, lived = load_policy(run_in(tmp_path, "ppo")).normaliser, trained[0].normaliser
    for mine, theirs in ((kept.obs_rms, lived.obs_rms), (kept.ret_rms, lived.ret_rms)):
        np.testing.assert_array_equal(mine.mean, theirs.mean)
        np.testing.assert_array_equal(mine.var, theirs.var)
        assert mine.count == theirs.count
    assert (kept.clip_obs, kept.epsilon, kept.gamma) == (lived.clip_obs, lived.epsilon, lived.gamma)
    assert not kept.training
    np.testing.assert_array_equal(kept.normalize_obs(OBSERVATIONS), lived.normalize_obs(OBSERVATIONS))


def test_reading_a_run_unpickles_nothing(tiny, tmp_path, monkeypatch):
    run = run_in(tmp_path)
    before = actions(load_policy(run))

    class Stranger:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    with zipfile.ZipFile(run.path / "model.zip", "w") as archive:
        archive.writestr("data", pickle.dumps(Stranger()))
        archive.writestr("policy.pth", pickle.dumps(Stranger()))

    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    for module, function in (("pickle", "load"), ("pickle", "loads"), ("cloudpickle", "loads"), ("torch", "load")):
        monkeypatch.setattr(f"{module}.{function}", refuse)
    np.testing.assert_array_equal(actions(load_policy(run)), before)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["sac", "ppo"])
def test_equal_seeds_give_equal_bytes_however_often_they_are_evaluated(tiny, tmp_path, monkeypatch, name):
    run = run_in(tmp_path / "a", name, noise_variance=0.01)
    sb3.common.utils.set_random_seed(99)
    evaluate_every(10_000, monkeypatch)
    other = run_in(tmp_path / "b", name, noise_variance=0.01)
    assert run.model_path.read_bytes() == other.model_path.read_bytes()
    assert len(other.read_evaluations()["timesteps"]) == 1
    last, others = run.read_evaluations()["results"][-1], other.read_evaluations()["results"][-1]
    np.testing.assert_array_equal(last, others)
    assert run_in(tmp_path / "b", name, seed=1).model_path.read_bytes() != run.model_path.read_bytes()


def test_noise_and_distractors_are_trained_and_evaluated_with(tiny, tmp_path):
    run = run_in(tmp_path, noise_variance=0.01, distractors=2)
    assert run.path.name.endswith("__n0.01__s0__d2")
    policy = load_policy(run)
    assert policy.model.observation_space.shape == (5,)
    again = rsa2c.evaluate(policy, ENV, 2, noise_variance=0.01, distractors=2, seed=training.EVALUATION_SEED)
    np.testing.assert_array_equal(again.returns, run.read_evaluations()["results"][-1])


def test_evaluations_take_none_of_the_trainings_seconds(tiny, tmp_path, monkeypatch):
    class Clock:
        now = 0.0
        perf_counter = staticmethod(lambda: Clock.now)

    evaluate, learn_step = baseline_runs.evaluate_agent, sb3.SAC.train

    def slow_evaluation(baseline):
        Clock.now += 1000.0
        return evaluate(baseline)

    def slow_training(model, *arguments, **options):
        Clock.now += 1.0
        return learn_step(model, *arguments, **options)

    monkeypatch.setattr(baseline_runs, "time", Clock)
    monkeypatch.setattr(baseline_runs, "evaluate_agent", slow_evaluation)
    monkeypatch.setattr(sb3.SAC, "train", slow_training)
    rows = run_in(tmp_path).read_metrics()
    assert [float(row["seconds"]) for row in rows] == [float(row["updates"]) for row in rows]


def stop_at(monkeypatch, number, stop):
    """Let the evaluation of this number end in `stop()`."""
    evaluate, count = baseline_runs.evaluate_agent, []

    def stopping(baseline):
        count.append(baseline)
        if len(count) == number:
            stop()
        return evaluate(baseline)

    monkeypatch.setattr(baseline_runs, "evaluate_agent", stopping)


def raising(error):
    def stop():
        raise error

    return stop


STOPS = {
    "Ctrl-C": (raising(KeyboardInterrupt), TrainingInterrupted, "start over"),
    "SIGTERM": (lambda: os.kill(os.getpid(), signal.SIGTERM), TrainingInterrupted, "rsa2c resume"),
    "a failing environment": (raising(EnvError("nan at step 12")), EnvError, "step 12"),
    "killed": (raising(SystemExit("killed")), SystemExit, "killed"),
}


@pytest.mark.parametrize("stopped", STOPS)
def test_a_stopped_run_begins_again(tiny, tmp_path, monkeypatch, stopped):
    stop, error, says = STOPS[stopped]
    with monkeypatch.context() as patch:
        stop_at(patch, 2, stop)
        with pytest.raises(error, match=says):
            run_in(tmp_path / "stopped")
    (path,) = (tmp_path / "stopped").iterdir()
    run = Run(path)
    assert len(run.read_evaluations()["timesteps"]) == 1
    assert not is_finished(run)
    with pytest.raises(NotFoundError, match="rsa2c resume"):
        load_policy(run)
    with pytest.raises(RunExistsError, match="rsa2c resume"):
        run_in(tmp_path / "stopped")
    whole = run_in(tmp_path / "whole")
    assert resume_run(path, track=False).path == path
    assert is_finished(run)
    assert run.model_path.read_bytes() == whole.model_path.read_bytes()
    assert run.evaluations_path.read_bytes() == whole.evaluations_path.read_bytes()
    rows, others = ([{**row, "seconds": ""} for row in each.read_metrics()] for each in (run, whole))
    assert rows == others


def test_a_signal_while_the_model_is_written_does_not_lose_it(tiny, tmp_path, monkeypatch):
    write = baseline_runs.write_tensors

    def signalled(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return write(*arguments)

    monkeypatch.setattr(baseline_runs, "write_tensors", signalled)
    assert is_finished(run_in(tmp_path))


def test_a_run_is_locked_while_it_trains(tiny, tmp_path, monkeypatch):
    def resume():
        (path,) = tmp_path.iterdir()
        with pytest.raises(StorageError, match="another process"):
            resume_run(path)

    stop_at(monkeypatch, 1, resume)
    assert is_finished(run_in(tmp_path))


def test_an_unfinished_run_can_be_told_another_end(tiny, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 1, raising(KeyboardInterrupt))
        with pytest.raises(TrainingInterrupted):
            run_in(tmp_path)
    (path,) = tmp_path.iterdir()
    run = resume_run(path, 30, track=False)
    assert run.read_config()["total_timesteps"] == load_policy(run).num_timesteps == 30
    assert is_finished(run) and not is_finished(run, 31)


def test_a_finished_run_is_refused(tiny, tmp_path):
    run = run_in(tmp_path)
    before = run.model_path.read_bytes()
    for total in (None, 100):
        with pytest.raises(ConfigError, match="is finished, and sac cannot be trained further"):
            resume_run(run.path, total)
    assert run.model_path.read_bytes() == before
    with pytest.raises(ConfigError, match="a neural network"):
        load_agent(run)


def test_kernel_runs_are_finished_too(tmp_path):
    small = {"n_envs": 2, "horizon": 50, "capacity": 8, "initial_centres": 4}
    run = train_run(ENV, "advanced-ac", total_timesteps=2100, out=tmp_path, track=False, evaluation_episodes=1, **small)
    assert is_finished(run) and not is_finished(run, 2101)
    assert isinstance(load_policy(run), rsa2c.RSA2C)


@pytest.mark.parametrize(
    ("told", "error", "says"),
    [
        ({"kl": 0.1}, ConfigError, "sac has no setting 'kl'"),
        ({"noise_varance": 0.1}, ConfigError, "Did you mean 'noise_variance'"),
        ({"n_envs": 2}, ConfigError, "You can set seed"),
        ({"preset": "paper"}, ConfigError, "preset 'paper' does not exist for sac; it has rl-zoo"),
        ({"total_timesteps": 0}, ConfigError, "total_timesteps must be a positive, finite number"),
        ({"noise_variance": -1.0}, ConfigError, "noise_variance must not be negative"),
        ({"distractors": 1.5}, ConfigError, "distractors must be a whole number"),
        ({"distractor_kind": "drifts"}, ConfigError, "Did you mean 'drift'"),
        ({"seed": 2**31}, ConfigError, "seed must be below"),
        ({"env": "Pendulum-v2"}, EnvError, "Did you mean 'Pendulum-v1'"),
        ({"env": "CartPole-v1"}, EnvError, "continuous actions only"),
    ],
)
def test_mistakes_are_named_and_leave_no_folder(tmp_path, told, error, says):
    with pytest.raises(error, match=says):
        train_run(**{"env": ENV, "algorithm": "sac", "out": tmp_path / "runs", **told})
    assert not (tmp_path / "runs").exists()


def test_environments_a_baseline_cannot_learn_on(monkeypatch):
    import gymnasium as gym
    from gymnasium.envs.classic_control import PendulumEnv

    class Unbounded(PendulumEnv):
        def __init__(self):
            super().__init__()
            self.action_space = gym.spaces.Box(-np.inf, np.inf, (1,))

    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    gym.register("Endless-v0", PendulumEnv)
    gym.register("Unbounded-v0", Unbounded, max_episode_steps=10)
    with pytest.raises(EnvError, match="Endless-v0 has no episode limit"):
        make_baseline("ppo", "Endless-v0")
    with pytest.raises(EnvError, match="Unbounded-v0 has unbounded actions"):
        make_baseline("sac", "Unbounded-v0")


def test_other_environments_take_the_mujoco_entry():
    config = baseline_config("ppo", "Pusher-v5")
    assert (config.entry, config.normalise, config.steps_between_evaluations) == ("mujoco", True, 20_000)
    assert baseline_config("sac", ENV).entry == ENV
    alike = baseline_config("sac", "rsa2c/LQR-v0")
    assert (alike.entry, alike.steps_between_evaluations, alike.arguments) == (ENV, 1_000, {"learning_rate": 1e-3})


def test_damaged_folders_are_named(tiny, tmp_path):
    run = run_in(tmp_path)
    document, content = run.read_config(), run.model_path.read_bytes()
    wider = {**document["config"], "arguments": {"policy_kwargs": {"net_arch": [9]}}}
    for config, says in (
        (wider, "do not fit together"),
        ({**document["config"], "arguments": {"policy_kwargs": 3}}, "do not fit together"),
        ({**document["config"], "normalise": True}, "do not fit together"),
        ({**document["config"], "arguments": "none"}, "arguments must be a mapping"),
        ({**document["config"], "kl": 1}, "no usable configuration"),
    ):
        run.write_config({**document, "config": config})
        with pytest.raises(FileFormatError, match=says):
            load_policy(run)
    run.write_config(document)
    run.model_path.write_bytes(content[:-1])
    with pytest.raises(FileFormatError, match=r"model\.safetensors is not a usable baseline file"):
        load_policy(run)


def test_command_line(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = "Pendulum-v1__sac__rl-zoo__n0.01__s2"
    flags = ["--seed", "2", "--noise-variance", "0.01", "--evaluation-episodes", "2", "--no-track"]
    assert main(["train", ENV, "--algorithm", "sac", "--total-timesteps", "40", *flags]) == 0
    captured = capsys.readouterr()
    assert f"files        runs/{name}" in captured.out and "rsa2c explain" not in captured.out
    assert "40/40 steps" in captured.err
    assert main(["evaluate", name, "--episodes", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["num_timesteps"], result["environment"]) == (40, ENV)
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert f"runs/{name}   40 steps, mean return" in listed and "\n  sac\n  ppo\n" in listed
    for arguments, says in (
        (["resume", name], "is finished"),
        (["explain", name], "needs a kernel agent"),
        (["train", ENV, "--algorithm", "ppo", "--kl", "0.5"], "ppo has no setting 'kl'"),
        (["train", ENV, "--algorithm", "sac", *flags], f"rsa2c resume runs/{name}"),
    ):
        assert main(arguments) == 2
        assert says in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", ENV, "--algorithm", "sac", "--help"])
    text = capsys.readouterr().out
    assert "--noise-variance" in text and "--kl" not in text


def test_tensorboard_events_have_sb3_names(tiny, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = train_run(ENV, "sac", out=tmp_path, evaluation_episodes=1)
    events = accumulator.EventAccumulator(str(run.path))
    events.Reload()
    assert {"eval/mean_reward", "time/fps", "train/actor_loss"} <= set(events.Tags()["scalars"])
    steps = [event.step for event in events.Scalars("eval/mean_reward")]
    assert steps == run.read_evaluations()["timesteps"].tolist()


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


@pytest.mark.parametrize("kind", KINDS)
def test_sac_with_noise_and_distractors(kind):
    task = {"distractors": 2, "distractor_kind": kind, "noise_variance": 0.1}
    baseline = train_baseline("sac", "Pendulum-v1", 40, learning_starts=20, batch_size=8, **task, **SMALL)
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

    raw = Baseline("sac", ENV, BaselineConfig(), Model())
    assert raw.predict([1.0])[0] == [1.0]
    assert replace(raw, normaliser=Normaliser()).predict([1.0])[0] == [2.0]


def test_without_sb3_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rsa2c\[baselines\]'"):
        make_baseline("sac", "Pendulum-v1")


def test_without_sb3_no_folder_is_made(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rsa2c\[baselines\]'"):
        train_run("Pendulum-v1", "ppo", out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()

"""A run is read once: each file when it is first asked for, and the agent only if something asks for it."""

import shutil
from contextlib import contextmanager
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv

from rsa2c import RSA2C
from rsa2c.algorithm import snapshot
from rsa2c.cli import main
from rsa2c.config import Config
from rsa2c.cost.typical import mean_flops
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError
from rsa2c.reproduce import collect, recorded
from rsa2c.reproduce.records import record
from rsa2c.runs import baseline_training, folder
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.grid import Grid
from rsa2c.runs.sweep import is_done, is_whole, run_job
from rsa2c.runs.training import is_finished, is_judged, judge, load_agent, resume_run, train_run
from strangers import DATA
from test_sweep import SMALL


@pytest.fixture
def run(tmp_path):
    shutil.copytree(DATA, tmp_path / "run")
    return Run(tmp_path / "run")


@contextmanager
def counted():
    """How often config.yaml is parsed, a checkpoint deserialised, and an array file read."""
    reads = {}

    def wrapped(name, function):
        def call(*arguments, **named):
            reads[name] = reads.get(name, 0) + 1
            return function(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((folder, "read_yaml"), (folder, "read_npz"), (snapshot, "read_tensors")):
            patch.setattr(module, name, wrapped(name, getattr(module, name)))
        yield reads


def test_a_study_reads_a_run_once(tmp_path):
    """Train, judge and record: config.yaml is parsed once, the checkpoint deserialised once."""
    job = Grid.of({**SMALL, "final_noise": [0.0, 0.1]}).jobs()[0]
    with counted() as reads:
        made = run_job(job, tmp_path, partial(recorded, grid_of={job.run_id: "ablation"}))
    # evaluations.npz and attributions.npz; returns.npz is known from writing it
    assert reads == {"read_yaml": 1, "read_tensors": 1, "read_npz": 2}
    with counted() as reads:
        (again,), problems = collect({"ablation": [job]}, tmp_path)
    # returns.npz, too; the agent is not needed
    assert reads == {"read_yaml": 1, "read_npz": 3} and not problems
    assert again.returns == made.returns and again.gflop == made.gflop
    with counted() as reads:
        assert is_done(job, tmp_path)
    assert reads == {"read_yaml": 1, "read_npz": 1}
    with counted() as reads:
        collect({"ablation": [job]}, tmp_path, {job.run_id: made})
    assert reads == {}, "what was recorded a moment ago is not read again"


def test_a_record_has_what_the_agent_has(tmp_path):
    job = Grid.of(SMALL).jobs()[0]
    run_job(job, tmp_path)
    data = RunData.of(Run(tmp_path / job.run_id))
    assert is_whole(job, data)
    made, agent = record("ablation", job, data), load_agent(data)
    sizes = len(agent.feature_names), len(agent.action_names), agent.dictionary_size
    assert made.states == agent.dictionary_size
    assert made.gflop == pytest.approx(sum(mean_flops(agent.config, *sizes).values()) / 1e9)
    assert (data.epochs, data.steps) == (agent.epoch, agent.num_timesteps)
    assert made.returns[0.0].episodes == SMALL["final_episodes"]


def test_data_are_read_when_asked_for_and_kept(run):
    with counted() as reads:
        data = RunData.of(run)
        assert reads == {"read_yaml": 1}
        assert (data.epochs, data.steps, data.total_timesteps) == (6, 440, data.document["total_timesteps"])
        assert is_finished(data, 440) and not is_finished(data, 441), "200 steps of the warm-up among them"
        assert reads == {"read_yaml": 1}, "finished or not is in the checkpoint's header"
        assert data.agent is data.agent and load_agent(data) is data.agent
        assert data.evaluations is data.evaluations and data.attributions is data.attributions
        assert RunData.of(data) is data
        assert reads == {"read_yaml": 1, "read_tensors": 1, "read_npz": 2}
    assert len(data.metrics) == 6 and isinstance(data.config, Config)
    with pytest.raises(AttributeError):
        data.run = run


def test_a_final_evaluation_is_known_without_reading_it_again(run):
    data = RunData.of(run)
    before = data.agent
    with counted() as reads:
        judged = judge(data, 2, (0.0, 0.5))
        assert judged.agent is before and is_judged(judged, 2, (0.5,))
        assert reads == {"read_npz": 1}, "the returns that were there"
    np.testing.assert_array_equal(judged.returns["returns"], run.read_returns()["returns"])
    assert not is_judged(data, 2, (0.5,)), "data are of their moment"


def test_a_run_without_a_checkpoint_has_no_steps(run):
    run.state_path.unlink()
    data = RunData.of(run)
    assert (data.checkpoint, data.epochs, data.steps) == (None, 0, 0) and not is_finished(data)
    assert isinstance(data.agent, RSA2C), "its model is there"
    run.model_path.unlink()
    with pytest.raises(NotFoundError, match=r"has no checkpoint yet\. Train it with: rsa2c resume"):
        _ = RunData.of(run).agent


def test_damage_is_named_when_it_is_met(run):
    document = run.read_config()
    run.write_config({**document, "config": {**document["config"], "horizn": 3}})
    with pytest.raises(FileFormatError, match=r"config.yaml has no usable configuration: .*horizn"):
        _ = RunData.of(run).config
    run.write_config({**document, "algorithm": "sac"})
    with pytest.raises(ConfigError, match="this needs a kernel agent"):
        _ = RunData.of(run).kernel_agent
    run.write_config(document)
    run.metrics_path.unlink()
    with pytest.raises(FileFormatError, match=r"metrics.csv is missing or damaged"):
        _ = RunData.of(run).last_row


def test_a_list_of_runs_loads_no_agent(run, monkeypatch, capsys):
    monkeypatch.chdir(run.path.parent)
    run.path.rename(run.path.parent / "runs")
    with counted() as reads:
        assert main(["list"]) == 0
    assert "440 steps, mean return 0.0 over 2 episodes" in capsys.readouterr().out
    assert reads == {"read_yaml": 1, "read_npz": 1}


class Counted(PendulumEnv):
    """A pendulum that knows how many of its kind are open, and may fail."""

    open, fails = 0, False

    def __init__(self, **options):
        super().__init__(**options)
        type(self).open += 1

    def step(self, action):
        if type(self).fails:
            raise RuntimeError("a broken joint")
        return super().step(action)

    def close(self):
        type(self).open -= 1
        super().close()


@pytest.fixture
def pendulums(monkeypatch):
    monkeypatch.setattr(gym.envs.registration, "registry", registry := dict(gym.registry))
    monkeypatch.setattr(gym, "registry", registry)
    gym.register("rsa2c-tests/Counted-v0", Counted, max_episode_steps=20)
    monkeypatch.setattr(Counted, "open", 0)
    monkeypatch.setattr(Counted, "fails", False)
    return "rsa2c-tests/Counted-v0"


TINY = {"n_envs": 2, "horizon": 20, "capacity": 12, "evaluation_episodes": 1}


def test_training_closes_its_environments_whatever_happens(pendulums, tmp_path, monkeypatch):
    run = train_run(pendulums, "advanced-ac", total_timesteps=280, out=tmp_path, track=False, **TINY)
    resume_run(run.path, 320, track=False)
    assert Counted.open == 0
    with pytest.raises(ConfigError, match="320 were asked for"):
        resume_run(run.path, 320, track=False)

    def full(*_, **__):
        raise OSError("no folder")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "create", full)
        with pytest.raises(OSError, match="no folder"):
            train_run(pendulums, "advanced-ac", total_timesteps=80, out=tmp_path / "other", track=False, **TINY)
    assert Counted.open == 0


def test_training_closes_its_environments_after_a_failed_epoch(pendulums, tmp_path, monkeypatch):
    run = train_run(pendulums, "advanced-ac", total_timesteps=80, out=tmp_path, track=False, **TINY)
    monkeypatch.setattr(Counted, "fails", True)
    with pytest.raises(Exception, match="a broken joint"):
        resume_run(run.path, 360, track=False)
    assert Counted.open == 0


def test_baselines_close_their_environments_too(pendulums, tmp_path, monkeypatch):
    pytest.importorskip("stable_baselines3")
    small = {"environments": [pendulums], "algorithms": ["ppo"], "total_timesteps": 40, "final_episodes": 1}
    job = Grid.of(small).jobs()[0]
    run_job(job, tmp_path)
    assert Counted.open == 0
    monkeypatch.setattr(baseline_training, "ROW_STEPS", 10)
    monkeypatch.setattr(Counted, "fails", True)
    with pytest.raises(Exception, match="a broken joint"):
        run_job(job, tmp_path / "failing")
    assert Counted.open == 0

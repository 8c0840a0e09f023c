"""The search for settings: it begins with the preset, continues exactly, gives up what does not learn, and prints what
can be used."""

from __future__ import annotations

import shlex
import sys
from types import SimpleNamespace

import pytest
import yaml

from rsa2c.cli import main
from rsa2c.config import make_config
from rsa2c.errors import ConfigError, DataError, EnvError, FileFormatError, MissingExtraError
from rsa2c.files import HeldError, holding
from rsa2c.runs import tuning
from rsa2c.runs.sweep import Grid
from rsa2c.runs.tuning import SPACE, Search, Tuned, scaled, sought, tune


@pytest.fixture
def optuna():
    return pytest.importorskip("optuna", reason="pip install 'rsa2c[tune]'")


@pytest.fixture
def agents(monkeypatch):
    """Agents that train in no time: ten epochs, and a return that is -1,000 times the distance of kl from 0.17."""
    made = []

    class Agent:
        def __init__(self, source, algorithm, seed, **settings):
            self.config = make_config(source.name, "default", algorithm, seed=seed, **settings)
            self.config = self.config.updated(length_scale=1.0)
            self.num_timesteps = 0
            made.append(self)

        def learn(self, total, callback):
            for _ in range(10):
                self.num_timesteps += total // 10
                if not callback({}, {}):
                    break

        def close(self):
            pass

    def evaluated(agent, episodes, seed):
        assert seed >= tuning.EPISODE_SEED
        return SimpleNamespace(mean=-1000 * abs(agent.config.settings()["kl"] - 0.17))

    monkeypatch.setattr(tuning, "RSA2C", Agent)
    monkeypatch.setattr(tuning, "evaluate_policy", evaluated)
    return made


def recorded(*arguments, **options):
    """The result of a search, and what it showed of each trial."""
    shown = []
    return tune(*arguments, **options, show=lambda *trial: shown.append(trial)), shown


def test_a_factor_of_one_changes_nothing_and_others_stay_in_range():
    preset = make_config("Hopper-v5").updated(length_scale=4.5, gamma=0.993).settings()
    assert set(sought(preset)) == set(SPACE)
    for name, (_, ratio) in SPACE.items():
        assert scaled(name, preset[name], 1.0) == preset[name]
        make_config("Hopper-v5", **{name: scaled(name, preset[name], 1 / ratio)})
        make_config("Hopper-v5", **{name: scaled(name, preset[name], ratio)})
    assert scaled("kl", 0.04, 0.5) == 0.02
    assert scaled("gamma", 0.99, 2.0) == 0.98
    assert scaled("gae_lambda", 0.5, 3.0) == 0.01  # and not below 0
    assert scaled("capacity", 512, 0.7071) == 362


def test_a_setting_that_a_factor_cannot_change_is_not_sought():
    assert "policy_decay" not in sought({"policy_decay": 0.0, "kl": 0.03})
    assert "gamma" not in sought({"gamma": 1.0})
    assert set(sought({"policy_decay": 0.0, "kl": 0.03})) == {"kl"}


def test_the_search_begins_with_the_preset_and_finds_better(optuna, agents, tmp_path):
    found, shown = recorded("Pendulum-v1", out=tmp_path, trials=40)
    assert shown[0] == (0, pytest.approx(-20.0), {})
    assert found.preset_score == pytest.approx(-20.0)
    assert found.score == max(score for _, score, _ in shown if score is not None) > -3
    assert abs(found.settings["kl"] - 0.17) < 0.003
    assert found.trials == 40


def test_training_seeds_begin_at_a_thousand(optuna, agents, tmp_path):
    tune("Pendulum-v1", out=tmp_path, trials=2, seeds=3)
    assert {agent.config.seed for agent in agents} == {1000, 1001, 1002}


def test_trials_below_the_median_are_given_up_early(optuna, agents, tmp_path):
    found, shown = recorded("Pendulum-v1", out=tmp_path, trials=30, total_timesteps=1000)
    given_up = [agent for agent in agents if 0 < agent.num_timesteps < 1000]
    assert found.given_up == len(given_up) == sum(score is None for _, score, _ in shown) > 3
    # Not before two evaluations, and none of the first five trials
    assert min(agent.num_timesteps for agent in given_up) > 100 * tuning.WARMUP_EVALUATIONS
    assert all(score is not None for _, score, _ in shown[: tuning.STARTUP_TRIALS])


def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(optuna, agents, tmp_path, monkeypatch):
    _, whole = recorded("Pendulum-v1", out=tmp_path / "whole", trials=16)
    shown = []
    judge, calls = tuning.evaluate_policy, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 45:
            raise KeyboardInterrupt
        return judge(*arguments, **options)

    monkeypatch.setattr(tuning, "evaluate_policy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune("Pendulum-v1", out=tmp_path / "parts", trials=16, show=lambda *trial: shown.append(trial))
    assert len(shown) == 4
    tune("Pendulum-v1", out=tmp_path / "parts", trials=9, show=lambda *trial: shown.append(trial))
    found = tune("Pendulum-v1", out=tmp_path / "parts", trials=16, show=lambda *trial: shown.append(trial))
    assert shown == whole
    count = len(agents)
    assert tune("Pendulum-v1", out=tmp_path / "parts", trials=16) == found
    assert len(agents) == count + 1  # the look at the environment; nothing is trained again


def test_a_trial_whose_mathematics_fails_is_given_up(optuna, agents, tmp_path, monkeypatch):
    judge = tuning.evaluate_policy

    def failing(agent, *arguments, **options):
        if agent.config.settings()["kl"] > 0.15:
            raise DataError("the fit diverged")
        return judge(agent, *arguments, **options)

    monkeypatch.setattr(tuning, "evaluate_policy", failing)
    found, shown = recorded("Pendulum-v1", out=tmp_path, trials=12)
    failed = [settings["kl"] for _, score, settings in shown if score is None and settings.get("kl", 0) > 0.15]
    assert failed and found.trials == 12
    assert found.settings.get("kl", 0.15) <= 0.15


def test_a_folder_holds_one_search(optuna, agents, tmp_path):
    tune("Pendulum-v1", out=tmp_path, trials=1, total_timesteps=100)
    with pytest.raises(ConfigError, match=r"has a search with total_timesteps=100\. Ask for the same"):
        tune("Pendulum-v1", out=tmp_path, trials=1, total_timesteps=200)
    with holding(tmp_path, "search"), pytest.raises(HeldError, match="being written by another process"):
        tune("Pendulum-v1", out=tmp_path, trials=1, total_timesteps=100)


def test_a_file_that_is_no_journal_is_refused(optuna, agents, tmp_path):
    (tmp_path / tuning.JOURNAL).write_text("no journal\n")
    with pytest.raises(FileFormatError, match="is no journal of a search"):
        tune("Pendulum-v1", out=tmp_path, trials=1)


def test_mistakes_are_refused_before_anything_is_written(optuna, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(EnvError, match="Did you mean 'Pendulum-v1'"):
        tune("Pendulm-v1", out=out)
    with pytest.raises(EnvError, match="continuous actions only"):
        tune("CartPole-v1", out=out)
    for name in ("trials", "seeds", "episodes", "total_timesteps"):
        with pytest.raises(ConfigError, match=f"{name} must be at least 1, got 0"):
            tune("Pendulum-v1", out=out, **{name: 0})
    with pytest.raises(ConfigError, match="'sac' is unknown"):
        tune("Pendulum-v1", "sac", out=out)
    assert not out.exists()


def test_without_optuna_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rsa2c\[tune\]'"):
        tune("Pendulum-v1", out=tmp_path)


def test_the_result_can_be_trained_and_swept(tmp_path):
    settings = {"kl": 0.05, "value_ridge": 3.9e-08, "capacity": 200}
    found = Tuned(Search("Pendulum-v1", "rsa2c-kme", 9600, 1, 2), tmp_path, settings, -1.0, -2.0, 3, 0)
    words = shlex.split(found.flags)
    assert words == ["--kl", "0.05", "--value-ridge", "3.9e-08", "--capacity", "200"]
    path = tmp_path / "best.yaml"
    path.write_text(found.document)
    jobs = Grid.read(path).jobs()
    assert len(jobs) == 5
    for job in jobs:
        read = make_config(job.environment, job.preset, job.algorithm, **job.fields).settings()
        assert {name: read[name] for name in settings} == settings


def test_the_file_has_the_settings_alone_where_a_sweep_cannot_make_the_environment(optuna, agents, tmp_path):
    found = tune("Pendulum-v1", out=tmp_path, trials=6, env_kwargs={"g": 9.0})
    assert yaml.safe_load((tmp_path / tuning.BEST).read_text()) == found.settings
    assert tune("Pendulum-v1", out=tmp_path / "other", trials=1).search.registered


def test_the_command_trains_and_prints_the_best(optuna, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["tune", "Pendulum-v1", "--trials", "2", "--total-timesteps", "2400", "--episodes", "2"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "2 trials, 0 of them given up early" in captured.out
    assert "the preset" in captured.err.splitlines()[0]
    written = tmp_path / "runs" / "tune-Pendulum-v1" / "best.yaml"
    text = written.read_text()
    assert text in captured.out
    assert yaml.safe_load(text)["environments"] == ["Pendulum-v1"]
    assert Grid.read(written).jobs()

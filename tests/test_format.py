"""Format versions: version 1 is read for ever, older files are upgraded as they are read, newer ones refused."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
import yaml

from rsa2c import RSA2C, files
from rsa2c.algorithm.snapshot import UPGRADES, Snapshot
from rsa2c.attribution import Explanation
from rsa2c.config import AgreementGuidance
from rsa2c.errors import FileFormatError
from rsa2c.files import read_metadata, read_tensors, write_tensors
from rsa2c.files.versions import VERSION
from rsa2c.runs import folder as store
from rsa2c.runs.folder import Run
from rsa2c.runs.training import load_agent, resume_run
from strangers import DATA

STATES = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 4.0]])
ACTIONS = [-0.1917014, -0.7527033, -1.983758]
VALUES = [-231.79041214598092, -278.2901460387938, -236.14964425037036]


@pytest.fixture
def run(tmp_path):
    shutil.copytree(DATA, tmp_path / "run")
    return Run(tmp_path / "run")


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors"])
def test_files_of_version_1_predict_what_they_did(name):
    agent = RSA2C.load(DATA / name)
    assert (agent.env_id, agent.algorithm, agent.epoch) == ("Pendulum-v1", "rsa2c-kme", 6)
    np.testing.assert_allclose(agent.predict(STATES)[0][:, 0], ACTIONS, rtol=1e-5)
    np.testing.assert_allclose(agent.value(STATES)[:, 0], VALUES, rtol=1e-9)


def test_a_run_folder_of_version_1_is_read_and_resumed(run):
    assert run.read_config()["format"] == VERSION
    assert len(run.read_metrics()) == 6 == len(run.read_attributions()["epoch"])
    assert run.read_evaluations()["results"].shape == (2, 2)
    assert Explanation.load(run.path / "explanation.npz").values.shape == (3, 3, 1)
    resume_run(run.path, 480, track=False)
    assert load_agent(run).epoch == 7


def test_a_folder_from_before_there_were_versions_is_of_version_1(run):
    document = yaml.safe_load(run.config_path.read_text())
    del document["format"]
    run.config_path.write_text(yaml.safe_dump(document))
    assert run.read_config()["format"] == VERSION


def test_an_old_run_is_upgraded_resumed_and_written_as_new(run):
    tensors, metadata = read_tensors(run.state_path, "state", UPGRADES)
    old, _ = read_tensors(run.state_path, "state", {})
    assert metadata["version"] == VERSION and metadata["config"]["guidance"] == "agreement"
    assert "baseline" not in metadata["config"] and "value_step" not in metadata["config"]
    np.testing.assert_array_equal(tensors["attributions/epoch"], old["attributions/epoch"] + 1)
    assert read_metadata(run.state_path, "state")["epoch"] == metadata["epoch"], "means the same in both"
    assert run.read_config()["config"]["guidance"] == "agreement"
    before = read_version(run.model_path)
    resume_run(run.path, 480, track=False)
    assert (before, read_version(run.model_path), read_version(run.state_path)) == (1, VERSION, VERSION)
    assert load_agent(run).epoch == 7
    assert [epoch for epoch, _, _ in load_agent(run).attribution_log] == list(range(1, 8))


@pytest.mark.parametrize("name", ["run-v1-rkhs-ac", "run-v1-paper-cme", "run-v2"])
def test_runs_of_older_versions_act_as_they_did_and_go_on(name, tmp_path):
    """`expected.json` has what the library of that time predicted at its checkpoint.

    Trained on, such a run draws other noise than it would have: each environment has a stream of its own by now.
    """
    source = DATA.parent / name
    expected = json.loads((source / "expected.json").read_text())
    shutil.copytree(source, tmp_path / name)
    run, states = Run(tmp_path / name), np.array(expected["states"])
    agent = load_agent(run)
    assert agent.epoch == expected["epoch"] and agent.algorithm == run.read_config()["algorithm"]
    np.testing.assert_allclose(agent.policy_mean(states)[:, 0], expected["mean"], rtol=1e-9)
    goal = agent.state.warmup_steps + 3200
    agent.learn(goal - agent.num_timesteps)
    resume_run(run.path, goal, track=False)
    resumed = load_agent(run)
    assert resumed.epoch == agent.epoch == expected["epoch_at_3200"]
    np.testing.assert_array_equal(resumed.policy_mean(states), agent.policy_mean(states))


def test_a_kept_policy_of_version_2_is_read_too(tmp_path, monkeypatch):
    """The best policy has tensors of its own, with a scale of its own."""
    old, metadata = read_tensors(DATA.parent / "run-v2" / "state.safetensors", "state", {})
    about = {"epoch": 3, "num_timesteps": 900, "score": -1.0}
    kept = {"kept/" + name: tensor for name, tensor in old.items()}
    kept |= {"kept/normaliser/std": 2.0 * old["normaliser/std"], "kept/normaliser/mean": 2.0 * old["normaliser/mean"]}
    with monkeypatch.context() as patch:
        patch.setattr(files.versions, "VERSION", 2)
        write_tensors(tmp_path / "state.safetensors", {**old, **kept}, {**metadata, "kept": about})
    state = Snapshot.load(tmp_path / "state.safetensors").state
    assert state.kept is not None
    np.testing.assert_allclose(state.kept.policy.mean(2.0 * STATES), state.policy.mean(STATES), rtol=1e-9)
    np.testing.assert_allclose(state.kept.value(2.0 * STATES), state.value(STATES), rtol=1e-9)
    np.testing.assert_allclose(state.policy.mean.centres, old["actor/centres"], atol=1e-12)


def test_version_3_had_one_knee_and_tried_a_kept_policy_once(tmp_path, monkeypatch):
    """A model of the general rule as version 3 wrote it: `tails` in place of the knee, no count of episodes."""
    agent = RSA2C("InvertedPendulum-v5", seed=1, backend="gymnasium", n_envs=4, horizon=200, capacity=32,
                  initial_centres=16).learn(5_000)  # fmt: skip
    agent.save(tmp_path / "new.safetensors")
    tensors, metadata = read_tensors(tmp_path / "new.safetensors", "model", {})
    assert metadata.pop("knee") == 2.0
    own = {"kept/" + name: tensor for name, tensor in tensors.items()}
    about = {"epoch": 1, "num_timesteps": 800, "score": 3.0}
    with monkeypatch.context() as patch:
        patch.setattr(files.versions, "VERSION", 3)
        old = {**metadata, "tails": "logarithmic", "kept": about}
        write_tensors(tmp_path / "old.safetensors", {**with_null(tensors), **own}, old)
    state = Snapshot.load(tmp_path / "old.safetensors").state
    assert state.policy.mean.kernel.metric.knee == 1.0 and state.kept is not None
    assert (state.kept.score, state.kept.episodes) == (3.0, 12)


def test_version_4_took_the_floor_of_weights_as_it_was_set(tmp_path, monkeypatch):
    agent = RSA2C("Pendulum-v1", seed=1, n_envs=2, attribution_every=1, attribution_warmup=1).learn(1_500)
    agent.save(tmp_path / "new.safetensors")
    tensors, metadata = read_tensors(tmp_path / "new.safetensors", "model", {})
    assert 0.0 < tensors.pop("importances/explained").min() < 1.0
    with monkeypatch.context() as patch:
        patch.setattr(files.versions, "VERSION", 4)
        write_tensors(tmp_path / "old.safetensors", with_null(tensors), metadata)
    importances = Snapshot.load(tmp_path / "old.safetensors").state.importances
    np.testing.assert_array_equal(importances.explained, 1.0)


def with_null(tensors, level=0.0):
    """The tensors as they were while shadow features showed a null level."""
    tensors = dict(tensors)
    moments = tensors.pop("importances/agreed")
    del tensors["importances/alone"], tensors["importances/moved"]
    return {**tensors, "importances/moments": moments, "importances/null": np.full(len(moments), level)}


def test_version_5_knew_a_null_level_and_no_doubt(tmp_path, monkeypatch):
    agent = RSA2C("Pendulum-v1", seed=1, n_envs=2, attribution_every=1, attribution_warmup=1).learn(3_000)
    agent.save(tmp_path / "new.safetensors")
    tensors, metadata = read_tensors(tmp_path / "new.safetensors", "model", {})
    level = 0.25 * float(np.median(agent.importances.agreed))
    with monkeypatch.context() as patch:
        patch.setattr(files.versions, "VERSION", 5)
        old = {**metadata, "config": {**metadata["config"], "guidance": "shadow"}}
        write_tensors(tmp_path / "old.safetensors", with_null(tensors, level), old)
    snapshot = Snapshot.load(tmp_path / "old.safetensors")
    importances, expected = snapshot.state.importances, np.maximum(agent.importances.agreed - 2 * level, 0.0)
    np.testing.assert_allclose(importances.agreed, expected)
    np.testing.assert_array_equal(importances.alone, importances.agreed)
    assert expected.any() and isinstance(snapshot.config.guidance, AgreementGuidance)
    np.testing.assert_array_equal(importances.moved, 1.0)


def test_version_6_did_not_ask_what_actions_move(tmp_path, monkeypatch):
    agent = RSA2C("Pendulum-v1", seed=1, n_envs=2, attribution_every=1, attribution_warmup=1).learn(3_000)
    agent.save(tmp_path / "new.safetensors")
    tensors, metadata = read_tensors(tmp_path / "new.safetensors", "model", {})
    del tensors["importances/moved"]
    with monkeypatch.context() as patch:
        patch.setattr(files.versions, "VERSION", 6)
        write_tensors(tmp_path / "old.safetensors", tensors, metadata)
    again = RSA2C.load(tmp_path / "old.safetensors")
    np.testing.assert_array_equal(again.importances.agreed, agent.importances.agreed)
    np.testing.assert_array_equal(again.importances.moved, 1.0)
    again.learn(3_000)
    assert again.importances.updates > agent.importances.updates and np.any(again.importances.moved != 1.0)


def read_version(path):
    content = path.read_bytes()
    found = re.search(rb'\\"version\\":(\d+)', content[:4096])
    return int(found[1]) if found else None


def test_upgrades_come_in_order_and_once(run, monkeypatch):
    monkeypatch.setattr(files.versions, "VERSION", 6)

    def note(number):
        return lambda t, m: (t, {**m, "steps": [*m.get("steps", []), number]})

    # nothing changed from 2 to 3, nor from 4 on
    assert read_tensors(run.model_path, None, {number: note(number) for number in (3, 1)})[1]["steps"] == [1, 3]


def test_an_upgrade_that_finds_a_damaged_file_says_so(run, monkeypatch):
    monkeypatch.setitem(store.UPGRADES, 1, lambda document: document["no such"])
    with pytest.raises(FileFormatError, match=rf"cannot be upgraded to version {VERSION}.*no such"):
        read_tensors(run.model_path, None, {1: lambda tensors, metadata: (tensors["no such"], metadata)})
    with pytest.raises(FileFormatError, match=rf"cannot be upgraded to version {VERSION}.*no such"):
        run.read_config()


def test_a_setting_of_version_1_that_cannot_be_kept_is_named(run):
    document = yaml.safe_load(run.config_path.read_text())
    document["config"]["null_factor"] = 3.0
    run.config_path.write_text(yaml.safe_dump(document))
    with pytest.raises(FileFormatError, match=r"null_factor=3.0, which can no longer be set"):
        run.read_config()


@pytest.mark.parametrize("version", [VERSION + 1, 0, -1, True, "1", None])
def test_a_version_that_is_not_ours_is_refused_with_the_remedy(run, version):
    document = yaml.safe_load(run.config_path.read_text())
    run.config_path.write_text(yaml.safe_dump({**document, "format": version}))
    says = "pip install -U rsa2c" if version == VERSION + 1 else "format version is"
    with pytest.raises(FileFormatError, match=says):
        run.read_config()

"""Format versions: version 1 is read for ever, older files are upgraded as they are read, newer ones refused."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import yaml

from rsa2c import RSA2C, files
from rsa2c.attribution import Explanation
from rsa2c.errors import FileFormatError
from rsa2c.files import read_metadata, read_tensors
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
    assert run.read_config()["format"] == 1
    assert len(run.read_metrics()) == 6 == len(run.read_attributions()["epoch"])
    assert run.read_evaluations()["results"].shape == (2, 2)
    assert Explanation.load(run.path / "explanation.npz").values.shape == (3, 3, 1)
    resume_run(run.path, 280, track=False)
    assert load_agent(run).epoch == 7


def test_a_folder_from_before_there_were_versions_is_of_version_1(run):
    document = yaml.safe_load(run.config_path.read_text())
    del document["format"]
    run.config_path.write_text(yaml.safe_dump(document))
    assert run.read_config()["format"] == 1


@pytest.fixture
def version_2(monkeypatch):
    """A later rsa2c, in which sigma is a tensor and the environment has a list of names."""

    def tensors_2(tensors, metadata):
        return {**tensors, "sigma": np.array([metadata["sigma"]])}, {**metadata, "upgraded": True}

    monkeypatch.setattr(files.versions, "VERSION", 2)
    monkeypatch.setitem(files.UPGRADES, 1, tensors_2)
    monkeypatch.setitem(store.UPGRADES, 1, lambda document: {**document, "environments": [document["environment"]]})


def test_an_old_run_is_upgraded_resumed_and_written_as_new(run, version_2):
    tensors, metadata = read_tensors(run.state_path, "state")
    assert tensors["sigma"] == metadata["sigma"] and metadata["upgraded"] and metadata["version"] == 2
    assert read_metadata(run.state_path, "state") == metadata, "upgraded, too"
    assert run.read_config()["environments"] == ["Pendulum-v1"]
    before = read_version(run.model_path)
    resume_run(run.path, 280, track=False)
    assert (before, read_version(run.model_path), read_version(run.state_path)) == (1, 2, 2)
    assert yaml.safe_load(run.config_path.read_text())["format"] == 2
    assert load_agent(run).epoch == 7


def read_version(path):
    content = path.read_bytes()
    return 2 if b'\\"version\\":2' in content[:4096] else 1 if b'\\"version\\":1' in content[:4096] else None


def test_upgrades_come_in_order_and_once(run, monkeypatch):
    monkeypatch.setattr(files.versions, "VERSION", 4)
    for number in (3, 1):  # nothing changed from 2 to 3
        monkeypatch.setitem(
            files.UPGRADES, number, lambda t, m, number=number: (t, {**m, "steps": [*m.get("steps", []), number]})
        )
    assert read_tensors(run.model_path)[1]["steps"] == [1, 3]


def test_an_upgrade_that_finds_a_damaged_file_says_so(run, monkeypatch):
    monkeypatch.setattr(files.versions, "VERSION", 2)
    monkeypatch.setitem(files.UPGRADES, 1, lambda tensors, metadata: (tensors["no such"], metadata))
    monkeypatch.setitem(store.UPGRADES, 1, lambda document: document["no such"])
    with pytest.raises(FileFormatError, match=r"cannot be upgraded to version 2.*no such"):
        read_tensors(run.model_path)
    with pytest.raises(FileFormatError, match=r"cannot be upgraded to version 2.*no such"):
        run.read_config()


@pytest.mark.parametrize("version", [2, 0, -1, True, "1", None])
def test_a_version_that_is_not_ours_is_refused_with_the_remedy(run, version):
    document = yaml.safe_load(run.config_path.read_text())
    run.config_path.write_text(yaml.safe_dump({**document, "format": version}))
    with pytest.raises(FileFormatError, match=r"pip install -U rsa2c" if version == 2 else "format version is"):
        run.read_config()

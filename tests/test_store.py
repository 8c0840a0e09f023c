"""Files are whole or absent, equal content gives equal bytes, and damage is an error with a name."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from rsa2c import files
from rsa2c.config import Config
from rsa2c.errors import DataError, FileFormatError, NotFoundError, RunExistsError
from rsa2c.files import StorageError, disk, read_metadata, read_tensors, versions, write_tensors
from rsa2c.runs.folder import Run, find_runs
from rsa2c.runs.names import make_run_id

TENSORS = {
    "b": np.arange(6.0).reshape(2, 3),
    "a": np.array([1, 2], dtype=np.int64),
    "empty": np.zeros((0, 3)),
    "nan": np.array([np.nan, np.inf]),
}
METADATA = {"kind": "model", "z": [1, 0.1, None], "names": {"cos θ": 1}}
EXTRA = {"environment": "Pendulum-v1", "algorithm": "rsa2c-kme", "preset": "default", "total_timesteps": 10}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    write_tensors(path, TENSORS, METADATA)
    return path


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "runs", "a__b__s0", Config(), EXTRA)


# Tensor files


def test_what_is_written_is_read(model):
    tensors, metadata = read_tensors(model, "model")
    assert metadata == {**METADATA, "format": "rsa2c", "version": versions.VERSION}
    assert set(tensors) == set(TENSORS)
    for name, array in TENSORS.items():
        np.testing.assert_array_equal(tensors[name], array)
        assert tensors[name].dtype == array.dtype
        assert tensors[name].flags.writeable


def test_views_are_saved_as_they_look(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    write_tensors(tmp_path / "m", {"t": array.T, "s": array[:, ::2], "zero_d": np.array(2.0)}, METADATA)
    tensors, _ = read_tensors(tmp_path / "m")
    np.testing.assert_array_equal(tensors["t"], array.T)
    np.testing.assert_array_equal(tensors["s"], array[:, ::2])
    assert tensors["zero_d"].shape == ()


def test_equal_content_gives_equal_bytes_in_every_process(tmp_path, model):
    script = (
        "import sys, numpy as np; sys.path.insert(0, 'tests')\n"
        "from test_store import TENSORS, METADATA\n"
        "from rsa2c.files import write_tensors\n"
        "backwards = lambda d: dict(reversed(d.items()))\n"
        "write_tensors(sys.argv[1], backwards(TENSORS), backwards(METADATA))"
    )
    for hash_seed in ("1", "2"):
        other = tmp_path / f"other{hash_seed}"
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run([sys.executable, "-c", script, str(other)], check=True, env=env)
        assert other.read_bytes() == model.read_bytes()


@pytest.mark.parametrize("metadata", [{}, {"kind": "model", "x": np.nan}, {"kind": "model", "x": object()}])
def test_metadata_that_is_no_json_is_refused(tmp_path, metadata):
    with pytest.raises(DataError, match="metadata must"):
        write_tensors(tmp_path / "m", TENSORS, metadata)
    assert not list(tmp_path.iterdir())


def _saved(text: str | None) -> bytes:
    return safetensors.numpy.save(TENSORS, None if text is None else {"rsa2c": text})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "truncated"),
        (b"\x80\x04K\x01.", "truncated"),
        (b"\xff" * 64, "truncated, damaged or not a safetensors"),
        ((2**40).to_bytes(8, "little") + b"{}", "truncated, damaged"),
        (_saved(None), "no rsa2c metadata"),
        (_saved("{"), "not JSON"),
        (_saved('{"format":"rsa2c","version":1,"kind":"model","x":NaN}'), "NaN is not allowed"),
        (_saved("[" * 100_000), "not JSON"),
        (_saved("[]"), "another format"),
        (_saved('{"format":"other","version":1}'), "another format"),
        (_saved(f'{{"format":"rsa2c","version":{versions.VERSION + 1},"kind":"model"}}'), "pip install -U rsa2c"),
        (_saved('{"format":"rsa2c","version":true,"kind":"model"}'), "version is True"),
        (_saved('{"format":"rsa2c","version":1,"kind":"state"}'), "of kind 'state'"),
    ],
)
def test_foreign_and_damaged_files_are_refused_by_name(tmp_path, content, says):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=says) as caught:
        read_tensors(path, "model")
    assert str(path) in str(caught.value)


def test_every_truncation_is_refused(model, tmp_path):
    content = model.read_bytes()
    short = tmp_path / "short"
    for length in range(len(content)):
        short.write_bytes(content[:length])
        with pytest.raises(FileFormatError):
            read_tensors(short)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8))
def test_flipped_bytes_never_give_another_error(tmp_path_factory, flips):
    content = bytearray(files.tensor_bytes(TENSORS, METADATA))
    for position, byte in flips:
        content[position % len(content)] = byte
    path = tmp_path_factory.mktemp("flip") / "m"
    path.write_bytes(content)
    try:
        tensors, _ = read_tensors(path, "model")
    except FileFormatError:
        return
    assert sum(array.nbytes for array in tensors.values()) <= len(content)


def test_missing_file_names_its_neighbour(model):
    with pytest.raises(NotFoundError, match=r"Did you mean .*model\.safetensors"):
        read_tensors(model.with_name("modle.safetensors"))


def test_metadata_is_read_from_the_header_alone(model, monkeypatch):
    expected = read_tensors(model, "model")[1]
    monkeypatch.setattr(safetensors.numpy, "load", lambda *_: pytest.fail("tensors were read"))
    assert read_metadata(model, "model") == expected
    content = model.read_bytes()
    cases = ((content[:-1], "truncated"), (content[:20], "truncated"), (_saved(None), "no rsa2c metadata"))
    for damaged, says in cases:
        model.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=says):
            read_metadata(model)
    with pytest.raises(NotFoundError, match=r"Did you mean .*model\.safetensors"):
        read_metadata(model.with_name("modle.safetensors"))
    with pytest.raises(StorageError, match="is a folder"):
        read_metadata(model.parent)


def test_lines_are_appended_after_whole_ones(tmp_path):
    path = tmp_path / "log.csv"
    files.append_lines(path, "a\nb\n")
    with open(path, "a") as file:
        file.write("to")
    files.append_lines(path, "c\n")
    assert path.read_text() == "a\nb\nc\n"
    with pytest.raises(StorageError, match="could not be written"):
        files.append_lines(tmp_path, "a\n")


def test_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(StorageError, match="is a folder, a file is needed"):
        read_tensors(tmp_path)


# Atomic writes


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_write_that_fails_keeps_the_old_file_and_leaves_nothing(model, monkeypatch, call):
    before = model.read_bytes()

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    target = (disk, "open") if call == "open" else (os, call)
    monkeypatch.setattr(*target, fail, raising=False)
    with pytest.raises(StorageError, match=r"model\.safetensors could not be written: No space left"):
        write_tensors(model, {"x": np.zeros(3)}, METADATA)
    monkeypatch.undo()
    assert model.read_bytes() == before
    assert [path.name for path in model.parent.iterdir()] == [model.name]


def test_a_failing_write_call_keeps_the_old_file(model, monkeypatch):
    before = model.read_bytes()

    class FullDisk(io.FileIO):
        def write(self, content):
            super().write(content[: len(content) // 2])
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "open", lambda path, mode: FullDisk(path, "w"), raising=False)
    with pytest.raises(StorageError, match="No space left"):
        write_tensors(model, {"x": np.zeros(3)}, METADATA)
    assert model.read_bytes() == before
    assert [path.name for path in model.parent.iterdir()] == [model.name]


# NPZ


def test_evaluations_are_as_sb3_writes_them(run):
    run.write_evaluations(np.array([10, 20]), np.zeros((2, 3)), np.ones((2, 3), dtype=np.int64))
    with np.load(run.evaluations_path) as archive:
        assert set(archive) == {"timesteps", "results", "ep_lengths"}
    assert run.read_evaluations()["results"].shape == (2, 3)


def _npz(member: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name in ("timesteps", "results", "ep_lengths"):
            archive.writestr(f"{name}.npy", member)
    return buffer.getvalue()


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_arrays_that_would_run_code_or_fill_memory_are_refused(run):
    header = _npy(np.zeros(3)).replace(b"(3,)", b"(9000000000,)")
    contents = [
        b"",
        b"PK\x03\x04",
        _npz(b"not an array"),
        _npz(_npy(np.array([{}], dtype=object))),
        _npz(header),
        _npz(_npy(np.zeros(100_000)), zipfile.ZIP_DEFLATED),
    ]
    for content in contents:
        run.evaluations_path.write_bytes(content)
        with pytest.raises(FileFormatError, match=r"evaluations\.npz"):
            run.read_evaluations()


# Run folders


def test_run_ids():
    assert make_run_id("_plants:heater", "rsa2c-kme", "default", Config()).startswith("plants-heater__")
    plain = make_run_id("Pendulum-v1", "rsa2c-kme", "default", Config())
    assert plain == "Pendulum-v1__rsa2c-kme__default__n0__s0"
    noisy = Config.of(noise_variance=0.01, seed=3, distractors=10)
    assert make_run_id("rsa2c/LQR-v0", "advanced-ac", "paper", noisy) == (
        "rsa2c-LQR-v0__advanced-ac__paper__n0.01__s3__d10"
    )
    twin = Config.of(distractors=10, distractor_kind="twin")
    assert make_run_id("Pendulum-v1", "rsa2c-kme", "default", twin).endswith("__n0__s0__d10-twin")


@pytest.mark.parametrize("run_id", ["../x", "a/b", "/etc", "..", "", "a\\b", "a\0b", ".h", "a..b", "a\n"])
def test_run_ids_that_leave_the_folder_are_refused(tmp_path, run_id):
    with pytest.raises(DataError, match="is refused"):
        Run.create(tmp_path, run_id, Config(), EXTRA)
    assert not list(tmp_path.iterdir())


def test_config_yaml_holds_everything(run):
    document = run.read_config()
    assert document["environment"] == "Pendulum-v1"
    assert Config.of(document["config"]) == Config()
    assert document["versions"]["numpy"] == np.__version__
    assert "commit" in document


def test_an_existing_run_is_never_overwritten(run):
    with pytest.raises(RunExistsError, match=r"rsa2c resume .*a__b__s0(.|\n)*--out"):
        Run.create(run.path.parent, run.path.name, Config(), EXTRA)


def test_a_folder_that_never_began_is_taken_over(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".config.yaml.99.tmp").touch()
    run = Run.create(tmp_path, "a", Config(), EXTRA)
    assert {path.name for path in run.path.iterdir()} == {"config.yaml", ".lock"}


def test_open_names_near_runs(run, monkeypatch):
    monkeypatch.chdir(run.path.parent.parent)
    assert Run.open("a__b__s0").path.name == "a__b__s0"
    with pytest.raises(NotFoundError, match=r"Did you mean runs.a__b__s0\?"):
        Run.open("runs/a__b__s1")
    with pytest.raises(NotFoundError, match="not a run folder"):
        Run.open("runs")
    assert [found.path.name for found in find_runs("runs")] == ["a__b__s0"]


@pytest.mark.parametrize(
    "text", ["", "[1", "a: 1", "environment: 3\nconfig: {}", "!!python/object/apply:os.getcwd []", "\xff"]
)
def test_damaged_config_yaml(run, text):
    run.config_path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"config\.yaml"):
        run.read_config()


def test_a_second_process_is_refused(run):
    script = (
        "import sys; from rsa2c.runs.folder import Run\n"
        "with Run(sys.argv[1]).locked(): print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(StorageError, match="another process"), run.locked():
            pass
        other.kill()
    with run.locked():
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="--out"):
        Run.create(tmp_path / "file", "a", Config(), EXTRA)


def test_metrics_survive_a_torn_line_and_rewind(run):
    for epoch in range(1, 6):
        run.append_metrics({"epoch": epoch, "ep_rew_mean": float("nan"), "seconds": 0.1 * epoch})
    with open(run.metrics_path, "a") as file:
        file.write("6,1.")
    assert [row["epoch"] for row in run.read_metrics()] == ["1", "2", "3", "4", "5"]
    run.write_evaluations(np.array([200, 400]), np.zeros((2, 1)), np.zeros((2, 1)))
    run.write_attributions(np.arange(1, 6), np.array(["cos θ", "ω"]), np.zeros((5, 2)), np.ones((5, 2)))
    run.rewind(epoch=3, timesteps=300)
    assert [row["epoch"] for row in run.read_metrics()] == ["1", "2", "3"]
    assert run.read_evaluations()["timesteps"].tolist() == [200]
    assert run.read_attributions()["epoch"].tolist() == [1, 2, 3]
    assert run.read_attributions()["feature_names"].tolist() == ["cos θ", "ω"]
    run.append_metrics({"epoch": 4, "ep_rew_mean": 1.0, "seconds": 0.5, "unknown": 1})
    assert run.read_metrics()[-1] == {"epoch": "4", "ep_rew_mean": "1.0", "seconds": "0.5"}


def test_rewinding_to_the_start_leaves_a_fresh_file(run):
    run.append_metrics({"epoch": 1})
    run.rewind(0, 0)
    run.append_metrics({"epoch": 1, "other": 2})
    assert run.read_metrics() == [{"epoch": "1", "other": "2"}]


@pytest.mark.parametrize("text", ["epoch\nx\n", "a,b\n1,2\n", "epoch\n\n1\n"])
def test_files_that_do_not_fit_together_are_named(run, text):
    run.metrics_path.write_text(text)
    run.write_evaluations(np.arange(3), np.zeros((2, 1)), np.zeros((2, 1)))
    with pytest.raises(FileFormatError, match="do not fit together"):
        run.rewind(1, 1)


def test_metadata_is_canonical_json(model):
    content = model.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    text = header["__metadata__"]["rsa2c"]
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))

"""Explanations of a file: those of `explain`, in constant memory, and the same bytes however often it was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc

import numba
import numpy as np
import pytest

import rsa2c
from faults import Disk
from rsa2c.attribution import ExplainedDataset, dataset, explain, explain_dataset
from rsa2c.attribution.models import Expansion
from rsa2c.cli import main
from rsa2c.errors import ConfigError, DataError, FileFormatError, MissingExtraError, NotFoundError, RunExistsError
from rsa2c.files import HeldError, StorageError, holding
from rsa2c.kernel.kernels import RBF, kernel_from_name

PENDULUM = "zoo:Pendulum-v1"


def problem(d=3, states=50, outputs=2, centres=4, background=6):
    rng = np.random.default_rng(d)
    kernel = kernel_from_name("rbf", 0.8 * np.sqrt(d), rng.uniform(0.2, 3.0, d))
    x, b, c = (rng.normal(size=(count, d)) for count in (states, background, centres))
    names = tuple(f"f{o}" for o in range(outputs))
    return Expansion(kernel, c, rng.normal(size=(centres, outputs)), rng.normal(size=outputs), names), x, b


def written(path, states):
    np.savez(path, observations=states)
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


@pytest.mark.parametrize("d, options", [
    (3, {}),
    (9, {}),
    (9, {"nodes": "exact", "groups": {"g": ["x0", "x4"]}, "outputs": ["f1"]}),
    (4, {"interactions": True}),
    (4, {"method": "cme"}),
    (12, {"method": "cme", "permutations": 4}),
])  # fmt: skip
@pytest.mark.parametrize("chunk", [7, 50, 1000, None])
def test_a_file_is_explained_as_its_states_are(d, options, chunk, tmp_path):
    function, x, background = problem(d)
    one = explain(function, x, background, **options)
    done = explain_dataset(
        function, written(tmp_path / "a.npz", x), background, tmp_path / "out", chunk=chunk, **options
    )
    many = done.load()
    assert (many.game, many.feature_names, many.output_names) == (one.game, one.feature_names, one.output_names)
    np.testing.assert_array_equal(many.data, one.data)
    exactly = options.get("method") != "cme"  # whose matrix products are rounded as the block's size has it
    for name in ("values", "base_values", "efficiency_residual", "std_error", "interactions"):
        here, there = getattr(one, name), getattr(many, name)
        if exactly and name in ("values", "interactions") and here is not None:
            np.testing.assert_array_equal(there, here)
        elif here is None:
            assert there is None
        else:
            np.testing.assert_allclose(there, here, rtol=0, atol=1e-12)
    np.testing.assert_allclose(done.importances, one.importances, rtol=1e-12)
    assert done.largest_residual == np.abs(many.efficiency_residual).max()
    assert [name for name, _ in done.top(3)] == [name for name, _ in one.top(3)]
    assert len(many[3:5]) == 2 and len(done) == 50


def test_nodes_are_chosen_once_among_states_of_the_whole_file(tmp_path, monkeypatch):
    function, x, background = problem(24, states=300)
    x[:, 0] = np.linspace(0, 3, 300)
    monkeypatch.setattr(dataset, "CHOICE_STATES", 30)
    done = explain_dataset(function, written(tmp_path / "a.npz", x), background, tmp_path / "out", chunk=64)
    assert done.game == explain(function, x[dataset.spread(300, 30)], background).game
    exact = explain(function, x, background, nodes="exact").values
    np.testing.assert_allclose(done.load().values, exact, rtol=0, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_memory_does_not_grow_with_the_file(save, tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "SURVEY_NUMBERS", 6000)
    function, x, background = problem(3, centres=2, background=2, outputs=1)
    explain(function, x, background)  # compiles
    peaks = []
    for rows in (30_000, 240_000):
        save(tmp_path / "a.npz", observations=np.random.default_rng(0).normal(size=(rows, 3)))
        tracemalloc.start()
        done = explain_dataset(function, tmp_path / "a.npz", background, tmp_path / str(rows), chunk=2000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(done) == rows
    added = 210_000 * 3 * 8
    assert peaks[1] - peaks[0] < 0.02 * added, "buffers vary by some kilobytes"
    assert peaks[0] < added / 2


def test_chunks_are_as_large_as_memory_allows():
    for d, outputs, options in ((3, 1, {}), (105, 8, {}), (24, 4, {"interactions": True})):
        function, _, background = problem(d, outputs=outputs)
        arguments = (function, background, "kme", None, None, None, options.get("interactions", False), {})
        size = dataset._chunk(dataset.Prepared.of(*arguments))
        numbers = 4 * (d + d * outputs + outputs) + (4 * d * d * outputs if options else 0)
        assert size % dataset.FEWEST_STATES == 0
        assert size == dataset.FEWEST_STATES or 0.5 < size * numbers * 8 / dataset.CHUNK_BYTES["cpu"] <= 1


def test_the_number_of_cores_changes_no_byte(tmp_path):
    function, x, background = problem(9, states=600)
    file, before = written(tmp_path / "a.npz", x), numba.get_num_threads()
    for count in (1, before):
        numba.set_num_threads(count)
        explain_dataset(function, file, background, tmp_path / str(count))
    assert contents(tmp_path / "1") == contents(tmp_path / str(before))


class Death(BaseException):
    pass


def died():
    raise Death


def test_a_death_at_any_call_of_the_disk_changes_no_byte(tmp_path):
    function, x, background = problem(3, states=10)
    file = written(tmp_path / "a.npz", x)

    def explained(out):
        return explain_dataset(function, file, background, out, chunk=4)

    explained(tmp_path / "undisturbed")
    expected = contents(tmp_path / "undisturbed")
    assert set(expected) == {"values.npy", "base_values.npy", "data.npy", "efficiency_residual.npy", "explanation.json"}
    with Disk(tmp_path / "counted").watched() as disk:
        explained(tmp_path / "counted")
    assert len(disk.calls) > 40
    for at in range(len(disk.calls)):
        out = tmp_path / "out"
        with pytest.raises(Death), Disk(out, at, died).watched():
            explained(out)
        if out.exists():
            (out / ".progress.json.1.tmp").write_bytes(b"left by a process that could not tidy up")
        explained(out)
        assert contents(out) == expected, f"died at {disk.calls[at]}, number {at}"
        shutil.rmtree(out)


def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path):
    function, x, background = problem(3, states=10)
    file, out = written(tmp_path / "a.npz", x), tmp_path / "out"

    def full():
        raise OSError(28, "No space left on device")

    with (
        pytest.raises(StorageError, match=r"No space left on device. Free some space"),
        Disk(out, 30, full, lasting=True).watched(),
    ):
        explain_dataset(function, file, background, out, chunk=2)
    with pytest.raises(NotFoundError, match=r"not finished: \d+ of 10 states are explained. Run what began it again"):
        ExplainedDataset.open(out)
    rows = json.loads((out / "progress.json").read_text())["rows"]
    assert 0 < rows < 10
    explain_dataset(function, file, background, out, chunk=2)
    explain_dataset(function, file, background, tmp_path / "undisturbed", chunk=2)
    assert contents(out) == contents(tmp_path / "undisturbed")


SCRIPT = """
import sys, rsa2c
rsa2c.load("zoo:Pendulum-v1").explain_dataset(sys.argv[1], sys.argv[2], of="action", chunk=256, progress=True)
"""


def test_a_killed_process_is_continued_to_the_same_bytes(tmp_path):
    rng = np.random.default_rng(0)
    angle = rng.uniform(-np.pi, np.pi, 5000)
    states = np.column_stack([np.cos(angle), np.sin(angle), rng.uniform(-8, 8, 5000)])
    file, out = written(tmp_path / "a.npz", states), tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, file, out], stderr=subprocess.DEVNULL)
    begun = time.monotonic()
    while time.monotonic() - begun < 120 and process.poll() is None:
        if (out / "progress.json").exists() and json.loads((out / "progress.json").read_text())["rows"] >= 256:
            break
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    rows = json.loads((out / "progress.json").read_text())["rows"]
    assert 256 <= rows < 5000
    again = subprocess.run([sys.executable, "-c", SCRIPT, file, out], stderr=subprocess.PIPE, text=True, check=True)
    assert f"continues after {rows:,} of 5,000 states" in again.stderr
    agent = rsa2c.load(PENDULUM)
    agent.explain_dataset(file, tmp_path / "undisturbed", of="action", chunk=256)
    assert contents(out) == contents(tmp_path / "undisturbed")
    values = ExplainedDataset.open(out).load().values
    np.testing.assert_array_equal(values, agent.explain(states, of="action").values)


def interrupted(monkeypatch, after, error):
    """Explaining raises this error after some chunks."""
    really, count = dataset.Progress.add, [0]

    def add(self, *arguments):
        if count[0] == after:
            raise error
        count[0] += 1
        really(self, *arguments)

    monkeypatch.setattr(dataset.Progress, "add", add)


def test_ctrl_c_says_how_to_continue(tmp_path, monkeypatch):
    function, x, background = problem()
    with monkeypatch.context() as patch:
        interrupted(patch, 2, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt, match=r"20 of 50 states are explained in .*out. Run the same again"):
            explain_dataset(function, written(tmp_path / "a.npz", x), background, tmp_path / "out", chunk=10)
    assert len(explain_dataset(function, tmp_path / "a.npz", background, tmp_path / "out", chunk=10)) == 50


def test_what_is_continued_must_be_the_same(tmp_path, monkeypatch):
    function, x, background = problem()
    other = Expansion(function.kernel, function.centres, 2 * function.coefficients, function.offset, ("f0", "f1"))
    stretched = Expansion(RBF(function.kernel.length_scale * 2, function.kernel.weights), function.centres,
                          function.coefficients, function.offset, ("f0", "f1"))  # fmt: skip
    file, out = written(tmp_path / "a.npz", x), tmp_path / "out"

    def again(which=function, behind=background, path=file, **options):
        return explain_dataset(which, path, behind, out, **{"chunk": 10, **options})

    changed = x.copy()
    changed[49, 2] += 1e-12
    refusals = (
        ({"path": written(tmp_path / "b.npz", changed)}, "other states: the dataset has changed"),
        ({"path": written(tmp_path / "c.npz", x[:-1])}, "begun with 50 states, but the dataset now has 49"),
        ({"which": other}, "another agent, function or background"),
        ({"which": stretched}, "another agent, function or background"),
        ({"behind": background[1:]}, "another agent, function or background"),
        ({"nodes": "exact"}, "nodes None, now it is exact"),
        ({"method": "cme"}, "method kme, now it is cme"),
        ({"outputs": ["f1"]}, r"outputs \['f0', 'f1'\], now it is \['f1'\]"),
        ({"chunk": 11}, "chunk 10, now it is 11"),
    )
    for unfinished in (True, False):
        with monkeypatch.context() as patch:
            if unfinished:
                interrupted(patch, 2, KeyboardInterrupt)
                with pytest.raises(KeyboardInterrupt):
                    again()
            else:
                again()
        before = contents(out)
        for change, message in refusals:
            with pytest.raises(RunExistsError, match=message + ".*[Cc]hoose another folder"):
                again(**change)
        assert contents(out) == before
    shutil.move(file, tmp_path / "moved.npz")
    assert len(again(path=tmp_path / "moved.npz")) == 50
    assert contents(out) == before


def test_states_that_are_not_finite_are_named_by_row(tmp_path, monkeypatch):
    function, x, background = problem(3, states=400)
    monkeypatch.setattr(dataset, "SURVEY_NUMBERS", 300)
    x[150, 1], x[399, 0], x[399, 2] = np.nan, np.inf, -np.inf
    file = written(tmp_path / "a.npz", x)
    named = "row 150: speed nan; row 399: angle inf, load -inf"
    with pytest.raises(DataError, match=rf"2 of 400 rows, counted from 0, are not. {named}. Drop or fill these rows"):
        explain_dataset(function, file, background, tmp_path / "out", feature_names=["angle", "speed", "load"])
    assert not (tmp_path / "out").exists()
    x[:] = np.nan
    with pytest.raises(DataError, match=r"400 of 400 rows.*row 4: .*; \.\.\.\. Drop"):
        explain_dataset(function, written(tmp_path / "a.npz", x), background, tmp_path / "out")


def test_bad_arguments_leave_no_folder(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    function, x, background = problem()
    file = written(tmp_path / "a.npz", x)
    for options, error, message in (
        ({"rng": np.random.default_rng(0), "method": "cme"}, ConfigError, "leave out rng"),
        ({"chunk": 0}, ConfigError, "chunk must be at least 1, got 0"),
        ({"device": "cuda", "interactions": True}, ConfigError, "interactions are computed on the processor"),
        ({"device": "cuda"}, MissingExtraError, r"rsa2c\[gpu\]"),
        ({"ridge": 1.0}, ConfigError, "ridge is a setting of method='cme'"),
        ({"columns": ["states"]}, DataError, "no column of numbers 'states'"),
        ({"feature_names": ["a"]}, DataError, "one name for each of the 3 features"),
    ):
        with pytest.raises(error, match=message):
            explain_dataset(function, file, background, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    for out, message in (("mine", r"holds something else \(notes.txt\)"), ("a.npz", "is a file; .* are a folder")):
        with pytest.raises(RunExistsError, match=message):
            explain_dataset(function, file, background, tmp_path / out)


def test_two_processes_do_not_share_a_folder(tmp_path):
    function, x, background = problem()
    (tmp_path / "out").mkdir()
    with holding(tmp_path / "out", "x"), pytest.raises(HeldError, match="being written by another process"):
        explain_dataset(function, written(tmp_path / "a.npz", x), background, tmp_path / "out")


def test_a_damaged_folder_is_named(tmp_path, monkeypatch):
    function, x, background = problem()
    file, out = written(tmp_path / "a.npz", x), tmp_path / "out"
    with monkeypatch.context() as patch:
        interrupted(patch, 3, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            explain_dataset(function, file, background, out, chunk=10)
    kept = (out / "values.npy").read_bytes()
    for damage in (lambda path: path.write_bytes(kept[:300]), lambda path: path.unlink()):
        damage(out / "values.npy")
        with pytest.raises(FileFormatError, match=r"values.npy does not hold the 30 rows"):
            explain_dataset(function, file, background, out, chunk=10)
    (out / "values.npy").write_bytes(kept)
    done = explain_dataset(function, file, background, out, chunk=10)
    (out / "values.npy").write_bytes(kept)
    with pytest.raises(FileFormatError, match=r"values.npy is damaged or missing"):
        done.load()
    (out / "explanation.json").write_text("{}")
    with pytest.raises(FileFormatError, match=r"explanation.json is damaged"):
        ExplainedDataset.open(out)
    with pytest.raises(NotFoundError, match=r"holds no explanations of a dataset"):
        ExplainedDataset.open(tmp_path)


def test_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    agent = rsa2c.load(PENDULUM)
    np.savez("log.npz", pose=agent.background[:20, :2], speed=agent.background[:20, 2])
    command = ["explain", PENDULUM, "--of", "action", "--dataset", "log.npz", "--columns", "pose", "speed"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "action at 20 states of log.npz" in printed.out and "columns   pose, speed" in printed.out
    assert "20 of 20 states" in printed.err
    folder = tmp_path / "explain_action_kme_log-Pendulum-v1"
    values = ExplainedDataset.open(folder).load().values
    np.testing.assert_array_equal(values, agent.explain(agent.background[:20], of="action").values)
    before = contents(folder)
    assert main(command) == 0
    assert contents(folder) == before
    capsys.readouterr()
    for arguments, message in (
        (["--dataset", "log.npz"], "missing are cos θ, sin θ, angular velocity. It has pose, speed"),
        (["--dataset", "log.npz", "--states", "3"], "give one of them"),
        (["--columns", "pose"], "give --dataset FILE, or leave it out"),
        (["--dataset", "logs.npz"], "dataset logs.npz does not exist. Did you mean log.npz?"),
        (["--dataset", "log.npz", "--precision", "float32"], "needs device='cuda'"),
    ):
        assert main(["explain", PENDULUM, *arguments]) == 2
        assert message in capsys.readouterr().err
    assert main(["explain", "no-such-run", "--dataset", "log.npz"]) == 2
    assert "no-such-run" in capsys.readouterr().err

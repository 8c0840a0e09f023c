"""Whatever the disk refuses, the user reads why, the last checkpoint stays, and going on gives the same bytes."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess

import gymnasium as gym
import pytest

from faults import CALLS, SMALL, Disk
from rsa2c.algorithm import epoch
from rsa2c.cli import main
from rsa2c.errors import EnvError
from rsa2c.files import StorageError
from rsa2c.runs import checkpointer, training
from rsa2c.runs.folder import Run
from rsa2c.runs.training import load_agent, resume_run, train_run
from test_training import same_files

EPOCHS, STEPS = 2, SMALL["n_envs"] * SMALL["horizon"]
WARMUP = 10 * (STEPS // 2)
SHORT = "rsa2c-tests/ShortPendulum-v0"
GUIDED = {**SMALL, "attribution_warmup": 1, "attribution_every": 1, "epochs_between_evaluations": 2}


@pytest.fixture(scope="module", autouse=True)
def short_pendulum():
    gym.register(SHORT, "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=STEPS // 2)
    yield
    del gym.registry[SHORT]


@pytest.fixture(autouse=True)
def checkpoint_at_every_epoch(monkeypatch):
    monkeypatch.setattr(checkpointer, "CHECKPOINT_INTERVAL", 0.0)


def small_run(out):
    return train_run(SHORT, "rsa2c-kme", total_timesteps=WARMUP + EPOCHS * STEPS, out=out, track=False, **GUIDED)


def go_on(out):
    """Finish what is in the folder, as a user would: begin, or resume."""
    runs = [path for path in out.glob("*/config.yaml")]
    if not runs:
        return small_run(out)
    run = Run(runs[0].parent)
    return run if training.is_finished(run) else resume_run(run.path, track=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing disturbed, and the calls it made."""
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch, Disk(out).watched() as disk:
        patch.setattr(checkpointer, "CHECKPOINT_INTERVAL", 0.0)
        return small_run(out), disk.calls


def refusal(number):
    def strike():
        raise OSError(number, os.strerror(number))

    return strike


def test_every_kind_of_call_is_made_and_none_escapes(whole, tmp_path):
    _, calls = whole
    assert {kind for kind, _ in calls} == set(CALLS)
    with Disk(tmp_path).watched() as disk:
        small_run(tmp_path)
    assert disk.calls == calls


@pytest.mark.parametrize(("number", "lasting", "every"), [(errno.EIO, False, 1), (errno.ENOSPC, True, 2)])
def test_each_call_fails_once_or_from_then_on(whole, tmp_path, number, lasting, every):
    reference, calls = whole
    for at, call in list(enumerate(calls))[::every]:
        out = tmp_path / str(at)
        out.mkdir()
        with Disk(out, at, refusal(number), lasting).watched(), pytest.raises(StorageError) as caught:
            small_run(out)
        message = str(caught.value)
        assert os.strerror(number) in message and str(out) in message, (at, call, message)
        for run in map(Run, (path.parent for path in out.glob("*/state.safetensors"))):
            assert f"rsa2c resume {run.path}" in caught.value.__notes__[0]
            load_agent(run)
        finished = go_on(out)
        same_files(finished, reference)
        assert not list(finished.path.glob(".*.tmp"))


def test_each_call_of_a_resume_fails(whole, tmp_path):
    """From a folder whose metrics, evaluations and attributions are ahead of its checkpoint: a resume cuts them."""
    reference, calls = whole
    behind = tmp_path / "behind"
    behind.mkdir()
    _, second, *_ = (at for at, call in enumerate(calls) if call == ("replace", "state.safetensors"))
    with Disk(behind, second, refusal(errno.ENOSPC), lasting=True).watched(), pytest.raises(StorageError):
        small_run(behind)
    (path,) = behind.iterdir()
    assert load_agent(Run(path)).epoch == 1
    assert len(Run(path).read_metrics()) == len(Run(path).read_attributions()["epoch"]) == 2
    assert len(Run(path).read_evaluations()["timesteps"]) == 1

    def resumed(name, at=None):
        copy = shutil.copytree(path, tmp_path / name / path.name)
        disk = Disk(copy, at, refusal(errno.EIO))
        with disk.watched():
            resume_run(copy, track=False)
        return disk.calls

    for at in range(len(resumed("all"))):
        with pytest.raises(StorageError, match="Input/output error"):
            resumed(str(at), at)
        same_files(go_on(tmp_path / str(at)), reference)


def test_a_run_stopped_in_its_last_evaluation_is_finished_by_a_resume(whole, tmp_path, capsys):
    run = Run(shutil.copytree(whole[0].path, tmp_path / "run"))
    command = ["resume", str(run.path), "--no-report", "--quiet"]
    assert main(command) == 0
    assert run.read_returns()["returns"].shape == (1, training.FINAL_EPISODES)
    same_files(run, whole[0])
    assert main(command) == 2
    assert "--total-timesteps N" in capsys.readouterr().err


def test_a_file_that_cannot_be_deleted_is_named(whole, tmp_path, monkeypatch):
    run = Run(shutil.copytree(whole[0].path, tmp_path / "run"))
    (run.path / ".model.safetensors.1.tmp").touch()
    monkeypatch.setattr(os, "unlink", lambda *_, **__: refusal(errno.EROFS)())
    with pytest.raises(StorageError, match=r"\.model\.safetensors\.1\.tmp could not be deleted: Read-only"):
        resume_run(run.path, WARMUP + 2 * EPOCHS * STEPS)


def test_the_first_cause_is_what_the_user_reads(tmp_path, monkeypatch):
    """An environment fails while the disk is full: the checkpoint cannot be brought up to date, and stays."""
    monkeypatch.setattr(checkpointer, "CHECKPOINT_INTERVAL", 1e9)

    def failing(*_):
        raise EnvError("the environment failed")

    monkeypatch.setattr(epoch, "step_actor", failing)
    with Disk(tmp_path, 8, refusal(errno.ENOSPC), lasting=True).watched(), pytest.raises(EnvError) as caught:
        small_run(tmp_path)
    assert caught.value.__notes__[0].startswith("Nothing was saved yet. Continue with: rsa2c resume ")


# The real thing


@pytest.fixture
def mounted(tmp_path):
    """Mount a small file system; skipped where that is not permitted."""
    done = []

    def mount(name, *options):
        point = tmp_path / name
        point.mkdir(exist_ok=True)
        result = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(point)], capture_output=True, text=True)
        if result.returncode:
            pytest.skip(f"mounting a tmpfs is not permitted here: {result.stderr.strip()}")
        done.append(point)
        return point

    yield mount
    for point in done:
        subprocess.run(["umount", str(point)], check=True)


def test_a_full_disk(mounted, capsys):
    disk = mounted("disk", "-o", "size=256k")
    run = small_run(disk)
    assert main(["resume", str(run.path), "--total-timesteps", "100000000", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "could not be written: No space left on device" in said
    assert f"Continue with: rsa2c resume {run.path}" in said
    kept = load_agent(run).epoch
    assert kept >= EPOCHS
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    resume_run(run.path, WARMUP + (kept + 2) * STEPS, track=False)
    assert load_agent(run).epoch == kept + 2


def test_a_read_only_folder(mounted, capsys):
    assert main(["train", SHORT, "--out", str(mounted("readonly", "-o", "ro")), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "could not be made: Read-only file system. Choose another place with: --out FOLDER" in said


def test_a_run_that_became_read_only_stays_as_it_is(mounted):
    folder = mounted("folder", "-o", "size=4m")
    run = small_run(folder)
    before = {path: path.read_bytes() for path in run.path.iterdir()}
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    with pytest.raises(StorageError, match="cannot be locked: Read-only file system"):
        resume_run(run.path, WARMUP + 2 * EPOCHS * STEPS)
    assert load_agent(run).epoch == EPOCHS
    assert {path: path.read_bytes() for path in run.path.iterdir()} == before


def test_files_that_may_not_grow(whole, tmp_path):
    """RLIMIT_FSIZE: a write beyond the limit fails with EFBIG, on every file system and without a mount."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    smaller = whole[0].state_path.stat().st_size - 1
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (smaller, before[1]))
        with pytest.raises(StorageError, match=r"state\.safetensors could not be written: File too large"):
            small_run(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    same_files(go_on(tmp_path), whole[0])

"""A run that was stopped, however it was stopped, reaches the bytes of one that never was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import rsa2c
from rsa2c.agent import RSA2C
from rsa2c.algorithm import epoch as module
from rsa2c.algorithm.fits import Fits
from rsa2c.algorithm.snapshot import pack
from rsa2c.errors import ConfigError, EnvError, FileFormatError, NotFoundError
from rsa2c.progress import clock, sparkline
from rsa2c.runs import checkpointer
from rsa2c.runs.checkpointer import Checkpointer
from rsa2c.runs.evaluation import terminations_interrupt
from rsa2c.runs.folder import Run
from rsa2c.runs.training import TrainingInterrupted, load_agent, resume_run, train_run

EPOCH, WARMUP = 4 * 50, 2000
TINY = {
    "n_envs": 4,
    "horizon": 50,
    "batch_doubling": None,
    "capacity": 24,
    "initial_centres": 12,
    "attribution_centres": 20,
    "attribution_states": 8,
    "attribution_background": 8,
    "attribution_warmup": 2,
    "attribution_every": 1,
    "evaluation_episodes": 2,
}


def tiny_run(out, epochs, **fields):
    return train_run(
        "Pendulum-v1", "rsa2c-kme", total_timesteps=WARMUP + epochs * EPOCH, out=out, track=False, **{**TINY, **fields}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Twenty epochs without a stop."""
    return tiny_run(tmp_path_factory.mktemp("whole"), 20)


def same_files(run, other):
    assert run.model_path.read_bytes() == other.model_path.read_bytes()
    assert run.state_path.read_bytes() == other.state_path.read_bytes()
    rows, others = (
        [{name: cell for name, cell in row.items() if not name.startswith("seconds")} for row in each.read_metrics()]
        for each in (run, other)
    )
    assert rows == others
    assert run.attributions_path.read_bytes() == other.attributions_path.read_bytes()
    assert run.evaluations_path.read_bytes() == other.evaluations_path.read_bytes()


def test_a_run_leaves_its_files(whole):
    names = {path.name for path in whole.path.iterdir()}
    assert names == {
        ".lock", "config.yaml", "metrics.csv", "evaluations.npz", "attributions.npz", "model.safetensors",
        "state.safetensors",
    }  # fmt: skip
    rows = whole.read_metrics()
    assert [int(row["epoch"]) for row in rows] == list(range(1, 21))
    evaluations = whole.read_evaluations()
    assert evaluations["results"].shape == evaluations["ep_lengths"].shape == (4, 2)
    assert evaluations["timesteps"][-1] == int(rows[-1]["timesteps"])
    attributions = whole.read_attributions()
    assert attributions["phi"].shape == attributions["weights"].shape == (20, 3)
    document = whole.read_config()
    assert document["total_timesteps"] == WARMUP + 20 * EPOCH
    settled = ("length_scale", "kl", "n_envs", "capacity", "horizon")
    assert "auto" not in [document["config"][name] for name in settled]


def test_the_run_is_what_the_api_trains(whole):
    agent = RSA2C("Pendulum-v1", "rsa2c-kme", **TINY).learn(WARMUP + 20 * EPOCH)
    tensors, _ = pack(agent.snapshot(), checkpoint=False)
    for name, array in pack(load_agent(whole).snapshot(), checkpoint=False)[0].items():
        np.testing.assert_array_equal(array, tensors[name])


def test_ten_epochs_and_ten_in_a_new_process_are_twenty(whole, tmp_path):
    half = tiny_run(tmp_path, 10)
    command = [sys.executable, "-m", "rsa2c.cli", "resume", str(half.path)]
    options = ["--total-timesteps", str(WARMUP + 20 * EPOCH), "--no-track", "--quiet"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    same_files(half, whole)
    assert half.read_config()["total_timesteps"] == WARMUP + 20 * EPOCH


PHASES = [(module, name) for name in ("roll_out", "admit", "attribute_and_reweight", "step_actor")]
PHASES += [(Fits, name) for name in ("value", "estimate", "advantage")]


@pytest.mark.parametrize(("owner", "phase", "epoch"), [(*phase, 7) for phase in PHASES] + [(module, "step_actor", 0)])
def test_an_interrupted_epoch_is_discarded(whole, tmp_path, monkeypatch, owner, phase, epoch):
    original, calls = getattr(owner, phase), []

    def interrupted(*arguments):
        result = original(*arguments)
        calls.append(phase)
        if len(calls) > epoch:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, phase, interrupted)
    with pytest.raises(TrainingInterrupted, match="rsa2c resume"):
        tiny_run(tmp_path, 20)
    monkeypatch.undo()
    (path,) = tmp_path.iterdir()
    assert load_agent(Run(path)).epoch == epoch
    same_files(resume_run(path, track=False), whole)


def test_a_run_killed_before_its_first_checkpoint_begins_again(whole, tmp_path, monkeypatch):
    def killed(*_):
        raise SystemExit

    monkeypatch.setattr(Checkpointer, "save", lambda self: None)
    monkeypatch.setattr(module, "step_actor", killed)
    with pytest.raises(SystemExit):
        tiny_run(tmp_path, 20)
    monkeypatch.undo()
    (path,) = tmp_path.iterdir()
    assert not Run(path).state_path.exists()
    same_files(resume_run(path, track=False), whole)


def test_rows_beyond_the_checkpoint_are_made_again(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpointer, "CHECKPOINT_INTERVAL", 0.0)
    save, saves = Checkpointer.save, []

    def killed_after_eight(keeper):
        if len(saves) < 8:
            saves.append(save(keeper))

    monkeypatch.setattr(Checkpointer, "save", killed_after_eight)
    run = tiny_run(tmp_path, 20)
    monkeypatch.undo()
    assert len(run.read_metrics()) == 20
    assert load_agent(run).epoch == 8
    with open(run.metrics_path, "a") as file:
        file.write("21,4")
    same_files(resume_run(run.path, track=False), whole)


def test_a_failing_environment_keeps_the_checkpoint(tmp_path, monkeypatch):
    original, calls = module.roll_out, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) > 3:
            raise EnvError("Pendulum-v1: the observation is nan at step 12.")
        return original(*arguments)

    monkeypatch.setattr(module, "roll_out", failing)
    with pytest.raises(EnvError, match="step 12"):
        tiny_run(tmp_path, 20)
    (path,) = tmp_path.iterdir()
    assert load_agent(Run(path)).epoch == 3


def test_sigterm_saves_and_exits_130(tmp_path, whole):
    fields = [text for key, value in TINY.items() for text in (f"--{key.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "rsa2c.cli", "train", "Pendulum-v1", "--total-timesteps", "100000000"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path), "--no-track", *fields], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    path = tmp_path / whole.path.name / "metrics.csv"
    deadline = time.monotonic() + 60
    # The header and two rows: the first epoch is the agent's last boundary by then
    while not (path.exists() and path.read_bytes().count(b"\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert f"rsa2c resume {path.parent}" in errors
    assert "Traceback" not in errors
    assert load_agent(Run(path.parent)).epoch >= 1


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminations_interrupt():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_without_a_checkpoint_says_so(tmp_path, whole):
    run = Run(tmp_path / "early")
    run.path.mkdir()
    run.write_config(whole.read_config())
    with pytest.raises(NotFoundError, match=f"has no checkpoint yet. Train it with: rsa2c resume {run.path}"):
        load_agent(run)


def test_a_finished_run_says_how_to_go_on(whole):
    with pytest.raises(ConfigError, match="--total-timesteps"):
        resume_run(whole.path)


def test_a_damaged_checkpoint_is_named(tmp_path):
    run = tiny_run(tmp_path, 1)
    run.state_path.write_bytes(run.state_path.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match=r"state\.safetensors"):
        resume_run(run.path, WARMUP + 2 * EPOCH)


def test_an_unknown_environment_leaves_no_folder(tmp_path):
    with pytest.raises(EnvError, match="Did you mean 'Pendulum-v1'"):
        train_run("Pendulum-v2", out=tmp_path, **TINY)
    assert not list(tmp_path.iterdir())


def test_distractors_and_noise_are_evaluated_too(tmp_path):
    run = tiny_run(tmp_path, 5, distractors=2, noise_variance=0.01)
    assert run.path.name.endswith("__n0.01__s0__d2")
    assert run.read_attributions()["feature_names"].tolist()[3:] == ["noise_1", "noise_2"]
    assert run.read_evaluations()["results"].shape == (1, 2)


def test_model_file_explains_and_goes_on(whole):
    agent = rsa2c.RSA2C.load(whole.model_path)
    assert agent.explain(agent.background[:2]).values.shape == (2, 3, 1)
    assert agent.learn(1).epoch == 21


def test_tensorboard_events_have_sb3_names(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    fields = {**TINY, "epochs_between_evaluations": 2, "horizon": 200}
    run = train_run("Pendulum-v1", "rsa2c-kme", total_timesteps=WARMUP + 1600, out=tmp_path, **fields)
    resume_run(run.path, WARMUP + 3200)
    events = accumulator.EventAccumulator(str(run.path))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {
        "rollout/ep_rew_mean", "rollout/ep_len_mean", "eval/mean_reward", "eval/mean_ep_length", "time/fps",
        "time/total_timesteps", "train/kl", "train/sigma", "shap/weight/cos θ", "shap/importance/cos θ",
    } <= tags  # fmt: skip
    steps = [event.step for event in events.Scalars("rollout/ep_rew_mean")]
    assert steps == [int(row["timesteps"]) for row in run.read_metrics()]


def test_tracking_needs_no_torch(tmp_path):
    pytest.importorskip("tensorboard")
    script = (
        "import sys; from rsa2c.sb3.tensorboard import Tracker\n"
        "with Tracker(sys.argv[1]) as tracker: tracker.scalars(1, {'a/b': 1.0})\n"
        "assert not {'torch', 'tensorflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


def test_progress_in_plain_lines(tmp_path, capsys):
    train_run("Pendulum-v1", total_timesteps=WARMUP + 3 * EPOCH, out=tmp_path, track=False, display=True, **TINY)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("epoch 1  ")
    assert "epoch 3  " in lines[-1]
    assert "evaluation" in lines[-1]


def test_small_words():
    assert clock(59.6) == "1:00"
    assert clock(3661) == "1:01:01"
    assert clock(float("inf")) == "-"
    assert sparkline([0.0, 1.0, float("nan"), 2.0]) == "▁▅█"
    assert sparkline([1.0]) == ""


KEPT = """
import os
import sys
import numpy as np
from rsa2c.runs.memory import keep_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

kept, before = "keep" in sys.argv and keep_freed_memory(), resident()
np.ones(2**24)
print(kept, resident() - before > 2**26)
"""


@pytest.mark.skipif(sys.platform != "linux" or os.confstr("CS_GNU_LIBC_VERSION") is None, reason="glibc's setting")
def test_freed_memory_is_kept_where_it_is_asked_for():
    """128 MB that were freed: does the process still have them?"""
    calls = ([sys.executable, "-c", KEPT, *more] for more in ([], ["keep"]))
    said = [subprocess.run(call, capture_output=True, text=True, check=True).stdout.split() for call in calls]
    assert said == [["False", "False"], ["True", "True"]]

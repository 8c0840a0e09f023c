"""A training on a device from the command line: train, resume, evaluate, report and explain, on JAX's CPU backend."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rsa2c import Explanation, load
from rsa2c.cli import main

jax = pytest.importorskip("jax", reason="training on a device needs JAX, which the extra gpu installs")

TINY = [
    "--n-envs=16", "--horizon=24", "--capacity=64", "--initial-centres=40", "--attribution-every=1",
    "--attribution-centres=20", "--attribution-states=8", "--attribution-background=8",
    "--evaluation-episodes=2", "--no-track", "--quiet",
]  # fmt: skip
RUN = "Pendulum-v1__rsa2c-kme__default__n0__s0"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def test_train_resume_report_and_explain_on_a_device(capsys):
    """The best policy is kept, and a training that went on has the bytes of one that never stopped."""
    train = ["train", "Pendulum-v1", "--device=jax-cpu", *TINY]
    assert main([*train, "--total-timesteps=3000", "--out=whole"]) == 0
    assert main([*train, "--total-timesteps=2000"]) == 0
    assert main(["resume", f"runs/{RUN}", "--total-timesteps=3000", "--no-track", "--quiet"]) == 0
    whole, resumed = (Path(folder, RUN, "model.safetensors").read_bytes() for folder in ("whole", "runs"))
    assert whole == resumed
    with Path("runs", RUN, "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["timesteps"]) for row in rows] == list(range(768 + 384, 3001 + 384, 384)) and len(rows) == 6
    capsys.readouterr()
    assert main(["evaluate", RUN, "--episodes=2"]) == 0
    assert "2 episodes" in capsys.readouterr().out
    assert main(["report", RUN, "--out=page.html"]) == 0
    assert "Pendulum-v1" in Path("page.html").read_text(encoding="utf-8")
    assert main(["explain", RUN, "--states=5", "--out=why.npz"]) == 0
    assert Explanation.load("why.npz").values.shape == (5, 3, 1)
    agent = load(f"runs/{RUN}")
    assert agent.config.device == "jax-cpu" and agent.state.environments


def test_a_gpu_that_is_not_there_is_named_before_a_folder_is_made(capsys):
    if any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("there is one")
    assert main(["train", "Pendulum-v1", "--device=cuda", *TINY]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err
    told = " ".join(captured.err.split())
    assert "device='cuda' needs an NVIDIA GPU" in told and "Use device='cpu'" in told and "pip install" in told
    assert not Path("runs").exists()

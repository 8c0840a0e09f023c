"""The guidance benchmark: what it runs, what it skips, and what its page says."""

from __future__ import annotations

import json
from functools import partial

import pytest

from benchmark_runs import queued

TRIAL = ("--only", "Pendulum-v1", "--counts", "2", "--seeds", "0", "--steps", "2500")


guidance = partial(queued, "guidance")


def test_a_run_leaves_a_row_and_is_skipped_then(tmp_path):
    asked = (*TRIAL, "--kinds", "drift", "--methods", "correlation", "--with", "attribution_every=1,guide=value")
    text = guidance(tmp_path, *asked)
    name = "correlation+attribution_every=1+guide=value"
    assert f"finished  Pendulum-v1 2 drift {name} seed 0 2,500 steps" in text
    [row] = map(json.loads, (tmp_path / "results" / "guidance" / "runs.jsonl").read_text().splitlines())
    assert row["variant"] == name and row["episodes"] == 100 and "goal_steps" not in row
    assert row["settings"] == {"distractors": 2, "distractor_kind": "drift", "importance": "correlation",
                               "attribution_every": 1, "guide": "value"}  # fmt: skip
    assert "--distractor-kind drift --importance correlation" in row["command"]
    assert 0 < row["true_weight"] < 1
    assert (tmp_path / "runs" / f"Pendulum-v1__rsa2c-kme__default__n0__s0__d2-drift__{name}").is_dir()
    assert "started" not in guidance(tmp_path, *asked)


def test_the_grid(tmp_path):
    listed = guidance(tmp_path, "--list", "--seeds", "0,1", "--only", "Hopper-v5", "--counts", "0,20",
                      "--kinds", "noise,twin", "--methods", "unguided,shapley,printed,ppo",
                      "--with", "weight_floor=0.01").splitlines()  # fmt: skip
    assert len(listed) == 2 * (1 + 2) * 4, "no kinds of no features"
    assert listed[0] == "Hopper-v5 unguided seed 0 1,000,000 steps"
    assert listed[5] == "Hopper-v5 20 noise shapley+weight_floor=0.01 seed 0 1,000,000 steps"
    assert listed[-2:] == [f"Hopper-v5 20 twin {name} seed 1 1,000,000 steps" for name in ("printed", "ppo")]


def test_only_the_ant_has_forces_to_leave_out(tmp_path):
    asked = ("--only", "Hopper-v5,Ant-v5", "--counts", "0", "--seeds", "0", "--methods", "unguided,without-forces")
    listed = guidance(tmp_path, "--list", *asked).splitlines()
    assert [line.split()[:2] for line in listed] == [
        ["Hopper-v5", "unguided"], ["Ant-v5", "unguided"], ["Ant-v5", "without-forces"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--kinds", "drifts"), "--kinds has 'drifts'.*Did you mean 'drift'"),
        (("--methods", "shapely"), "--methods has 'shapely'.*Did you mean 'shapley'"),
        (("--only", "Ant-v4"), "--only has 'Ant-v4'; it can have Pendulum-v1, Hopper-v5"),
    ],
)
def test_what_it_does_not_have_is_refused_by_name(tmp_path, arguments, says):
    text = guidance(tmp_path, "--list", *arguments, code=1)
    assert all(part in text for part in says.split(".*"))


def test_the_page_has_intervals_and_differences(tmp_path):
    row = {"environment": "Hopper-v5", "steps": 1_000_000, "seconds": 90.0, "commit": "abc", "machine": "m"}
    useless = {"distractors": 20, "distractor_kind": "twin"}
    scores = {"unguided": (900.0, 1000.0, 1100.0), "oracle": (3000.0, 3100.0, 3200.0), "shapley": (2000.0,)}
    rows = [
        {**row, "variant": name, "seed": seed, "mean": score, "settings": useless, "true_weight": 0.5}
        for name, found in scores.items()
        for seed, score in enumerate(found)
    ]
    rows += [{**row, "variant": "ppo", "seed": 0, "mean": 3300.0, "settings": {"distractors": 0}}]
    folder = tmp_path / "results" / "guidance"
    folder.mkdir(parents=True)
    (folder / "runs.jsonl").write_text("".join(json.dumps({"algorithm": "", **each}) + "\n" for each in rows))
    guidance(tmp_path, "--table")
    page = (tmp_path / "results" / "guidance.md").read_text("utf-8")
    lines = page.split("## Hopper-v5, 1,000,000 steps")[1].strip().splitlines()[2:]
    none, unguided, shapley, oracle = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    assert none == ["none", "ppo", "1", "3,300", "-", "-", "1.5"]
    # standard error 100 / sqrt(3), t(2) = 4.303; Welch: sqrt(2) of it with t(4) = 2.776
    assert unguided[:5] == ["20 twin", "unguided", "3", "1,000 [751.6, 1,248]", "-"]
    assert shapley[1:5] == ["shapley", "1", "2,000", "1,000"]
    assert oracle[3:6] == ["3,100 [2,852, 3,348]", "2,100 [1,873, 2,327]", "50%"]

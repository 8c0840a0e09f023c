"""The robustness benchmark: what it runs, and what its page says."""

from __future__ import annotations

import json
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest

import rsa2c
from benchmark_runs import BENCHMARKS, queued

sys.path.append(str(BENCHMARKS))
import _attacked
import _earlier
import robustness as robustness_page
from rsa2c.zoo import cards

robustness = partial(queued, "robustness")


def test_a_run_is_judged_under_noise_and_skipped_then(tmp_path):
    asked = ("--only", "Pendulum-v1", "--methods", "scale", "--seeds", "0", "--steps", "2500")
    assert "finished  Pendulum-v1 scale seed 0 2,500 steps" in robustness(tmp_path, *asked)
    [row] = map(json.loads, (tmp_path / "results" / "robustness" / "runs.jsonl").read_text().splitlines())
    assert row["settings"] == {"robust": "scale", "robust_noise": 0.1}
    assert row["noise"] == [0.001, 0.01, 0.05] and len(row["noisy"]) == 3 and row["noisy"][1] != row["mean"]
    assert row["radius"] > 0
    assert "--robust scale --robust-noise 0.1" in row["command"]
    page = (tmp_path / "results" / "robustness.md").read_text()
    assert "## Pendulum-v1, 2,500 steps, errors of 0.1" in page
    assert "| no noise | variance 0.001 | variance 0.01 | variance 0.05 | certified radius | minutes |" in page
    assert "started" not in robustness(tmp_path, *asked)


def test_the_grid(tmp_path):
    listed = robustness(tmp_path, "--list", "--seeds", "0,1", "--methods", "plain,noise,ppo").splitlines()
    assert len(listed) == 2 * 4 * 3
    assert listed[:2] == [f"BipedalWalker-v3 {name} seed 0 2,000,000 steps" for name in ("plain", "noise")]


@pytest.mark.parametrize("arguments", [("--methods", "scales"), ("--only", "Hoper-v5")])
def test_what_it_does_not_have_is_refused_by_name(tmp_path, arguments):
    assert f"{arguments[0]} has {arguments[1]!r}" in robustness(tmp_path, "--list", *arguments, code=1)


def test_the_page_has_intervals(tmp_path):
    row = {"environment": "Hopper-v5", "steps": 1_000_000, "seconds": 90.0, "commit": "abc", "machine": "m",
           "noise": [0.001, 0.01], "settings": {}, "algorithm": "any", "seed": 0}  # fmt: skip
    rows = [{**row, "variant": "ppo", "mean": score, "noisy": [score - 100, 0.0]} for score in (900.0, 1000.0, 1100.0)]
    attacked = {"noise": 2500.0, "mad": 1500.0, "critic": 1900.0}
    plain = {**row, "variant": "plain", "mean": 3000.0, "noisy": [2000.0, 500.0], "radius": 0.0123}
    rows += [plain, {**plain, "seed": 1, "attacked": attacked}]
    folder = tmp_path / "results" / "robustness"
    folder.mkdir(parents=True)
    (folder / "runs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    robustness(tmp_path, "--table")
    page = (tmp_path / "results" / "robustness.md").read_text()
    assert "| plain | 2 | 3,000 [3,000, 3,000] | 2,000 [2,000, 2,000] | 500.0 [500.0, 500.0] | 0.0123 | 1.5 |" in page
    assert "Attacks of at most 0.075 standard deviations:" in page
    assert "| plain | 1 | 3,000 | 2,500 | 1,500 | 1,900 |" in page
    assert page.count("| ppo |") == 1, "it was not attacked"
    assert "| ppo | 3 | 1,000 [751.6, 1,248] | 900.0 [651.6, 1,148] |" in page


def test_rows_of_the_earlier_guidance_are_marked_and_give_way_to_those_of_the_present_one():
    row = {"noise": [0.01], "noisy": [0.0], "seconds": 60.0}
    old = {**row, "variant": _earlier.under(_earlier.AGREEMENT, "plain"), "mean": 1.0}
    now, peer = {**row, "variant": "plain", "mean": 2.0}, {**row, "variant": "ppo", "mean": 3.0}
    assert _earlier.note([cards()["Pendulum-v1"].path]).startswith("All 1 agents")
    section = robustness_page._section([old, peer])
    assert "| plain | 1¹ | 1.0 | 0.0 |" in section and "| ppo | 1 | 3.0 |" in section
    section = robustness_page._section([old, now, peer])
    assert "| plain | 1 | 2.0 | 0.0 |" in section and "¹" not in section


@pytest.fixture(scope="module")
def agent():
    return rsa2c.load("zoo:Pendulum-v1")


def test_the_scale_is_that_of_the_states_a_policy_visits(agent):
    env, states = gymnasium.make("Pendulum-v1"), []
    for episode in range(_attacked.EPISODES_OF_SCALE):
        state, _ = env.reset(seed=_attacked.SEED + episode)
        for _ in range(200):
            states.append(state)
            state, *_ = env.step(agent.predict(state, deterministic=True)[0])
    np.testing.assert_allclose(_attacked.visited_scale(agent), np.std(states, axis=0), rtol=0.2)


def test_attacks_are_of_their_size_and_lower_the_return(agent, monkeypatch):
    noise = _attacked.gaussian(np.array([1.0, 2.0, 0.0]))
    drawn = noise(np.ones((1000, 3)), [np.random.default_rng(seed) for seed in range(1000)]) - 1.0
    np.testing.assert_allclose(drawn.std(axis=0), [0.1, 0.2, 0.0], rtol=0.1)
    monkeypatch.setitem(_attacked.EPSILON, "Pendulum-v1", 1.0)
    monkeypatch.setattr(_attacked, "EPISODES", 10)
    found = _attacked.attacked_returns(agent, "Pendulum-v1")
    assert found["mad"] < found["noise"] and found["critic"] < found["noise"]

"""The benchmark of time to solution: peers on our simulators, and its page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import _goal_table
import _watch
from rsa2c.envs import make_env


def row(agent, seed, seconds, steps, simulator="envpool", **changes):
    fields = {"agent": agent, "simulator": simulator, "seed": seed, "cold": False, "solved": True, "seconds": seconds,
              "cpu_seconds": seconds, "steps": steps, "elsewhere": -200.0 - seed, "commit": "abc",
              "machine": "a machine", "load": 1.0}  # fmt: skip
    return {**fields, **changes}


@pytest.mark.parametrize("backend", ["arrays", "envpool"])
def test_an_episode_of_a_peer_ends_as_stable_baselines3_wants_it(backend):
    pytest.importorskip("stable_baselines3", reason="pip install 'rsa2c[baselines]'")
    if backend == "envpool":
        pytest.importorskip("envpool", reason="pip install 'rsa2c[fast]'")
    from _peers import SimulatorVecEnv

    ours, theirs = make_env("Pendulum-v1", 3, backend=backend), SimulatorVecEnv("Pendulum-v1", 3, 7, backend)
    np.testing.assert_array_equal(ours.reset(seed=7)[0].astype(np.float32), theirs.reset())
    actions = np.ones((3, 1), np.float32)
    for _ in range(199):
        _, _, done, infos = theirs.step(actions)
        ours.step(actions)
        assert not done.any() and infos == [{}] * 3
    final, rewards = ours.step(actions)[:2]
    fresh, got, done, infos = theirs.step(actions)
    assert done.all() and all(info["TimeLimit.truncated"] for info in infos)
    np.testing.assert_allclose([info["terminal_observation"] for info in infos], final, atol=1e-6)
    np.testing.assert_allclose(got, rewards, rtol=1e-6)
    assert not np.isclose(fresh, final).all(axis=1).any(), "the new episode begins elsewhere"
    assert not theirs.step(actions)[2].any()


def test_the_table_has_medians_and_ratios_to_ours_on_the_same_simulator():
    rows = [row("rsa2c", seed, 0.2, 7_000) for seed in range(3)]
    rows += [row("sac", seed, 40.0 + seed, 3_500) for seed in range(3)]
    lines = _goal_table.table(rows).splitlines()
    assert lines[2] == "| rsa2c-kme, default settings | 3 of 3 | 0.20 | 0.20 | 7,000 | -201 [-202, -200] | 1 | 1 |"
    assert lines[3] == (
        "| Stable-Baselines3's SAC | 3 of 3 | 41.00 [40.00, 42.00] | 41.00 [40.00, 42.00] | 3,500 "
        "| -201 [-202, -200] | 205 | 0.5 |"
    )


def test_every_variant_has_a_line_and_its_ratio_to_the_first():
    rows = [row("rsa2c", 0, 0.2, 7_000), row("rsa2c-cme", 0, 0.3, 7_000), row("advanced-ac", 0, 0.1, 14_000)]
    lines = _goal_table.table(rows).splitlines()[2:]
    assert [line.split(" | ")[0].strip("| ") for line in lines] == [
        f"{name}, default settings" for name in ("rsa2c-kme", "rsa2c-cme", "advanced-ac")]  # fmt: skip
    assert lines[2].endswith("| 0.5 | 2 |")


def test_a_run_that_never_arrives_counts_as_the_last():
    arrived = [row("ppo", 0, 8.0, 20_480), row("ppo", 1, 9.0, 24_576)]
    lost = {**row("ppo", 2, 0.0, 0), "solved": False}
    cells = _goal_table.table([row("rsa2c", 0, 0.2, 7_000), *arrived, lost]).splitlines()[3].split(" | ")
    assert cells[1:3] == ["2 of 3", "9.00 [8.00, not reached]"]


def test_every_simulator_with_rows_has_its_table_on_the_page(tmp_path):
    rows = [row("rsa2c", 0, 0.2, 7_000, simulator) for simulator in ("gymnasium", "arrays")]
    rows.append(row("rsa2c", 0, 4.0, 7_000, "arrays", cold=True, process_seconds=6.0))
    rows.append(row("rsa2c", 0, 0.2, 7_000, environment="Ant-v5", preset="paper", curve=[[0], [0]]))
    text = _goal_table.write_page(rows, tmp_path / "page.md").read_text(encoding="utf-8")
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    race = "## Pendulum-v1 to -200"
    assert titles == [f"{race}: Gymnasium for all", f"{race}: Our arrays for all, as rsa2c is shipped",
                      "## With compilation"]  # fmt: skip
    assert "first use after installation: 4.0 s" in text


def test_a_solution_says_when_the_goal_was_last_missed(monkeypatch):
    returns, clock = iter([-900.0, -300.0, -150.0, -250.0]), iter(np.arange(1.0, 20.0))
    monkeypatch.setattr(_watch.rsa2c, "evaluate", lambda *_, **__: SimpleNamespace(mean=next(returns)))
    monkeypatch.setattr(_watch, "_now", lambda: np.full(2, next(clock)))
    watch = _watch.Watch("Pendulum-v1", -200.0, 20)
    assert not watch.solved(1_000) and watch.solution.before == 1.0
    assert not watch.solved(2_000) and np.isinf(watch.solution.seconds)
    assert watch.solved(3_000) and (watch.solution.before, watch.solution.seconds) == (2.0, 3.0)
    at_once = _watch.Watch("Pendulum-v1", -300.0, 20)
    assert at_once.solved(1_000) and at_once.solution.before == 0.0


def test_evaluations_keep_apart(monkeypatch):
    monkeypatch.setattr(_watch.rsa2c, "evaluate", lambda *_, **__: SimpleNamespace(mean=-900.0))
    watch = _watch.Watch("Ant-v5", 950.0, 20, apart=10_000)
    assert not any(watch.tried(steps) for steps in range(4_000, 40_001, 4_000))
    assert watch.solution.steps == 40_000 and watch.last == 40_000
    assert not watch.tried(45_000) and watch.solution.steps == 40_000


def test_trainings_that_have_a_row_are_not_repeated(tmp_path):
    pytest.importorskip("stable_baselines3", reason="pip install 'rsa2c[baselines]'")
    import time_to_solution as race

    (tmp_path / "runs.jsonl").write_text(json.dumps(row("rsa2c", 0, 0.2, 7_000, "gymnasium")) + "\n")
    ant = json.dumps(row("rsa2c", 1, 0.2, 7_000, "gymnasium", environment="Ant-v5"))
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write(ant + "\n")

    def left(agents, **of):
        options = SimpleNamespace(agents=agents, simulators=["gymnasium", "arrays"], seeds=[0, 1], results=tmp_path,
                                  race=race.Race(**of))  # fmt: skip
        return list(race.missing(options))

    assert ("rsa2c", "gymnasium", 0, False) not in left(["rsa2c"]) and ("rsa2c", "arrays", 0, True) in left(["rsa2c"])
    assert left(["rsa2c"], environment="Ant-v5") == [("rsa2c", "gymnasium", 0, False)], "no arrays, nothing cold"
    assert left(["rsa2c", "sac"], environment="Ant-v5", whole=True) == [
        ("rsa2c", "gymnasium", seed, False) for seed in (0, 1)]  # fmt: skip


def test_a_whole_training_has_its_clock_along_its_steps(monkeypatch):
    pytest.importorskip("stable_baselines3", reason="pip install 'rsa2c[baselines]'")
    import time_to_solution as race

    monkeypatch.setitem(race.LIMITS["Pendulum-v1"], "rsa2c", 8_000)
    found = race.whole(race.Race(whole=True), 0, "rsa2c-kme", "arrays")
    steps, seconds = found["curve"]
    assert steps[0] == 0 and steps[-1] == found["steps"] >= 8_000 and seconds == sorted(seconds)

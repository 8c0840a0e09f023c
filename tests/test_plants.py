"""The plants of benchmarks/own_plants.py are proper environments, their hand-tuned controllers control them, and the
table has every training."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rsa2c import RSA2C, evaluate

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
import _plant_peers as peers
import _provenance
import own_plants
from own_plants import TASKS, Row, page

named = pytest.mark.parametrize("name", TASKS)


@named
def test_gymnasium_finds_nothing_wrong(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(infinity|normalized space|symmetric|not within)")
        check_env(TASKS[name].plant(), skip_render_check=True)


@named
def test_the_hand_tuned_controller_costs_less_than_half_of_doing_nothing(name):
    task = TASKS[name]
    idle, tuned = (evaluate(policy, task.make, 10).returns for policy in (peers.nothing(task.make()), task.peer()))
    assert task.cost(tuned).mean() < 0.5 * task.cost(idle).mean()


def test_no_return_is_above_the_highest():
    for task in TASKS.values():
        assert np.all(task.cost(evaluate(task.peer(), task.make, 3).returns) >= 0)


def test_plants_have_names_for_what_they_observe_and_do():
    for name, task in TASKS.items():
        plant = task.plant()
        if name != "Motor":  # names are given to the agent there
            assert len(plant.observation_names) == plant.observation_space.shape[0]
            assert len(plant.action_names) == plant.action_space.shape[0]


def test_lqr_gains_are_those_of_the_riccati_equation():
    """A double integrator: any gain beside K costs more."""
    a, b, q, r = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]]), [1.0, 0.1], [0.01]
    gain = peers.lqr(a, b, q, r)

    def cost(k):
        s, total = np.array([1.0, 0.0]), 0.0
        for _ in range(500):
            u = -k @ s
            total += s @ np.diag(q) @ s + u @ np.diag(r) @ u
            s = a @ s + b @ u
        return total

    assert all(cost(gain) < cost(gain * change) for change in np.array([[1.1, 1], [0.9, 1], [1, 1.1], [1, 0.9]]))


def test_a_run_writes_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(own_plants, "TASKS", {"Tank": replace(TASKS["Tank"], training=1)})
    monkeypatch.setattr(own_plants, "RSA2C", lambda env, seed: RSA2C(env, seed=seed, n_envs=2, initial_centres=12))
    monkeypatch.setattr(_provenance, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks/own_plants.py", "--seeds", "2", "--first-seed", "3"])
    own_plants.main()
    text = (tmp_path / "plants.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| Tank | 1, 1, 50 | 1 |")]
    mean, worst, tuned = (float(cell) for cell in rows[0].split("|")[4:7])
    assert len(rows) == 1 and worst <= mean < tuned < 0, "deadbeat control is optimal there"


def test_the_page_names_the_seeds_that_did_not_learn():
    row = Row("Tank", (1, 1), [-1.0, -5.0], [1.0, 5.0], -1.0, 1.0, [2.0, 4.0])
    text = page([row], TASKS, range(3, 5))
    assert "| Tank | 1, 1, 50 | 20,000 | -3 | -5 | -1 | 3.00 | 5.00 | 3 |" in text
    assert "1 of 2 trainings end" in text and "- Tank, seed 4: -5, 5.0 times the cost" in text and "seed 3:" not in text

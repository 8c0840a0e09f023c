"""The fidelity benchmark: closed forms against enumeration, measures with known answers, and its page."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

import rsa2c
from benchmark_runs import BENCHMARKS
from rsa2c.envs.lqr import riccati

sys.path.append(str(BENCHMARKS))
import _fidelity_measures as measures
import _fidelity_tasks as tasks
import fidelity


def enumerated(f, states, background):
    """Shapley values (T, d) of f by the definition, over all coalitions."""
    d = states.shape[1]
    values = np.zeros(states.shape)
    for t, s in enumerate(states):

        def v(coalition, s=s):
            mixed = background.copy()
            mixed[:, list(coalition)] = s[list(coalition)]
            return f(mixed).mean()

        for i in range(d):
            rest = [j for j in range(d) if j != i]
            for size in range(d):
                weight = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
                for chosen in combinations(rest, size):
                    values[t, i] += weight * (v((*chosen, i)) - v(chosen))
    return values


def test_values_of_quadratic_and_linear_functions_against_enumeration():
    rng = np.random.default_rng(0)
    states, background = rng.normal(size=(5, 4)), 0.5 + rng.normal(size=(20, 4)) @ rng.normal(size=(4, 4))
    p3, gain = riccati()
    lopsided = rng.normal(size=(4, 4))
    for matrix in (p3, lopsided + lopsided.T):
        found = measures.quadratic_values(matrix, states, background)
        expected = enumerated(lambda x, m=matrix: np.einsum("ni,ij,nj->n", x, m, x), states, background)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    found = measures.linear_values(gain[0], states, background)
    np.testing.assert_allclose(found, enumerated(lambda x: x @ gain[0], states, background), rtol=1e-9)


def test_the_true_values_sum_to_the_optimal_value_and_control():
    rng = np.random.default_rng(1)
    states, background = rng.normal(size=(6, 4)), rng.normal(size=(30, 4))
    p3, gain = riccati()
    value = -np.einsum("ni,ij,nj->n", states, p3, states)
    mean = -np.einsum("ni,ij,nj->n", background, p3, background).mean()
    np.testing.assert_allclose(measures.true_values("value", states, background).sum(axis=1), value - mean)
    control = -(states - background.mean(axis=0)) @ gain[0]
    np.testing.assert_allclose(measures.true_values("action", states, background).sum(axis=1), control)


def test_explanations_of_the_zoos_linear_quadratic_agent_are_nearly_true():
    agent = rsa2c.load("zoo:rsa2c/LQR-v0")
    for of in ("value", "action"):
        found = measures.against_truth([agent], of)
        assert found["values"][0] < 0.3 and found["correlation"][0] > 0.95
        assert found["correlation within a state"][0] > 0.9


def test_measures_of_the_truth_itself():
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(10, 4))
    agent = rsa2c.load("zoo:rsa2c/LQR-v0")
    one = agent.explain(agent.background[:10])
    from dataclasses import replace

    def of(phi):
        return measures._against(agent, replace(one, values=phi[..., None]), truth)

    right, doubled = of(truth), of(2 * truth)
    assert right["values"] == right["function"] == 0.0
    assert doubled["values"] == pytest.approx(1.0) and doubled["function"] == pytest.approx(1.0)
    for found in (right, doubled):
        assert all(found[name] == pytest.approx(1.0) for name in ("correlation", "correlation within a state", "rank"))


def test_a_share_and_pairs():
    assert measures.share(np.array([1.0, 2.0, 3.0, 2.0]), (2, 3)) == pytest.approx(5 / 8)
    assert measures.of_pairs([1, 2, 5], lambda a, b: b - a) == [1, 4, 3]
    values = np.random.default_rng(0).normal(size=(7, 3, 2))
    assert measures._correlation(values, 3 * values) == pytest.approx(1.0)
    assert measures._correlation(values, values * [1, -1]) == pytest.approx(0.0)


def test_agents_that_are_the_same_agree():
    agent = rsa2c.load("zoo:Pendulum-v1")
    found = measures.across_seeds([agent, agent])
    assert all(numbers == [pytest.approx(1.0)] for numbers in found.values())


def test_the_second_cart_changes_no_reward():
    rng = np.random.default_rng(0)
    env = tasks.TwoCarts()
    env.reset(seed=0)
    for _ in range(20):
        state, action = rng.normal(size=4), rng.uniform(-1, 1, 2)
        env.state = state.copy()
        following, reward, *_ = env.step(action)
        env.state = np.concatenate([state[:2], rng.normal(size=2)])
        other, same, *_ = env.step([action[0], -action[1]])
        assert reward == same and np.array_equal(following[:2], other[:2])
        assert not np.array_equal(following[2:], other[2:])


def test_numbers_on_the_page():
    assert fidelity.interval([1.0, 1.0]) == "1.00 [1.00, 1.00]"
    assert fidelity.interval([0.9, 1.0], bounded=True) == "0.95 [0.31, 1.00]"
    assert fidelity.interval([0.5]) == "0.50" and fidelity.interval([0.5, math.nan]) == "-"
    assert fidelity.spread([0.1, 0.3], "{:.0%}") == "20% (10% to 30%)"


def test_the_zoos_last_rows():
    agreements, areas = list(fidelity.GUIDE_COLUMNS)[:2], list(fidelity.GUIDE_COLUMNS)[2:]
    rows = [
        {**dict.fromkeys(agreements, agreement), **dict(zip(areas, of, strict=True))}
        for agreement, of in (
            (0.5, (0.1, 0.4, 0.2, 0.3)),
            (math.nan, (0.1, 0.2, 0.9, 0.3)),
            (0.5, (0.4, 0.1, 0.2, 0.3)),
        )
    ]
    mean, below = fidelity._ends("value", rows)
    assert mean == ["mean", "value", "0.50 [0.50, 0.50]", "0.50 [0.50, 0.50]", "-", "-", "-", "-"]
    assert below == ["below random order", "value", "-", "-", "2 of 3", "2 of 3", "2 of 3", "-"]


def test_a_small_run_writes_a_page(tmp_path, monkeypatch):
    """Two tasks, two seeds of almost no training: every section is there, and agents are taken from their files."""
    asked = ("--only", "rsa2c/LQR-v0,two carts", "--seeds", "2", "--steps", "3000", "--zoo", "Pendulum-v1")
    monkeypatch.setattr(sys, "argv", ["fidelity.py", *asked, "--folder", str(tmp_path), "--page", "trial"])
    pages = {}
    monkeypatch.setattr(fidelity, "write", lambda name, title, body: pages.update({name: body}))
    fidelity.main()
    page = pages["trial"]
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Against the truth: rsa2c/LQR-v0", "## A reward that ignores half of the state", "## Between seeds",
        "## What guided, and what is explained", "## The zoo's agents",
    ]  # fmt: skip
    assert page.count("| two carts |") == 5 and page.count("| Pendulum-v1 |") == 2
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(files) == 4
    fidelity.main()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    assert pages["trial"] == page


def test_an_unknown_task_is_refused_by_name():
    command = [sys.executable, BENCHMARKS / "fidelity.py", "--only", "two cats"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "--only has 'two cats'" in done.stderr and "two carts" in done.stderr


def test_one_critic_guides_by_the_value_critic_and_only_while_it_trains():
    import one_critic
    from rsa2c.algorithm import reweighting

    before = reweighting._explained
    shares = [one_critic.trained(name, 0, 24_000)[1] for name in (one_critic.OWN, one_critic.GUIDED)]
    assert reweighting._explained is before
    assert shares[0] > shares[1] + 0.1 > 3 / 13 + 0.1, "without a null, useless features keep weight"
    found = {name: [(-100.0 - i, 0.5), (-110.0 - 2 * i, 0.7)] for i, name in enumerate(one_critic.WAYS)}
    lines = one_critic.page(found).splitlines()[-4:]
    assert lines[0].startswith(f"| {one_critic.OWN} | 2 | -105.00 [-168.53, -41.47] | - | 60% |")
    assert "| -1.50 [-7.85, 4.85] |" in lines[1], "mean -1.5, standard error 0.5, t(1) = 12.7"

"""Surrogates of any policy, quality metrics and plots."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import spearmanr

import rsa2c
from rsa2c.attribution import explain
from rsa2c.attribution.quality import OWN, RANDOM, deletion_insertion, fidelity, infidelity, sensitivity_max
from rsa2c.closed_loop import explain_policy, masked_returns
from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.trained import MEASURED, WEIGHTS


@pytest.fixture(scope="module")
def function():
    """Six features of which the first two matter, the first most."""
    rng = np.random.default_rng(0)
    kernel = rsa2c.RBF(1.0, np.array([1.0, 0.3, 1e-4, 1e-4, 1e-4, 1e-4]))
    kernel = rsa2c.RBF(1.0, rsa2c.Metric(np.zeros(6), np.full(6, 2.0), 10.0, kernel.weights))
    dictionary = Dictionary(kernel, 2.0 * rng.normal(size=(30, 6)), np.ones(30))
    return rsa2c.RKHSFunction(dictionary, rng.normal(size=(30, 1)), ("f",))


@pytest.fixture(scope="module")
def table():
    return 2 * np.random.default_rng(1).normal(size=(80, 6))


@pytest.fixture(scope="module")
def explanation(function, table):
    return explain(function, table[:30], table[30:])


def test_shapley_rankings_beat_random_ones(function, table, explanation):
    curves = deletion_insertion(function, explanation, table[30:], np.random.default_rng(0))
    for name in ("shapley", "gradient", "random"):
        assert curves.deletion[name][0] == pytest.approx(0.0, abs=1e-12)
        assert curves.deletion[name][-1] == pytest.approx(1.0)
        assert curves.insertion[name][0] == pytest.approx(1.0)
        assert curves.insertion[name][-1] == pytest.approx(0.0, abs=1e-12)
    assert curves.deletion_area["shapley"] > curves.deletion_area["random"] + 0.1
    assert curves.insertion_area["shapley"] < curves.insertion_area["random"] - 0.1
    assert curves.insertion_area["shapley"] <= curves.insertion_area["gradient"] + 0.02


def test_infidelity_is_small_and_worse_for_shuffled_values(function, table, explanation):
    own = infidelity(function, explanation, table[30:], np.random.default_rng(0))
    shuffled = rsa2c.attribution.Explanation(
        **{**vars(explanation), "values": explanation.values[:, ::-1].copy()},
    )
    assert 0 < own < 0.3
    assert infidelity(function, shuffled, table[30:], np.random.default_rng(0)) > 3 * own
    with pytest.raises(DataError, match="Explain without groups"):
        infidelity(function, explain(function, table, table, groups={"g": [0, 1]}), table, np.random.default_rng(0))


def test_infidelity_of_an_additive_function_is_nil(table):
    """Functions of one feature each: no interactions, so the values tell everything."""
    kernel = rsa2c.RBF(1.0, np.array([1.0, 1e-30]))
    dictionary = Dictionary(kernel, np.random.default_rng(0).normal(size=(9, 2)), np.ones(9))
    alone = rsa2c.RKHSFunction(dictionary, np.ones((9, 1)), ("f",))
    two = table[:, :2] / 2
    assert infidelity(alone, explain(alone, two, two), two, np.random.default_rng(0)) < 1e-20


def test_sensitivity_grows_with_the_radius(function, table):
    def explainer(x):
        return explain(function, x, table[30:])

    small, large = (sensitivity_max(explainer, table[:5], np.random.default_rng(0), radius) for radius in (0.01, 0.2))
    assert small.shape == (5,)
    assert np.all(small < large)
    assert small.max() < 0.2


@pytest.fixture(scope="module")
def of_one():
    """Of six features the third alone matters."""
    kernel = rsa2c.RBF(1.0, np.array([1e-30, 1e-30, 1.0, 1e-30, 1e-30, 1e-30]))
    dictionary = Dictionary(kernel, np.random.default_rng(0).normal(size=(9, 6)), np.ones(9))
    return rsa2c.RKHSFunction(dictionary, np.ones((9, 1)), ("f",))


def test_fidelity_of_a_function_of_one_feature_is_known(of_one, table):
    """The curve falls from 1 to 0 where the third feature goes: at step k of six its area is (k - 1/2) / 6."""
    right, first, last = (0, 0, 9, 0, 0, 0), (0, 0, 9, 1, 2, 3), (5, 4, 0, 3, 2, 1)
    asked = {"right": right, "first": first, "last": last, "alike": np.ones(6)}
    found = fidelity(of_one, explain(of_one, table, table), table, asked, np.random.default_rng(0))
    assert [*found] == [OWN, *asked, RANDOM]
    for name in (OWN, "right", "first"):
        assert found[name].deletion == pytest.approx(1 / 12)
    assert found["last"].deletion == pytest.approx(11 / 12)
    for name in ("alike", RANDOM):  # the mean over places is 1/2, and the states' places are independent
        assert np.isnan(found[name].agreement)
        assert found[name].deletion == pytest.approx(0.5, abs=0.15)
    assert found[OWN].agreement == 1.0
    assert found["last"].agreement < -0.5 < 0.5 < found["right"].agreement


def test_fidelity_against_every_coalition_one_by_one(function, table, explanation):
    ranking = [3, 6, 5, 1, 2, 4]
    background = table[30:62]
    removed, moved = [1, 2, 5, 0, 4, 3], []
    for count in range(7):
        changes = []
        for s in explanation.data:
            mixed = background.copy()
            mixed[:, removed[count:]] = s[removed[count:]]
            changes.append(abs(function(mixed).mean() - function(s)[0]))
        moved.append(np.mean(changes))
    area = np.trapezoid(1.0 - np.array(moved) / moved[-1], np.arange(7) / 6)
    found = fidelity(function, explanation, background, {"asked": ranking}, np.random.default_rng(0))
    assert found["asked"].deletion == pytest.approx(area, rel=1e-12)
    assert found["asked"].agreement == pytest.approx(spearmanr(ranking, explanation.importances[:, 0])[0])
    assert found[OWN].deletion < found[RANDOM].deletion


def test_fidelity_is_of_one_function_and_of_features(function, table, explanation):
    def asked(one, rankings):
        return fidelity(function, one, table, rankings, np.random.default_rng(0))

    with pytest.raises(DataError, match="explanation is of g, and the function has f"):
        asked(replace(explanation, output_names=("g",)), {})
    with pytest.raises(DataError, match="Explain without groups"):
        asked(explain(function, table, table, groups={"g": [0, 1]}), {})
    with pytest.raises(DataError, match="same features, got 2 and 6"):
        asked(explanation, {"short": [1, 2]})


def test_an_agent_knows_what_guided_it():
    agent = rsa2c.load("zoo:Pendulum-v1")
    explanation = agent.explain(agent.background[:40], of="action")
    found = agent.fidelity(explanation, "action")
    assert [*found] == [OWN, MEASURED, WEIGHTS, RANDOM]
    expected = spearmanr(agent.kernel_weights, explanation.importances[:, 0])[0]
    assert found[WEIGHTS].agreement == pytest.approx(expected)
    again = agent.fidelity(explanation, "action")
    assert [one.deletion for one in again.values()] == [one.deletion for one in found.values()], "its own generator"


def controller(observation):
    """Swings Pendulum-v1 up by energy and holds it by feedback; smooth."""
    cosine, sine, speed = np.moveaxis(np.asarray(observation), -1, 0)
    angle = np.arctan2(sine, cosine)
    hold = -(12.0 * angle + 3.0 * speed)
    swing = speed * (1 - (0.5 * speed**2 / 3 + 5 * (cosine - 1)) / 20)
    near = 1 / (1 + np.exp(20 * (np.abs(angle) - 0.5)))
    return 2 * np.tanh((near * hold + (1 - near) * swing) / 2)[..., None]


class Controller:
    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        return controller(observation).astype(np.float32), state


@pytest.fixture(scope="module")
def explained():
    return explain_policy(Controller(), "Pendulum-v1", steps=2000, centres=300, background=40)


def test_a_policy_is_explained_by_a_faithful_surrogate(explained):
    assert explained.r2.shape == (1,)
    assert explained.r2[0] >= 0.9
    result = explained.explanation
    assert result.values.shape == (64, 3, 1)
    assert result.output_names == ("torque",)
    total = result.values.sum(axis=1) + result.base_values
    np.testing.assert_allclose(total, explained.surrogate(result.data), atol=1e-8)
    assert "R^2: torque" in str(explained)


def test_functions_are_policies_and_poor_surrogates_are_refused():
    rough = partial(lambda observation, rng: rng.uniform(-2, 2, 1), rng=np.random.default_rng(0))
    with pytest.raises(DataError, match=r"R\^2 must be at least 0.9"):
        explain_policy(rough, "Pendulum-v1", steps=500, centres=20)
    accepted = explain_policy(rough, "Pendulum-v1", steps=500, centres=20, minimum_r2=-np.inf)
    assert accepted.r2[0] < 0.9
    still = explain_policy(lambda observation: np.zeros(1), "Pendulum-v1", steps=500, centres=20)
    assert still.r2[0] == 1.0
    assert np.abs(still.explanation.values).max() == 0.0
    with pytest.raises(ConfigError, match="method predict"):
        explain_policy(3, "Pendulum-v1")
    with pytest.raises(ConfigError, match="at least 500 steps"):
        explain_policy(controller, "Pendulum-v1", steps=10)


def test_hiding_what_matters_costs_return(explained):
    importances = explained.explanation.importances[:, 0]
    fill = explained.visited.mean(axis=0)
    returns = masked_returns(Controller(), "Pendulum-v1", importances, fill, counts=(0, 2), episodes=4)
    assert returns[0].shape == (4,)
    assert returns[2].mean() < returns[0].mean() - 100
    with pytest.raises(ConfigError, match="between 0 and 3"):
        masked_returns(Controller(), "Pendulum-v1", importances, fill, counts=(0, 4))


def test_plots_are_written_twice_and_reproducibly(explanation, tmp_path):
    pytest.importorskip("matplotlib")
    from rsa2c import plots

    rng = np.random.default_rng(0)
    names = explanation.feature_names
    steps = np.arange(10) * 100
    figures = {
        "beeswarm": lambda: plots.beeswarm(explanation, features=4),
        "waterfall": lambda: plots.waterfall(explanation, state=3, features=3),
        "bar": lambda: plots.bar(explanation),
        "heatmap": lambda: plots.heatmap(np.arange(8), rng.random((8, 6)), names),
        "curve": lambda: plots.learning_curve({"a": (steps, steps), "b": (steps, steps, steps - 9, steps + 9)}),
    }
    for name, draw in figures.items():
        first = plots.save(draw(), tmp_path / name)
        assert [p.name for p in first] == [f"{name}.png", f"{name}.svg"]
        assert all(p.stat().st_size > 3000 for p in first)
    before = (tmp_path / "bar.svg").read_bytes()
    plots.save(figures["bar"](), tmp_path / "bar.svg")
    assert (tmp_path / "bar.svg").read_bytes() == before
    with pytest.raises(DataError, match=r"\(epochs, features\) = \(3, 6\)"):
        plots.heatmap(np.arange(3), np.ones((3, 5)), names)

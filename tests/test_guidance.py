"""From attributions to weights: the null separates, the rules keep their promises."""

from dataclasses import replace

import numpy as np
import pytest

from rsa2c.algorithm import guidance
from rsa2c.algorithm.guidance import Importances, measure, shadow_critic
from rsa2c.algorithm.released import printed_weights, ratio_weights
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import shapley_product
from rsa2c.attribution.sampled import permutation_values
from rsa2c.config import CME, PrintedGuidance, ReleasedGuidance, ShadowGuidance
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF


def useful_and_useless(n=3000, d=8, seed=0):
    """A target of the first two features, and noise."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, d))
    target = np.sin(2 * states[:, 0]) + states[:, 0] * states[:, 1] + 0.5 * rng.normal(size=n)
    return states, target[:, None], rng


def test_the_null_separates_useful_from_useless_features():
    rule = ShadowGuidance(weight_floor=0.02)
    states, target, rng = useful_and_useless()
    importances = Importances.none(8)
    for _ in range(8):
        explained = shadow_critic(states, [target], "rbf", rule.attribution_centres, rng)
        moments, null, _ = measure(explained, 8, rule, rng)
        importances = importances.updated(moments, null, explained.explained, rule.moment_decay)
    weights = importances.weights(rule.weight_floor, length_scale=3.0)
    assert weights[:2].min() > 1.5
    assert weights[2:].max() < 0.5


def test_pure_noise_leaves_no_feature_far_above_the_null():
    states, _, rng = useful_and_useless()
    noise = rng.normal(size=(len(states), 1))
    moments, null, _ = measure(shadow_critic(states, [noise], "rbf", 200, rng), 8, ShadowGuidance(), rng)
    assert moments.max() < 4 * null[0]


def test_what_is_logged_is_the_mean_absolute_attribution_whatever_guides():
    states, target, _ = useful_and_useless()
    logged = []
    rules = [ReleasedGuidance(phi_statistic=name, phi_estimator="exact") for name in ("signed", "absolute")]
    for rule in (ShadowGuidance(attribution_background=rules[0].attribution_background), *rules):
        rng = np.random.default_rng(3)
        moments, _, phi = measure(shadow_critic(states, [target], "rbf", 200, rng), 8, rule, rng)
        logged.append(phi)
    np.testing.assert_array_equal(logged[0], logged[2])
    np.testing.assert_array_equal(logged[1], logged[2])
    np.testing.assert_allclose(logged[2], moments[0])


@pytest.mark.parametrize("floor", [0.02, 0.5])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_weights_keep_floor_and_sum(floor, power, monkeypatch):
    rng = np.random.default_rng(1)
    monkeypatch.setattr(guidance, "WEIGHT_POWER", power)
    importances = Importances(rng.uniform(0, 5, (2, 6)), np.array([0.7, 1.1]), np.ones(2), 9)
    weights = importances.weights(floor, length_scale=1e3)
    assert weights.sum() == pytest.approx(6)
    assert weights.min() >= floor - 1e-12


def test_the_floor_is_the_one_set_where_all_is_explained_and_one_where_nothing_is():
    moments, null = np.array([[9.0, 0.0, 0.0, 0.0]]), np.array([0.1])
    smallest = [Importances(moments, null, np.array([e]), 3).weights(0.04, 1e3).min() for e in (1.0, 0.5, 0.0)]
    np.testing.assert_allclose(smallest, [0.04, 0.2, 1.0])


def test_the_share_explained_is_that_of_the_regression():
    states, target, rng = useful_and_useless()
    noise = rng.normal(size=(len(states), 3))
    explained = shadow_critic(states, [target, noise], "rbf", 200, rng)
    predicted = (explained.dictionary.features(states.dtype)(explained.x) @ explained.coefficients)[:, 0]
    wanted = _rows_of(explained, states, target)
    wanted = (wanted - wanted.mean()) / wanted.std()
    assert explained.explained[0] == pytest.approx(1 - np.mean((wanted - predicted) ** 2))
    assert explained.explained[1] < 0.15 < 0.4 < explained.explained[0]


def _rows_of(explained, states, target):
    """The targets in the order in which the regression drew the states."""
    order = {row.tobytes(): k for k, row in enumerate(states)}
    return np.array([target[order[row.tobytes()], 0] for row in np.ascontiguousarray(explained.x[:, :8])])


def test_nothing_above_the_null_means_equal_weights():
    importances = Importances(np.full((1, 4), 0.5), np.array([1.0]), np.ones(1), 3)
    np.testing.assert_array_equal(importances.weights(0.3, 1.0), 1.0)


def test_no_length_scale_under_the_shortest():
    importances = Importances(np.array([[9.0, 0.0, 0.0, 0.0]]), np.array([0.0]), np.ones(1), 3)
    weights = importances.weights(0.3, length_scale=0.9)
    assert 0.9 / np.sqrt(weights.max()) == pytest.approx(guidance.SHORTEST_LENGTH_SCALE)


def test_averages_are_plain_means_first():
    importances = Importances.none(2)
    rows = np.arange(10.0).reshape(5, 1, 2)
    for row in rows:
        importances = importances.updated(row, np.array([1.0]), np.ones(1), decay=0.97)
    np.testing.assert_allclose(importances.moments, rows.mean(axis=0))


def test_ratio_rule_of_the_released_code():
    rule = ReleasedGuidance(weight_floor=0.3, ratio_mix=0.25, ratio_range=2.0)
    weights = ratio_weights(np.array([-5.0, 0.3, 30.0]), rule)
    relative = np.array([0.3, 0.3, 30.0]) / np.mean([0.3, 0.3, 30.0])
    rho = np.clip(1 / np.sqrt(relative), 0.5, 2.0)
    np.testing.assert_allclose(1 / np.sqrt(weights), 0.75 + 0.25 * rho)
    one = ReleasedGuidance(weight_floor=0.3, ratio_features=1)
    assert np.sum(ratio_weights(np.array([0.3, 1.0, 30.0]), one) != 1.0) == 1


def test_the_printed_rule_leaves_no_length_scale_beside_the_importances():
    rule = PrintedGuidance(weight_floor=0.01)
    phi = np.array([3.0, 0.0, 0.5])
    x, y = np.array([[0.3, -1.0, 0.2]]), np.array([[0.1, 0.4, -0.9]])
    expected = np.exp(-0.5 * np.sum(np.array([3.0, 0.01, 0.5]) * (x - y) ** 2))
    for length_scale in (0.8, 10.0):
        kernel = RBF(length_scale, printed_weights(phi, rule, length_scale))
        np.testing.assert_allclose(kernel(x, y), [[expected]])
    assert (rule.phi_statistic, rule.phi_estimator) == ("absolute", "exact")


def test_one_permutation_is_efficient_and_right_on_average():
    rng = np.random.default_rng(2)
    kernel = RBF(1.2, np.array([1.0, 0.5, 2.0, 1.0]))
    x, background, centres = rng.normal(size=(3, 4)), rng.normal(size=(9, 4)), rng.normal(size=(6, 4))
    coefficients = rng.normal(size=(6, 2))
    game = Game(x, background, centres, coefficients, kernel)
    draws = [permutation_values(game, rng) for _ in range(1500)]
    exact = shapley_product(game, 2)
    total = kernel(x, centres) @ coefficients - (kernel(background, centres) @ coefficients).mean(axis=0)
    np.testing.assert_allclose(draws[0].sum(axis=1), total, atol=1e-12)
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(np.mean(draws, axis=0) - exact) < 5 * error + 1e-12)


@pytest.mark.parametrize(("kind", "rank", "error"), [("nystroem", 48, 1e-6), ("fourier", 1000, 0.2)])
def test_the_approximated_game_of_training_tends_to_the_exact_one(kind, rank, error):
    """With all background states as landmarks Nystroem's features are the Gram matrix; Fourier's tend to it."""
    states, target, _ = useful_and_useless(n=400, d=3)
    explained = shadow_critic(states, [target], "rbf", 100, np.random.default_rng(0))
    found = []
    for game in (CME(), CME(cme_approximation=kind, cme_rank=rank), CME(cme_approximation=kind, cme_rank=3)):
        rule = PrintedGuidance(game=game, attribution_states=20)
        critic = replace(explained, x=states, dictionary=explained_by(explained, 3), sources=[slice(0, 1)])
        found.append(measure(critic, 3, rule, np.random.default_rng(1))[2])
    exact, close, rough = found
    np.testing.assert_allclose(close, exact, rtol=error)
    assert np.abs(rough - exact).max() > 10 * np.abs(close - exact).max()


def explained_by(explained, d):
    """The dictionary of a critic on its first d features."""
    dictionary = explained.dictionary
    kernel = RBF(dictionary.kernel.length_scale, np.ones(d))
    return Dictionary(kernel, dictionary.states[:, :d], dictionary.errors)

"""Importances other than Shapley values: each against an answer that is known otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal, norm

import rsa2c
from rsa2c.algorithm import importance
from rsa2c.algorithm.guidance import attribution_critics
from rsa2c.algorithm.importance import MEASURED, negative_evidence, other_importance
from rsa2c.algorithm.weights import Importances
from rsa2c.config import AgreementGuidance, Config
from rsa2c.errors import ConfigError

SHARES = np.array([0.8, 0.2, 0.0, 0.0])
"""Shares of the variance of y = (2 x_0 - x_1) / sqrt 5 that its four features have."""


def binned_information(correlations):
    """Nats that two jointly normal numbers of these correlations say of each other in bins of equal counts."""
    edges = norm.ppf(np.arange(importance.BINS + 1) / importance.BINS).clip(-8, 8)
    found = []
    for r in correlations:
        below = [[multivariate_normal.cdf([a, b], cov=[[1, r], [r, 1]]) for b in edges] for a in edges]
        cells = np.diff(np.diff(below, axis=0), axis=1).clip(1e-300)
        found.append(np.sum(cells * np.log(cells * importance.BINS**2)))
    return np.array(found)


def linear(n=6000, noise=0.0, seed=0, outputs=1):
    """Critics of the two halves of y = 2 x_0 - x_1."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4))
    y = 2 * x[:, :1] - x[:, 1:2] + noise * rng.standard_normal((n, 1))
    return halves(x, np.hstack([y] * outputs), rng), rng


def halves(x, y, rng, centres=200):
    return attribution_critics(x, [y], np.arange(len(x)) < len(x) // 2, "rbf", centres, rng)


def measured(name, critics, seed=1, distractors=2):
    return other_importance(name, critics, distractors, (np.random.default_rng(seed), np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("name", "expected", "tolerance"),
    [
        ("permutation", 2 * SHARES, 0.15),  # E (g(x) - g(x'))^2 = 2 Var g
        ("gradient", SHARES, 0.1),  # squares of the slopes
        ("correlation", SHARES, 0.03),
        ("mutual-information", binned_information(np.sqrt(SHARES)), 0.03),
    ],
)
def test_an_additive_function_has_the_importances_of_its_parts(name, expected, tolerance):
    found = measured(name, linear()[0])
    np.testing.assert_allclose(found.agreed[0], expected, atol=tolerance)
    np.testing.assert_allclose(found.alone[0], expected, atol=tolerance)
    np.testing.assert_array_equal(found.logged, np.sqrt(np.maximum(found.agreed[0], 0.0)))
    assert found.agreed.shape == found.alone.shape == (1, 4)


@pytest.mark.parametrize("name", [*MEASURED])
def test_importances_of_useful_features_repeat_and_those_of_useless_ones_do_not(name):
    averages = Importances.none(4)
    for seed in range(8):
        averages = averages.updated(measured(name, linear(3000, noise=2.0, seed=seed)[0], seed), np.zeros(4), 0.97)
    assert averages.agreed[0, 0] > averages.agreed[0, 1] > 4 * max(averages.agreed[0, 2:].max(), 0.0)
    assert averages.repeated()[:2].min() > 0.5 > 0.25 > averages.repeated()[2:].max()


def test_permuting_a_feature_is_what_it_says():
    one, other = linear(900)[0]
    rng = np.random.default_rng(7)
    expected = np.zeros((4, 4))
    pairs = ((one, other), (other, one), (one, one), (other, other))
    for rise, (critic, half) in zip(expected, pairs, strict=True):
        rows = rng.choice(450, 450, replace=False)
        x, y = half.x[rows], half.targets[rows]
        kernel, centres = critic.dictionary.kernel, critic.dictionary.centres
        for i in range(x.shape[1]):
            permuted = x.copy()
            permuted[:, i] = x[rng.permutation(len(x)), i]
            error = (y - kernel(permuted, centres) @ critic.coefficients) ** 2
            rise[i] = np.mean(error - (y - kernel(x, centres) @ critic.coefficients) ** 2)
    agreed, alone = importance.permutation((one, other), np.random.default_rng(7))
    np.testing.assert_allclose(agreed[0], expected[:2].mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(alone[0], expected[2:].mean(axis=0), atol=1e-10)


def test_information_of_a_number_about_itself_is_that_of_its_bin():
    critics, rng = linear(6400)
    for critic in critics:
        object.__setattr__(critic, "targets", critic.x[:, [2]].astype(np.float64))
    found, alone = (each[0] for each in importance.mutual_information(critics, rng))
    assert found[2] == pytest.approx(np.log(importance.BINS), abs=0.01)
    assert np.delete(found, 2).min() > -0.05 and np.delete(found, 2).max() < 0, "held out, nothing is gained by chance"
    assert np.delete(alone, 2).min() > 0
    for critic in critics:
        object.__setattr__(critic, "targets", np.ones((len(critic.x), 1)))
    np.testing.assert_allclose(importance.mutual_information(critics, rng), 0.0, atol=1e-3)
    np.testing.assert_allclose(importance.correlation(critics, rng), 0.0, atol=1e-20)


def test_the_gradient_of_the_marginal_likelihood():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((25, 3)), rng.standard_normal((25, 2))
    theta = np.array([-1.0, 0.3, -2.0, -0.4, -1.2])
    value = check_grad(
        lambda t: negative_evidence(t, x, y)[0], lambda t: negative_evidence(t, x, y)[1], theta, epsilon=1e-6
    )
    assert value < 1e-3
    covariance = np.exp(theta[3]) * np.exp(-0.5 * ((x[:, None] - x) ** 2 @ np.exp(theta[:3]))) + np.exp(
        theta[4]
    ) * np.eye(25)
    sign, log = np.linalg.slogdet(covariance)
    by_hand = np.sum(y * np.linalg.solve(covariance, y)) / 2 + 2 * log / 2
    assert sign > 0 and negative_evidence(theta, x, y)[0] == pytest.approx(by_hand)


def test_relevance_finds_the_length_scales_of_a_gaussian_process():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    relevance = np.array([4.0, 0.5, 0.0])
    covariance = np.exp(-0.5 * ((x[:, None] - x) ** 2 @ relevance)) + 1e-2 * np.eye(300)
    y = np.linalg.cholesky(covariance) @ rng.standard_normal((300, 1))
    both = np.concatenate([x, x]), np.concatenate([y, y])
    for found in importance.ard(halves(*both, rng, 50), rng):
        np.testing.assert_allclose(found[0, :2], relevance[:2], rtol=0.4)
        assert found[0, 2:].max() < 0.1


def test_sources_of_several_outputs_are_summed():
    """Twice the same output, standardised as a whole, has twice the importance."""
    for name in ("permutation", "gradient", "correlation", "mutual-information"):
        one, two = (measured(name, linear(1500, outputs=outputs)[0]) for outputs in (1, 2))
        np.testing.assert_allclose(two.agreed, 2 * one.agreed, atol=1e-8)
        np.testing.assert_allclose(two.alone, 2 * one.alone, atol=1e-8)


def test_random_numbers_stay_the_same_and_the_oracle_knows():
    critics, _ = linear(500)
    first, again = (measured("random", critics, seed).agreed for seed in (1, 2))
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first)) == 4
    known = measured("oracle", critics, distractors=3)
    np.testing.assert_array_equal(known.agreed, [[1.0, 0.0, 0.0, 0.0]])
    assert known.explained == [1.0] != measured("random", critics).explained
    averages = Importances.none(4).updated(known, np.zeros(4), 0.9)
    weights = averages.weights(AgreementGuidance(weight_floor=0.1), 3.0, np.ones(4, bool))
    np.testing.assert_allclose(weights, [0.1 + 0.9 * 4, 0.1, 0.1, 0.1])


def test_none_leaves_what_actions_move():
    found = Importances.none(4).updated(measured("none", linear(500)[0]), np.arange(4.0) * 3, 0.9)
    np.testing.assert_array_equal(found.agreed, 0.0)
    np.testing.assert_array_equal(found.counts(0.9), [0.0, 0.0, 1.0, 1.0])


def test_every_importance_trains():
    settings = {"n_envs": 2, "horizon": 60, "capacity": 30, "initial_centres": 10, "seed": 5, "distractors": 3}
    eager = {"attribution_every": 1, "attribution_warmup": 1, "attribution_centres": 20, "trust_region": 10.0}
    logs = {}
    for name in ("shapley", *MEASURED, "random", "oracle", "none"):
        agent = rsa2c.RSA2C("Pendulum-v1", importance=name, **settings, **eager)
        for _ in range(8):
            agent.run_epoch()
        logs[name] = agent.policy.mean.kernel.weights
        assert np.all(np.isfinite(agent.attribution_log[-1][1]))
    assert len({weights.tobytes() for weights in logs.values()}) == len(logs)
    assert logs["oracle"][:3].min() > 1 > logs["oracle"][3:].max()


def test_a_game_that_is_not_played_is_refused():
    assert AgreementGuidance().importance == "shapley"
    with pytest.raises(ConfigError, match="attribution='cme' has no effect with importance='ard'"):
        Config.of(attribution="cme", importance="ard")
    with pytest.raises(ConfigError, match=r"importance must be.*Did you mean 'permutation'"):
        Config.of(importance="permutations")

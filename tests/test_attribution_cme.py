"""Observational values: against dense enumeration, exact ends, honest standard errors, known Gaussian conditionals."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import (
    gaussian_conditional_game,
    interactions_by_enumeration,
    observational_game,
    shapley_by_enumeration,
)
from rsa2c.attribution import explain
from rsa2c.attribution.cme import cme_values
from rsa2c.attribution.game import Game
from rsa2c.attribution.models import Expansion
from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.kernels import RBF, kernel_from_name

EMBEDDINGS = ("intercept", "marginal", "paper")


def problem(seed=0, d=4, n=14, q=6, states=2, name="rbf", outputs=2):
    rng = np.random.default_rng(seed)
    kernel = kernel_from_name(name, 0.8 * np.sqrt(d), rng.uniform(0.4, 2.0, d))
    mixing = rng.normal(size=(d, d)) / np.sqrt(d) + np.eye(d)
    x, background, centres = (rng.normal(size=(count, d)) @ mixing for count in (states, n, q))
    return x, background, centres, rng.normal(size=(q, outputs)), kernel


def expansion(centres, coefficients, kernel):
    m = coefficients.shape[1]
    return Expansion(kernel, centres, coefficients, np.zeros(m), tuple(f"f{o}" for o in range(m)))


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("name", ["rbf", "laplace"])
def test_enumerated_values_and_interactions_are_those_of_the_definition(embedding, name):
    x, background, centres, coefficients, kernel = problem(name=name)
    explanation = explain(
        expansion(centres, coefficients, kernel),
        x,
        background,
        method="cme",
        embedding=embedding,
        ridge=1e-2,
        interactions=True,
    )
    for t in range(len(x)):
        game = observational_game(name, kernel.scales, x[t], background, centres, coefficients, embedding, 1e-2)
        np.testing.assert_allclose(explanation.values[t], shapley_by_enumeration(game, 4), atol=1e-10)
        pairs = interactions_by_enumeration(game, 4)
        off = ~np.eye(4, dtype=bool)
        np.testing.assert_allclose(explanation.interactions[t][off], pairs[off] / 2, atol=1e-10)
    assert explanation.std_error is None


@pytest.mark.parametrize("approximation", [None, "nystroem", "fourier"])
@pytest.mark.parametrize("embedding", ["intercept", "marginal"])
def test_ends_hold_to_rounding(embedding, approximation):
    x, background, centres, coefficients, kernel = problem(d=6, n=40, q=20)
    rng = np.random.default_rng(0)
    game = Game(x, background, centres, coefficients, kernel)
    _, _, nobody, everybody = cme_values(game, embedding, approximation=approximation, rank=12, rng=rng)
    mean = (kernel(background, centres) @ coefficients).mean(axis=0)
    np.testing.assert_allclose(nobody, np.broadcast_to(mean, nobody.shape), atol=1e-11)
    np.testing.assert_allclose(everybody, kernel(x, centres) @ coefficients, atol=1e-11)


def test_the_paper_embedding_reports_what_it_misses():
    x, background, centres, coefficients, kernel = problem(d=6, n=20)
    function = expansion(centres, coefficients, kernel)
    residual = {e: explain(function, x, background, method="cme", embedding=e).efficiency_residual for e in EMBEDDINGS}
    assert np.abs(residual["paper"]).max() > 1e-2
    assert max(np.abs(residual[e]).max() for e in ("intercept", "marginal")) < 1e-11


def test_nystroem_with_every_landmark_is_exact_and_random_features_come_close():
    x, background, centres, coefficients, kernel = problem(d=4, n=30, q=10)
    game = Game(x, background, centres, coefficients, kernel)
    exact = cme_values(game, ridge=1e-2)[0]
    for approximation, rank, tolerance in (("nystroem", 30, 1e-7), ("fourier", 1500, 0.1)):
        rng = np.random.default_rng(0)
        values = cme_values(game, ridge=1e-2, approximation=approximation, rank=rank, rng=rng)[0]
        np.testing.assert_allclose(values, exact, atol=tolerance * np.abs(exact).max())


def test_groups_join_together():
    x, background, centres, coefficients, kernel = problem(d=5)
    explanation = explain(
        expansion(centres, coefficients, kernel), x, background, method="cme", groups={"pair": [0, 3]}
    )
    assert explanation.feature_names == ("pair", "x1", "x2", "x4")
    players = [(0, 3), (1,), (2,), (4,)]
    game = observational_game("rbf", kernel.scales, x[0], background, centres, coefficients, "intercept", 1e-3)

    def grouped(coalition):
        return game(tuple(sorted(i for player in coalition for i in players[player])))

    np.testing.assert_allclose(explanation.values[0], shapley_by_enumeration(grouped, 4), atol=1e-9)


def coverage(repeats, pairs=30):
    game = Game(*problem(d=6, n=16, q=8, states=1, outputs=1))
    exact = cme_values(game)[0]
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(repeats):
        values, error, *_ = cme_values(game, permutations=2 * pairs, rng=rng)
        inside.append(np.abs(values - exact) <= 1.96 * error)
    return np.mean(inside)


def test_standard_errors_cover_the_enumerated_value():
    assert 0.90 <= coverage(40) <= 0.99


@pytest.mark.slow
def test_standard_errors_cover_at_their_nominal_rate_over_500_repeats():
    assert 0.92 <= coverage(500) <= 0.98


def test_sampling_stops_at_the_tolerance_and_adds_up():
    x, background, centres, coefficients, kernel = problem(d=12, n=20, q=8)
    function = expansion(centres, coefficients, kernel)
    explanation = explain(function, x, background, method="cme", tolerance=0.05, rng=np.random.default_rng(0))
    scale = np.abs(explanation.values).max(axis=(0, 1))
    assert np.all(explanation.std_error.max(axis=(0, 1)) <= 0.05 * scale)
    assert np.all(explanation.std_error.max() > 0)
    assert np.abs(explanation.efficiency_residual).max() < 1e-11
    assert "sampled" in explanation.game
    again = explain(function, x, background, method="cme", tolerance=0.05, rng=np.random.default_rng(0))
    assert again.values.tobytes() == explanation.values.tobytes()


def test_many_states_go_in_blocks(monkeypatch):
    x, background, centres, coefficients, kernel = problem(states=7)
    function = expansion(centres, coefficients, kernel)
    whole = explain(function, x, background, method="cme").values
    monkeypatch.setattr("rsa2c.attribution.playing.STATE_BYTES", 10_000)
    np.testing.assert_allclose(explain(function, x, background, method="cme").values, whole, rtol=1e-12)


def gaussian_errors(sizes, repeats, embedding, d=4):
    """RMS error of the values against the analytic conditional game, relative to the values, by background size."""
    rng = np.random.default_rng(3)
    mixing = rng.normal(size=(d, d))
    covariance = mixing @ mixing.T / d + 0.5 * np.eye(d)
    centre, scales = rng.normal(size=d), np.full(d, 0.7)
    states = rng.multivariate_normal(np.zeros(d), covariance, size=6)
    truth = []
    for state in states:
        game = gaussian_conditional_game(np.zeros(d), covariance, state, centre, scales)
        truth.append(shapley_by_enumeration(lambda c, game=game: np.array(game(c)), d))
    truth = np.array(truth)
    errors = []
    for size in sizes:
        squares = []
        for _ in range(repeats):
            background = rng.multivariate_normal(np.zeros(d), covariance, size=size)
            game = Game(states, background, centre[None], np.ones((1, 1)), RBF(1.0, scales**2))
            values = cme_values(game, embedding, ridge=1e-3)[0][..., 0]
            squares.append(np.mean((values - truth) ** 2))
        errors.append(np.sqrt(np.mean(squares) / np.mean(truth**2)))
    return errors


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_the_error_against_gaussian_conditionals_falls_with_the_background(embedding):
    few, more, many = gaussian_errors((16, 64, 256), 6, embedding)
    assert many < more < few
    assert many < 0.2


def test_the_ridge_is_chosen_by_held_out_error_and_named():
    x, background, centres, coefficients, kernel = problem(n=40)
    explanation = explain(expansion(centres, coefficients, kernel), x, background, method="cme", ridge="auto")
    assert "by held-out error" in explanation.game
    with pytest.raises(DataError, match="at least 4 background states"):
        explain(expansion(centres, coefficients, kernel), x, background[:3], method="cme", ridge="auto")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embedding": "intercpet"}, "Did you mean 'intercept'"),
        ({"ridge": -1.0}, "ridge must be a positive number"),
        ({"ridge": "best"}, "ridge must be 'auto'"),
        ({"approximation": "fourrier"}, "Did you mean 'fourier'"),
        ({"permutations": 2}, "at least 4"),
        ({"interactions": True, "permutations": 8}, "at most 10 players"),
        ({"approximation": "nystroem", "rank": 0}, "rank must be at least 1"),
        ({"rank": 8}, "rank=8 needs an approximation: 'nystroem' or 'fourier'"),
        ({"nodes": 4}, "nodes is a setting of method='kme' and would do nothing with method='cme'"),
        ({"rigde": 1e-3}, "no option 'rigde'.*Did you mean 'ridge'"),
        ({"tolerance": 0.0}, "tolerance must be a positive number"),
    ],
)
def test_bad_settings_are_named(options, message):
    x, background, centres, coefficients, kernel = problem()
    with pytest.raises(ConfigError, match=message):
        explain(expansion(centres, coefficients, kernel), x, background, method="cme", **options)


def test_the_low_level_function_insists_on_a_generator_for_sampling():
    with pytest.raises(ConfigError, match="random generator"):
        cme_values(Game(*problem(d=12)))

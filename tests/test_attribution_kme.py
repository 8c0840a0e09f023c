"""Interventional values: against enumeration, the axioms, node choice, groups, interactions, memory and threads."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import interactions_by_enumeration, interventional_game, product_kernel, shapley_by_enumeration
from rsa2c.attribution import explain
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import choose_nodes, exact_nodes, interaction_product, shapley_product
from rsa2c.attribution.models import Expansion
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.metric import Metric


def problem(seed, d=None, outputs=None, name=None, states=2):
    """A random expansion with ARD weights, states and background."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 11)) if d is None else d
    m = int(rng.integers(1, 4)) if outputs is None else outputs
    name = ("rbf", "laplace")[seed % 2] if name is None else name
    kernel = kernel_from_name(name, float(rng.uniform(0.4, 1.5) * np.sqrt(d)), rng.uniform(0.2, 3.0, d))
    q, b = int(rng.integers(1, 20)), int(rng.integers(1, 12))
    x, background, centres = (rng.normal(size=(count, d)) for count in (states, b, q))
    return Game(x, background, centres, rng.normal(size=(q, m)), kernel)


def normal_game(seed, kernel, states, background, centres, outputs=1):
    """A game whose states, background, centres and coefficients are standard normal."""
    rng = np.random.default_rng(seed)
    x, b, c = (rng.normal(size=(count, kernel.dimension)) for count in (states, background, centres))
    return Game(x, b, c, rng.normal(size=(centres, outputs)), kernel)


def explained(game, **options):
    """By the public door."""
    names = tuple(f"f{o}" for o in range(game.outputs))
    function = Expansion(game.kernel, game.centres, game.coefficients, np.zeros(game.outputs), names)
    return explain(function, game.states, game.background, **options)


def oracle(game, t, players=None):
    """v(C) of state t from the definition, each coalition evaluated once."""

    def function(z):
        return product_kernel(game.kernel.name, game.kernel.scales, z, game.centres) @ game.coefficients

    return cache(interventional_game(function, game.states[t], game.background, players))


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_two_hundred_random_problems_against_enumeration(first):
    for seed in range(first, first + 20):
        game = problem(seed, d=2 + seed % 9 if seed < 180 else 4)
        d = game.player_count
        # The oracle grows as 4^d: one state beyond seven features, and few centres.
        if d > 7:
            few = Game(game.states[:1], game.background[:3], game.centres[:4], game.coefficients[:4], game.kernel)
            game = few
        explanation = explained(game, interactions=True, nodes="exact")
        scale, off = np.abs(explanation.values).max(), ~np.eye(d, dtype=bool)
        for t in range(len(game.states)):
            v = oracle(game, t)
            values, pairs = shapley_by_enumeration(v, d), interactions_by_enumeration(v, d)
            np.testing.assert_allclose(explanation.values[t], values, atol=1e-10 * scale, rtol=0)
            np.testing.assert_allclose(explanation.interactions[t][off], pairs[off] / 2, atol=1e-9 * scale, rtol=0)
            np.testing.assert_allclose(explanation.interactions[t].sum(axis=1), values, atol=1e-9 * scale, rtol=0)
        assert np.abs(explanation.efficiency_residual).max() <= 1e-10 * scale


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_a_feature_that_never_matters_gets_nothing(seed, d):
    game = problem(seed, d, states=1)
    dummy = seed % d
    # The state's feature equals every background state's: no coalition can change anything by it.
    game.background[:, dummy] = game.states[0, dummy]
    values = shapley_product(game, exact_nodes(d))
    assert np.abs(values[0, dummy]).max() == 0.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_features_that_play_the_same_part_get_the_same(seed, d):
    game = problem(seed, d)
    i, j = seed % d, (seed + 1) % d
    weights = game.kernel.weights.copy()
    weights[j] = weights[i]
    for array in (game.states, game.background, game.centres):
        array[:, j] = array[:, i]
    values = shapley_product(replace(game, kernel=game.kernel.on(Metric.weighted(weights))), exact_nodes(d))
    np.testing.assert_allclose(values[:, i], values[:, j], rtol=1e-10, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(-3, 3))
def test_values_are_linear_in_the_function_and_antisymmetric_in_state_and_background(seed, u, v):
    game = problem(seed, outputs=2)
    nodes = exact_nodes(game.player_count)
    values = shapley_product(game, nodes)
    mixed = shapley_product(replace(game, coefficients=game.coefficients @ np.array([[u], [v]])), nodes)
    np.testing.assert_allclose(mixed[..., 0], u * values[..., 0] + v * values[..., 1], atol=1e-12)
    state, other = game.states[:1], game.background[:1]
    there = shapley_product(replace(game, states=state, background=other), nodes)
    back = shapley_product(replace(game, states=other, background=state), nodes)
    np.testing.assert_allclose(there, -back, atol=1e-13)


def test_values_far_from_everything_underflow_quietly():
    game = problem(3, d=40)
    away = game.at(game.states + 1e3)
    near = game.function(game.background)
    np.testing.assert_allclose(shapley_product(away, exact_nodes(40)).sum(axis=1) + near.mean(axis=0), 0.0, atol=1e-12)
    assert np.all(shapley_product(replace(away, background=game.background - 1e3), 6) == 0.0)


def relative_error(game, nodes):
    """The largest error of so many nodes, relative to each output's largest value."""
    exact = shapley_product(game, exact_nodes(game.player_count))
    error = np.abs(shapley_product(game, nodes) - exact).max(axis=(0, 1))
    return float((error / np.abs(exact).max(axis=(0, 1))).max())


@pytest.mark.parametrize(("d", "length"), [(24, 0.5), (24, 0.25), (60, 0.6), (105, 0.98)])
def test_the_chosen_nodes_keep_the_tolerance_and_are_fewer_than_exact_ones(d, length):
    game = normal_game(d, kernel_from_name("rbf", length * np.sqrt(d), np.ones(d)), 12, 24, 60, outputs=2)
    counts = []
    for tolerance in (1e-3, 1e-6, 1e-9):
        nodes, estimate = choose_nodes(game, tolerance)
        assert relative_error(game, nodes) <= tolerance
        assert estimate <= tolerance
        counts.append(nodes)
    assert counts == sorted(counts)
    assert counts[-1] < exact_nodes(d)


def hard_game(seed):
    """Short length scales, uneven weights, and states far from the background or on top of centres."""
    rng = np.random.default_rng(seed)
    d, name = int(rng.integers(10, 41)), ("rbf", "laplace")[seed % 2]
    kernel = kernel_from_name(name, float(rng.uniform(0.15, 0.5) * np.sqrt(d)), rng.uniform(0.2, 3.0, d))
    x, b, c = (rng.normal(size=(count, d)) for count in (60, 24, 60))
    if seed % 3 == 0:
        x *= rng.uniform(0.2, 2.0, (60, 1))
    if seed % 4 == 0:
        x[::7] = c[: len(x[::7])]
    return Game(x, b, c, rng.normal(size=(60, 2)), kernel)


def test_hard_games_keep_the_tolerance():
    """Checking three states without a margin misses it in two of these games, by up to a factor of four."""
    for seed in range(0, 40, 4):
        game = hard_game(seed)
        assert relative_error(game, choose_nodes(game, 1e-9)[0]) <= 1e-9, seed


def test_the_statement_says_what_is_exact_and_what_is_estimated():
    game = normal_game(0, kernel_from_name("rbf", 3.0, np.ones(24)), 3, 8, 10)
    chosen, whole, set_by_hand = (explained(game, **o).game for o in ({}, {"nodes": "exact"}, {"nodes": 3}))
    assert "estimated error" in chosen and "tolerance 1e-09" in chosen and "exact" not in chosen
    assert whole.endswith("nodes=12, exact")
    assert set_by_hand.endswith("nodes=3, error not estimated")


@pytest.mark.parametrize("d", [105, 400, 1500])
def test_hundreds_of_features_stay_within_float64(d):
    game = normal_game(0, kernel_from_name("rbf", 0.8 * np.sqrt(d), np.ones(d)), 2, 5, 4)
    assert relative_error(game, 12) <= 1e-12
    change = game.function(game.states) - game.function(game.background).mean(axis=0)
    np.testing.assert_allclose(shapley_product(game, exact_nodes(d)).sum(axis=1), change, rtol=1e-10)


def test_few_features_need_no_check():
    assert choose_nodes(problem(1, d=4), 1e-9) == (2, 0.0)


@pytest.mark.parametrize("name", ["rbf", "laplace"])
def test_groups_are_a_true_group_game(name):
    game = problem(11, d=7, outputs=2, name=name)
    groups = {"first": ["a", "d", "f"], "second": ["c", 6]}
    explanation = explained(game, feature_names=list("abcdefg"), groups=groups, interactions=True)
    assert explanation.feature_names == ("first", "second", "b", "e")
    players, off = [[0, 3, 5], [2, 6], [1], [4]], ~np.eye(4, dtype=bool)
    for t in range(len(game.states)):
        v = oracle(game, t, players)
        np.testing.assert_allclose(explanation.values[t], shapley_by_enumeration(v, 4), atol=1e-12)
        pairs = interactions_by_enumeration(v, 4)
        np.testing.assert_allclose(explanation.interactions[t][off], pairs[off] / 2, atol=1e-12)
    alone = explained(game).values
    assert np.abs(explanation.values[:, 0] - alone[:, players[0]].sum(axis=1)).max() > 1e-6
    np.testing.assert_allclose(explanation.data[:, 0], game.states[:, players[0]].mean(axis=1))


def test_one_group_of_everything_gets_everything():
    game = problem(5, d=6)
    explanation = explained(game, groups={"all": range(6)})
    change = game.function(game.states) - game.function(game.background).mean(axis=0)
    np.testing.assert_allclose(explanation.values[:, 0], change, atol=1e-12)


def test_bytes_do_not_depend_on_threads_or_blocks(monkeypatch):
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one thread only")
    game = normal_game(0, kernel_from_name("rbf", 3.0, np.ones(15)), 9, 21, 70, outputs=2)
    results = []
    before = numba.get_num_threads()
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            results.append((shapley_product(game, 5), interaction_product(game, 5)))
        monkeypatch.setattr("rsa2c.attribution.kme.STATE_BLOCK", 4)
        monkeypatch.setattr("rsa2c.attribution.quadrature.BLOCK_BYTES", 4_000)
        blocked = shapley_product(game, 5)
    finally:
        numba.set_num_threads(before)
    assert results[0][0].tobytes() == results[1][0].tobytes()
    assert results[0][1].tobytes() == results[1][1].tobytes()
    np.testing.assert_allclose(blocked, results[0][0], rtol=1e-12, atol=1e-14)


def test_memory_stays_bounded_for_many_states():
    game = normal_game(0, kernel_from_name("rbf", 2.0, np.ones(5)), 20_000, 4, 1000)
    tracemalloc.start()
    try:
        explained(game)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150e6


def test_progress_reaches_the_end(capsys):
    explained(problem(2), interactions=True, progress=True)
    shown = capsys.readouterr().err
    assert "KME values of 2 states" in shown
    assert "100%" in shown

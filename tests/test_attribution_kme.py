"""Interventional values: against enumeration, the axioms, node choice, groups, interactions, memory and threads."""

from __future__ import annotations

import tracemalloc

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import interactions_by_enumeration, interventional_game, product_kernel, shapley_by_enumeration
from rsa2c.attribution import explain
from rsa2c.attribution.kme import choose_nodes, exact_nodes, interaction_product, shapley_product
from rsa2c.attribution.models import Expansion
from rsa2c.kernel.kernels import kernel_from_name


def problem(seed, d=None, outputs=None, name=None, states=2):
    """A random expansion with ARD weights, states and background."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 11)) if d is None else d
    m = int(rng.integers(1, 4)) if outputs is None else outputs
    name = ("rbf", "laplace")[seed % 2] if name is None else name
    kernel = kernel_from_name(name, float(rng.uniform(0.4, 1.5) * np.sqrt(d)), rng.uniform(0.2, 3.0, d))
    q, b = int(rng.integers(1, 20)), int(rng.integers(1, 12))
    x, background, centres = (rng.normal(size=(count, d)) for count in (states, b, q))
    return x, background, centres, rng.normal(size=(q, m)), kernel


def expansion(centres, coefficients, kernel):
    m = coefficients.shape[1]
    return Expansion(kernel, centres, coefficients, np.zeros(m), tuple(f"f{o}" for o in range(m)))


def game(x, background, centres, coefficients, kernel, players=None):
    def function(z):
        return product_kernel(kernel.name, kernel.scales, z, centres) @ coefficients

    return interventional_game(function, x, background, players)


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_two_hundred_random_problems_against_enumeration(first):
    for seed in range(first, first + 20):
        x, background, centres, coefficients, kernel = problem(seed, d=2 + seed % 9 if seed < 180 else 4)
        # The oracle grows as 4^d: one state beyond seven features, and few centres.
        if x.shape[1] > 7:
            x, background, centres, coefficients = x[:1], background[:3], centres[:4], coefficients[:4]
        explanation = explain(
            expansion(centres, coefficients, kernel), x, background, interactions=True, nodes="exact"
        )
        scale = np.abs(explanation.values).max()
        for t in range(len(x)):
            v = game(x[t], background, centres, coefficients, kernel)
            coalitions = {}

            def cached(c, v=v, coalitions=coalitions):
                if c not in coalitions:
                    coalitions[c] = v(c)
                return coalitions[c]

            values = shapley_by_enumeration(cached, x.shape[1])
            np.testing.assert_allclose(explanation.values[t], values, atol=1e-10 * scale, rtol=0)
            pairs = interactions_by_enumeration(cached, x.shape[1])
            off = ~np.eye(x.shape[1], dtype=bool)
            np.testing.assert_allclose(explanation.interactions[t][off], pairs[off] / 2, atol=1e-9 * scale, rtol=0)
            np.testing.assert_allclose(explanation.interactions[t].sum(axis=1), values, atol=1e-9 * scale, rtol=0)
        assert np.abs(explanation.efficiency_residual).max() <= 1e-10 * scale


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_a_feature_that_never_matters_gets_nothing(seed, d):
    x, background, centres, coefficients, kernel = problem(seed, d)
    dummy = seed % d
    # The state's feature equals every background state's: no coalition can change anything by it.
    background[:, dummy] = x[0, dummy]
    values = shapley_product(x[:1], background, centres, coefficients, kernel, exact_nodes(d))
    assert np.abs(values[0, dummy]).max() == 0.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_features_that_play_the_same_part_get_the_same(seed, d):
    x, background, centres, coefficients, kernel = problem(seed, d)
    i, j = seed % d, (seed + 1) % d
    weights = kernel.weights.copy()
    weights[j] = weights[i]
    for array in (x, background, centres):
        array[:, j] = array[:, i]
    values = shapley_product(x, background, centres, coefficients, kernel.reweighted(weights), exact_nodes(d))
    np.testing.assert_allclose(values[:, i], values[:, j], rtol=1e-10, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(-3, 3))
def test_values_are_linear_in_the_function_and_antisymmetric_in_state_and_background(seed, u, v):
    x, background, centres, coefficients, kernel = problem(seed, outputs=2)
    nodes = exact_nodes(x.shape[1])
    values = shapley_product(x, background, centres, coefficients, kernel, nodes)
    mixed = shapley_product(x, background, centres, coefficients @ np.array([[u], [v]]), kernel, nodes)
    np.testing.assert_allclose(mixed[..., 0], u * values[..., 0] + v * values[..., 1], atol=1e-12)
    there = shapley_product(x[:1], background[:1], centres, coefficients, kernel, nodes)
    back = shapley_product(background[:1], x[:1], centres, coefficients, kernel, nodes)
    np.testing.assert_allclose(there, -back, atol=1e-13)


def test_values_far_from_everything_underflow_quietly():
    x, background, centres, coefficients, kernel = problem(3, d=40)
    far = shapley_product(x + 1e3, background, centres, coefficients, kernel, exact_nodes(40))
    near = kernel(background, centres) @ coefficients
    np.testing.assert_allclose(far.sum(axis=1) + near.mean(axis=0), 0.0, atol=1e-12)
    assert np.all(shapley_product(x + 1e3, background - 1e3, centres, coefficients, kernel, 6) == 0.0)


@pytest.mark.parametrize(("d", "length"), [(24, 0.5), (24, 0.25), (60, 0.6), (105, 0.98)])
def test_the_chosen_nodes_keep_the_tolerance_everywhere(d, length):
    rng = np.random.default_rng(d)
    kernel = kernel_from_name("rbf", length * np.sqrt(d), np.ones(d))
    x, background, centres = (rng.normal(size=(count, d)) for count in (12, 24, 60))
    coefficients = rng.normal(size=(60, 2))
    exact = shapley_product(x, background, centres, coefficients, kernel, exact_nodes(d))
    counts = []
    for tolerance in (1e-3, 1e-6, 1e-9):
        nodes, error = choose_nodes(x, background, centres, coefficients, kernel, tolerance)
        values = shapley_product(x, background, centres, coefficients, kernel, nodes)
        scale = np.abs(exact).max(axis=(0, 1))
        assert np.all(np.abs(values - exact).max(axis=(0, 1)) <= tolerance * scale)
        assert error <= tolerance
        counts.append(nodes)
    assert counts == sorted(counts)
    assert counts[-1] < exact_nodes(d)


@pytest.mark.parametrize("d", [105, 400, 1500])
def test_hundreds_of_features_stay_within_float64(d):
    rng = np.random.default_rng(0)
    kernel = kernel_from_name("rbf", 0.8 * np.sqrt(d), np.ones(d))
    x, background, centres = (rng.normal(size=(count, d)) for count in (2, 5, 4))
    exact = shapley_product(x, background, centres, np.ones((4, 1)), kernel, exact_nodes(d))
    few = shapley_product(x, background, centres, np.ones((4, 1)), kernel, 12)
    np.testing.assert_allclose(few, exact, atol=1e-12 * np.abs(exact).max())
    change = kernel(x, centres).sum(axis=1) - kernel(background, centres).sum(axis=1).mean()
    np.testing.assert_allclose(exact.sum(axis=1)[:, 0], change, rtol=1e-10)


def test_few_features_need_no_check():
    parts = problem(1, d=4)
    assert choose_nodes(*parts, 1e-9) == (2, 0.0)


@pytest.mark.parametrize("name", ["rbf", "laplace"])
def test_groups_are_a_true_group_game(name):
    x, background, centres, coefficients, kernel = problem(11, d=7, outputs=2, name=name)
    players = [[0, 3, 5], [1], [2, 6], [4]]
    explanation = explain(
        expansion(centres, coefficients, kernel),
        x,
        background,
        feature_names=list("abcdefg"),
        groups={"first": ["a", "d", "f"], "second": ["c", 6]},
        interactions=True,
    )
    assert explanation.feature_names == ("first", "second", "b", "e")
    order = [0, 2, 1, 3]
    for t in range(len(x)):
        v = game(x[t], background, centres, coefficients, kernel, [players[p] for p in order])
        np.testing.assert_allclose(explanation.values[t], shapley_by_enumeration(v, 4), atol=1e-12)
        pairs = interactions_by_enumeration(v, 4)
        off = ~np.eye(4, dtype=bool)
        np.testing.assert_allclose(explanation.interactions[t][off], pairs[off] / 2, atol=1e-12)
    alone = explain(expansion(centres, coefficients, kernel), x, background).values
    assert np.abs(explanation.values[:, 0] - alone[:, players[0]].sum(axis=1)).max() > 1e-6
    np.testing.assert_allclose(explanation.data[:, 0], x[:, players[0]].mean(axis=1))


def test_one_group_of_everything_gets_everything():
    x, background, centres, coefficients, kernel = problem(5, d=6)
    explanation = explain(expansion(centres, coefficients, kernel), x, background, groups={"all": range(6)})
    change = (kernel(x, centres) - kernel(background, centres).mean(axis=0)) @ coefficients
    np.testing.assert_allclose(explanation.values[:, 0], change, atol=1e-12)


def test_bytes_do_not_depend_on_threads_or_blocks(monkeypatch):
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one thread only")
    rng = np.random.default_rng(0)
    kernel = kernel_from_name("rbf", 3.0, np.ones(15))
    x, background, centres = (rng.normal(size=(count, 15)) for count in (9, 21, 70))
    coefficients = rng.normal(size=(70, 2))
    results = []
    before = numba.get_num_threads()
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            values = shapley_product(x, background, centres, coefficients, kernel, 5)
            results.append((values, interaction_product(x, background, centres, coefficients, kernel, 5)))
        monkeypatch.setattr("rsa2c.attribution.kme.STATE_BLOCK", 4)
        monkeypatch.setattr("rsa2c.attribution.games.BLOCK_BYTES", 4_000)
        blocked = shapley_product(x, background, centres, coefficients, kernel, 5)
    finally:
        numba.set_num_threads(before)
    assert results[0][0].tobytes() == results[1][0].tobytes()
    assert results[0][1].tobytes() == results[1][1].tobytes()
    np.testing.assert_allclose(blocked, results[0][0], rtol=1e-12, atol=1e-14)


def test_memory_stays_bounded_for_many_states():
    rng = np.random.default_rng(0)
    kernel = kernel_from_name("rbf", 2.0, np.ones(5))
    x, background, centres = (rng.normal(size=(count, 5)) for count in (20_000, 4, 1000))
    tracemalloc.start()
    try:
        explain(expansion(centres, np.ones((1000, 1)), kernel), x, background)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150e6


def test_progress_reaches_the_end(capsys):
    x, background, centres, coefficients, kernel = problem(2)
    explain(expansion(centres, coefficients, kernel), x, background, interactions=True, progress=True)
    shown = capsys.readouterr().err
    assert "KME values of 2 states" in shown
    assert "100%" in shown

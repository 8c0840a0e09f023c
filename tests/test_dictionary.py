"""Dictionaries: residuals, admission and removal against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsa2c.errors import DataError
from rsa2c.kernel.dictionary import Dictionary, cheapest_removals, removed
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.metric import Metric


def states(n=200, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def dictionary(limit=25, threshold=1e-3, seed=0, d=3):
    return Dictionary.empty(RBF(1.0, np.ones(d))).grown(states(d=d, seed=seed), threshold, limit)


def removal_costs(dic, c, phi):
    """Mean-square change on the batch when each state is removed and the rest takes over as well as it can."""
    costs = []
    for j in range(dic.size):
        after = removed(dic, c, np.array([j]))
        costs.append(np.mean(np.sum((phi @ c - np.delete(phi, j, axis=1) @ after) ** 2, axis=1)))
    return np.array(costs)


def test_residual_is_the_squared_distance_to_the_span():
    dic, x = dictionary(), states(10, seed=1)
    for state, residual in zip(x, dic.residuals(x), strict=True):
        k = dic.kernel(state[None], dic.centres)[0]
        assert residual == pytest.approx(1 - k @ np.linalg.solve(dic.gram, k), abs=1e-8)


def test_everything_left_out_is_nearly_dependent():
    x = states()
    dic = Dictionary.empty(RBF(1.0, np.ones(3))).grown(x, 0.01, 200)
    assert 1 < dic.size < 200
    assert dic.residuals(x).max() <= 0.01 + 1e-9
    assert np.all(dic.errors > 0.01)


def test_the_largest_residual_goes_first_and_batches_equal_one_by_one():
    x, dic = states(60, seed=2), dictionary(limit=10)
    together = dic.grown(x, 1e-3, 8)
    single = dic
    for _ in range(8):
        residuals = single.residuals(x)
        best = int(residuals.argmax())
        if residuals[best] <= 1e-3:
            break
        single = single.grown(x[best : best + 1], 1e-3, 1)
    np.testing.assert_array_equal(together.centres, single.centres)
    np.testing.assert_allclose(together.errors, single.errors, atol=1e-7)


def test_duplicates_are_never_admitted():
    x = np.repeat(states(5), 4, axis=0)
    assert Dictionary.empty(RBF(1.0, np.ones(3))).grown(x, 1e-4, 20).size == 5


def test_inverse_and_solve():
    dic = dictionary()
    np.testing.assert_allclose(dic.inverse @ dic.gram, np.eye(dic.size), atol=1e-5)
    right = states(dic.size, d=2)
    np.testing.assert_allclose(dic.gram @ dic.solve(right), right, atol=1e-5)


@pytest.mark.parametrize("gone", [[0], [2, 7, 11]])
def test_removal_is_the_best_projection_on_the_rest(gone):
    dic = dictionary(limit=15, threshold=0.05)
    c = states(dic.size, d=2, seed=3)
    kept = np.setdiff1d(np.arange(dic.size), gone)
    best = np.linalg.solve(dic.gram[np.ix_(kept, kept)], dic.gram[kept] @ c)
    np.testing.assert_allclose(removed(dic, c, np.array(gone)), best, atol=1e-8)


def test_removals_one_after_the_other_take_the_cheapest_each_time():
    dic = dictionary(limit=15, threshold=0.05)
    c = states(dic.size, d=2, seed=5)
    phi = dic.kernel(states(300, seed=6), dic.centres)
    moment = phi.T @ phi / len(phi)
    expected, alive, current, rest = [], np.arange(dic.size), c, dic
    for _ in range(4):
        costs = removal_costs(rest, current, phi[:, alive])
        j = int(costs.argmin())
        current = removed(rest, current, np.array([j]))
        rest = rest.without(np.array([j]))
        expected.append(alive[j])
        alive = np.delete(alive, j)
    np.testing.assert_array_equal(cheapest_removals(dic, c, 4, moment), expected)


def test_a_new_metric_drops_what_became_redundant():
    dic = Dictionary.empty(RBF(1.0, np.ones(3))).grown(states(400), 1e-3, 120)
    narrow, kept = dic.readmitted(Metric.weighted([2.9, 0.05, 0.05]), 1e-3)
    assert narrow.size < dic.size
    np.testing.assert_array_equal(narrow.centres, dic.centres[kept])
    np.linalg.cholesky(narrow.gram)
    assert narrow.residuals(dic.centres).max() <= 1e-3 + 1e-7


@pytest.mark.parametrize("threshold", [1e-1, 1e-2, 1e-3])
def test_readmission_is_greedy_admission_of_the_states_themselves(threshold):
    dic, metric = Dictionary.empty(RBF(1.0, np.ones(3))).grown(states(400), 1e-4, 120), Metric.weighted([2.0, 0.9, 0.1])
    found, kept = dic.readmitted(metric, threshold)
    greedy = Dictionary.empty(dic.kernel.on(metric)).grown(dic.states, threshold, dic.size)
    assert found.size == greedy.size < dic.size
    order = [int(np.flatnonzero((dic.states == state).all(axis=1))[0]) for state in greedy.states]
    np.testing.assert_array_equal(kept, np.sort(order))
    np.testing.assert_allclose(found.errors, greedy.errors[np.argsort(order)], rtol=1e-6)


def test_states_are_kept_as_they_are_and_measured_by_the_kernel():
    """Another metric moves the coordinates and leaves the states."""
    dic = dictionary()
    metric = Metric(np.array([1.0, 0.0, -1.0]), np.array([0.5, 2.0, 1.0]), 1.5, np.ones(3))
    moved, kept = dic.readmitted(metric, 1e-6)
    np.testing.assert_array_equal(moved.states, dic.states[kept])
    np.testing.assert_array_equal(moved.centres, metric(moved.states))
    assert np.abs(moved.centres).max() == 1.5 < np.abs((moved.states - metric.mean) / metric.std).max()
    np.testing.assert_array_equal(moved.gram, moved.kernel(metric(moved.states), metric(moved.states)))


def test_the_same_metric_keeps_everything():
    dic = dictionary(threshold=0.05)
    same, kept = dic.readmitted(dic.kernel.metric, 0.05 * 0.3)
    np.testing.assert_array_equal(kept, np.arange(dic.size))
    np.testing.assert_array_equal(same.centres, dic.centres)


def test_coinciding_states_are_an_error_with_a_remedy():
    x = states(1)
    broken = Dictionary(RBF(1e6, np.ones(3)), np.vstack([x, x, x + 1e-9, -x]), np.ones(4))
    broken.gram[2, 3] = broken.gram[3, 2] = 2.0
    with pytest.raises(DataError, match="admission_threshold"):
        _ = broken.cholesky


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 6),
    st.floats(-6, 6),
    st.floats(1e-6, 0.5),
    st.integers(0, 2**32 - 1),
)
def test_factors_stay_valid_on_any_scale(n, d, exponent, threshold, seed):
    """States of any size, which the metric clips to +-10."""
    raw = np.random.default_rng(seed).normal(size=(n, d)) * 10.0**exponent
    raw = np.vstack([raw, raw[: n // 2] * (1 + 1e-12)])
    metric = Metric(np.zeros(d), np.ones(d), 10.0, np.ones(d))
    dic, x = Dictionary.empty(RBF(1.0, metric)).grown(raw, threshold, len(raw)), metric(raw)
    assert 1 <= dic.size <= n
    assert np.all(np.isfinite(dic.cholesky))
    assert dic.residuals(x).max() <= threshold + 1e-6

"""RKHS functions: calls in raw units, gradients, growing, pruning, projecting."""

import numpy as np
import pytest

from rsa2c.errors import DataError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF, Laplace
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction


def function(cls=RBF, q=20, d=3, m=2, seed=0):
    rng = np.random.default_rng(seed)
    metric = Metric(rng.normal(size=d), rng.uniform(0.5, 2, d), 10.0, rng.uniform(0.5, 2, d))
    states = metric.mean + metric.std * rng.normal(size=(300, d))
    dictionary = Dictionary.empty(cls(1.0, metric)).grown(states, 1e-2, q)
    coefficients = rng.normal(size=(dictionary.size, m))
    return RKHSFunction(dictionary, coefficients, ("left", "right")[:m], rng.normal(size=m)), rng


def test_call_is_the_sum_over_remembered_states():
    f, rng = function()
    s = rng.normal(size=3)
    x = (s - f.kernel.metric.mean) / f.kernel.metric.std
    terms = zip(f.centres, f.coefficients, strict=True)
    expected = f.offset + sum(f.kernel(x[None], centre[None])[0, 0] * c for centre, c in terms)
    np.testing.assert_allclose(f(s), expected, rtol=1e-12)
    np.testing.assert_allclose(f(s[None])[0], f(s), rtol=1e-12)


def test_remembered_states_are_in_raw_units():
    f, _ = function()
    np.testing.assert_array_equal(f.coordinates(f.remembered_states), f.centres)


@pytest.mark.parametrize("cls", [RBF, Laplace])
def test_gradient_in_raw_units(cls):
    f, rng = function(cls)
    s, step = rng.normal(size=(6, 3)), 1e-6
    gradient = f.gradient(s)
    for i in range(3):
        shift = step * np.eye(3)[i]
        np.testing.assert_allclose(gradient[:, :, i], (f(s + shift) - f(s - shift)) / (2 * step), atol=1e-7)


def test_gradient_vanishes_where_the_metric_clips():
    f, _ = function()
    s = f.kernel.metric.mean + f.kernel.metric.std * np.array([20.0, 0, 0])
    assert np.all(f.gradient(s)[:, 0] == 0)


def test_norm_bounds_the_function():
    f, rng = function()
    s = rng.normal(size=(500, 3)) * 2
    assert np.all(np.abs(f(s) - f.offset) <= f.norm() + 1e-12)


def test_growing_changes_nothing():
    f, rng = function()
    bigger = f.dictionary.grown(rng.normal(size=(50, 3)) * 2, 1e-3, 10)
    s = rng.normal(size=(20, 3))
    np.testing.assert_allclose(f.grow(bigger)(s), f(s), rtol=1e-12)
    with pytest.raises(DataError, match="project"):
        f.grow(bigger.without(np.array([0])))
    with pytest.raises(DataError, match="project"):
        f.grow(f.dictionary.readmitted(f.kernel.metric.reweighted(np.ones(3)), 0.0)[0])


def test_pruning_is_the_orthogonal_projection():
    f, _ = function()
    pruned = f.prune(np.array([1, 4]))
    # f - pruned is orthogonal to every kernel that stayed: both agree at the remaining states
    np.testing.assert_allclose(pruned.at(pruned.centres), f.at(pruned.centres), atol=1e-7)


def test_projection_is_exact_when_nothing_changed():
    f, rng = function()
    same = f.project(f.dictionary, rng.normal(size=(200, 3)), start=f.coefficients)
    np.testing.assert_array_equal(same.coefficients, f.coefficients)


def test_projection_minimises_its_definition():
    f, rng = function()
    states, ridge = rng.normal(size=(400, 3)), 1e-4
    metric = Metric(np.ones(3), np.array([0.5, 1.0, 3.0]), 4.0, np.ones(3))
    other = Dictionary.empty(RBF(1.4, metric)).grown(rng.normal(size=(300, 3)), 1e-2, 30)
    start = rng.normal(size=(other.size, 2))
    projected = f.project(other, states, ridge, start)
    phi = other.kernel(metric(states), other.centres)
    target = f(states) - f.offset

    def loss(c):
        moved = c - start
        return np.mean(np.sum((phi @ c - target) ** 2, axis=1)) + ridge * np.trace(moved.T @ other.gram @ moved)

    best = loss(projected.coefficients)
    for _ in range(50):
        assert loss(projected.coefficients + 1e-4 * rng.normal(size=start.shape)) > best


@pytest.mark.parametrize("states", [np.zeros(2), np.zeros((4, 5)), np.zeros((1, 1, 3))])
def test_wrong_shapes_are_named(states):
    with pytest.raises(DataError, match=r"\(N, 3\)"):
        function()[0](states)


def test_not_a_number_is_refused():
    with pytest.raises(DataError, match="finite"):
        function()[0](np.array([0.0, np.nan, 0.0]))

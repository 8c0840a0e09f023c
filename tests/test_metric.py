"""The metric: coordinates of raw observations, their slope, and what lies between two metrics."""

from dataclasses import replace

import numpy as np
import pytest

from rsa2c.errors import DataError
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.metric import Metric

METRIC = Metric(np.array([1.0, -2.0]), np.array([2.0, 0.5]), 3.0, np.array([1.0, 4.0]))
OTHER = Metric(np.array([3.0, 0.0]), np.array([8.0, 2.0]), 5.0, np.array([2.0, 1.0]))


def test_coordinates_are_standardised_and_clipped():
    raw = np.array([[1.0, -2.0], [3.0, -1.5], [100.0, -100.0]])
    np.testing.assert_array_equal(METRIC(raw), [[0, 0], [1, 1], [3, -3]])
    np.testing.assert_array_equal(METRIC.slope(raw), [[0.5, 2.0], [0.5, 2.0], [0, 0]])


def test_beyond_a_knee_distances_grow_as_their_logarithm():
    metric = replace(METRIC, knee=2.0, clip=1e3)
    raw = np.array([[1.0, -2.0], [3.0, -1.5], [201.0, -1e9]])
    expected = [[0, 0], [2 * np.arcsinh(0.5), 2 * np.arcsinh(0.5)], [2 * np.log(100), -2 * np.log(1e3)]]
    np.testing.assert_allclose(metric(raw), expected, rtol=1e-4)
    step = 1e-6
    slope = (metric(raw + step) - metric(raw - step)) / (2 * step)
    np.testing.assert_allclose(metric.slope(raw), slope, rtol=1e-6, atol=1e-9)
    assert np.all(metric.slope(raw) <= 1 / metric.std)
    assert metric.rescaled(OTHER.mean, OTHER.std).knee == METRIC.between(metric, 0.5).knee == 2.0


def test_a_kernel_measures_distances_by_it():
    """-2 l^2 log k = sum_i w_i ((s_i - t_i) / std_i)^2 where nothing is clipped."""
    kernel, s, t = RBF(1.5, METRIC), np.array([[2.0, -1.0]]), np.array([[0.0, -2.5]])
    log = np.log(kernel(METRIC(s), METRIC(t))[0, 0])
    assert -2 * 1.5**2 * log == pytest.approx(1.0 * (2 / 2) ** 2 + 4.0 * (1.5 / 0.5) ** 2)


def test_weights_alone_take_observations_as_they_are():
    kernel, raw = RBF(1.0, [1.0, 3.0]), np.array([[1e9, -7.0]])
    np.testing.assert_array_equal(kernel.metric(raw), raw)
    np.testing.assert_array_equal(kernel.metric.slope(raw), [[1, 1]])
    np.testing.assert_array_equal(kernel.weights, [1, 3])


def test_a_feature_that_hardly_varies_keeps_its_scale():
    raw = np.column_stack([np.arange(10.0), np.full(10, 7.0)])
    metric = Metric.fitted(raw)
    np.testing.assert_allclose(metric(raw)[:, 1], 0)
    assert metric.std[1] == 1.0
    assert metric(np.array([[1e9, 0.0]]))[0, 0] == 10.0


def test_scale_and_weights_change_apart():
    reweighted = METRIC.reweighted(np.array([5.0, 6.0]))
    np.testing.assert_array_equal(reweighted(np.ones((1, 2))), METRIC(np.ones((1, 2))))
    np.testing.assert_array_equal(reweighted.weights, [5, 6])
    rescaled = METRIC.rescaled(OTHER.mean, OTHER.std)
    np.testing.assert_array_equal(rescaled(np.ones((1, 2))), OTHER(np.ones((1, 2))))
    np.testing.assert_array_equal(rescaled.weights, METRIC.weights)


def test_half_way_between_two_metrics():
    half = METRIC.between(OTHER, 0.5)
    np.testing.assert_allclose(half.mean, [2.0, -1.0])
    np.testing.assert_allclose(half.std, [4.0, 1.0])
    np.testing.assert_allclose(half.weights, [1.5, 2.5])
    assert METRIC.between(OTHER, 1.0) is OTHER


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.array([1.0, 0.0])}, "weights must be a vector of finite positive numbers"),
        ({"std": np.array([1.0, -1.0])}, "std must be a vector of finite positive numbers"),
        ({"mean": np.array([np.nan, 0.0])}, "mean must be a vector of finite numbers"),
        ({"mean": np.zeros(3)}, "one entry per feature, got 3, 2 and 2"),
        ({"clip": 0.0}, "clip must be positive, got 0.0"),
        ({"knee": 0.0}, "knee must be None or a positive number, got 0.0"),
    ],
)
def test_what_is_no_metric_is_refused(change, message):
    fields = {"mean": METRIC.mean, "std": METRIC.std, "clip": METRIC.clip, "weights": METRIC.weights}
    with pytest.raises(DataError, match=message):
        Metric(**{**fields, **change})

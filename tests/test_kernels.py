"""Product kernels: the formula, its factors, its gradient."""

import numpy as np
import pytest

from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.kernels import RBF, Laplace, kernel_from_name

KERNELS = [RBF, Laplace]


def problem(cls, n=7, q=5, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return cls(1.3, rng.uniform(0.2, 3, d)), rng.normal(size=(n, d)), rng.normal(size=(q, d)), rng


def formula(kernel, x, y):
    u = np.abs(x - y) * np.sqrt(kernel.weights) / kernel.length_scale
    return np.exp(-0.5 * np.sum(u**2)) if kernel.name == "rbf" else np.exp(-np.sum(u))


@pytest.mark.parametrize("cls", KERNELS)
def test_gram_is_the_formula(cls):
    kernel, x, y, _ = problem(cls)
    expected = [[formula(kernel, a, b) for b in y] for a in x]
    np.testing.assert_allclose(kernel(x, y), expected, rtol=1e-13)


@pytest.mark.parametrize("cls", KERNELS)
def test_product_of_factors_is_the_gram(cls):
    kernel, x, y, _ = problem(cls)
    np.testing.assert_allclose(kernel.factors(x, y).prod(axis=2), kernel(x, y), rtol=1e-13)


@pytest.mark.parametrize("cls", KERNELS)
def test_gram_is_positive_definite_with_unit_diagonal(cls):
    kernel, x, _, _ = problem(cls, n=30)
    gram = kernel(x, x)
    np.testing.assert_allclose(np.diag(gram), 1.0, rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > 0


@pytest.mark.parametrize("cls", KERNELS)
def test_gradient_is_the_difference_quotient(cls):
    kernel, x, y, rng = problem(cls)
    coefficients = rng.normal(size=(len(y), 2))
    gradient = kernel.gradient(x, y, coefficients)
    step = 1e-6
    for i in range(x.shape[1]):
        shift = np.zeros(x.shape[1])
        shift[i] = step
        quotient = (kernel(x + shift, y) - kernel(x - shift, y)) @ coefficients / (2 * step)
        np.testing.assert_allclose(gradient[:, :, i], quotient, atol=1e-8)


@pytest.mark.parametrize("cls", KERNELS)
def test_single_precision_stays_close(cls):
    kernel, x, y, _ = problem(cls)
    single = kernel(x.astype(np.float32), y)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, kernel(x, y), atol=1e-5)


def test_weights_change_only_the_weights():
    kernel = RBF(2.0, np.ones(3)).reweighted(np.array([1.0, 2.0, 3.0]))
    assert kernel.length_scale == 2.0
    np.testing.assert_array_equal(kernel.weights, [1, 2, 3])


@pytest.mark.parametrize("weights", [np.array([1.0, 0.0]), np.array([1.0, np.nan]), np.ones((2, 2))])
def test_weights_must_be_a_positive_vector(weights):
    with pytest.raises(DataError, match="positive"):
        RBF(1.0, weights)


def test_unknown_kernel_suggests_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'laplace'"):
        kernel_from_name("laplac", 1.0, np.ones(2))

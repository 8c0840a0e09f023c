"""Product kernels: the formula, its factors, its derivatives, its spectral density and its bounds."""

import numpy as np
import pytest

from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.kernels import KERNELS as BY_NAME
from rsa2c.kernel.kernels import RBF, Laplace, ProductKernel, kernel_from_name
from rsa2c.kernel.metric import Metric

KERNELS = list(BY_NAME.values())


def problem(cls, n=7, q=5, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return cls(1.3, rng.uniform(0.2, 3, d)), rng.normal(size=(n, d)), rng.normal(size=(q, d)), rng


def formula(kernel, x, y):
    u = np.abs(x - y) * np.sqrt(kernel.weights) / kernel.length_scale
    return {RBF: np.exp(-0.5 * np.sum(u**2)), Laplace: np.exp(-np.sum(u))}[type(kernel)]


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
def test_the_fast_methods_of_a_kernel_are_those_of_its_formula(cls):
    """What a subclass overrides for speed, against the base class, which knows L and L' alone."""
    kernel, x, y, rng = problem(cls)
    coefficients = rng.normal(size=(len(y), 2))
    np.testing.assert_allclose(kernel(x, y), ProductKernel.bind(kernel, y)(x), rtol=1e-13)
    slow = ProductKernel.gradient(kernel, x, y, coefficients)
    np.testing.assert_allclose(kernel.gradient(x, y, coefficients), slow, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("cls", KERNELS)
def test_the_slope_is_the_derivative_of_the_log_factor(cls):
    kernel, u, step = cls(1.0, np.ones(1)), np.array([-3.0, -0.4, 0.2, 1.7]), 1e-6
    quotient = (kernel.log_factor(u + step) - kernel.log_factor(u - step)) / (2 * step)
    np.testing.assert_allclose(kernel.log_slope(u), quotient, rtol=1e-8)
    assert kernel.log_factor(np.zeros(1)) == 0.0


@pytest.mark.parametrize("cls", KERNELS)
@pytest.mark.parametrize("owner", ["kernel", "formula"])
def test_pull_is_the_gradient_of_each_states_own_function(cls, owner):
    kernel, x, y, rng = problem(cls)
    coefficients = rng.normal(size=(len(x), len(y)))
    pull = kernel.pull if owner == "kernel" else lambda *parts: ProductKernel.pull(kernel, *parts)
    expected = [kernel.gradient(x[[n]], y, coefficients[n][:, None])[0, 0] for n in range(len(x))]
    np.testing.assert_allclose(pull(x, y, coefficients), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("cls", KERNELS)
def test_random_frequencies_have_the_kernel_as_their_characteristic_function(cls):
    kernel, u = cls(1.0, np.ones(1)), np.array([0.3, 1.0, 2.5])
    omega = kernel.frequencies((200_000,), np.random.default_rng(0))
    np.testing.assert_allclose(np.cos(np.outer(u, omega)).mean(axis=1), np.exp(kernel.log_factor(u)), atol=0.01)


@pytest.mark.parametrize("cls", KERNELS)
def test_exponents_near_hold_and_are_attained(cls):
    kernel, x, y, rng = problem(cls, n=40, q=1)
    exponent = -np.log(kernel(x, y)[:, 0])
    moves = rng.normal(size=(500, *x.shape)) * rng.uniform(0, 2, (500, len(x), 1))
    towards = (y - x) * np.linspace(-1, 2, 61)[:, None, None]
    for moved in (*moves, *towards):
        scaled = moved * kernel.scales
        l2, l1 = np.linalg.norm(scaled, axis=1), np.abs(scaled).sum(axis=1)
        least, most = kernel.exponents_near(exponent, l2, l1)
        reached = -np.log(kernel(x + moved, y)[:, 0])
        assert np.all(reached >= least - 1e-9) and np.all(reached <= most + 1e-9)
    halfway, away = ((y - x) * share for share in (0.5, -0.5))
    for moved, end in ((halfway, 0), (away, 1)):
        scaled = moved * kernel.scales
        near = kernel.exponents_near(exponent, np.linalg.norm(scaled, axis=1), np.abs(scaled).sum(axis=1))
        np.testing.assert_allclose(-np.log(kernel(x + moved, y)[:, 0]), near[end], atol=1e-9)


@pytest.mark.parametrize("cls", [cls for cls in KERNELS if cls.expansion_orders])
def test_the_expansion_of_a_single_kernel_leaves_exactly_its_remainder(cls):
    """For f = k(., x + D): the terms up to each order and the share r^2 of the norm add up to |f|_H^2 = 1."""
    kernel, x, _, rng = problem(cls, n=1)
    offset = rng.normal(size=x.shape[1])
    y, t = x + offset / kernel.scales, np.linalg.norm(offset)
    f = kernel(x, y)[0, 0]
    g = kernel.gradient(x, y, np.ones((1, 1)))[0, 0] / kernel.scales
    m = kernel.curvature(x[0], y, np.ones((1, 1)))[0]
    explained = np.cumsum([f**2, g @ g, np.sum(m**2) / 2])
    for order in (0, *kernel.expansion_orders):
        assert 1.0 - explained[order] == pytest.approx(kernel.remainder(t, order) ** 2, rel=1e-9)


def test_compiled_code_tells_kernels_apart():
    assert len({cls.code for cls in KERNELS}) == len(KERNELS)


@pytest.mark.parametrize("cls", KERNELS)
def test_single_precision_stays_close(cls):
    kernel, x, y, _ = problem(cls)
    single = kernel(x.astype(np.float32), y)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, kernel(x, y), atol=1e-5)


def test_weights_change_only_the_weights():
    kernel = RBF(2.0, np.ones(3)).on(Metric.weighted([1.0, 2.0, 3.0]))
    assert kernel.length_scale == 2.0
    np.testing.assert_array_equal(kernel.weights, [1, 2, 3])


@pytest.mark.parametrize("weights", [np.array([1.0, 0.0]), np.array([1.0, np.nan]), np.ones((2, 2))])
def test_weights_must_be_a_positive_vector(weights):
    with pytest.raises(DataError, match="positive"):
        RBF(1.0, weights)


def test_unknown_kernel_suggests_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'laplace'"):
        kernel_from_name("laplac", 1.0, np.ones(2))

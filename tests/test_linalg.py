"""Second moments that stay positive definite, and solves that say what failed."""

import numpy as np
import pytest

from rsa2c.errors import DataError
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.linalg import ROWS, precise_product, ridge_regression, second_moment, solve_positive


def test_single_precision_products_stay_positive_definite():
    """Near-dependent features in float32, where the bare product has negative eigenvalues."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4800, 3))
    phi = RBF(0.8, np.ones(3))(x, x[:150]).astype(np.float32)
    bare = (phi.T @ phi).astype(np.float64) / len(phi)
    assert np.linalg.eigvalsh(bare).min() < 0
    moment = second_moment(phi)
    assert np.linalg.eigvalsh(moment).min() > 0
    np.testing.assert_allclose(moment, bare, atol=1e-6)


def test_double_precision_is_left_alone():
    phi = np.random.default_rng(1).normal(size=(50, 4))
    np.testing.assert_allclose(second_moment(phi), phi.T @ phi / 50, rtol=1e-13)


def test_solve_and_its_errors():
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(matrix @ solve_positive(matrix, np.ones(2), "x", "y"), 1.0)
    with pytest.raises(DataError, match=r"the fit .*Raise the ridge"):
        solve_positive(-matrix, np.ones(2), "the fit", "Raise the ridge")
    with pytest.raises(DataError, match="the fit"):
        solve_positive(matrix, np.array([np.nan, 1.0]), "the fit", "Raise the ridge")


def test_ridge_regression_minimises_its_definition():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 3))
    kernel, ridge = RBF(1.5, np.ones(3)), 1e-2
    phi, gram, targets = kernel(x, x[:10]), kernel(x[:10], x[:10]), rng.normal(size=(80, 2))
    found = ridge_regression(phi, targets, gram, ridge, "the fit", "Raise the ridge")
    slope = phi.T @ (phi @ found - targets) / 80 + ridge * gram @ found
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)
    with pytest.raises(DataError, match=r"the fit .*Raise the ridge"):
        ridge_regression(phi, targets, -gram, 100.0, "the fit", "Raise the ridge")


@pytest.mark.parametrize("n", [0, 1, ROWS - 1, ROWS, 3 * ROWS + 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_in_double_precision_is_that_of_a_copy(n, dtype):
    rng = np.random.default_rng(n)
    phi, weights = rng.normal(size=(n, 37)).astype(dtype), rng.normal(size=37)
    product = precise_product(phi, weights)
    assert product.dtype == np.float64
    np.testing.assert_allclose(product, phi.astype(np.float64) @ weights, rtol=1e-13, atol=1e-13)

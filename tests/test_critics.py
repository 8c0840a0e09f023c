"""Value and advantage fits against slow references on random problems with terminations, truncations and seams."""

import numpy as np
import pytest

from one_batch import fit_advantage, lstd
from rsa2c.algorithm.actor import kl_step_size, largest_kl, mean_kl, step_direction
from rsa2c.algorithm.batch import Batch
from rsa2c.algorithm.estimates import advantages, discounted_returns
from rsa2c.algorithm.released import mc_sweeps, td_sweeps
from rsa2c.errors import DataError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF


def random_batch(seed=0, segments=6, d=3, m=2):
    """Segments of random length and ending: terminated, truncated or cut."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 15, segments)
    n = int(lengths.sum())
    segment = np.repeat(np.arange(segments), lengths)
    last = np.cumsum(lengths) - 1
    kinds = rng.permutation(np.arange(segments) % 3)
    flags = np.zeros((3, n), dtype=bool)
    flags[kinds, last] = True
    return Batch(
        points=rng.normal(size=(n + segments, d)),
        raw=np.zeros((n + segments, d)),
        segment=segment,
        latents=rng.normal(size=(n, m)),
        means=rng.normal(size=(n, m)) * 0.1,
        rewards=rng.normal(size=n),
        terminated=flags[0],
        truncated=flags[1],
        cut=flags[2],
        episode_returns=np.empty(0),
        episode_lengths=np.empty(0, dtype=int),
    )


def features(batch, q=8, seed=1):
    centres = np.random.default_rng(seed).normal(size=(q, batch.points.shape[1]))
    kernel = RBF(1.5, np.ones(batch.points.shape[1]))
    return kernel(batch.points, centres), kernel(centres, centres)


def td_loop(phi, batch, weights, gamma, lam, step, ridge):
    """TD(lambda) as one would write it on paper."""
    weights, trace, previous = weights.copy(), np.zeros(len(weights)), -1
    for i in range(batch.n):
        row = i + batch.segment[i]
        if batch.segment[i] != previous:
            trace = np.zeros(len(weights))
        previous = batch.segment[i]
        trace = gamma * lam * trace + phi[row]
        future = 0.0 if batch.terminated[i] else phi[row + 1] @ weights
        error = batch.rewards[i] + gamma * future - phi[row] @ weights
        weights = weights - step * ridge * weights + step * error * trace
    return weights


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("lam", [0.0, 0.9, 1.0])
def test_lstd_is_the_limit_of_lambda_return_regression(seed, lam):
    gamma, ridge = 0.9, 1e-2
    batch = random_batch(seed)
    phi, gram = features(batch)
    weights, constant = lstd(phi, batch, gamma, lam, ridge, gram)

    with_constant = np.column_stack([phi, np.ones(len(phi))])
    now = with_constant[batch.state_index]
    metric = now.T @ now / batch.n
    metric[:-1, :-1] += ridge * gram
    w = np.zeros(len(metric))
    for _ in range(4000):
        values = with_constant @ w
        target = advantages(batch, values, gamma, lam) + now @ w
        following = np.linalg.solve(metric, now.T @ target / batch.n)
        if np.abs(following - w).max() < 1e-13:
            break
        w = following
    np.testing.assert_allclose(np.append(weights, constant), w, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_td_sweep_is_the_plain_loop(seed):
    batch = random_batch(seed)
    phi, _ = features(batch)
    start = np.random.default_rng(seed).normal(size=phi.shape[1])
    expected = start
    for _ in range(3):
        expected = td_loop(phi, batch, expected, 0.95, 0.8, 0.05, 1e-3)
    np.testing.assert_allclose(td_sweeps(phi, batch, start, 0.95, 0.8, 0.05, 1e-3, 3), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_mc_sweep_is_the_plain_loop(seed):
    batch = random_batch(seed)
    phi, _ = features(batch)
    start = np.random.default_rng(seed).normal(size=phi.shape[1])
    returns = discounted_returns(batch, phi @ start, 0.95)
    expected = start.copy()
    for i in range(batch.n):
        row = phi[i + batch.segment[i]]
        expected += 0.05 * ((returns[i] - row @ expected) * row - 1e-3 * expected)
    np.testing.assert_allclose(mc_sweeps(phi, batch, start, 0.95, 0.05, 1e-3, 1), expected, rtol=1e-10, atol=1e-12)


def test_sweeps_do_not_change_their_input():
    batch = random_batch()
    phi, _ = features(batch)
    start = np.ones(phi.shape[1])
    td_sweeps(phi, batch, start, 0.9, 0.5, 0.1, 0.0, 1)
    np.testing.assert_array_equal(start, 1.0)


def test_divergence_is_an_error_not_a_nan():
    batch = random_batch(segments=40)
    phi, _ = features(batch)
    with np.errstate(all="ignore"), pytest.raises(DataError, match="value_step"):
        td_sweeps(phi, batch, np.ones(phi.shape[1]), 0.99, 0.9, 1e3, 0.0, 50)


@pytest.mark.parametrize("covariance", [0.3 * np.eye(2), np.diag([0.2, 0.7]), np.array([[0.5, 0.2], [0.2, 0.4]])])
def test_natural_step_is_the_dense_reference(covariance):
    rng = np.random.default_rng(3)
    q, m, n, ridge = 6, 2, 400, 1e-2
    centres = rng.normal(size=(q, 3))
    kernel = RBF(1.2, np.ones(3))
    phi, gram = kernel(rng.normal(size=(n, 3)), centres), kernel(centres, centres)
    noise = rng.multivariate_normal(np.zeros(m), covariance, n)
    advantage = rng.normal(size=n)
    fit = fit_advantage(phi, noise, advantage, gram, covariance, ridge)

    dictionary = Dictionary(kernel, centres, np.ones(q))
    precision = np.linalg.inv(covariance)
    moment = phi.T @ phi / n
    gradient = phi.T @ (advantage[:, None] * noise @ precision) / n
    dense = np.kron(moment, precision) + ridge * np.kron(gram, np.eye(m))
    expected = np.linalg.solve(dense, gradient.ravel()).reshape(q, m)
    np.testing.assert_allclose(fit.gradient, gradient, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(fit.weights, expected, rtol=1e-6, atol=1e-10)

    np.testing.assert_allclose(step_direction(fit, dictionary, "euclidean"), gradient)
    np.testing.assert_allclose(gram @ step_direction(fit, dictionary, "rkhs"), gradient, atol=1e-6)

    size = kl_step_size(fit.weights, fit.second_moment, covariance, 0.03)
    change = phi @ (size * fit.weights)
    kl = np.mean(np.einsum("ni,ij,nj->n", change, precision, change)) / 2
    assert kl == pytest.approx(0.03, rel=1e-10)
    assert mean_kl(size * fit.weights, fit.second_moment, covariance) == pytest.approx(0.03, rel=1e-10)
    largest = np.max(np.einsum("ni,ij,nj->n", change, precision, change)) / 2
    assert largest_kl(size * fit.weights, phi, covariance) == pytest.approx(largest, rel=1e-10)


def test_large_ridge_turns_the_natural_step_into_the_rkhs_step():
    rng = np.random.default_rng(0)
    kernel = RBF(1.0, np.ones(2))
    centres = rng.normal(size=(5, 2)) * 2
    phi, gram = kernel(rng.normal(size=(200, 2)), centres), kernel(centres, centres)
    fit = fit_advantage(phi, rng.normal(size=(200, 1)), rng.normal(size=200), gram, np.eye(1), 1e6)
    direction = step_direction(fit, Dictionary(kernel, centres, np.ones(5)), "rkhs")
    np.testing.assert_allclose(fit.weights * 1e6, direction, rtol=1e-3, atol=1e-6)


def test_a_zero_direction_makes_no_step():
    assert kl_step_size(np.zeros((3, 1)), np.eye(3), np.eye(1), 0.01) == 0.0


def test_lstd_can_be_damped_towards_the_previous_values():
    """The damped fit is the fixed point of regression on lambda-returns with the mean squared change as a penalty."""
    batch, gamma, lam, ridge, damping = random_batch(5), 0.9, 0.7, 1e-2, 0.4
    phi, gram = features(batch)
    previous = np.random.default_rng(6).normal(size=batch.n)
    weights, constant = lstd(phi, batch, gamma, lam, ridge, gram, previous, damping)
    values = phi @ weights + constant
    states = np.column_stack([phi, np.ones(len(phi))])[batch.state_index]
    returns = values[batch.state_index] + advantages(batch, values, gamma, lam)
    penalty = np.zeros((len(gram) + 1, len(gram) + 1))
    penalty[:-1, :-1] = ridge * gram
    system = (1 + damping) * states.T @ states / batch.n + penalty
    expected = np.linalg.solve(system, states.T @ (returns + damping * previous) / batch.n)
    np.testing.assert_allclose(np.append(weights, constant), expected, rtol=1e-8)
    free, _ = lstd(phi, batch, gamma, lam, ridge, gram)
    np.testing.assert_array_equal(lstd(phi, batch, gamma, lam, ridge, gram, previous, 0.0)[0], free)
    close, shift = lstd(phi, batch, gamma, lam, ridge, gram, 0 * previous + 3.0, 1e9)
    np.testing.assert_allclose(phi @ close + shift, 3.0, atol=1e-6)

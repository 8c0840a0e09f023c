"""Numbers at their worst: near-duplicate states, constant features, one state, huge and tiny scales, float32, large
rewards. Factors stay valid and results are finite, or one of our errors is raised; a warning fails a test."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_batch import fit_advantage, lstd
from probes import Extreme
from rsa2c import RSA2C
from rsa2c.algorithm.actor import kl_step_size, mean_kl
from rsa2c.algorithm.estimates import advantages
from rsa2c.algorithm.guidance import attribution_critics, measure
from rsa2c.algorithm.snapshot import pack
from rsa2c.algorithm.weights import Importances
from rsa2c.attribution import explain
from rsa2c.config import CME, KME, AgreementGuidance
from rsa2c.errors import RSA2CError
from rsa2c.kernel.dictionary import JITTER, Dictionary, cheapest_removals
from rsa2c.kernel.kernels import RBF, kernel_from_name
from rsa2c.kernel.linalg import second_moment
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction
from test_critics import random_batch

CLIP = 10.0
FACTOR = 1e-12
"""Largest entry of L L^T - K - jitter, a state of the dictionary."""

deterministic = settings(derandomize=True, database=None, deadline=None, max_examples=40)
scales = st.sampled_from([1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e12])
kernels = st.sampled_from(["rbf", "laplace"])
thresholds = st.sampled_from([1e-6, 1e-3, 1e-2, 0.3])


@st.composite
def raw_states(draw, least=1, most=40):
    """States (n, d) as an environment might give them: each feature on a scale of its own, about some offset, or
    constant; some states nearly equal; in single or double precision."""
    n, d = draw(st.integers(least, most)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = np.array([draw(scales) for _ in range(d)])
    offset = np.array([draw(st.sampled_from([0.0, 1.0, -1e3, 1e6])) for _ in range(d)])
    constant = np.array([draw(st.sampled_from([False, False, False, True])) for _ in range(d)])
    states = (rng.normal(size=(n, d)) * ~constant + offset) * scale
    twins = rng.random(n) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    states[twins] = states[0] * (1 + draw(st.sampled_from([0.0, 1e-15, 1e-9])) * rng.normal(size=(int(twins.sum()), d)))
    return states.astype(draw(st.sampled_from([np.float32, np.float64])))


@st.composite
def normalised_states(draw, least=1, most=40):
    """The same in a metric's coordinates, in the precision of the batch: what critics see."""
    raw = draw(raw_states(least, most))
    return Metric.fitted(raw, CLIP)(raw).astype(raw.dtype)


def candidates(least=1):
    """The same in double precision, for dictionaries that measure them as they are."""
    return normalised_states(least).map(lambda x: x.astype(np.float64))


def dictionary_of(x, threshold, name="rbf", metric=None):
    metric = np.ones(x.shape[1]) if metric is None else metric
    return Dictionary.empty(kernel_from_name(name, 1.0, metric)).grown(x, threshold, 30)


def mean_of(column):
    """The mean without rounding."""
    return sum(map(Fraction, column), Fraction(0)) / len(column)


def random_function(x, threshold, size, rng):
    """Two outputs on a dictionary of these candidates, with coefficients of that size."""
    dictionary = dictionary_of(x, threshold)
    coefficients = size * rng.normal(size=(dictionary.size, 2))
    return RKHSFunction(dictionary, coefficients, ("a", "b"))


def assert_valid(dictionary):
    """The factor is that of the Gram matrix, and solves with it."""
    factor = np.tril(dictionary.cholesky)
    error = np.abs(factor @ factor.T - dictionary.gram - JITTER * np.eye(dictionary.size)).max(initial=0.0)
    assert error <= FACTOR * max(dictionary.size, 1)
    assert np.all(np.diag(factor) > 0) and np.all(np.isfinite(dictionary.errors))


@deterministic
@given(raw_states())
def test_the_metric_is_finite_and_clips_on_any_scale(raw):
    metric = Metric.fitted(raw, CLIP)
    x = metric(raw)
    assert np.all(np.isfinite(x)) and np.abs(x).max() <= CLIP
    assert np.all(metric.std > 0) and np.all(np.isfinite(metric.slope(raw)))
    for i, column in enumerate(raw.astype(np.float64).T):
        if np.ptp(column) == 0:
            assert metric.std[i] == 1
        elif column.std() > 1e-3 and column.std() > 1e-12 * np.abs(column).max() and np.abs(x[:, i]).max() < CLIP:
            exact = [(Fraction(value) - mean_of(column)) for value in column]
            wanted = np.array([float(value) for value in exact]) / float(sum(v * v for v in exact) / len(exact)) ** 0.5
            np.testing.assert_allclose(x[:, i], wanted, atol=1e-2)


@deterministic
@given(candidates(), thresholds, kernels, st.integers(0, 2**32 - 1))
def test_factors_stay_valid_through_admission_removal_and_new_weights(x, threshold, name, seed):
    rng = np.random.default_rng(seed)
    dictionary = dictionary_of(x, threshold, name)
    assert 1 <= dictionary.size <= 30
    assert_valid(dictionary)
    if dictionary.size < 30:
        assert dictionary.residuals(x).max() <= threshold + 1e-6
    more = np.clip(x + rng.normal(size=x.shape) * rng.choice([1e-9, 1e-3, 1.0]), -CLIP, CLIP)
    assert_valid(dictionary.grown(more, threshold, 10))
    weights = 10.0 ** rng.uniform(-3, 0.7, x.shape[1])
    reweighted, kept = dictionary.readmitted(Metric.weighted(weights), 0.3 * threshold)
    assert_valid(reweighted)
    assert 1 <= len(kept) == reweighted.size
    without = dictionary.without(rng.choice(dictionary.size, rng.integers(dictionary.size), replace=False))
    assert_valid(without)


@deterministic
@given(candidates(least=2), thresholds, scales, st.integers(0, 2**32 - 1))
def test_replacement_is_finite_and_keeps_the_size(x, threshold, size, seed):
    """The way states are replaced at capacity: the cheapest go, and the function is projected on the others."""
    rng = np.random.default_rng(seed)
    function = random_function(x, threshold, size, rng)
    dictionary, coefficients = function.dictionary, function.coefficients
    count = int(rng.integers(1, dictionary.size + 1))
    moment = second_moment(dictionary.kernel(x, dictionary.centres))
    positions = cheapest_removals(dictionary, coefficients, count, moment)
    assert len(set(positions.tolist())) == count
    pruned = function.prune(positions)
    assert pruned.dictionary.size == dictionary.size - count
    assert np.all(np.isfinite(pruned.coefficients))
    assert_valid(pruned.dictionary)
    # The best projection is no longer than what was projected, up to the rounding of a nearly singular Gram matrix.
    assert np.all(pruned.norm() <= function.norm() * (1 + 1e-3))


@deterministic
@given(candidates(least=2), thresholds, scales, st.integers(0, 2**32 - 1))
def test_the_re_projection_agrees_with_the_function_and_moves_nothing_without_cause(x, threshold, size, seed):
    rng = np.random.default_rng(seed)
    function = random_function(x, threshold, size, rng)
    dictionary, coefficients = function.dictionary, function.coefficients
    same = function.project(dictionary, x, start=coefficients)
    np.testing.assert_array_equal(same.coefficients, coefficients)
    weights = 10.0 ** rng.uniform(-1, 0.5, x.shape[1])
    reweighted, kept = dictionary.readmitted(Metric.weighted(weights), 0.3 * threshold)
    moved = function.project(reweighted, x, start=coefficients[kept])
    before, after = function.at(x), moved.at(x)
    assert np.all(np.isfinite(after))
    start = replace(moved, coefficients=coefficients[kept]).at(x)
    change = coefficients[kept] - moved.coefficients
    ridge = 1e-6 * np.trace(change.T @ reweighted.gram @ change)
    fitted = np.mean((after - before) ** 2) * 2 + ridge
    assert fitted <= np.mean((start - before) ** 2) * 2 * (1 + 1e-6) + 1e-18 * size**2


def batch_at(x, seed, reward, offset):
    """A batch whose points are among these states, with rewards of one size about an offset."""
    batch = random_batch(seed, d=x.shape[1])
    rng = np.random.default_rng(seed)
    rewards = reward * (rng.normal(size=batch.n) + offset)
    return replace(batch, points=x[rng.integers(len(x), size=len(batch.points))], rewards=rewards)


@deterministic
@given(
    normalised_states(), thresholds, st.sampled_from([-40, -20, 20, 40]), st.sampled_from([0.0, 1.0, 1e3]),
    st.sampled_from([0.9, 0.99, 0.9999]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_the_value_fit_scales_with_the_rewards(x, threshold, power, offset, gamma, seed):
    """LSTD is linear in rewards: in units 2^power times as large, 1e-12 to 1e12, it is the same fit to the bit."""
    reward = 2.0**power
    dictionary = dictionary_of(x, threshold)
    batch, unit = batch_at(x, seed, reward, offset), batch_at(x, seed, 1.0, offset)
    phi = dictionary.features(x.dtype)(batch.points)
    weights, constant = lstd(phi, batch, gamma, 0.95, 1e-4, dictionary.gram)
    expected, level = lstd(phi, unit, gamma, 0.95, 1e-4, dictionary.gram)
    np.testing.assert_array_equal(weights / reward, expected)
    assert constant / reward == level
    values = phi @ weights + constant
    assert np.all(np.isfinite(advantages(batch, values, gamma, 0.95)))


@deterministic
@given(
    normalised_states(least=2), thresholds, st.sampled_from([0.0, 1e-12, 1.0, 1e6]), st.floats(1e-3, 2.0),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_the_natural_step_has_the_kl_it_was_asked_for(x, threshold, size, sigma, seed):
    rng = np.random.default_rng(seed)
    dictionary = dictionary_of(x, threshold)
    states = x[rng.integers(len(x), size=60)]
    phi = dictionary.features(x.dtype)(states)
    noise = sigma * rng.normal(size=(60, 2))
    covariance = sigma**2 * np.eye(2)
    fit = fit_advantage(phi, noise, size * rng.normal(size=60), dictionary.gram, covariance, 1e-3)
    assert np.all(np.isfinite(fit.weights)) and np.all(np.isfinite(fit.gradient))
    step = kl_step_size(fit.weights, fit.second_moment, covariance, 0.02)
    assert np.isfinite(step)
    if size == 0:
        assert step == 0
    else:
        assert mean_kl(step * fit.weights, fit.second_moment, covariance) == pytest.approx(0.02, rel=1e-5)


@deterministic
@given(
    raw_states(least=2, most=12), thresholds, kernels, st.sampled_from([1e-12, 1.0, 1e6, 1e12]),
    st.sampled_from(["kme", "cme"]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_attributions_add_up_and_give_nothing_to_what_is_constant(raw, threshold, name, size, method, seed):
    rng = np.random.default_rng(seed)
    metric = Metric.fitted(raw, CLIP)
    dictionary = dictionary_of(raw, threshold, name, metric)
    coefficients = size * rng.normal(size=(dictionary.size, 1))
    function = RKHSFunction(dictionary, coefficients, ("f",), np.array([size]))
    options = {"nodes": "exact"} if method == "kme" else {}
    explanation = explain(function, raw[:3], raw, method=method, **options)
    assert np.all(np.isfinite(explanation.values)) and np.all(np.isfinite(explanation.base_values))
    scale = np.abs(coefficients).sum()
    assert np.abs(explanation.efficiency_residual).max() <= {"kme": 1e-9, "cme": 1e-6}[method] * scale
    if method == "kme":  # knowing a constant tells the regression of cme nothing new only up to its ridge
        constant = np.ptp(metric(raw), axis=0) == 0
        assert np.abs(explanation.values[:, constant]).max(initial=0.0) <= 1e-12 * scale


@settings(deterministic, max_examples=15)
@given(normalised_states(least=8), st.sampled_from([1e-12, 1e-6, 1.0, 1e6, 1e12]), st.sampled_from(["kme", "cme"]),
       st.integers(0, 2**32 - 1))  # fmt: skip
def test_guidance_gives_positive_weights(x, size, method, seed):
    rng = np.random.default_rng(seed)
    game = CME() if method == "cme" else KME()
    rule = AgreementGuidance(game, attribution_states=4, attribution_background=4)
    target = size * (np.sin(x[:, :1].astype(np.float64)) + rng.normal(size=(len(x), 1)))
    importances = Importances.none(x.shape[1])
    for _ in range(3):
        critics = attribution_critics(x, [target], np.arange(len(x)) % 2 == 0, "rbf", 10, rng)
        measured = measure(critics, rule, rng)
        importances = importances.updated(measured, rng.normal(size=x.shape[1]), rule.moment_decay)
    weights, phi = importances.weights(rule, 1.0, np.ptp(x, axis=0) > 0), measured.logged
    assert np.all(np.isfinite(phi)) and np.all(np.isfinite(weights)) and np.all(weights > 0)
    assert weights.sum() <= x.shape[1] * (1 + 1e-9)


def test_a_dictionary_of_one_state_does_everything():
    dictionary = Dictionary.empty(RBF(1.0, np.ones(2))).grown(np.zeros((5, 2)), 1e-2, 5)
    assert dictionary.size == 1
    assert_valid(dictionary)
    function = RKHSFunction(dictionary, np.ones((1, 1)), ("f",))
    assert function.prune(np.array([0])).dictionary.size == 0
    assert function.prune(np.array([0])).at(np.zeros((3, 2))).tolist() == [[0.0]] * 3
    np.testing.assert_allclose(function.project(dictionary, np.ones((4, 2))).at(np.zeros((1, 2))), 1.0, rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reward", [1e6, 1e-6, 1e12, 0.0])
@pytest.mark.parametrize("algorithm", ["rsa2c-kme", "rsa2c-cme"])
def test_an_agent_trains_on_such_an_environment(algorithm, reward, dtype):
    agent = RSA2C(
        lambda: Extreme(reward, dtype), algorithm, n_envs=4, horizon=24, capacity=24,
        attribution_every=1, attribution_warmup=1, attribution_centres=12, replacement_every=1,
    )  # fmt: skip
    agent.learn(agent.num_timesteps + 3 * 96)
    assert agent.epoch == 3
    for name, tensor in pack(agent.snapshot(), checkpoint=False)[0].items():
        assert np.all(np.isfinite(tensor)), name
    assert_valid(agent.policy.mean.dictionary)
    assert max(agent.dictionary_sizes.values()) <= 24
    assert np.abs(agent.explain(agent.background[:4]).efficiency_residual).max() <= 1e-6 * max(1e-9, reward) * 100


def test_an_environment_in_which_nothing_varies_is_refused_or_trained_on():
    still = {"n_envs": 2, "horizon": 12, "capacity": 8}
    with pytest.raises(RSA2CError, match="no observation varied"):
        RSA2C(lambda: Extreme(1.0, np.float64, still=True), **still)
    agent = RSA2C(lambda: Extreme(1.0, np.float64, still=True), length_scale=1.0, **still)
    agent.learn(agent.num_timesteps + 3 * 24)
    assert agent.dictionary_size == 1 and np.all(np.isfinite(agent.predict(agent.background[0])[0]))


def test_warnings_are_errors_here():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.float64(1.0) / np.float64(0.0)
    assert caught, "NumPy's floating-point warnings are on, so that the tests above would have failed on one"

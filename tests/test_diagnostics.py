"""Quantities of the convergence theory: against brute force and known answers, and recorded only when asked for."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import rsa2c
from rsa2c.algorithm import diagnostics
from rsa2c.envs import lqr
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.runs.training import train_run

RECORDED = {"zeta_a", "lambda_F", "epsilon_PV", "epsilon_PA", "delta_K_h"}


def make_dictionary(rng: np.random.Generator) -> Dictionary:
    return Dictionary(RBF(1.0, np.ones(2)), rng.uniform(-2, 2, (6, 2)), np.zeros(6))


def test_advantage_error_is_what_the_compatible_features_miss() -> None:
    rng = np.random.default_rng(0)
    dictionary, x = make_dictionary(rng), rng.normal(size=(500, 2))
    phi, weights, noise = dictionary.kernel(x, dictionary.centres), rng.normal(size=(6, 3)), rng.normal(size=(500, 3))
    covariance = np.diag([0.5, 1.0, 2.0])
    explained = np.einsum("nq,qm,nm->n", phi, weights, noise / np.diag(covariance))
    assert diagnostics.advantage_error(phi, weights, noise, covariance, explained) == pytest.approx(0, abs=1e-12)
    missed = rng.normal(size=500)
    error = diagnostics.advantage_error(phi, weights, noise, covariance, explained + missed)
    assert error == pytest.approx(np.sqrt(np.mean(missed**2)))


def test_fisher_floor_is_the_least_rayleigh_quotient() -> None:
    rng = np.random.default_rng(1)
    dictionary, x = make_dictionary(rng), rng.normal(size=(400, 2))
    phi = dictionary.kernel(x, dictionary.centres)
    moment = phi.T @ phi / 400
    floor = diagnostics.fisher_floor(moment, dictionary, np.diag([0.25, 0.5]))
    c = rng.normal(size=(6, 20_000))
    quotients = np.einsum("jn,jk,kn->n", c, moment, c) / np.einsum("jn,jk,kn->n", c, dictionary.gram, c) / 0.5
    assert floor <= quotients.min()
    eigenvalues = np.linalg.eigvals(np.linalg.solve(dictionary.gram, moment)).real
    assert floor == pytest.approx(eigenvalues.min() / 0.5, rel=1e-5)


def test_projection_error_is_the_distance_to_the_span() -> None:
    rng = np.random.default_rng(2)
    dictionary = make_dictionary(rng)
    assert diagnostics.projection_error(dictionary, dictionary.centres) < 1e-4
    far = np.full((1, 2), 50.0)
    assert diagnostics.projection_error(dictionary, np.vstack([dictionary.centres, far])) == pytest.approx(1.0)


def test_kernel_drift_is_the_mean_square_change() -> None:
    rng = np.random.default_rng(3)
    dictionary, x = make_dictionary(rng), rng.normal(size=(40, 2))
    before = RKHSFunction(dictionary, rng.normal(size=(6, 2)), ("a", "b"))
    kernel = dictionary.kernel.on(Metric.weighted([1.5, 0.5]))
    after = RKHSFunction(
        Dictionary(kernel, dictionary.states, dictionary.errors), before.coefficients, ("a", "b")
    )
    expected = np.mean([np.sum((after(s) - before(s)) ** 2) for s in x])
    assert diagnostics.kernel_drift(before, after, x) == pytest.approx(expected)
    assert diagnostics.kernel_drift(before, before, x) == 0.0


def test_tracking_error_of_the_riccati_solution_is_zero() -> None:
    _, gain = lqr.riccati()
    mean = SimpleNamespace(coordinates=lambda s: s)

    def optimal(x: np.ndarray) -> tuple[None, None, np.ndarray]:
        return None, None, -x @ gain.T

    policy = SimpleNamespace(mean=mean, sampler=lambda rng, dtype: optimal)
    starts, rng = lqr.fixed_starts(20), np.random.default_rng(0)

    def error(factor: float) -> float:
        def value(s: np.ndarray) -> np.ndarray:
            return -factor * lqr.optimal_cost(s)[:, None]

        return diagnostics.tracking_error(policy, value, lqr.GAMMA, starts, rng, rollouts=1, steps=2000)

    assert error(1.0) == pytest.approx(0.0, abs=1e-6)
    assert error(1.2) == pytest.approx(0.2, abs=1e-6)


def test_recorded_only_when_asked_for_and_without_changing_training(tmp_path) -> None:
    plain = rsa2c.RSA2C("Pendulum-v1", seed=0).learn(60_000)
    asked = rsa2c.RSA2C("Pendulum-v1", seed=0, diagnostics=True).learn(60_000)
    assert not RECORDED & set(plain.history[-1])
    assert all(set(row) >= RECORDED for row in asked.history)
    assert np.array_equal(plain.policy.mean.coefficients, asked.policy.mean.coefficients)
    assert all(np.isfinite(row[name]) for row in asked.history for name in RECORDED)
    ratios = [row["weight_ratio"] for row in asked.history]
    changed = [one != next_one for one, next_one in pairwise(ratios)]
    drifted = [row["delta_K_h"] > 0 for row in asked.history[1:]]
    assert any(drifted) and drifted == changed
    run = train_run("Pendulum-v1", total_timesteps=6000, out=tmp_path, track=False, diagnostics=True)
    assert set(run.read_metrics()[0]) >= RECORDED

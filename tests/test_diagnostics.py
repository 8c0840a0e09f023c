"""Quantities of the convergence theory: against brute force and known answers, and recorded only when asked for."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import rsa2c
from rsa2c.algorithm import diagnostics
from rsa2c.envs import lqr
from rsa2c.files import read_tensors, write_tensors
from rsa2c.files.versions import FORMER_METRICS
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.runs.training import resume_run, train_run

RECORDED = {"zeta_a", "lambda_F", "span_distance_value", "span_distance_actor", "delta_K_h"}


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


def test_span_distance_is_the_largest_of_a_visited_state() -> None:
    rng = np.random.default_rng(2)
    dictionary = make_dictionary(rng)
    assert diagnostics.span_distance(dictionary, dictionary.centres) < 1e-4
    far = np.full((1, 2), 50.0)
    assert diagnostics.span_distance(dictionary, np.vstack([dictionary.centres, far])) == pytest.approx(1.0)


def test_kernel_drift_is_the_mean_square_change() -> None:
    rng = np.random.default_rng(3)
    dictionary, x = make_dictionary(rng), rng.normal(size=(40, 2))
    before = RKHSFunction(dictionary, rng.normal(size=(6, 2)), ("a", "b"))
    kernel = dictionary.kernel.on(Metric.weighted([1.5, 0.5]))
    after = RKHSFunction(Dictionary(kernel, dictionary.states, dictionary.errors), before.coefficients, ("a", "b"))
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
    plain = rsa2c.RSA2C("Pendulum-v1", seed=0, distractors=3).learn(60_000)
    asked = rsa2c.RSA2C("Pendulum-v1", seed=0, distractors=3, diagnostics=True).learn(60_000)
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


def test_a_run_with_the_former_names_is_shown_and_goes_on_under_the_new_ones(tmp_path) -> None:
    run = train_run("Pendulum-v1", total_timesteps=3000, out=tmp_path, track=False, diagnostics=True, n_envs=2)
    header, rest = run.metrics_path.read_text("utf-8").split("\n", 1)
    tensors, metadata = read_tensors(run.state_path, "state", {})
    for former, name in FORMER_METRICS.items():
        assert name in header and name in metadata["history"]
        header = header.replace(name, former)
        metadata["history"] = [former if column == name else column for column in metadata["history"]]
    run.metrics_path.write_text(f"{header}\n{rest}", "utf-8")
    write_tensors(run.state_path, tensors, metadata)
    before = run.read_metrics()
    assert set(before[0]) >= RECORDED and float(before[0]["span_distance_actor"]) > 0
    resume_run(run.path, 4500, track=False)
    after = run.read_metrics()
    assert len(after) > len(before) and all(float(row["span_distance_value"]) > 0 for row in after)
    assert not set(FORMER_METRICS) & set(run.metrics_path.read_text("utf-8").split("\n", 1)[0].strip().split(","))

"""The paper's perturbation quantities: those that hold are never broken, the others are refused."""

from __future__ import annotations

import numpy as np
import pytest

import rsa2c
from perturbations import KERNELS, NORMS, make_function, make_states, perturbed
from rsa2c.attribution import explain
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness import bounds as theory
from rsa2c.robustness.deviations import bounds
from rsa2c.robustness.expansion import Local
from rsa2c.robustness.regions import Region


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_shapley_values_move_no_further_than_their_bound(kernel: type, norm: str) -> None:
    shapley_bound(kernel, norm, random=20)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_hundred_thousand_perturbations_break_no_shapley_bound(kernel: type, norm: str) -> None:
    shapley_bound(kernel, norm, random=5000)


def shapley_bound(kernel: type, norm: str, random: int) -> None:
    rng = np.random.default_rng(1)
    function = make_function(rng, kernel, m=1)
    states, background = make_states(rng, function, 20), make_states(rng, function, 15)
    constant = theory.conditional_norm(function.kernel, function.coordinates(background), 1e-2)
    for epsilon in (0.02, 0.5, 3.0):
        region = Region(epsilon, norm)
        moved = perturbed(rng, function, states, region, random // 3 + 1, 10 if random > 100 else 2)
        local = Local(function, states)
        plain = bounds(local, np.full(20, epsilon), norm)["norm"][1]  # |f|_H sqrt(delta_psi)
        observational = {"method": "cme", "embedding": "paper", "ridge": 1e-2}
        for options, factor in (({}, 2.0), (observational, np.sqrt(8 * constant))):
            before = explain(function, states, background, progress=False, **options).values
            after = explain(function, moved.reshape(-1, 3), background, progress=False, **options).values
            change = np.abs(after.reshape(len(moved), *before.shape) - before)
            assert np.all(change[..., 0] <= factor * plain)


def test_representation_error_of_one_remembered_state() -> None:
    """P k(., s) = k(s, c) k(., c): the distance has a closed form."""
    kernel = RBF(1.3, np.ones(2))
    c, moved, s, near = np.random.default_rng(8).normal(size=(4, 2))
    a, b = kernel(s[None], c[None])[0, 0], kernel(near[None], moved[None])[0, 0]
    expected = np.sqrt(a**2 + b**2 - 2 * a * b * kernel(c[None], moved[None])[0, 0])
    assert theory.representation_error(kernel, c[None], moved[None], s, near) == pytest.approx(expected, rel=1e-6)
    assert theory.representation_error(kernel, c[None], c[None], s, s) == pytest.approx(0.0, abs=1e-7)


def quantities(agent: rsa2c.RSA2C, value: RKHSFunction | None, states: int, epsilon: float) -> list[theory.Quantity]:
    parts = (agent.policy, value, agent.background, agent.config.gamma, agent.background[:states])
    return theory.paper_quantities(*parts, Region(epsilon), np.random.default_rng(0))


def test_paper_quantities_hold_or_are_refused() -> None:
    agent = rsa2c.RSA2C("Pendulum-v1", "advanced-ac", seed=0).learn(20_000)
    rows = quantities(agent, agent.value, 8, 0.05)
    by_name = {row.name: row for row in rows}
    for row in rows:
        assert row.measured is None or row.bound is None or row.measured <= row.bound, row.name
        assert ("refused" in str(row)) == (row.bound is None)
    lemma = by_name["value representation (the lemma on delta_V)"]
    assert lemma.bound is None and "rho_V < 1" in lemma.statement
    assert theory.coherence(agent.value.dictionary) > 1
    assert by_name["Theorem 1, right-hand side"].bound is None
    assert by_name["M_V"].bound == pytest.approx(agent.value.norm()[0] ** 2, rel=1e-6)


def test_agents_without_a_value_critic_are_certified_too() -> None:
    agent = rsa2c.RSA2C("Pendulum-v1", "rkhs-ac", seed=0).learn(10_000)
    assert agent.certify(agent.background[:3], 0.01).value is None
    rows = quantities(agent, None, 3, 0.01)
    assert [row.name.split(",")[0] for row in rows] == ["Theorem 1", "policy total variation"]

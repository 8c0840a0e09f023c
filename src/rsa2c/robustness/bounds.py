"""The paper's perturbation quantities on a trained agent, compared with what perturbations really do.

A quantity whose assumption fails on the agent is refused with the reason, never printed as if it were a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.attribution import explain
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import ProductKernel
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.attacks import output_attacks
from rsa2c.robustness.certificates import total_variation
from rsa2c.robustness.deviations import bounds, mean_distance, tightest
from rsa2c.robustness.expansion import Local, Reach
from rsa2c.robustness.regions import Array, Region

ENUMERATED = 8
"""Most features whose coalitions are enumerated for the constant of observational values."""
TRIALS = 4
"""Random starts of each attack, and perturbed dictionaries, behind the measured figures."""
EXPLAINED = 8
"""States at which changes of SHAP values are measured."""
CME_RIDGE = 1e-3


@dataclass(frozen=True)
class Quantity:
    """A number of the paper, the largest value measured against it, and what to make of the two."""

    name: str
    bound: float | None
    measured: float | None
    statement: str

    def __str__(self) -> str:
        if self.bound is None:
            return f"{self.name}: refused. {self.statement}"
        if self.measured is None:
            return f"{self.name} {self.bound:.4g}. {self.statement}"
        loose = f"{self.bound / self.measured:.3g} times " if self.measured else ""
        return f"{self.name} {self.bound:.4g}, {loose}the measured {self.measured:.4g}. {self.statement}"


def paper_quantities(
    policy: GaussianPolicy,
    value: RKHSFunction | None,
    background: Array,
    gamma: float,
    states: Array,
    region: Region,
    rng: np.random.Generator,
) -> list[Quantity]:
    """delta_psi, M_V, the bounds of value and SHAP values, the value representation, Theorem 1, at raw states (N, d).

    Without a Value Critic, only those of the policy. `background` (B, d) is the background of the SHAP values.
    """
    rows: list[Quantity] = []
    if value is not None:
        local = Local(value, states, region.scale)
        reach = Reach(local, region.radii(len(states)), region.norm)
        moved = output_attacks(value, states, region, rng, TRIALS)
        delta_psi, squared = 2 * float(reach.defect.max()), float(local.norm[0] ** 2)
        explained, perturbed = states[:EXPLAINED], moved[:, :EXPLAINED]
        rows += [
            Quantity("delta_psi", delta_psi, _feature_distance(value, states, moved), "Holds at every state."),
            Quantity("M_V", squared, None, f"Squared RKHS norm of the value; |V|_H = {local.norm[0]:.4g}."),
            _value_row(value, local, moved, delta_psi, region),
            *_shap_rows(value, background, explained, perturbed, delta_psi, float(local.norm[0])),
            *_representation_rows(value, states, region, rng),
        ]
    return [*rows, *_theorem_rows(policy, gamma, states, region, rng)]


def coherence(dictionary: Dictionary) -> float:
    """(q - 1) rho: the paper bounds the Gram matrix's smallest eigenvalue by 1 minus this, useless from 1 on."""
    off = dictionary.gram - np.diag(np.diag(dictionary.gram))
    return float((dictionary.size - 1) * off.max(initial=0.0))


def representation_error(
    kernel: ProductKernel, remembered: Array, moved: Array, state: Array, moved_state: Array
) -> float:
    """delta_V for a unit coefficient, exactly: |P k(., s) - P' k(., s')|_H, P and P' projecting on the dictionaries of
    the remembered and of the moved raw states (q, d)."""
    before, after = (Dictionary(kernel, each, np.zeros(len(each))) for each in (remembered, moved))
    near, far = kernel.metric(state[None]), kernel.metric(moved_state[None])
    a = before.solve(kernel(before.centres, near))[:, 0]
    b = after.solve(kernel(after.centres, far))[:, 0]
    squared = a @ before.gram @ a - 2 * a @ kernel(before.centres, after.centres) @ b + b @ after.gram @ b
    return float(np.sqrt(max(squared, 0.0)))


def conditional_norm(kernel: ProductKernel, x: Array, ridge: float) -> float:
    """M_Gamma: the largest squared norm, over all 2^d coalitions, of the estimated conditional mean operator."""
    factors = kernel.factors(x, x)
    n, largest = len(x), 0.0
    for observed in product((False, True), repeat=kernel.dimension):
        inside = np.array(observed)
        eigenvalues, vectors = np.linalg.eigh(factors[:, :, inside].prod(axis=2))
        eigenvalues = np.maximum(eigenvalues, 0.0)
        half = vectors * (np.sqrt(eigenvalues) / (eigenvalues + n * ridge))
        largest = max(largest, float(np.linalg.eigvalsh(half.T @ factors[:, :, ~inside].prod(axis=2) @ half)[-1]))
    return largest


def return_factor(gamma: float) -> float:
    """alpha / max |r| of the theorem's first inequality: 2 (1 + gamma / (1 - gamma)^2)."""
    return 2 * (1 + gamma / (1 - gamma) ** 2) if gamma < 1 else np.inf


def _feature_distance(function: RKHSFunction, states: Array, moved: Array) -> float:
    """The largest |k(., x) - k(., y)|_H^2 = 2 - 2 k(x, y) between states (N, d) and perturbed ones (K, N, d)."""
    x, y = function.coordinates(states), function.coordinates(moved)
    log_kernel = function.kernel.log_factor((y - x) * function.kernel.scales).sum(axis=-1)
    return float(-2 * np.expm1(log_kernel).min())


def _value_row(value: RKHSFunction, local: Local, moved: Array, delta_psi: float, region: Region) -> Quantity:
    measured = max(float(np.abs(value(each) - value(local.states)).max()) for each in moved)
    low, high = tightest(bounds(local, region.radii(len(local.states)), region.norm))
    ours = float(np.maximum(high, -low).max())
    bound = float(local.norm[0] * np.sqrt(delta_psi))
    return Quantity("value, sqrt(M_V delta_psi)", bound, measured, f"The certificate of this library: {ours:.4g}.")


def _shap_rows(
    value: RKHSFunction, background: Array, states: Array, moved: Array, delta_psi: float, norm: float
) -> list[Quantity]:
    def largest_change(**options: Any) -> float:
        before = explain(value, states, background, progress=False, **options)
        after = explain(value, moved.reshape(-1, states.shape[1]), background, progress=False, **options)
        return float(np.abs(after.values.reshape(len(moved), *before.values.shape) - before.values).max())

    rows = [
        Quantity(
            "SHAP values, interventional, 2 |V|_H sqrt(delta_psi)",
            2 * norm * float(np.sqrt(delta_psi)),
            largest_change(),
            "For the value function as trained; the paper's term for a value that changes as well is below.",
        )
    ]
    d = value.kernel.dimension
    name = "SHAP values, observational, sqrt(8 M_V M_Gamma delta_psi)"
    if d > ENUMERATED:
        why = f"M_Gamma is a supremum over 2^{d} coalitions of features; it is computed up to {ENUMERATED} features."
        return [*rows, Quantity(name, None, None, why)]
    constant = conditional_norm(value.kernel, value.coordinates(background), CME_RIDGE)
    bound = norm * float(np.sqrt(8 * constant * delta_psi))
    measured = largest_change(method="cme", embedding="paper", ridge=CME_RIDGE)
    how = f"M_Gamma = {constant:.3g}, the paper's embedding, ridge {CME_RIDGE:g}."
    return [*rows, Quantity(name, bound, measured, how)]


def _representation_rows(
    value: RKHSFunction, states: Array, region: Region, rng: np.random.Generator
) -> list[Quantity]:
    dictionary, remembered = value.dictionary, value.remembered_states
    q, d = remembered.shape
    uniform = Region(float(np.max(region.epsilon)), region.norm, region.scale)
    exact = 0.0
    for _ in range(TRIALS):
        moved = remembered + uniform.sampled([rng] * q, d)
        state = states[rng.integers(len(states))]
        near = state + uniform.sampled([rng], d)[0]
        error = representation_error(dictionary.kernel, remembered, moved, state, near)
        exact = max(exact, error)
    rho = coherence(dictionary)
    refusal = (
        f"It needs (q - 1) rho_V < 1, which is {rho:.0f} here: the denominator is negative and its square only looks "
        "like a bound."
        if rho >= 1
        else f"(q - 1) rho_V is {rho:.2g} < 1, but the lemma's Lipschitz constant of a Gram matrix is not given."
    )
    how = f"From Gram matrices, the largest of {TRIALS} dictionaries perturbed at random, for a unit coefficient."
    return [
        Quantity("value representation (the lemma on delta_V)", None, None, refusal),
        Quantity("delta_V, computed exactly,", exact, None, how),
    ]


def _theorem_rows(
    policy: GaussianPolicy, gamma: float, states: Array, region: Region, rng: np.random.Generator
) -> list[Quantity]:
    mean, sigma = policy.mean, policy.sigma
    local, epsilon = Local(mean, states, region.scale), region.radii(len(states))
    low, high = tightest(bounds(local, epsilon, region.norm))
    certified = total_variation(mean_distance(local, epsilon, region.norm, np.maximum(high, -low)), sigma.min())
    moved = output_attacks(mean, states, region, rng, TRIALS)
    distance = max(float(np.linalg.norm((mean(each) - mean(states)) / sigma, axis=1).max()) for each in moved)
    factor, worst = return_factor(gamma), float(certified.max())
    trivial = 2 / (1 - gamma) if gamma < 1 else np.inf
    says = "is below" if factor * worst < trivial else "says nothing beyond"
    return [
        Quantity(
            "Theorem 1, right-hand side",
            None,
            None,
            "Its constant has exp(-M_S^2 / 2) from an inequality that points the other way (the exponential is largest "
            "at small distances), and 1 - (q - 1) rho_A as a denominator. What its proof starts from does hold:",
        ),
        Quantity(
            "policy total variation, largest at these states,",
            worst,
            float(total_variation(distance, 1.0)),
            f"A return loses at most {factor:.4g} max|r| times its supremum over all states, which {says} the "
            f"trivial {trivial:.4g} max|r| (it needs a total variation under {trivial / factor:.2g}).",
        ),
    ]

"""Certificates: no perturbation may break a bound, and the bounds are as tight as they claim."""

from __future__ import annotations

import numpy as np
import pytest

import rsa2c
from perturbations import KERNELS, NORMS, make_function, make_states, perturbed
from rsa2c.algorithm.actor import ActionBounds, GaussianPolicy
from rsa2c.cli import main
from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.certificates import certified_radius, certify, total_variation
from rsa2c.robustness.deviations import bounds, mean_distance, tightest
from rsa2c.robustness.expansion import Local
from rsa2c.robustness.regions import Region


def break_bounds(
    seed: int, kernel: type, norm: str, units: int, random: int, attacked: int, function: RKHSFunction | None = None
) -> None:
    """Try `random` and `attacked` perturbations at each of 20 states of several epsilons against every bound."""
    rng = np.random.default_rng(seed)
    function = make_function(rng, kernel) if function is None else function
    states = make_states(rng, function, 20)
    epsilon = np.geomspace(1e-5, 4.0, 20)
    scale = function.kernel.metric.std if units else 1.0
    region = Region(epsilon, norm, scale)
    local = Local(function, states, scale)
    found = bounds(local, epsilon, norm)
    moved = perturbed(rng, function, states, region, random, attacked)
    values = function(moved.reshape(-1, states.shape[1])).reshape(len(moved), *local.value.shape) - function(states)
    for name, (low, high) in found.items():
        assert np.all(values <= high), f"{name} broken from above"
        assert np.all(values >= low), f"{name} broken from below"
    low, high = tightest(found)
    distance = mean_distance(local, epsilon, norm, np.maximum(high, -low))
    assert np.all(np.linalg.norm(values, axis=2) <= distance), "joint bound broken"


@pytest.mark.parametrize("units", [0, 1])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_perturbation_breaks_a_bound(kernel: type, norm: str, units: int) -> None:
    for seed in range(3):
        break_bounds(seed, kernel, norm, units, random=100, attacked=2)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_hundred_thousand_perturbations_break_no_bound(kernel: type, norm: str) -> None:
    for seed in range(5):
        break_bounds(100 + seed, kernel, norm, seed % 2, random=1000, attacked=3)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_hundred_thousand_perturbations_break_no_bound_of_a_trained_agent(norm: str) -> None:
    agent = rsa2c.RSA2C("Pendulum-v1", "rsa2c-kme", seed=0).learn(100_000)
    for function in (agent.policy_mean, agent.value):
        break_bounds(7, RBF, norm, 1, random=5000, attacked=30, function=function)


def test_expansions_are_attained_by_a_single_kernel() -> None:
    """f = k(., z + D) has f(z + D) = 1 = |f|_H: bounds by order are equalities there."""
    rng = np.random.default_rng(2)
    for length in (0.1, 0.7, 1.5):
        state = rng.normal(size=3)
        direction = rng.normal(size=3)
        there = state + length * direction / np.linalg.norm(direction)
        dictionary = Dictionary(RBF(1.0, np.ones(3)), there[None], np.zeros(1))
        function = RKHSFunction(dictionary, np.ones((1, 1)), ("f",))
        found = bounds(Local(function, state), np.array([length]), "l2")
        rise = 1.0 - function(state)[0]
        assert found["order 0"][1][0, 0] == pytest.approx(rise, rel=1e-8)
        for order in (1, 2):
            assert rise <= found[f"order {order}"][1][0, 0] <= 1.15 * rise
        for epsilon in length * np.array([1.31, 2.17, 4.03, 6.0]):  # the peak lies inside the ball
            found = bounds(Local(function, state), np.array([epsilon]), "l2")
            assert all(rise <= high[0, 0] for _, high in found.values())


def test_the_norm_bound_is_attained_by_a_difference_of_kernels() -> None:
    """f = k(., z + D) - k(., z) moves by |f|_H^2 = delta_psi between the two."""
    centres = np.array([[0.6, 0.0], [0.0, 0.0]])
    dictionary = Dictionary(RBF(1.0, np.ones(2)), centres, np.zeros(2))
    function = RKHSFunction(dictionary, np.array([[1.0], [-1.0]]), ("f",))
    high = bounds(Local(function, centres[1]), np.array([0.6]), "l2")["norm"][1]
    assert high[0, 0] == pytest.approx(function(centres[0])[0] - function(centres[1])[0], rel=1e-8)


def test_local_expansion_matches_finite_differences() -> None:
    """g and M, whose norms and extremes enter the bounds, against derivatives of e^{t^2/2} f(z + D)."""
    rng = np.random.default_rng(3)
    function = make_function(rng, m=1)
    x = rng.uniform(-1, 1, 3)
    state = x * function.kernel.metric.std + function.kernel.metric.mean
    local = Local(function, state, function.kernel.metric.std)
    scales, step = function.kernel.scales, 1e-3

    def expanded(offset: np.ndarray) -> float:
        value = function.at((x + offset / scales)[None])[0, 0] - function.offset[0]
        return float(np.exp(offset @ offset / 2) * value)

    unit = np.eye(3) * step
    gradient = np.array([(expanded(e) - expanded(-e)) / (2 * step) for e in unit])

    def mixed(a: np.ndarray, b: np.ndarray) -> float:
        return (expanded(a + b) - expanded(a - b) - expanded(b - a) + expanded(-a - b)) / (4 * step**2)

    curvature = np.array([[mixed(a, b) for a in unit] for b in unit])
    assert local.gradient[0, 0] == pytest.approx(gradient, abs=1e-4)
    assert local.curvature_norm[0, 0] == pytest.approx(np.linalg.norm(curvature), abs=1e-4)
    scaled = curvature * np.outer(scales, scales)
    extremes = np.linalg.eigvalsh(scaled)[[0, -1]] * [-1, 1] / 2
    assert local.ball[:, 0, 0] == pytest.approx(np.maximum(extremes, 0), abs=1e-4)


def test_certificates_are_tight_on_a_trained_pendulum() -> None:
    agent = rsa2c.RSA2C("Pendulum-v1", "advanced-ac", seed=0).learn(30_000)
    rng = np.random.default_rng(0)
    states, region = agent.background[:40], Region(0.01)
    certificate = agent.certify(states, 0.01)
    moved = perturbed(rng, agent.policy_mean, states, region, 0, 4)
    actions = agent.policy.bounds.action(agent.policy_mean(moved.reshape(-1, 3)).reshape(len(moved), 40, 1))
    attacked = np.abs(actions - certificate.action).max(axis=0)
    assert np.all(attacked <= certificate.deviation)
    assert np.median(certificate.deviation / attacked) <= 3


def test_clipped_features_cannot_be_perturbed() -> None:
    function = make_function(np.random.default_rng(4))
    far = (function.kernel.metric.mean + 3.0 * function.kernel.metric.std)[None]
    for norm in NORMS:
        low, high = tightest(bounds(Local(function, far), np.array([0.9 * function.kernel.metric.std.min()]), norm))
        assert np.all(np.abs([low, high]) < 1e-10)
        _, high = tightest(bounds(Local(function, far), np.array([2.0 * function.kernel.metric.std.max()]), norm))
        assert np.all(high > 1e-3)


@pytest.mark.parametrize("squash", ["tanh", "clip", "none"])
def test_squashing_is_part_of_the_certificate(squash: str) -> None:
    rng = np.random.default_rng(5)
    function = make_function(rng)
    box = ActionBounds(np.array([-1.0, 0.0]), np.array([3.0, 0.5]), squash)
    policy = GaussianPolicy(function, np.full(2, 0.3), box)
    states, region = make_states(rng, function, 30), Region(np.full(30, 0.3), "linf")
    certificate = certify(policy, None, states, region)
    moved = perturbed(rng, function, states, region, 50, 2)
    actions = policy.bounds.action(function(moved.reshape(-1, 3)).reshape(len(moved), 30, 2))
    assert np.all((actions >= certificate.action_low) & (actions <= certificate.action_high))
    if squash != "none":
        assert certificate.action_low.min() >= -1.0 and np.all(certificate.action_high <= [3.0, 0.5])
    assert certificate.value_deviation is None


def test_total_variation_is_that_of_the_gaussians() -> None:
    grid = np.linspace(-12, 12, 200_001)
    density = np.exp(-(grid**2) / 2 / 0.3**2) / np.sqrt(2 * np.pi) / 0.3
    for distance in (0.01, 0.4, 2.0):
        shifted = np.exp(-((grid - distance) ** 2) / 2 / 0.3**2) / np.sqrt(2 * np.pi) / 0.3
        integral = 0.5 * np.trapezoid(np.abs(density - shifted), grid)
        assert total_variation(distance, 0.3) == pytest.approx(integral, abs=1e-6)
        assert total_variation(distance, 0.3) <= distance / 0.3 / 2  # Pinsker, the paper's


@pytest.mark.parametrize("norm", NORMS)
def test_certified_radius_is_certified_and_not_much_too_small(norm: str) -> None:
    rng = np.random.default_rng(6)
    function = make_function(rng)
    policy = GaussianPolicy(function, np.full(2, 0.3), ActionBounds(-np.ones(2), np.ones(2), "tanh"))
    states = make_states(rng, function, 10)
    radius = certified_radius(policy, states, 0.2, norm)
    inside = np.isfinite(radius)
    assert inside.any()
    at = certify(policy, None, states[inside], Region(radius[inside], norm)).deviation.max(axis=1)
    assert np.all(at <= 0.2)
    beyond = certify(policy, None, states[inside], Region(radius[inside] * 1.5 + 1e-3, norm)).deviation.max(axis=1)
    assert np.median(beyond) > 0.2
    assert np.all(np.isinf(certified_radius(policy, states, 2.0, norm)))  # more than the actions' range


def test_units_and_per_state_epsilon() -> None:
    agent = rsa2c.RSA2C("Pendulum-v1", "advanced-ac", seed=0).learn(20_000)
    states, std = agent.background[:6], agent.policy_mean.kernel.metric.std
    normalised = agent.certify(states, 0.05, "linf", units="normalised")
    direct = certify(agent.policy, agent.value, states, Region(0.05, "linf", std))
    assert np.array_equal(normalised.deviation, direct.deviation)
    sizes = np.geomspace(0.01, 0.5, 6)
    together = agent.certify(states, sizes)
    for i, size in enumerate(sizes):
        alone = agent.certify(states[i], size)
        assert alone.deviation[0] == pytest.approx(together.deviation[i], rel=1e-9)
        assert alone.value_deviation == pytest.approx(together.value_deviation[i], rel=1e-9)
    assert np.all(np.diff([agent.certify(states, s).deviation.max() for s in sizes]) >= 0)
    assert agent.certify(states, 0.0).deviation.max() < 1e-6
    assert agent.certified_radius(states, 0.1, units="normalised").shape == (6,)


def test_mistakes_are_named() -> None:
    function = make_function(np.random.default_rng(9))
    policy = GaussianPolicy(function, np.full(2, 0.3), ActionBounds(-np.ones(2), np.ones(2), "tanh"))
    states = make_states(np.random.default_rng(9), function, 4)
    with pytest.raises(ConfigError, match="epsilon must be finite and >= 0"):
        Region(-0.1)
    with pytest.raises(ConfigError, match="Did you mean 'linf'"):
        Region(0.1, "inf")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="one for each of the 4 states, got 3"):
        certify(policy, None, states, Region(np.ones(3)))
    with pytest.raises(DataError, match=r"shape \(N, 3\)"):
        certify(policy, None, states[:, :2], Region(0.1))
    with pytest.raises(ConfigError, match="amount must be positive"):
        certified_radius(policy, states, -1.0)


def test_command_line(tmp_path, capsys) -> None:
    small = ["--total-timesteps", "6000", "--out", str(tmp_path), "--quiet", "--no-track", "--evaluation-episodes", "2"]
    assert main(["train", "Pendulum-v1", "--algorithm", "advanced-ac", *small]) == 0
    run = str(next(tmp_path.iterdir()))
    capsys.readouterr()
    assert main(["certify", run, "--epsilon", "0.02", "--norm", "linf", "--states", "8"]) == 0
    out = capsys.readouterr().out
    assert "certified change of the action" in out and "certified radius" in out and "paper" not in out
    assert main(["certify", run, "--epsilon", "0.02", "--norm", "linf", "--states", "8", "--paper"]) == 0
    further = capsys.readouterr().out
    assert further.startswith(out) and "the paper's quantities" in further and "refused" in further
    assert main(["certify", run, "--epsilon", "-1"]) == 2
    assert "epsilon must be finite and >= 0" in capsys.readouterr().err
    assert main(["certify", run, "--epsilon", "0.1", "--states", "100000"]) == 2
    assert "--states must be between" in capsys.readouterr().err
    assert main(["evaluate", run, "--attack", "mad", "--epsilon", "0.1", "--episodes", "2"]) == 0
    assert "attack mad of l2 size 0.1" in capsys.readouterr().out
    assert main(["evaluate", run, "--attack", "mad"]) == 2
    assert "go together" in capsys.readouterr().err

"""From attributions to weights: those of useful features repeat, and the rules keep their promises."""

import numpy as np
import pytest

from rsa2c import RSA2C
from rsa2c.algorithm.guidance import attribution_critics, measure, measure_value, value_critic
from rsa2c.algorithm.released import printed_weights, ratio_weights
from rsa2c.algorithm.weights import NEGLIGIBLE, SHORTEST_LENGTH_SCALE, Importances, Measured
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import exact_nodes, shapley_product
from rsa2c.attribution.sampled import permutation_values
from rsa2c.config import CME, AgreementGuidance, PrintedGuidance, ReleasedGuidance
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.rkhs import RKHSFunction


def useful_and_useless(n=3000, d=8, seed=0):
    """A target of the first two features, and noise."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, d))
    target = np.sin(2 * states[:, 0]) + states[:, 0] * states[:, 1] + 0.5 * rng.normal(size=n)
    return states, target[:, None], rng


def halves(states, targets, rng, centres=200):
    first = np.arange(len(states)) < len(states) // 2
    return attribution_critics(states, targets, first, "rbf", centres, rng)


ALL = np.ones(8, bool)
"""Eight features that vary."""


def averaged(agreed, alone=None, explained=1.0, decay=0.97, moved=0.0):
    """Importances (sources, d) or (d,), measured one after the other; all of them repeat where `alone` is not given."""
    d = np.shape(agreed)[-1]
    importances = Importances.none(d)
    for a, b in zip(agreed, agreed if alone is None else alone, strict=True):
        a, b = np.atleast_2d(a), np.atleast_2d(b)
        measured = Measured(a, b, np.full(len(a), explained), a[0])
        importances = importances.updated(measured, np.broadcast_to(moved, d), decay)
    return importances


def weights_of(importances, floor=0.02, length_scale=1e3):
    """Weights of features that all vary."""
    d = importances.agreed.shape[1]
    return importances.weights(AgreementGuidance(weight_floor=floor), length_scale, np.ones(d, bool))


def test_useful_features_are_told_from_useless_ones():
    rule = AgreementGuidance(weight_floor=0.02)
    importances = Importances.none(8)
    for seed in range(8):
        states, target, rng = useful_and_useless(seed=seed)
        importances = importances.updated(
            measure(halves(states, [target], rng), rule, rng), np.zeros(8), rule.moment_decay
        )
    weights = importances.weights(rule, 3.0, ALL)
    assert weights[:2].min() > 3.5
    assert weights[2:].max() < 0.1


def test_one_sampled_order_finds_the_useful_features_too_and_doubts_them_more():
    """Orders differ from half to half, so that products are right on average, while squares have the order's noise."""
    exact, sampled = (AgreementGuidance(phi_estimator=name) for name in ("exact", "permutation"))
    found = {rule: Importances.none(8) for rule in (exact, sampled)}
    for seed in range(16):
        states, target, rng = useful_and_useless(seed=seed)
        critics = halves(states, [target], rng)
        for rule, importances in found.items():
            found[rule] = importances.updated(measure(critics, rule, rng), np.zeros(8), rule.moment_decay)
    np.testing.assert_allclose(found[sampled].agreed[0, :2], found[exact].agreed[0, :2], rtol=0.25)
    assert found[sampled].agreed[0, :2].min() > 10 * np.abs(found[sampled].agreed[0, 2:]).max()
    assert np.all(found[sampled].alone[0, :2] > 1.1 * found[exact].alone[0, :2])


def drifting(rng, episodes=4, steps=500, true=2, useless=10, rho=0.99):
    """Episodes of AR(1) features; the target is a function of the first ones and as slow as they are."""
    x = np.empty((episodes, steps, true + useless))
    x[:, 0] = rng.normal(size=x[:, 0].shape)
    for t in range(1, steps):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=x[:, t].shape)
    x = x.reshape(episodes * steps, -1)
    return x, np.sin(x[:, :1]) + x[:, 1:2]


def test_features_that_change_slowly_are_no_more_important_for_it():
    """One critic, and shadows whose rows are permuted, would say that they are: chance lasts within an episode."""
    rule, measured, alone, shadows = AgreementGuidance(), [], [], []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        x, y = drifting(rng)
        measured.append(measure(halves(x, [y], rng), rule, rng))
        beside = np.column_stack([x, *(rng.permutation(x[:, j]) for j in rng.choice(12, 6))])
        critic = halves(beside, [y], rng)[0]
        chosen, background = (critic.x[rng.choice(len(critic.x), count)] for count in (64, 48))
        game = Game(chosen, background, critic.dictionary.centres, critic.coefficients, critic.dictionary.kernel)
        squares = np.square(shapley_product(game, exact_nodes(18))).mean(axis=0)[:, 0]
        alone.append(squares[2:12])
        shadows.append(squares[12:])
    assert np.mean(alone) > 5 * np.mean(shadows), "permuted shadows show a fifth of what chance gives at most"
    useless = np.array([each.agreed[0, 2:].mean() for each in measured])
    assert abs(useless.mean()) < 2.5 * useless.std() / np.sqrt(len(useless) - 1) < 0.3 * np.mean(alone)
    importances = Importances.none(12)
    for each in measured:
        importances = importances.updated(each, np.zeros(12), 0.97)
    weights = weights_of(importances)
    assert weights[:2].min() > 3.9 > 2 > weights[2:].max() and np.median(weights[2:]) < 0.1


def test_the_halves_share_no_row():
    states, target, rng = useful_and_useless(n=300)
    one, other = halves(states, [target], rng, centres=30)
    np.testing.assert_array_equal(np.concatenate([one.x, other.x]), states)
    assert {row.tobytes() for row in one.dictionary.centres} <= {row.tobytes() for row in states[:150]}
    both = np.concatenate([one.targets, other.targets])
    np.testing.assert_allclose(both, (target - target.mean()) / target.std())


def test_what_the_halves_agree_on_is_the_mean_product_of_their_values():
    states, target, rng = useful_and_useless(n=200, d=4)
    critics = halves(states, [target, np.hstack([target, -target])], rng, centres=20)
    rule = AgreementGuidance(attribution_states=200, attribution_background=200)
    measured = measure(critics, rule, np.random.default_rng(4))
    drawn = np.random.default_rng(4)
    chosen, background = (states[drawn.choice(200, 200, replace=False)] for _ in range(2))
    one, other = (
        shapley_product(Game(chosen, background, c.dictionary.centres, c.coefficients, c.dictionary.kernel), 2)
        for c in critics
    )
    for found, by_hand in ((measured.agreed, one * other), (measured.alone, (one**2 + other**2) / 2)):
        means = by_hand.mean(axis=0)
        np.testing.assert_allclose(found, [means[:, 0], means[:, 1] + means[:, 2]], atol=1e-12)
    assert np.all(measured.alone >= np.abs(measured.agreed))
    np.testing.assert_allclose(measured.logged, np.abs(one[:, :, 0] + other[:, :, 0]).mean(axis=0) / 2, atol=1e-12)
    np.testing.assert_allclose(measured.explained, (critics[0].explained + critics[1].explained) / 2)


@pytest.mark.parametrize("game", [{}, {"game": CME()}], ids=["kme", "cme"])
def test_nothing_is_left_of_pure_noise(game):
    rule, importances = AgreementGuidance(**game, attribution_states=16, attribution_background=16), Importances.none(4)
    for seed in range(12):
        states, target, rng = useful_and_useless(n=400, d=4, seed=seed)
        noise = rng.normal(size=target.shape)
        measured = measure(halves(states, [noise], rng, centres=40), rule, rng)
        importances = importances.updated(measured, np.zeros(4), 0.97)
    assert importances.repeated().max() < 0.4
    np.testing.assert_array_equal(weights_of(importances), 1.0)


def test_what_the_paper_logs_is_the_mean_absolute_attribution_whatever_guides():
    states, target, rng = useful_and_useless()
    critic = halves(states, [target], rng, centres=30)[0]
    value = value_critic(states, RKHSFunction(critic.dictionary, critic.coefficients, ("value",)))
    means = {}
    for name in ("signed", "absolute"):
        rule = ReleasedGuidance(phi_statistic=name, phi_estimator="exact")
        means[name] = measure_value(value, rule, np.random.default_rng(3))
    phi = means["absolute"].agreed[0]
    np.testing.assert_allclose(means["absolute"].logged, phi)
    np.testing.assert_array_equal(means["signed"].logged, means["absolute"].logged)
    signed = np.abs(means["signed"].agreed[0])
    assert np.all(signed <= phi) and np.any(signed < phi / 2)


@pytest.mark.parametrize("floor", [0.02, 0.5])
def test_weights_keep_floor_and_sum(floor):
    rng = np.random.default_rng(1)
    agreed = [rng.uniform(0, 5, (2, 6)) for _ in range(9)]
    weights = weights_of(averaged(agreed, [0.8 + each for each in agreed], moved=rng.uniform(0.0, 2.0, 6)), floor)
    assert weights.sum() == pytest.approx(6) and len(np.unique(weights)) > 3
    assert weights.min() >= floor - 1e-12


def test_features_that_count_have_equal_weights_whatever_their_importance():
    """One that repeats, one that is moved, and one that is both; the fourth repeats in the second source only."""
    agreed, alone = (
        [[[9.0, 0.1, 4.0, 0.0, 0.1, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]]],
        [[[9.0, 1.0, 4.0, 1.0, 1.0, 0.0]] * 2],
    )
    moved = np.array([0.0, 7.0, 9.0, 0.0, 1.0, 2.0])
    weights = weights_of(averaged(agreed, alone, moved=moved), 0.02)
    np.testing.assert_allclose(weights, [0.02 + 0.98 * 6 / 4] * 4 + [0.02] * 2)


def test_where_all_features_count_all_weights_are_one():
    np.testing.assert_allclose(weights_of(averaged([[9.0, 0.0, 0.2]], moved=100.0)), 1.0, rtol=1e-15)


def test_what_counts_becomes_certain_with_measurements():
    """A feature that actions move by one standard deviation counts in full after 36 measurements."""
    counts = [averaged([[0.0]] * n, moved=1.0).counts(0.97)[0] for n in (1, 9, 25, 36)]
    np.testing.assert_allclose(counts, [0.0, 0.0, 2 / 3, 1.0])
    assert averaged([[0.0]] * 999, moved=1.0, decay=0.94).counts(0.94)[0] == pytest.approx(
        (32.33**0.5 - 3) / 3, abs=1e-3
    )
    assert averaged([[0.0]] * 99, moved=1.0, decay=1.0).counts(1.0)[0] == 1.0


def test_features_that_do_not_vary_take_no_part():
    importances, rule = averaged([[9.0, 0.0, 9.0, 9.0]]), AgreementGuidance(weight_floor=0.04)
    weights = importances.weights(rule, 1e3, np.array([True, True, False, False]))
    np.testing.assert_allclose(weights, [0.04 + 0.96 * 2, 0.04, 1.0, 1.0])
    np.testing.assert_array_equal(importances.weights(rule, 1e3, np.zeros(4, bool)), 1.0)


def test_the_floor_is_the_one_set_where_all_is_explained_and_one_where_nothing_is():
    smallest = [weights_of(averaged([[9.0, 0.0, 0.0, 0.0]], explained=e), 0.04).min() for e in (1.0, 0.5, 0.0)]
    np.testing.assert_allclose(smallest, [0.04, 0.2, 1.0])


def test_the_share_explained_is_that_of_the_regressions():
    states, target, rng = useful_and_useless()
    noise = rng.normal(size=(len(states), 3))
    for critic in halves(states, [target, noise], rng):
        predicted = critic.dictionary.features(states.dtype)(critic.x) @ critic.coefficients
        assert critic.explained[0] == pytest.approx(1 - np.mean((critic.targets - predicted)[:, 0] ** 2))
        assert critic.explained[1] < 0.25 < 0.4 < critic.explained[0]


def test_what_is_negligible_is_taken_off_before_importance_repeats():
    agreed, alone = np.array([[1.0, 0.4, 0.1, -0.3, 0.0]]), np.array([[1.0, 0.8, 0.4, 0.8, 0.0]])
    found, off = averaged(agreed, alone).repeated(), NEGLIGIBLE
    np.testing.assert_allclose(found, [1.0 - off, 0.5 - off / 0.8, 0.25 - off / 0.4, 0.0, 0.0])
    assert averaged([[1.0, off]]).repeated()[1] == 0.0


def test_nothing_that_counts_means_equal_weights():
    np.testing.assert_array_equal(weights_of(averaged([[1.0, 0.5, 0.0]], [[5.0, 2.0, 0.5]]), 0.3), 1.0)


def test_no_length_scale_under_the_shortest():
    weights = weights_of(averaged([[9.0, 0.0, 0.0, 0.0]]), 0.3, length_scale=0.9)
    assert 0.9 / np.sqrt(weights.max()) == pytest.approx(SHORTEST_LENGTH_SCALE)


def test_averages_are_plain_means_first():
    rows = np.arange(10.0).reshape(5, 1, 2)
    importances = averaged(rows, rows**2)
    np.testing.assert_allclose(importances.agreed, rows.mean(axis=0))
    moved = Importances.none(2)
    for row in rows:
        moved = moved.updated(Measured(row, row, np.ones(1), row[0]), row[0] ** 3, 0.97)
    np.testing.assert_allclose(moved.moved, (rows**3).mean(axis=0)[0])
    np.testing.assert_allclose(importances.alone, (rows**2).mean(axis=0))
    forgetful = (rows[0] + rows[1]) / 16 + rows[2] / 8 + rows[3] / 4 + rows[4] / 2
    np.testing.assert_allclose(averaged(rows, decay=0.5).agreed, forgetful)


def test_ratio_rule_of_the_released_code():
    rule = ReleasedGuidance(weight_floor=0.3, ratio_mix=0.25, ratio_range=2.0)
    weights = ratio_weights(np.array([-5.0, 0.3, 30.0]), rule)
    relative = np.maximum(np.array([0.3, 0.3, 30.0]) / np.mean([0.3, 0.3, 30.0]), 0.3)
    rho = np.clip(1 / np.sqrt(relative), 0.5, 2.0)
    np.testing.assert_allclose(1 / np.sqrt(weights), 0.75 + 0.25 * rho)


def test_ratio_rule_of_the_released_code_for_some_features():
    """Those furthest from 1; the others count as 1, which the mean then moves."""
    phi = np.array([0.1, 1.2, 0.6, 3.0])
    rule = ReleasedGuidance(weight_floor=0.3, ratio_mix=0.25, ratio_range=1.4, ratio_features=2)
    mean = (0.3 + 1.0 + 1.0 + 3.0) / 4
    rho = np.clip(1 / np.sqrt(np.array([0.3, 1.0, 1.0, 3.0]) / mean), 1 / 1.4, 1.4)
    np.testing.assert_allclose(1 / np.sqrt(ratio_weights(phi, rule)), 0.75 + 0.25 * rho)
    np.testing.assert_array_equal(phi, [0.1, 1.2, 0.6, 3.0])


def test_the_printed_rule_leaves_no_length_scale_beside_the_importances():
    rule = PrintedGuidance(weight_floor=0.01)
    phi = np.array([3.0, 0.0, 0.5])
    x, y = np.array([[0.3, -1.0, 0.2]]), np.array([[0.1, 0.4, -0.9]])
    expected = np.exp(-0.5 * np.sum(np.array([3.0, 0.01, 0.5]) * (x - y) ** 2))
    for length_scale in (0.8, 10.0):
        kernel = RBF(length_scale, printed_weights(phi, rule, length_scale))
        np.testing.assert_allclose(kernel(x, y), [[expected]])
    assert (rule.phi_statistic, rule.phi_estimator) == ("absolute", "exact")


def test_one_permutation_is_efficient_and_right_on_average():
    rng = np.random.default_rng(2)
    kernel = RBF(1.2, np.array([1.0, 0.5, 2.0, 1.0]))
    x, background, centres = rng.normal(size=(3, 4)), rng.normal(size=(9, 4)), rng.normal(size=(6, 4))
    coefficients = rng.normal(size=(6, 2))
    game = Game(x, background, centres, coefficients, kernel)
    draws = [permutation_values(game, rng) for _ in range(1500)]
    exact = shapley_product(game, 2)
    total = kernel(x, centres) @ coefficients - (kernel(background, centres) @ coefficients).mean(axis=0)
    np.testing.assert_allclose(draws[0].sum(axis=1), total, atol=1e-12)
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(np.mean(draws, axis=0) - exact) < 5 * error + 1e-12)


@pytest.mark.parametrize(("kind", "rank", "error"), [("nystroem", 48, 1e-6), ("fourier", 1000, 0.2)])
def test_the_approximated_game_of_training_tends_to_the_exact_one(kind, rank, error):
    """With all background states as landmarks Nystroem's features are the Gram matrix; Fourier's tend to it."""
    states, target, rng = useful_and_useless(n=400, d=3)
    critic = halves(states, [target], rng, centres=100)[0]
    found = []
    for game in (CME(), CME(cme_approximation=kind, cme_rank=rank), CME(cme_approximation=kind, cme_rank=3)):
        rule = PrintedGuidance(game=game, attribution_states=20)
        found.append(measure_value(critic, rule, np.random.default_rng(1)).logged)
    exact, close, rough = found
    np.testing.assert_allclose(close, exact, rtol=error)
    assert np.abs(rough - exact).max() > 10 * np.abs(close - exact).max()


@pytest.mark.parametrize(("reproject", "moves"), [(False, True), (True, False)])
def test_without_reprojection_small_changes_of_weights_count_too(reproject, moves):
    """The paper's rule on BipedalWalker-v3 and Ant-v5 changes no weight by more than 6%."""
    settings = {"n_envs": 2, "horizon": 60, "capacity": 30, "initial_centres": 20, "attribution_every": 1,
                "attribution_warmup": 1, "ratio_mix": 0.08, "ratio_range": 1.4}  # fmt: skip
    agent = RSA2C("Pendulum-v1", preset="paper", seed=3, reproject=reproject, **settings)
    for _ in range(4):
        agent.run_epoch()
    weights = agent.kernel_weights
    assert np.all(np.abs(weights - 1.0) < 0.07)
    assert np.any(weights != 1.0) == moves

"""Statistics against plain loops, known answers and SciPy."""

from __future__ import annotations

import math
import statistics as standard
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from rsa2c import statistics as st
from rsa2c.errors import ConfigError, DataError
from rsa2c.statistics.words import attended

RNG = np.random.default_rng(7)
TWO = [RNG.normal(0, 1, 7), RNG.normal(3, 2, 5)]
OTHER = [RNG.normal(0.5, 1, 6), RNG.normal(3, 1, 9)]


def rng():
    return np.random.default_rng(0)


def pooled(strata):
    return np.concatenate(strata)


def test_mean_and_std_are_the_plain_ones():
    mean, std = st.mean_std(TWO[0])
    assert mean == pytest.approx(standard.fmean(TWO[0]))
    assert std == pytest.approx(standard.pstdev(TWO[0]))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 10, 33])
def test_iqm_is_scipy_s_trimmed_mean(n):
    scores = np.random.default_rng(n).normal(size=(n, 3))
    np.testing.assert_allclose(st.iqm(scores, axis=0), scipy.stats.trim_mean(scores, 0.25, axis=0))
    np.testing.assert_allclose(st.iqm(scores.T, axis=1), scipy.stats.trim_mean(scores, 0.25, axis=0))


def test_iqm_ignores_outliers():
    assert st.iqm([-1e9, 1, 2, 3, 4, 5, 6, 1e9]) == pytest.approx(3.5)


def slow_bootstrap(strata, statistic, generator, repetitions):
    """The same draws in the same order, one run at a time."""
    draws = [generator.integers(len(s), size=(repetitions, len(s))) for s in strata]
    replicates = []
    for r in range(repetitions):
        sample = [s[i] for s, d in zip(strata, draws, strict=True) for i in d[r]]
        replicates.append(statistic(sample))
    return replicates


@pytest.mark.parametrize("fast, slow", [(np.mean, standard.fmean), (st.iqm, lambda s: scipy.stats.trim_mean(s, 0.25))])
def test_bootstrap_equals_a_plain_loop(fast, slow):
    replicates = st.bootstrap(TWO, fast, rng(), 50)
    np.testing.assert_allclose(replicates, slow_bootstrap(TWO, slow, rng(), 50))


def test_bootstrap_is_stratified():
    """Constant tasks leave nothing to draw; an unstratified bootstrap would mix them."""
    assert np.ptp(st.bootstrap([[1.0] * 3, [5.0] * 4], np.mean, rng(), 200)) == pytest.approx(0, abs=1e-12)
    assert np.ptp(st.bootstrap([[1.0] * 3 + [5.0] * 4], np.mean, rng(), 200)) > 1


@pytest.mark.parametrize("statistic", [np.mean, st.iqm, np.median])
def test_interval_agrees_with_scipy(statistic):
    scores = np.random.default_rng(3).gamma(2.0, 10.0, 40)
    ours = st.estimate([scores], statistic, rng(), repetitions=20_000)
    peer = scipy.stats.bootstrap(
        (scores,), statistic, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert ours.value == pytest.approx(statistic(scores, axis=0))
    width = peer.high - peer.low
    assert ours.low == pytest.approx(peer.low, abs=0.05 * width)
    assert ours.high == pytest.approx(peer.high, abs=0.05 * width)


def test_interval_covers_the_mean_as_often_as_it_says():
    generator = np.random.default_rng(11)
    hits = 0
    for _ in range(400):
        interval = st.estimate([generator.normal(2.0, 1.0, 30)], np.mean, generator, level=0.9, repetitions=400)
        hits += interval.low <= 2.0 <= interval.high
    assert 0.84 < hits / 400 < 0.94


def test_wider_level_gives_a_wider_interval():
    narrow, wide = (st.estimate(TWO, np.mean, rng(), level=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


def test_difference_agrees_with_scipy_and_is_antisymmetric():
    x, y = np.random.default_rng(4).normal(1, 1, 25), np.random.default_rng(5).normal(0, 2, 30)
    ours = st.difference([x], [y], np.mean, rng(), repetitions=20_000)
    peer = scipy.stats.bootstrap(
        (x, y), lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis), method="percentile",
        n_resamples=20_000, rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert ours.value == pytest.approx(x.mean() - y.mean())
    width = peer.high - peer.low
    assert ours.low == pytest.approx(peer.low, abs=0.05 * width)
    assert ours.high == pytest.approx(peer.high, abs=0.05 * width)
    assert st.difference([y], [x], np.mean, rng()).value == pytest.approx(-ours.value)
    pair = st.difference(TWO, OTHER, st.iqm, rng())
    assert pair.value == pytest.approx(st.iqm(pooled(TWO)) - st.iqm(pooled(OTHER)))
    assert pair.low < pair.value < pair.high


def test_std_is_the_plain_one_and_scales_with_the_scores():
    found = st.std(TWO[0])
    assert found.value == pytest.approx(standard.stdev(TWO[0]))
    assert found.low < found.value < found.high
    scaled = st.std(10 * TWO[0] + 5)
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx((10 * found.value, 10 * found.low, 10 * found.high))
    wide = st.std(TWO[0], level=0.99)
    assert wide.low < found.low and wide.high > found.high


def test_std_difference_is_antisymmetric():
    one, other = st.std_difference(TWO[0], TWO[1]), st.std_difference(TWO[1], TWO[0])
    assert one.value == pytest.approx(standard.stdev(TWO[0]) - standard.stdev(TWO[1]))
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("sigma, other", [(1.0, 1.0), (1.0, 3.0), (3.0, 1.0)])
def test_intervals_of_stds_cover_as_often_as_they_say(n, sigma, other):
    generator = np.random.default_rng(20)
    alone = apart = 0
    for _ in range(1500):
        x, y = generator.normal(0.0, sigma, n), generator.normal(0.0, other, n)
        one, both = st.std(x), st.std_difference(x, y)
        alone += one.low <= sigma <= one.high
        apart += both.low <= sigma - other <= both.high
    assert 0.92 < alone / 1500 < 0.98
    assert 0.92 < apart / 1500 < 0.98


def test_probability_of_improvement_by_plain_comparisons():
    ours = st.probability_of_improvement(TWO, OTHER, rng(), repetitions=500)
    shares = []
    for a, b in zip(TWO, OTHER, strict=True):
        shares.append(sum(1.0 if x > y else 0.5 if x == y else 0.0 for x in a for y in b) / (len(a) * len(b)))
    assert ours.value == pytest.approx(standard.fmean(shares))
    assert st.probability_of_improvement(OTHER, TWO, rng()).value == pytest.approx(1 - ours.value)


def test_probability_of_improvement_is_mann_whitney_s_u():
    u = scipy.stats.mannwhitneyu(TWO[0], OTHER[0]).statistic
    value = st.probability_of_improvement(TWO[:1], OTHER[:1], rng()).value
    assert value == pytest.approx(u / (len(TWO[0]) * len(OTHER[0])))


def test_probability_of_improvement_replicates_equal_resampled_runs():
    """The quadratic form in the counts is the statistic of the resampled runs."""
    a, b, repetitions = TWO[0], OTHER[0], 40
    generator = rng()
    counts = [generator.multinomial(len(s), np.full(len(s), 1 / len(s)), size=repetitions) for s in (a, b)]
    slow = []
    for r in range(repetitions):
        x, y = np.repeat(a, counts[0][r]), np.repeat(b, counts[1][r])
        slow.append(np.mean([[(p > q) + 0.5 * (p == q) for q in y] for p in x]))
    fast = st.probability_of_improvement([a], [b], rng(), repetitions=repetitions)
    assert (fast.low, fast.high) == pytest.approx(st.percentile_interval(np.array(slow)))


def test_ties_count_half_and_certainty_has_no_width():
    same = st.probability_of_improvement([[1.0, 1.0]], [[1.0, 1.0, 1.0]], rng())
    assert (same.value, same.low, same.high) == pytest.approx((0.5, 0.5, 0.5))
    better = st.probability_of_improvement([[5.0, 6.0]], [[1.0, 2.0, 3.0]], rng())
    assert (better.value, better.low, better.high) == pytest.approx((1.0, 1.0, 1.0))


CURVES = [([0, 10, 20, 40], [0.0, 1.0, 3.0, 3.0]), ([5, 25, 35], [2.0, 4.0, 0.0])]


def slow_interpolation(curve, at):
    steps, values = curve
    if at < steps[0] or at > steps[-1]:
        return math.nan
    for a, b, u, v in zip(steps, steps[1:], values, values[1:], strict=False):
        if a <= at <= b:
            return u + (v - u) * (at - a) / (b - a)
    raise AssertionError


def test_curves_are_interpolated_and_never_extrapolated():
    grid = [0, 5, 12.5, 35, 36, 40, 41]
    expected = [[slow_interpolation(curve, at) for at in grid] for curve in CURVES]
    np.testing.assert_allclose(st.aligned(CURVES, grid), expected)
    assert np.isnan(st.aligned(CURVES, grid)).tolist() == [[False] * 6 + [True], [True] + [False] * 3 + [True] * 3]


def test_common_grid_is_what_all_curves_cover():
    grid = st.common_grid(CURVES, 4)
    np.testing.assert_allclose(grid, [5, 15, 25, 35])
    assert np.all(np.isfinite(st.aligned(CURVES, grid)))
    with pytest.raises(DataError, match="share no steps"):
        st.common_grid([([0, 1], [0, 0]), ([2, 3], [0, 0])])


def test_curve_interval_is_the_pointwise_bootstrap():
    values = np.random.default_rng(2).normal(size=(6, 4))
    centre, low, high = st.curve_interval(values, rng(), repetitions=300)
    chosen = rng().integers(6, size=(300, 6))
    for point in range(4):
        replicates = np.array([standard.fmean(values[row, point]) for row in chosen])
        assert (low[point], high[point]) == pytest.approx(st.percentile_interval(replicates))
    np.testing.assert_allclose(centre, values.mean(axis=0))


def test_first_step_at_the_threshold():
    assert st.steps_to_threshold(CURVES[0], 1.0) == 10
    assert st.steps_to_threshold(CURVES[0], 1.5) == 20
    assert st.steps_to_threshold(CURVES[0], -1.0) == 0
    assert st.steps_to_threshold(CURVES[1], 5.0) == math.inf


@pytest.mark.parametrize(
    "steps, median",
    [([3, 1, 2], 2), ([1, 2, 3, 4], 2.5), ([1, 2, math.inf], 2), ([1, math.inf, math.inf], math.inf),
     ([1, math.inf], math.inf)],
)  # fmt: skip
def test_median_with_runs_that_never_arrive(steps, median):
    found = st.median_steps(steps, rng())
    assert found.value == median
    assert found.low <= found.value <= found.high
    assert not math.isnan(found.low) and not math.isnan(found.high)


@pytest.mark.parametrize(
    "found",
    [
        st.mean([3.0]),
        st.mean_difference([3.0], [1.0, 2.0]),
        st.mean_difference([1.0, 2.0], [3.0]),
        st.share([1.0]),
        st.estimate([[3.0]], st.iqm, rng()),
        st.estimate([[1.0, 2.0], [3.0]], np.mean, rng()),
        st.difference([[3.0]], [[1.0, 2.0]], np.median, rng()),
        st.probability_of_improvement([[3.0]], [[1.0, 2.0]], rng()),
        st.median_steps([math.inf], rng()),
    ],
)
def test_a_single_run_has_a_value_and_no_interval(found):
    assert not math.isnan(found.value) and math.isnan(found.low) and math.isnan(found.high)
    assert not found.has_interval and str(found).endswith("[-]")


def test_a_single_curve_has_no_interval():
    mean, low, high = st.curve_interval([[1.0, 2.0]], rng())
    np.testing.assert_array_equal(mean, [1.0, 2.0])
    assert np.isnan([low, high]).all()


def test_median_interval_by_a_plain_loop():
    steps = np.array([10.0, 20.0, 30.0, 50.0, math.inf])
    found = st.median_steps(steps, rng(), repetitions=999)
    slow = sorted(standard.median(row) for row in steps[rng().integers(5, size=(999, 5))])
    # Order statistics at the shares 0.025 and 0.975 of 999 replicates.
    assert (found.low, found.high) == (slow[24], slow[974])


def test_variation_and_roughness():
    curve = [0.0, 2.0, 1.0, 4.0]
    assert st.total_variation(curve) == pytest.approx(sum(abs(b - a) for a, b in pairwise(curve)))
    assert st.roughness(curve) == pytest.approx(2.0)
    assert st.roughness([1, 2, 5, 9]) == 0 == st.roughness([9, 5, 2, 1])
    values = np.random.default_rng(0).normal(size=(3, 20))
    np.testing.assert_allclose(st.roughness(values.T, axis=0), [st.roughness(row) for row in values])


def test_evenness_of_attributions():
    assert st.evenness([2.0, -2.0, 2.0]) == pytest.approx(1.0)
    assert st.evenness([0.0, -5.0, 0.0, 0.0]) == pytest.approx(0.25)
    p = np.array([0.5, 0.25, 0.25])
    assert st.evenness(3 * p) == pytest.approx(math.exp(-sum(x * math.log(x) for x in p)) / 3)
    assert np.isnan(st.evenness([[0.0, 0.0], [1.0, 1.0]])).tolist() == [True, False]


def test_order_of_importances():
    runs = [[3, 1, 2], [3, 2, 1], [-3, 1, 2], [3, 2, 2]]
    assert st.follows_order(runs, [0, 2, 1]).tolist() == [True, False, True, False]
    assert st.follows_order(runs, [0]).tolist() == [True] * 4
    assert st.follows_order([[1, 1, 0]], [0]).tolist() == [False]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: st.estimate([], np.mean, rng()), "at least one task"),
        (lambda: st.estimate([1.0, 2.0], np.mean, rng()), r"wrap one task as \[scores\]"),
        (lambda: st.estimate([[]], np.mean, rng()), "one number per run"),
        (lambda: st.estimate([[1.0, math.nan]], np.mean, rng()), "must be finite"),
        (lambda: st.difference([[1.0]], [[1.0], [2.0]], np.mean, rng()), "same tasks, got 1 and 2"),
        (lambda: st.std([1.0]), "at least two runs"),
        (lambda: st.std_difference([1.0, 2.0], [1.0, math.inf]), "must be finite"),
        (lambda: st.aligned([([0, 0], [1, 2])], [0]), "must increase"),
        (lambda: st.aligned([([0, 1], [1])], [0]), "two vectors of one length"),
        (lambda: st.common_grid([]), "got none"),
        (lambda: st.median_steps([1.0, math.nan], rng()), "without NaN"),
        (lambda: st.curve_interval([1.0, 2.0], rng()), r"\(runs, points\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(DataError, match=message):
        call()


@pytest.mark.parametrize("wrong", [{"level": 1.0}, {"level": 0.0}, {"repetitions": 0}])
def test_bad_settings_are_named(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        st.estimate(TWO, np.mean, rng(), **wrong)


def test_a_bad_level_of_a_std_is_named():
    with pytest.raises(ConfigError, match="level must lie between 0 and 1, got 95"):
        st.std(TWO[0], level=95)


def test_a_mean_s_interval_follows_from_mean_and_standard_deviation():
    scores = np.random.default_rng(3).normal(5.0, 2.0, 12)
    found, direct = st.mean_of(scores.mean(), scores.std(), 12, 0.9), st.mean(scores, 0.9)
    assert (found.value, found.low, found.high) == pytest.approx((direct.value, direct.low, direct.high))
    assert not st.mean_of(5.0, 0.0, 1).has_interval


def test_means_have_student_s_and_welch_s_intervals():
    ours, theirs = RNG.normal(1.0, 2.0, 6), RNG.normal(0.0, 0.5, 9)
    found = st.mean(ours, 0.9)
    reference = scipy.stats.ttest_1samp(ours, 0.0).confidence_interval(0.9)
    np.testing.assert_allclose([found.value, found.low, found.high], [ours.mean(), *reference])
    found = st.mean_difference(ours, theirs, 0.99)
    reference = scipy.stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.99)
    np.testing.assert_allclose([found.value, found.low, found.high], [ours.mean() - theirs.mean(), *reference])


def test_runs_that_are_alike_have_an_interval_of_one_point():
    assert st.mean([2.0, 2.0]) == st.Estimate(2.0, 2.0, 2.0)
    assert st.mean_difference([2.0, 2.0], [1.0, 1.0]) == st.Estimate(1.0, 1.0, 1.0)


def test_the_interval_of_a_mean_covers_it():
    """Where a percentile bootstrap of five runs misses the mean 15 times in a hundred."""
    missed = [not found.low <= 0.0 <= found.high for found in (st.mean(RNG.normal(size=5)) for _ in range(2000))]
    assert 0.03 < np.mean(missed) < 0.07


def test_a_share_of_runs_is_never_certain():
    found = st.share([1.0] * 10)
    assert found.value == found.high == 1.0
    assert found.low == pytest.approx(0.025 ** (1 / 10))


def test_before_a_threshold_is_the_evaluation_before():
    curve = ([10.0, 20.0, 30.0], [1.0, 2.0, 3.0])
    assert st.steps_to_threshold(curve, 2.5) == 30.0
    assert st.steps_to_threshold(curve, 2.5, before=True) == 20.0
    assert st.steps_to_threshold(curve, 0.0, before=True) == 0.0
    assert st.steps_to_threshold(curve, 9.0, before=True) == np.inf


def test_rank_agreement():
    assert st.rank_agreement([1.0, 2.0, 5.0], [10.0, 11.0, 12.0]) == pytest.approx(1.0)
    assert st.rank_agreement([1.0, 2.0, 5.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    # ties share the mean of their ranks: (1.5, 1.5, 3) against (1, 2, 3) is 1.5 / sqrt(1.5 * 2)
    assert st.rank_agreement([0.0, 0.0, 1.0], [1.0, 2.0, 3.0]) == pytest.approx(math.sqrt(0.75))
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, size=(2, 20))
    assert st.rank_agreement(first, second) == pytest.approx(scipy.stats.spearmanr(first, second)[0])
    assert math.isnan(st.rank_agreement([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match="same features, got 3 and 2"):
        st.rank_agreement([1.0, 2.0, 3.0], [1.0, 2.0])


def test_features_are_named_by_their_weight_or_counted_where_many_have_the_same():
    names = list("abcdefgh")
    assert attended(np.ones(8), names) is None
    assert attended(np.array([0.1, 3.0, 2.0, 0.4]), names[:4]) == "b 3.00, c 2.00, d 0.40"
    weights = np.array([0.02, *[1.3] * 6, 0.02])
    assert attended(weights, names) == "6 of 8 features alike: b, c, d, e, f, ..."

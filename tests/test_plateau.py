"""Runs shorter than the paper's: what their last two fifths show."""

import numpy as np
import pytest

from rsa2c import statistics
from rsa2c.reproduce import build, paper
from rsa2c.reproduce.plateau import COLUMNS, FALLING, FEWEST, LEVEL, OPEN, RISING, fifths, plateau, said, slope
from rsa2c.reproduce.records import Curve
from rsa2c.reproduce.selection import Selection
from rsa2c.statistics import Estimate
from test_claims import LQR, PENDULUM, made

EPOCHS = np.arange(20.0, 601.0, 20.0)


def run(seed, mean, algorithm="rsa2c-kme", epochs=EPOCHS, **changes):
    """A run with the preset `paper` whose evaluations are a function of the epoch."""
    means = np.array([mean(epoch) for epoch in epochs])
    curve = Curve(epochs * 4800, epochs, means, np.full(len(epochs), np.nan), epochs)
    fields = {"preset": "paper", "curve": curve, "epochs": int(epochs[-1]), "steps": int(epochs[-1]) * 4800}
    return made(algorithm, seed, **(fields | changes))


def row(*runs, environment=PENDULUM):
    (found,) = plateau(Selection(runs), environment).rows
    return dict(zip(COLUMNS, found, strict=True))


def test_the_papers_epochs_are_those_of_its_table():
    assert [paper.epochs(name) for name in (PENDULUM, "BipedalWalker-v3", "Ant-v5", LQR)] == [2000, 1500, 2000, None]


def test_a_straight_climb_has_its_slope_and_is_rising():
    found = row(*(run(seed, lambda epoch, seed=seed: -500.0 + 0.4 * epoch + seed) for seed in range(3)))
    assert found["slope per 100 epochs"].value == pytest.approx(40.0)
    assert found["difference"].value == pytest.approx(0.4 * 120), "six evaluations later, 20 epochs apart"
    assert found["at that slope by the paper's end"].value == pytest.approx(0.4 * 1400)
    assert found["plateau"] == RISING
    assert row(*(run(seed, lambda epoch: -0.4 * epoch) for seed in range(3)))["plateau"] == FALLING


def test_a_curve_that_has_flattened_is_level_and_one_that_scatters_shows_nothing():
    flat = row(*(run(seed, lambda epoch, seed=seed: -150.0 - seed - 800.0 * np.exp(-epoch / 40)) for seed in range(3)))
    assert flat["plateau"] == LEVEL and flat["return, last fifth"] == pytest.approx(-151.0, abs=0.1)
    rng = np.random.default_rng(0)
    wild = row(*(run(seed, lambda epoch: rng.normal(-300.0, 200.0)) for seed in range(3)))
    assert wild["plateau"] == OPEN and wild["difference"].low < -20.0


def test_an_interval_is_over_runs_and_of_one_run_over_its_evaluations():
    rng = np.random.default_rng(1)
    runs = [run(seed, lambda epoch: rng.normal(-150.0, 5.0)) for seed in range(4)]
    gained = [np.mean(late) - np.mean(before) for late, before in (fifths(item.curve) for item in runs)]
    assert row(*runs)["difference"] == statistics.mean(gained)
    alone = row(runs[0])
    assert alone["difference"] == statistics.mean_difference(*fifths(runs[0].curve))
    assert not alone["slope per 100 epochs"].has_interval
    assert slope(runs[0].curve) == pytest.approx(np.polyfit(EPOCHS[-12:], runs[0].curve.mean[-12:], 1)[0])


@pytest.mark.parametrize(("interval", "words"), [
    ((-19.0, 19.0), LEVEL), ((1.0, 20.0), LEVEL), ((1.0, 21.0), RISING), ((-40.0, -1.0), FALLING), ((-1.0, 21.0), OPEN),
    ((np.nan, np.nan), OPEN),
])  # fmt: skip
def test_level_is_a_whole_interval_within_the_margin(interval, words):
    assert said(Estimate(0.0, *interval), 20.0) == words


def test_only_short_plain_runs_of_the_preset_paper_are_listed():
    def rows(*runs, environment=PENDULUM):
        return plateau(Selection(runs), environment).rows

    def steady(epoch):
        return -150.0

    whole = run(0, steady, epochs=np.arange(20.0, 2001.0, 20.0))
    assert not rows(whole) and len(rows(run(0, steady))) == 1
    assert not rows(run(0, steady, preset="default")) and not rows(run(0, steady, varied="metric=fisher"))
    assert not rows(run(0, steady, epochs=EPOCHS[: FEWEST - 1])), "too few evaluations"
    assert not rows(run(0, steady, environment=LQR), environment=LQR), "the paper does not say how long it trained"
    both = rows(run(0, steady), run(1, steady, epochs=EPOCHS[:20]), run(0, steady, "rkhs-ac"))
    assert [found[:3] for found in both] == [["rsa2c-kme", 2, "400/600"], ["rkhs-ac", 1, "600"]]
    names = [table.name for table in build(Selection([run(0, steady)]), [PENDULUM])]
    assert "plateau_pendulum" in names
    assert "plateau_pendulum" not in [table.name for table in build(Selection([whole]), [PENDULUM])]

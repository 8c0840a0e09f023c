"""The paper as data: whole, consistent in itself, and in this package's own names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from rsa2c.baselines.policy import BASELINES
from rsa2c.config import ALGORITHMS, make_config
from rsa2c.envs.known import find
from rsa2c.errors import NotFoundError
from rsa2c.reproduce import paper

ENVIRONMENTS = {"Pendulum-v1", "BipedalWalker-v3", "Ant-v5", "rsa2c/LQR-v0"}
METHODS = {*ALGORITHMS, *BASELINES}


def numbers(node: Any) -> Iterator[float]:
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from numbers(child)
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield node


def test_every_number_is_a_finite_number():
    found = list(numbers(paper.document()))
    assert len(found) > 300
    assert all(math.isfinite(value) for value in found)


def test_every_table_has_units_for_its_columns():
    document = paper.document()
    for table in document["returns"]:
        assert set(table["units"]) == {"mean", "std", "noise_variance"}
    for table in document["costs"]:
        assert set(table["units"]) == set(table["columns"]) - {"environment", "algorithm", "device"}
    assert document["thresholds"]["units"] == {"value": "return"}
    assert all(row.unit for row in (*paper.settings(), *paper.figures()))
    for section in ("environments", "lqr", "theory"):
        rows = document[section].get("rows", [document[section]])
        found = {name for row in rows for name, value in row.items() if list(numbers(value))}
        assert found == set(document[section]["units"]), section


def test_tables_are_complete():
    for table in paper.document()["returns"]:
        ours = {"rsa2c-kme", "rsa2c-cme"}
        everybody = METHODS - {"shuffled-shap"}
        assert set(table["rows"]) == (everybody if table["id"].startswith("noise") else ours)
        assert all(len(cells) == len(table["noise_variance"]) for cells in table["rows"].values())
    assert len(paper.returns()) == 3 * 7 * 4 + 3 * 2 * 3
    assert {(row.environment, row.algorithm) for row in paper.costs()} == {
        (environment, algorithm)
        for environment in ENVIRONMENTS - {"rsa2c/LQR-v0"}
        for algorithm in ("rsa2c-kme", "rsa2c-cme", "sac", "ppo")
    }


def test_names_are_ours():
    for row in (*paper.returns(), *paper.costs(), *paper.figures()):
        assert row.environment in ENVIRONMENTS and row.algorithm in METHODS
    for claim in paper.claims():
        assert set(claim.environments) <= ENVIRONMENTS
        assert {*claim.subject, *claim.against} <= METHODS
        for environment in claim.environments:
            assert set(claim.order) <= {feature.name for feature in find(environment).features}


def test_time_to_solution_is_epochs_times_runtime():
    """The paper's own product, to its rounding: a mistyped digit in any of the three columns breaks it."""
    for row in paper.costs():
        slack = 0.05 * row.epochs / 1000 + 0.05
        assert row.seconds == pytest.approx(row.epochs * row.epoch_ms / 1000, abs=slack), row


def test_figures_of_the_prose_agree_with_the_tables():
    for figure in paper.figures():
        if figure.quantity in ("epoch_ms", "seconds"):
            row = paper.published_cost(figure.environment, figure.algorithm)
            assert row is not None
            assert getattr(row, figure.quantity) == pytest.approx(figure.value, rel=3e-3), figure
        if figure.quantity == "std" and figure.high is not None:
            nonzero = figure.note == "nonzero noise"
            table = [r for r in paper.returns() if r.section != "A.5" and r.noise_variance >= nonzero * 1e-9]
            spread = [r.std for r in table if (r.environment, r.algorithm) == (figure.environment, figure.algorithm)]
            assert (min(spread), max(spread)) == pytest.approx((figure.value, figure.high), rel=0.02), figure
    kme, cme = (paper.published_cost("BipedalWalker-v3", name) for name in ("rsa2c-kme", "rsa2c-cme"))
    overhead = next(figure for figure in paper.figures() if figure.quantity == "runtime_overhead")
    assert kme is not None and cme is not None
    assert cme.epoch_ms / kme.epoch_ms - 1 == pytest.approx(overhead.value, abs=5e-4)


def test_the_preset_paper_is_the_paper_s_table():
    checked = 0
    for setting in paper.settings():
        if setting.field is not None:
            config = make_config(setting.environment, "paper")
            assert config.settings()[setting.field] == pytest.approx(setting.value * setting.scale), setting
            checked += 1
    assert checked == 8 * 3


def test_claims_are_quoted_identified_and_testable():
    claims = paper.claims()
    assert len(claims) >= 12
    assert len({claim.id for claim in claims}) == len(claims)
    assert len({claim.quote for claim in claims}) == len(claims)
    known = paper.document()["statistics"]
    for claim in claims:
        assert len(claim.quote.split()) >= 4 and claim.section and claim.subject and claim.environments
        assert claim.statistic in known
        assert claim.direction in ("higher", "lower", "similar", "at most", "order")
        assert claim.noise in ("largest", "every", "most")
        assert claim.noise == "largest" or claim.statistic.startswith("noise_")
        assert claim.bound is None or (claim.direction == "at most" and paper.figure(claim.bound))
        assert not claim.most or len(claim.against) > 2
        assert not claim.quote.startswith("...") and not claim.quote.endswith("...")
        assert bool(claim.order) == (claim.statistic in ("importance_order", "attribution_rise"))
        assert not set(claim.subject) & set(claim.against)
    assert set(known) == {claim.statistic for claim in claims}


def test_ids_are_unique():
    document = paper.document()
    for rows in (document["returns"], document["complexity"], document["prose"]):
        assert len({row["id"] for row in rows}) == len(rows)


def test_lookup():
    row = paper.published_return("Pendulum-v1", "rsa2c-kme")
    assert row is not None and (row.mean, row.std) == (-139.83, 26.0)
    assert row.where == "section 5, tab:pendulum_rbf"
    assert paper.published_return("Ant-v5", "rsa2c-cme", 0.5).mean == -704.36
    assert paper.published_return("Ant-v5", "shuffled-shap") is None
    assert paper.threshold("Pendulum-v1") == -200
    assert paper.threshold("rsa2c/LQR-v0") is None
    assert paper.claim("kme_earlier").against == ("rsa2c-cme",)
    with pytest.raises(NotFoundError, match="Did you mean 'kme_earlier'"):
        paper.claim("kme_earlyer")

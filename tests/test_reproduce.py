"""The study pipeline: records survive their files, tables say what the records hold, verdicts follow from intervals."""

from dataclasses import replace

import numpy as np
import pytest

from rsa2c import statistics
from rsa2c.cli import main
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError
from rsa2c.files import StorageError
from rsa2c.reproduce import build, claims, figures, findings, grids, paper, rates, read_records, tables, verdicts
from rsa2c.reproduce.archive import COLUMNS, append_records
from rsa2c.reproduce.cells import Part, Spread, Table
from rsa2c.reproduce.records import Curve, Record
from rsa2c.reproduce.selection import ORDER, WHOLE, Selection
from rsa2c.runs.summary import Return

LEVELS = (0.0, 0.001, 0.005, 0.01)


def made(algorithm, seed, mean, preset="default", slope=1.0, shares=(0.5, 0.2, 0.3), **changes):
    """A record of a run that climbs to `mean` and loses `slope` of return for each 0.01 of noise variance."""
    steps = np.linspace(1000.0, 10_000.0, 10)
    curve = Curve(steps, steps / 1e4, np.linspace(-1200.0, mean, 10), np.full(10, np.nan), np.arange(1.0, 11.0))
    fields = {
        "run": f"Pendulum-v1__{algorithm}__{preset}__n0__s{seed}", "grid": "ablation", "environment": "Pendulum-v1",
        "algorithm": algorithm, "preset": preset, "noise": 0.0, "distractors": 0, "seed": seed, "varied": "",
        "steps": 10_000, "seconds": 1.0, "epochs": 10, "states": 50, "capacity": 256, "weight_ratio": 2.0, "gflop": 0.1,
        "gap": float("nan"), "commit": "abc", "processor": "a processor", "versions": "numpy 2", "curve": curve,
        "returns": {level: Return(mean - slope * level / 0.01, 80.0, 100) for level in LEVELS},
        "importances": {"early": dict(zip(("cos theta", "sin theta", "velocity"), shares, strict=True)),
                        "late": dict(zip(("cos theta", "sin theta", "velocity"), shares, strict=True))},
    }  # fmt: skip
    return Record(**{**fields, **changes})


def study(**means):
    """Ten seeds of each variant around its mean, without overlap between means 10 apart."""
    return Selection([made(name.replace("_", "-"), seed, mean + 0.1 * seed)
                      for name, mean in means.items() for seed in range(10)])  # fmt: skip


FIELDS = ("run", "grid", "algorithm", "seed", "steps", "varied", "returns", "importances", "weight_ratio")


def same(before, after):
    """Whether a record is what was written, to the digits of the files."""
    assert [getattr(after, name) for name in FIELDS] == [getattr(before, name) for name in FIELDS]
    for name in ("steps", "seconds", "mean", "epochs"):
        np.testing.assert_allclose(getattr(after.curve, name), getattr(before.curve, name), rtol=1e-5)
    return True


def test_records_survive_their_files(tmp_path):
    baseline = made("sac", 1, -150.0, preset="rl-zoo", importances={}, gflop=float("nan"))
    records = [made("rsa2c-kme", 0, -140.0), baseline]
    append_records(tmp_path, records)
    read = read_records(tmp_path)
    assert all(same(before, after) for before, after in zip(records, read, strict=True))
    assert np.isnan([read[0].gap, read[1].gflop]).all()


def test_records_are_appended_and_the_last_one_of_a_run_counts(tmp_path):
    first, second = made("rsa2c-kme", 0, -140.0), made("rsa2c-cme", 0, -150.0)
    append_records(tmp_path, [first])
    before = {name: (tmp_path / name).read_bytes() for name in COLUMNS}
    append_records(tmp_path, [first, second])
    for name, content in before.items():
        assert (tmp_path / name).read_bytes().startswith(content), "never rewritten"
    steps = np.array([500.0, 20_000.0])
    curve = Curve(steps, steps / 1e4, steps / 1e4, np.full(2, np.nan), np.arange(2.0))
    again = made("rsa2c-kme", 0, -130.0, returns={0.0: Return(-130.0, 70.0, 50)}, curve=curve, importances={})
    append_records(tmp_path, [again])
    new, other = read_records(tmp_path)
    assert same(again, new) and same(second, other)
    whole = {name: (tmp_path / name).read_bytes() for name in COLUMNS}
    append_records(tmp_path, read_records(tmp_path))
    assert whole == {name: (tmp_path / name).read_bytes() for name in COLUMNS}, "known records are not written again"


@pytest.mark.parametrize("name", COLUMNS)
def test_an_append_that_was_cut_off_is_as_if_it_had_not_been(tmp_path, name):
    first, second = made("rsa2c-kme", 0, -140.0), made("rsa2c-cme", 0, -150.0)
    append_records(tmp_path, [first])
    before = {each: (tmp_path / each).read_bytes() for each in COLUMNS}
    append_records(tmp_path, [second])
    order = list(COLUMNS)
    for each in order[order.index(name) + 1 :]:
        (tmp_path / each).write_bytes(before[each])
    torn = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(torn[: (len(before[name]) + len(torn)) // 2])
    assert [item.run for item in read_records(tmp_path)] == [first.run]
    append_records(tmp_path, [second])
    read = read_records(tmp_path)
    assert same(first, read[0]) and same(second, read[1])


FIRST_COLUMNS = [name for name in COLUMNS["runs.csv"] if name not in ("capacity", "settings")]
OLD_COLUMNS = [*FIRST_COLUMNS, "mean_0", "std_0", "mean_0.5", "std_0.5"]
OLD_ROWS = [
    "a,ablation,Pendulum-v1,rsa2c-kme,default,0,0,0,,2000,4.5,2,118,1.5,0.25,nan,abc,,numpy 2,-144.5,88.5,-870.25,98.5",
    "b,ablation,Pendulum-v1,sac,rl-zoo,0,0,1,,2000,4.5,2,0,1,0.25,nan,abc,,numpy 2,-150.5,80.5,,",
]


def test_records_of_before_there_was_a_file_of_returns_are_read_and_converted_when_others_come(tmp_path):
    points = ["run,steps,seconds,mean,gap,epochs", "a,2000,4.5,-144,nan,2", "b,2000,4.5,-150,nan,2"]
    shares = ["run,stage,feature,share", "a,late,cos,0.75", "a,late,sin,0.25"]
    lines = {"runs.csv": [",".join(OLD_COLUMNS), *OLD_ROWS], "curves.csv": points, "importances.csv": shares}
    for name, each in lines.items():
        (tmp_path / name).write_text("\n".join([*each, ""]))
    a, b = read_records(tmp_path)
    assert a.returns == {0.0: Return(-144.5, 88.5), 0.5: Return(-870.25, 98.5)}
    assert b.returns == {0.0: Return(-150.5, 80.5)}
    assert (a.mean_at(0.5), a.importances, b.seed) == (-870.25, {"late": {"cos": 0.75, "sin": 0.25}}, 1)
    append_records(tmp_path, [made("rsa2c-cme", 0, -150.0)])
    read = read_records(tmp_path)
    assert same(a, read[0]) and same(b, read[1]) and len(read) == 3
    assert "mean_" not in (tmp_path / "runs.csv").read_text()
    assert [item.capacity for item in read] == [0, 0, 256]


def test_records_that_are_missing_or_damaged_are_errors_with_names(tmp_path):
    with pytest.raises(NotFoundError, match=r"curves.csv does not exist. Make it with: rsa2c reproduce"):
        read_records(tmp_path)
    append_records(tmp_path, [made("rsa2c-kme", 0, -140.0)])
    (tmp_path / "curves.csv").write_text("run,steps\n")
    with pytest.raises(FileFormatError, match="do not fit together"):
        read_records(tmp_path)


def test_a_table_holds_values_and_prints_them_in_one_place():
    two, one = statistics.mean([1.0, 3.0]), statistics.mean([2.0])
    row = ["a", 1234.5, 0.5, float("inf"), float("nan"), None, 1024, two, one, Spread.of([1.0, 3.0]), Part(1, 3)]
    table = Table("t", "T", [f"c{k}" for k in range(len(row))], [row])
    expected = ["a", "1,234", "0.5", "never", "-", "-", "1024", f"2 [{two.low:.4g}, {two.high:.4g}]", "2 [-]",
                "2.0 ± 1.0 (2)", "1 of 3"]  # fmt: skip
    assert table.texts() == [expected]
    assert table.markdown().splitlines()[-1] == f"| {' | '.join(expected)} |"
    assert table.column("c7") == [two]


def test_the_return_table_puts_ours_beside_the_papers():
    records = [*study(rsa2c_kme=-141.0).records, *(made("rsa2c-kme", s, -150.0, "paper") for s in range(3))]
    table = tables.returns(Selection(records), "Pendulum-v1")
    published = paper.published_return("Pendulum-v1", "rsa2c-kme")
    ours = [item.mean for item in records[:10]]
    assert table.column("variant") == [name for name in ORDER if name != "shuffled-shap"]
    assert table.rows[1][2:] == [None] * 4, "the paper's figures stand where we ran nothing"
    _, theirs, repeated, flat, default, iqm = table.rows[0]
    assert theirs == Spread(published.mean, published.std)
    assert (repeated, flat.value) == (Spread(-150.0, 0.0, 3), -150.0) and not flat.has_interval, "three seeds"
    assert default == Spread(*statistics.mean_std(ours), 10)
    assert iqm.value == pytest.approx(statistics.iqm(ours)) and min(ours) < iqm.low < iqm.value < iqm.high < max(ours)


def test_every_noise_protocol_is_a_column_of_its_own():
    noisy = made("rsa2c-kme", 0, -170.0, noise=0.01, returns={0.01: Return(-170.0, 1.0), 0.0: Return(-160.0, 1.0)})
    table = tables.noise(Selection([made("rsa2c-kme", 0, -140.0), noisy]), "Pendulum-v1")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "rsa2c-kme"]
    assert [row["variance"] for row in rows] == list(LEVELS)
    ours = [f"`default`, {name}" for name in (tables.EVALUATED, tables.BOTH, tables.TRAINED)]
    assert table.columns[-3:] == ours, "no column for the preset `paper`, of which there is no run"
    assert [rows[-1][name] for name in ours] == [Spread(value, 0.0, 1) for value in (-141.0, -170.0, -160.0)]
    assert [rows[0][name] for name in ours] == [Spread(-140.0, 0.0, 1), None, None]
    assert "as the paper's released code does" in table.notes[0] and "Not run" not in table.notes[0]
    paper_runs = [made("rsa2c-kme", 0, -140.0, "paper"), replace(noisy, preset="paper")]
    released = tables.noise(Selection(paper_runs), "Pendulum-v1")
    assert released.columns[-2:] == [f"`paper`, {name}" for name in (tables.BOTH, tables.TRAINED)]
    alone = tables.noise(Selection([made("rsa2c-kme", 0, -140.0)]), "Pendulum-v1")
    assert "beside it" in table.notes[1] and "beside it" not in alone.notes[1]
    assert alone.columns[-1] == ours[0] and f"Not run here: {tables.BOTH}, {tables.TRAINED}." in alone.notes[0]


def test_a_level_of_the_paper_stands_at_its_variance_and_at_its_standard_deviation():
    table = tables.noise(study(rsa2c_kme=-140.0), "Pendulum-v1")
    rows = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "rsa2c-kme"}
    said = {level: paper.published_return("Pendulum-v1", "rsa2c-kme", level).mean for level in (0.0, 0.01, 0.1)}
    assert rows[0.01]["paper, level as variance"].mean == said[0.01]
    assert rows[0.01]["paper, level as standard deviation"].mean == said[0.1], "0.1 is the root of 0.01"
    assert rows[0.0]["paper, level as standard deviation"].mean == said[0.0]
    assert rows[0.005]["paper, level as standard deviation"] is None
    assert "0.05 (0.0025), 0.5 (0.25)" in table.notes[1] and "0.1 (0.01)" not in table.notes[1]
    lqr = made("rsa2c-kme", 0, -10.0, environment="rsa2c/LQR-v0")
    assert not [name for name in tables.noise(Selection([lqr]), "rsa2c/LQR-v0").columns if name.startswith("paper")]


def test_time_to_solution_counts_runs_that_never_arrive():
    records = [made("rsa2c-kme", 0, -140.0), made("rsa2c-kme", 1, -500.0), made("rsa2c-kme", 2, -500.0)]
    published, ours = tables.solution(Selection(records), "Pendulum-v1").rows[:2]
    assert published[0].startswith("rsa2c-kme (the paper's own")
    assert published[-2] == 609.6
    assert ours[-1] == Part(1, 3) and ours[3] == np.inf
    solved = tables.solution(Selection(records[:1]), "Pendulum-v1").rows[1]
    assert (solved[5].value, solved[6].value) == (10_000.0, 1.0)
    assert not solved[5].has_interval, "one run"


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ({"rsa2c_kme": -140.0, "rsa2c_cme": -140.0, "advanced_ac": -160.0, "uniform_shap": -160.0, "rkhs_ac": -900.0},
         findings.HOLDS),
        ({"rsa2c_kme": -180.0, "rsa2c_cme": -140.0, "advanced_ac": -160.0, "uniform_shap": -160.0, "rkhs_ac": -900.0},
         findings.FAILS),
        ({"rsa2c_kme": -144.0, "rsa2c_cme": -140.0, "advanced_ac": -160.0, "uniform_shap": -160.0, "rkhs_ac": -900.0},
         findings.OPEN),
        ({"rsa2c_kme": -159.0, "rsa2c_cme": -140.0, "advanced_ac": -160.0, "uniform_shap": -160.0, "rkhs_ac": -900.0},
         findings.FAILS),  # higher, but not substantially
        ({}, findings.OPEN),
    ],
)  # fmt: skip
def test_a_verdict_follows_from_every_comparison(means, verdict):
    claim = paper.claim("guidance_raises_return")
    found = claims.judge(study(**means), claim, "Pendulum-v1", "default")
    assert found.verdict == verdict
    assert len(found.comparisons) == (6 if means else 0)
    if verdict == findings.HOLDS:
        partial = {name: mean for name, mean in means.items() if name != "rkhs_ac"}
        found = claims.judge(study(**partial), claim, "Pendulum-v1", "default")
        assert found.verdict == findings.OPEN and "not run: rkhs-ac" in str(found)
        few = Selection([item for item in study(**means).records if item.seed < findings.FEWEST_SEEDS - 1])
        assert claims.judge(few, claim, "Pendulum-v1", "default").verdict == findings.OPEN


def test_lower_is_written_as_a_gain_and_similar_has_a_margin():
    quick = [made("rsa2c-kme", s, -140.0 + s) for s in range(5)]
    slow = [made("rsa2c-cme", s, -210.0 + s) for s in range(5)]
    found = claims.judge(Selection([*quick, *slow]), paper.claim("kme_earlier"), "Pendulum-v1", "default")
    assert found.verdict == findings.HOLDS and found.comparisons[0].effect.value > 0

    comparable = paper.claim("comparable_returns")
    near = [made("sac", s, -139.0 + s, "rl-zoo") for s in range(5)]
    far = [made("sac", s, -80.0 + s, "rl-zoo") for s in range(5)]
    both = [*quick, *(made("rsa2c-cme", s, -140.0 + s) for s in range(5))]
    assert claims.judge(Selection([*both, *near]), comparable, "Pendulum-v1", "default").verdict == findings.HOLDS
    assert claims.judge(Selection([*both, *far]), comparable, "Pendulum-v1", "default").verdict == findings.FAILS


def test_a_method_that_never_arrives_is_later_than_one_that_arrives_late():
    claim = paper.claim("sac_fastest_pendulum")
    short = np.array([1000.0, 2000.0])
    stuck = Curve(short, short / 1e3, np.array([-900.0, -800.0]), np.full(2, np.nan), np.arange(2.0))
    sac = [made("sac", s, -800.0, "rl-zoo", curve=stuck, steps=2000, seconds=2.0) for s in range(5)]
    ours = [made(name, s, -140.0, seconds=50.0) for name in ("rsa2c-kme", "rsa2c-cme") for s in range(5)]
    ours += [made("ppo", s, -140.0, "rl-zoo", seconds=50.0) for s in range(5)]
    timed = Selection([], [*sac, *ours])
    assert claims.judge(timed, claim, "Pendulum-v1", "default").verdict == findings.FAILS


def test_memory_and_time_are_judged_by_themselves():
    memory, time = paper.claim("memory_controlled"), paper.claim("cost_scales_with_dictionary")
    steps = np.linspace(0.0, 100_000.0, 11)

    def verdicts(states, seconds):
        curve = Curve(steps, seconds, np.full(11, -140.0), np.full(11, np.nan), np.arange(11.0))
        names = ("rsa2c-kme", "rsa2c-cme")
        runs = [made(name, s, -140.0, states=states, curve=curve) for name in names for s in range(5)]
        timed = Selection(runs, [replace(item, grid=WHOLE) for item in runs])
        return [claims.judge(timed, claim, "Pendulum-v1", "default").verdict for claim in (memory, time)]

    assert verdicts(150, steps / 1e3) == [findings.HOLDS, findings.HOLDS]
    assert verdicts(512, steps**4 / 1e18) == [findings.FAILS, findings.FAILS], "full; time grows with the history"


def test_balance_over_training_is_compared_with_its_own_beginning():
    claim = paper.claim("cme_balanced_late")
    uneven, even = (dict(zip("abc", shares, strict=True)) for shares in ((0.98, 0.01, 0.01), (0.34, 0.33, 0.33)))
    for early, late, verdict in ((uneven, even, findings.HOLDS), (even, uneven, findings.FAILS)):
        runs = [made("rsa2c-cme", s, -140.0, importances={"early": early, "late": late}) for s in range(6)]
        assert claims.judge(Selection(runs), claim, "Pendulum-v1", "default").verdict == verdict


def test_every_table_stands_on_any_part_of_a_study():
    everything = [made(name, s, -140.0, preset) for name in ("rsa2c-kme", "advanced-ac") for s in range(2)
                  for preset in ("default", "paper")]  # fmt: skip
    everything += [made("rsa2c-kme", 0, -130.0, "paper", varied="metric=fisher", grid="correction-metric"),
                   made("sac", 0, -140.0, "rl-zoo"), made("rsa2c-kme", 0, -500.0, distractors=10)]  # fmt: skip
    lqr = {"environment": "rsa2c/LQR-v0", "gap": 0.05}
    everything += [made("rsa2c-kme", 0, -10.0, **lqr),
                   made("rsa2c-kme", 0, -10.0, varied="step_rule=polynomial", **lqr)]  # fmt: skip
    for item in everything:
        assert build(Selection([item]), [item.environment])
    assert build(Selection(everything), ["Pendulum-v1", "rsa2c/LQR-v0"])


def test_orders_of_importance_are_shares_of_seeds():
    claim = paper.claim("kme_order_late")
    features = claim.order
    shares = dict(zip(features, (0.6, 0.3, 0.1), strict=True))
    right = [made("rsa2c-kme", s, -140.0, importances={"early": shares, "late": shares}) for s in range(6)]
    assert claims.judge(Selection(right), claim, "Pendulum-v1", "default").verdict == findings.HOLDS
    shares = dict(zip(features, (0.1, 0.3, 0.6), strict=True))
    wrong = [made("rsa2c-kme", s, -140.0, importances={"early": shares, "late": shares}) for s in range(6)]
    assert claims.judge(Selection(wrong), claim, "Pendulum-v1", "default").verdict == findings.FAILS


def test_the_papers_features_are_spelled_as_the_environments_spell_them():
    from rsa2c.envs import make_env
    from rsa2c.envs.names import feature_names

    for claim in paper.claims():
        for environment in claim.environments if claim.order else ():
            names = feature_names(make_env(environment, None), 3)
            assert set(claim.order) <= set(names), (claim.id, names)


def test_every_claim_of_an_environment_is_in_its_table():
    table = verdicts.claims_table(study(rsa2c_kme=-140.0), ["Pendulum-v1"], ["default"])
    assert len(table.rows) == sum("Pendulum-v1" in claim.environments for claim in paper.claims())
    assert set(table.column("verdict")) <= {findings.HOLDS, findings.FAILS, findings.OPEN, findings.SHARED}


def test_the_random_iterate_weighs_early_epochs_more_and_a_known_rate_is_found():
    epochs = np.arange(1.0, 2001.0)
    gap = 3.0 * epochs**-0.4 * np.log(epochs + np.e) ** 2
    assert rates.fitted_rate(epochs, 3.0 * epochs**-0.4) == pytest.approx(0.4, abs=1e-6)
    falling = Curve(epochs * 10, epochs, -gap, gap, epochs)
    item = made("rsa2c-kme", 0, -1.0, curve=falling, steps=20_000, epochs=2000)
    at, expected = rates.random_iterate(item)
    np.testing.assert_allclose(at, epochs)
    weights = (np.arange(2000) + 1.0) ** -0.75
    slow = np.cumsum(weights * gap) / np.cumsum(weights)
    np.testing.assert_allclose(expected[100:], slow[100:], rtol=0.05)
    assert expected[-1] > gap[-1]


def test_studies_are_grids_and_mistakes_are_named():
    assert {"ablation", "distractors", "baselines"} <= set(grids("pendulum"))
    assert {job.preset for jobs in grids("pendulum", preset="paper").values() for job in jobs} == {"paper", "rl-zoo"}
    assert {job.fields["seed"] for job in grids("pendulum", seeds=2)["ablation"]} == {0, 1}
    assert len(grids("walker")["ablation"]) == 25
    assert len(grids("walker", seeds=10)["ablation"]) == 50, "what is asked for overrides the study"
    quick = grids("pendulum", quick=True)
    assert {job.total_timesteps for job in quick["baselines"]} == {2_000}
    assert {job.total_timesteps for job in quick["ablation"]} == {20_000}
    with pytest.raises(ConfigError, match="pendulum has no runs with the preset 'paper' in the grids ablation"):
        grids("pendulum", preset="paper", only=["ablation"])
    with pytest.raises(ConfigError, match=r"target 'pendulm' is unknown.*Did you mean 'pendulum'"):
        grids("pendulm")
    with pytest.raises(ConfigError, match=r"has no grid 'ablatoin'.*Did you mean 'ablation'"):
        grids("pendulum", only=["ablatoin"])


def test_the_clean_ablation_changes_one_thing(tmp_path):
    made_tables = build(study(rsa2c_kme=-141.0, advanced_ac=-142.0), ["Pendulum-v1"])
    names = [table.name for table in made_tables]
    assert names == ["grids", "returns_pendulum", "noise_pendulum", "solution_pendulum", "guidance_pendulum", "claims"]
    guidance = made_tables[4]
    kme = next(row for row in guidance.rows if row[2] == "rsa2c-kme")
    assert kme[4].value == pytest.approx(1.0) and kme[5] == statistics.Estimate(1.0, 1.0, 1.0)
    assert tables.REMARK in guidance.notes[0]


def test_reproduce_runs_writes_and_reuses(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("rsa2c.reproduce.QUICK", {"seeds": 1, "steps": 2400, "baseline steps": 128, "episodes": 2})
    command = ["reproduce", "pendulum", "--quick", "--grids", "ablation", "--workers", "1",
               "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]  # fmt: skip
    assert main(command) == 0
    page = (tmp_path / "out" / "tables.md").read_text()
    assert "### Pendulum-v1: return" in page and "### The paper's claims" in page
    for name in ("runs.csv", "curves.csv", "importances.csv", "claims.csv", "figures/ablation_default.png",
                 "figures/beeswarm_kme_default.svg", "figures/heatmap_cme_default.png"):  # fmt: skip
        assert (tmp_path / "out" / name).exists(), name
    capsys.readouterr()
    assert main([*command, "--only-tables"]) == 0
    assert (tmp_path / "out" / "tables.md").read_text().splitlines()[3:] == page.splitlines()[3:]
    capsys.readouterr()
    with monkeypatch.context() as broken:
        broken.setattr("rsa2c.reproduce.write", lambda *_: (_ for _ in ()).throw(StorageError("the disk is full")))
        assert main([*command, "--out", str(tmp_path / "stopped")]) == 2
    assert len(read_records(tmp_path / "stopped")) == 5, "each row is written as its run ends"
    capsys.readouterr()
    assert main([*command, "--only-tables", "--runs", str(tmp_path / "nothing")]) == 0
    assert "including 5 records of earlier runs" in capsys.readouterr().err
    damaged = tmp_path / "runs" / "Pendulum-v1__rsa2c-cme__default__n0__s0" / "state.safetensors"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:100])
    assert main([*command, "--only-tables"]) == 0
    assert "left out: Pendulum-v1__rsa2c-cme__default__n0__s0" in capsys.readouterr().err
    damaged.write_bytes(whole)
    in_full = [word for word in command if word != "--quick"]
    assert main([*in_full, "--only-tables", "--out", str(tmp_path / "full")]) == 2, "quick runs are none of it"
    assert "no run of pendulum is finished" in capsys.readouterr().err
    (tmp_path / "runs" / "Pendulum-v1__rkhs-ac__default__n0__s0" / "metrics.csv").unlink()
    assert main([*command, "--only-tables", "--preset", "default"]) == 0
    captured = capsys.readouterr()
    assert "left out: Pendulum-v1__rkhs-ac__default__n0__s0" in captured.err and "metrics.csv" in captured.err
    assert len(read_records(tmp_path / "out")) == 5, "what was known of a run stays"
    empty = ["--runs", str(tmp_path / "nothing"), "--only-tables"]
    assert main([*command, *empty]) == 0
    assert len(read_records(tmp_path / "out")) == 5
    assert main([*command, *empty, "--out", str(tmp_path / "new")]) == 2
    assert "nothing to write" in capsys.readouterr().err
    assert main([*command, "--preset", "papr"]) == 2
    assert main([*command, "--dry-run"]) == 0
    assert "5 of 5 runs done" in capsys.readouterr().out


def test_rates_are_drawn_from_all_iterates_and_from_the_stable_ones(tmp_path):
    pytest.importorskip("matplotlib")
    epochs = np.arange(1.0, 101.0)

    def theory(seed, unstable):
        gap = np.where(epochs <= unstable, np.inf, epochs**-0.5)
        curve = Curve(epochs * 10, epochs, -epochs, gap, epochs)
        return made("rsa2c-kme", seed, -1.0, curve=curve, environment="rsa2c/LQR-v0", varied="step_rule=polynomial")

    runs = [theory(seed, unstable) for seed, unstable in enumerate((5, 9))]
    assert rates.random_iterate(runs[1], stable=True)[0][0] == 10.0
    assert rates.random_iterate(runs[1], stable=True)[1][0] == pytest.approx(10.0**-0.5)
    names = {path.name for path in figures.rate_curves(Selection(runs), "rsa2c/LQR-v0", tmp_path)}
    assert {"random_iterate.png", "random_iterate_stable.png"} <= names
    never = [theory(seed, 1000) for seed in range(2)]
    assert len(figures.rate_curves(Selection(never), "rsa2c/LQR-v0", tmp_path / "never")) == len(names) // 2

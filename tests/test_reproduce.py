"""The study pipeline: records survive their files, tables say what the records hold, verdicts follow from intervals."""

import numpy as np
import pytest

from rsa2c import statistics
from rsa2c.cli import main
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError
from rsa2c.files import StorageError
from rsa2c.reproduce import build, claims, figures, grids, paper, read_records, tables
from rsa2c.reproduce.records import Curve, Record, write_records
from rsa2c.reproduce.tables import Selection

LEVELS = (0.0, 0.001, 0.005, 0.01)


def made(algorithm, seed, mean, preset="default", slope=1.0, shares=(0.5, 0.2, 0.3), **changes):
    """A record of a run that climbs to `mean` and loses `slope` of return for each 0.01 of noise variance."""
    steps = np.linspace(1000.0, 10_000.0, 10)
    curve = Curve(steps, steps / 1e4, np.linspace(-1200.0, mean, 10), np.full(10, np.nan), np.arange(1.0, 11.0))
    fields = {
        "run": f"Pendulum-v1__{algorithm}__{preset}__n0__s{seed}", "grid": "ablation", "environment": "Pendulum-v1",
        "algorithm": algorithm, "preset": preset, "noise": 0.0, "distractors": 0, "seed": seed, "varied": "",
        "steps": 10_000, "seconds": 1.0, "epochs": 10, "states": 50, "weight_ratio": 2.0, "gflop": 0.1,
        "gap": float("nan"), "commit": "abc", "processor": "a processor", "versions": "numpy 2", "curve": curve,
        "returns": {level: (mean - slope * level / 0.01, 80.0) for level in LEVELS},
        "importances": {"early": dict(zip(("cos theta", "sin theta", "velocity"), shares, strict=True)),
                        "late": dict(zip(("cos theta", "sin theta", "velocity"), shares, strict=True))},
    }  # fmt: skip
    return Record(**{**fields, **changes})


def study(**means):
    """Ten seeds of each variant around its mean, without overlap between means 10 apart."""
    return Selection([made(name.replace("_", "-"), seed, mean + 0.1 * seed)
                      for name, mean in means.items() for seed in range(10)])  # fmt: skip


def test_records_survive_their_files(tmp_path):
    baseline = made("sac", 1, -150.0, preset="rl-zoo", importances={}, gflop=float("nan"))
    records = [made("rsa2c-kme", 0, -140.0), baseline]
    write_records(tmp_path, records)
    for before, after in zip(records, read_records(tmp_path), strict=True):
        for name in ("run", "algorithm", "seed", "steps", "varied", "returns", "importances", "weight_ratio"):
            assert getattr(after, name) == getattr(before, name), name
        np.testing.assert_allclose(after.curve.mean, before.curve.mean, rtol=1e-5)
        np.testing.assert_array_equal(after.curve.steps, before.curve.steps)
        assert np.isnan(after.gap)


def test_records_that_are_missing_or_damaged_are_errors_with_names(tmp_path):
    with pytest.raises(NotFoundError, match=r"curves.csv does not exist. Make it with: rsa2c reproduce"):
        read_records(tmp_path)
    write_records(tmp_path, [made("rsa2c-kme", 0, -140.0)])
    (tmp_path / "curves.csv").write_text("run,steps\n")
    with pytest.raises(FileFormatError, match="do not fit together"):
        read_records(tmp_path)


def test_the_return_table_puts_ours_beside_the_papers():
    records = [*study(rsa2c_kme=-141.0).records, *(made("rsa2c-kme", s, -150.0, "paper") for s in range(3))]
    table = tables.returns(Selection(records), "Pendulum-v1")
    published = paper.published_return("Pendulum-v1", "rsa2c-kme")
    mean, std = statistics.mean_std([item.mean for item in records[:10]])
    assert [row[0] for row in table.rows] == [name for name in tables.ORDER if name != "shuffled-shap"]
    assert table.rows[1][2:] == ["-"] * 4, "the paper's figures stand where we ran nothing"
    assert table.rows[:1] == [[
        "rsa2c-kme", f"{published.mean:.1f} ± {published.std:.1f}", "-150.0 ± 0.0 (3)", "-150 [-150, -150]",
        f"{mean:.1f} ± {std:.1f} (10)", table.rows[0][-1],
    ]]  # fmt: skip
    assert table.rows[0][-1].startswith(f"{statistics.iqm([item.mean for item in records[:10]]):.4g} [")


def test_noise_in_training_is_a_column_of_its_own():
    records = [made("rsa2c-kme", 0, -140.0), made("rsa2c-kme", 0, -170.0, noise=0.01, returns={0.01: (-170.0, 1.0)})]
    rows = [row for row in tables.noise(Selection(records), "Pendulum-v1").rows if row[0] == "rsa2c-kme"]
    assert [row[1] for row in rows] == ["0", "0.001", "0.005", "0.01"]
    assert rows[-1][-2:] == ["-141.0 (1)", "-170.0 (1)"]
    assert rows[0][-1] == "-"


def test_time_to_solution_counts_runs_that_never_arrive():
    records = [made("rsa2c-kme", 0, -140.0), made("rsa2c-kme", 1, -500.0), made("rsa2c-kme", 2, -500.0)]
    published, ours = tables.solution(Selection(records), "Pendulum-v1").rows[:2]
    assert published[0].startswith("rsa2c-kme (the paper's own")
    assert published[-2] == "609.6"
    assert ours[-1] == "1 of 3" and ours[3] == "never"
    solved = tables.solution(Selection(records[:1]), "Pendulum-v1").rows[1]
    assert solved[5].startswith("10,000 [") and solved[6].startswith("1 [")


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ({"rsa2c_kme": -140.0, "rsa2c_cme": -140.0, "advanced_ac": -160.0, "uniform_shap": -160.0, "rkhs_ac": -900.0},
         claims.HOLDS),
        ({"rsa2c_kme": -180.0, "rsa2c_cme": -140.0, "advanced_ac": -160.0, "uniform_shap": -160.0, "rkhs_ac": -900.0},
         claims.FAILS),
        ({"rsa2c_kme": -144.0, "rsa2c_cme": -140.0, "advanced_ac": -160.0, "uniform_shap": -160.0, "rkhs_ac": -900.0},
         claims.OPEN),
        ({"rsa2c_kme": -159.0, "rsa2c_cme": -140.0, "advanced_ac": -160.0, "uniform_shap": -160.0, "rkhs_ac": -900.0},
         claims.FAILS),  # higher, but not substantially
        ({}, claims.OPEN),
    ],
)  # fmt: skip
def test_a_verdict_follows_from_every_comparison(means, verdict):
    claim = paper.claim("guidance_raises_return")
    found = claims.judge(study(**means), claim, "Pendulum-v1", "default")
    assert found.verdict == verdict
    assert len(found.comparisons) == (6 if means else 0)
    if verdict == claims.HOLDS:
        partial = {name: mean for name, mean in means.items() if name != "rkhs_ac"}
        found = claims.judge(study(**partial), claim, "Pendulum-v1", "default")
        assert found.verdict == claims.OPEN and "not run: rkhs-ac" in str(found)
        few = Selection([item for item in study(**means).records if item.seed < claims.FEWEST_SEEDS - 1])
        assert claims.judge(few, claim, "Pendulum-v1", "default").verdict == claims.OPEN


def test_lower_is_written_as_a_gain_and_similar_has_a_margin():
    quick = [made("rsa2c-kme", s, -140.0 + s) for s in range(5)]
    slow = [made("rsa2c-cme", s, -210.0 + s) for s in range(5)]
    found = claims.judge(Selection([*quick, *slow]), paper.claim("kme_earlier"), "Pendulum-v1", "default")
    assert found.verdict == claims.HOLDS and found.comparisons[0].effect.value > 0

    comparable = paper.claim("comparable_returns")
    near = [made("sac", s, -139.0 + s, "rl-zoo") for s in range(5)]
    far = [made("sac", s, -80.0 + s, "rl-zoo") for s in range(5)]
    both = [*quick, *(made("rsa2c-cme", s, -140.0 + s) for s in range(5))]
    assert claims.judge(Selection([*both, *near]), comparable, "Pendulum-v1", "default").verdict == claims.HOLDS
    assert claims.judge(Selection([*both, *far]), comparable, "Pendulum-v1", "default").verdict == claims.FAILS


def test_a_method_that_never_arrives_is_later_than_one_that_arrives_late():
    claim = paper.claim("sac_fastest_pendulum")
    short = np.array([1000.0, 2000.0])
    stuck = Curve(short, short / 1e3, np.array([-900.0, -800.0]), np.full(2, np.nan), np.arange(2.0))
    sac = [made("sac", s, -800.0, "rl-zoo", curve=stuck, steps=2000, seconds=2.0) for s in range(5)]
    ours = [made(name, s, -140.0, seconds=50.0) for name in ("rsa2c-kme", "rsa2c-cme") for s in range(5)]
    ours += [made("ppo", s, -140.0, "rl-zoo", seconds=50.0) for s in range(5)]
    assert claims.judge(Selection([*sac, *ours]), claim, "Pendulum-v1", "default").verdict == claims.FAILS


def test_memory_and_time_are_judged_by_themselves():
    memory, time = paper.claim("memory_controlled"), paper.claim("cost_scales_with_dictionary")
    steps = np.linspace(0.0, 100_000.0, 11)

    def verdicts(states, seconds):
        curve = Curve(steps, seconds, np.full(11, -140.0), np.full(11, np.nan), np.arange(11.0))
        names = ("rsa2c-kme", "rsa2c-cme")
        runs = [made(name, s, -140.0, states=states, curve=curve) for name in names for s in range(5)]
        return [claims.judge(Selection(runs), claim, "Pendulum-v1", "default").verdict for claim in (memory, time)]

    assert verdicts(150, steps / 1e3) == [claims.HOLDS, claims.HOLDS]
    assert verdicts(256, steps**4 / 1e18) == [claims.FAILS, claims.FAILS], "full; time grows with the history"


def test_balance_over_training_is_compared_with_its_own_beginning():
    claim = paper.claim("cme_balanced_late")
    uneven, even = (dict(zip("abc", shares, strict=True)) for shares in ((0.98, 0.01, 0.01), (0.34, 0.33, 0.33)))
    for early, late, verdict in ((uneven, even, claims.HOLDS), (even, uneven, claims.FAILS)):
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
    assert claims.judge(Selection(right), claim, "Pendulum-v1", "default").verdict == claims.HOLDS
    shares = dict(zip(features, (0.1, 0.3, 0.6), strict=True))
    wrong = [made("rsa2c-kme", s, -140.0, importances={"early": shares, "late": shares}) for s in range(6)]
    assert claims.judge(Selection(wrong), claim, "Pendulum-v1", "default").verdict == claims.FAILS


def test_the_papers_features_are_spelled_as_the_environments_spell_them():
    from rsa2c.envs import make_env
    from rsa2c.envs.names import feature_names

    for claim in paper.claims():
        for environment in claim.environments if claim.order else ():
            names = feature_names(make_env(environment, None), 3)
            assert set(claim.order) <= set(names), (claim.id, names)


def test_every_claim_of_an_environment_is_in_its_table():
    table = claims.claims_table(study(rsa2c_kme=-140.0), ["Pendulum-v1"], ["default"])
    assert len(table.rows) == sum("Pendulum-v1" in claim.environments for claim in paper.claims())
    assert {row[-1] for row in table.rows} <= {claims.HOLDS, claims.FAILS, claims.OPEN}


def test_the_random_iterate_weighs_early_epochs_more_and_a_known_rate_is_found():
    epochs = np.arange(1.0, 2001.0)
    gap = 3.0 * epochs**-0.4 * np.log(epochs + np.e) ** 2
    assert figures.fitted_rate(epochs, 3.0 * epochs**-0.4) == pytest.approx(0.4, abs=1e-6)
    falling = Curve(epochs * 10, epochs, -gap, gap, epochs)
    item = made("rsa2c-kme", 0, -1.0, curve=falling, steps=20_000, epochs=2000)
    at, expected = figures.random_iterate(item)
    np.testing.assert_allclose(at, epochs)
    weights = (np.arange(2000) + 1.0) ** -0.75
    slow = np.cumsum(weights * gap) / np.cumsum(weights)
    np.testing.assert_allclose(expected[100:], slow[100:], rtol=0.05)
    assert expected[-1] > gap[-1]


def test_studies_are_grids_and_mistakes_are_named():
    assert {"ablation", "distractors", "baselines"} <= set(grids("pendulum"))
    assert {job.preset for jobs in grids("pendulum", preset="paper").values() for job in jobs} == {"paper", "rl-zoo"}
    assert {job.fields["seed"] for job in grids("pendulum", seeds=2)["ablation"]} == {0, 1}
    assert len(grids("walker")["ablation"]) == 9
    assert len(grids("walker", seeds=10)["ablation"]) == 30, "what is asked for goes before what the study says"
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
    assert kme[4].startswith("1 [") and kme[5].startswith("1 [")
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
    assert "with 5 records of earlier runs" in capsys.readouterr().err
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
    assert figures.random_iterate(runs[1], stable=True)[0][0] == 10.0
    assert figures.random_iterate(runs[1], stable=True)[1][0] == pytest.approx(10.0**-0.5)
    names = {path.name for path in figures.rate_curves(Selection(runs), "rsa2c/LQR-v0", tmp_path)}
    assert {"random_iterate.png", "random_iterate_stable.png"} <= names
    never = [theory(seed, 1000) for seed in range(2)]
    assert len(figures.rate_curves(Selection(never), "rsa2c/LQR-v0", tmp_path / "never")) == len(names) // 2

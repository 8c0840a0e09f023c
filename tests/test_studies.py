"""What a study shows: runs of a variant that is another one, and records of an earlier version of the study."""

import dataclasses

import numpy as np
import pytest

from rsa2c import reproduce
from rsa2c.reproduce import claims, figures, paper, tables, verdicts
from rsa2c.reproduce.archive import append_records
from rsa2c.reproduce.earlier import earlier_settings
from rsa2c.reproduce.findings import HOLDS, OPEN
from rsa2c.reproduce.present import present
from rsa2c.reproduce.selection import TWINS, Selection
from rsa2c.reproduce.settling import settle
from rsa2c.reproduce.versions import Plan, conflict, fingerprint, settings_of
from rsa2c.runs.grid import Job
from rsa2c.runs.names import without_seed
from test_claims import ABLATIONS, OURS, PENDULUM, WALKER, made, several

UNIFORM, ADVANCED = next(iter(TWINS.items()))


def test_uniform_shap_has_the_runs_of_advanced_ac_where_it_was_not_trained():
    own = several([ADVANCED], seeds=3)
    study = Selection(own)
    found = study.of(environment=PENDULUM, preset="default", algorithm=UNIFORM)
    assert [dataclasses.replace(item, algorithm=ADVANCED).returns for item in found] == [item.returns for item in own]
    assert {item.algorithm for item in found} == {UNIFORM}
    assert [item.run for item in found] == [item.run for item in own]
    assert study.taken_over(PENDULUM) == {UNIFORM: ["default"]} and study.taken_over(WALKER) == {}
    assert study.algorithms(study.of(environment=PENDULUM)) == [ADVANCED], "figures and counts have what was run"
    for noise, count in ((0.0, 3), (0.1, 0)):
        assert len(study.of(algorithm=UNIFORM, noise=noise)) == count


def test_its_own_runs_come_first_in_each_setting():
    trained = [made(UNIFORM, 0, -150.0)]
    other = [*several([ADVANCED], 2), *(made(ADVANCED, seed, -170.0, preset="paper") for seed in range(2))]
    study = Selection([*trained, *other])
    assert study.of(algorithm=UNIFORM, preset="default") == trained
    assert [item.mean for item in study.of(algorithm=UNIFORM, preset="paper")] == [-170.0, -170.0]
    assert study.taken_over(PENDULUM) == {UNIFORM: ["paper"]}
    assert Selection([*trained, *several([ADVANCED], 2)]).taken_over(PENDULUM) == {}
    varied = made(ADVANCED, 0, varied="step_rule=polynomial")
    assert Selection([varied]).taken_over(PENDULUM) == {}, "no table shows it there"


def test_every_table_with_a_row_that_is_taken_over_says_so():
    study = Selection([*several(OURS), *several([ADVANCED], mean=-160.0)])
    for make in (tables.returns, tables.noise, tables.solution):
        table = make(study, PENDULUM)
        assert any(str(row[0]).startswith(UNIFORM) for row in table.rows)
        assert any(f"{UNIFORM} was not trained with the preset `default`" in note for note in table.notes), table.name
    assert tables.returns(study, PENDULUM).rows[2][4] == tables.returns(study, PENDULUM).rows[3][4], "the same figures"
    trained = Selection([*study.records, *several([UNIFORM])])
    for make in (tables.returns, tables.noise, tables.solution):
        assert not any("was not trained" in note for note in make(trained, PENDULUM).notes)


def test_a_claim_about_it_is_judged_by_those_runs_and_says_so():
    claim = paper.claim("guidance_raises_return")
    without = [*several(OURS), *several(["rkhs-ac"], mean=-400.0), *several([ADVANCED], mean=-400.0)]
    study, full = Selection(without), Selection([*without, *several([UNIFORM], mean=-400.0)])
    found, expected = (claims.judge(each, claim, PENDULUM, "default") for each in (study, full))
    assert found.verdict == expected.verdict and str(found) == str(expected) and not found.missing
    other = claims.judge(study, paper.claim("comparable_returns"), PENDULUM, "default")
    assert f"{UNIFORM} by the runs of {ADVANCED}" in verdicts.rests_on(study, found)
    assert UNIFORM not in verdicts.rests_on(full, expected) and UNIFORM not in verdicts.rests_on(study, other)


@pytest.mark.parametrize("target", ["walker", "ant"])
def test_no_study_trains_a_variant_twice_under_two_names(target):
    for jobs in reproduce.grids(target).values():
        assert UNIFORM not in {job.algorithm for job in jobs}
    ablation = reproduce.grids(target)["ablation"]
    assert {job.algorithm for job in ablation} == {*OURS, "advanced-ac", "shuffled-shap", "rkhs-ac"}
    assert {job.fields["seed"] for job in ablation} == set(range(5)) and {*ABLATIONS} > {UNIFORM}


def walked(algorithm, seed, steps, **changes):
    run = f"{WALKER}__{algorithm}__default__n0__s{seed}"
    return made(algorithm, seed, environment=WALKER, run=run, grid="ablation", steps=steps, **changes)


def plan(algorithm, **fields):
    job = Job(WALKER, algorithm, "default", 1_000_000, {"seed": 0, **fields})
    return without_seed(job.run_id), Plan("walker", "ablation", 5, job)


ASKED = dict(plan(name) for name in (*OURS, ADVANCED))


def test_records_of_other_steps_are_shown_until_there_are_others():
    old = [walked(name, seed, 3_990_408) for name in OURS for seed in range(3)]
    shown, remarks = present(old, ASKED)
    assert shown == old
    assert remarks == ["6 runs of the grid ablation have 3,990,408 steps where the study now asks for 1,000,000; they "
                       "are shown until it is repeated"]  # fmt: skip
    new = [walked(OURS[0], 0, 1_001_600)]
    shown, (remark,) = present([*old, *new], ASKED)
    assert shown == new and "6 runs" in remark and remark.endswith("they are left out")
    assert present(new, ASKED) == (new, [])


def test_records_of_other_settings_are_of_an_earlier_version():
    today = settings_of(ASKED[without_seed(walked(OURS[0], 0, 0).run)].job)
    assert "seed" not in today and "epochs_between_evaluations" not in today and today["guidance"] == "agreement"
    then = {**today, "guidance": "shadow", "kl": "0.5", "gone": "1"}
    old = [walked(OURS[0], seed, 1_001_600, settings=then) for seed in range(3)]
    shown, (said,) = present(old, ASKED)
    assert shown == old and said.startswith("3 runs of the grid ablation were trained with an earlier version")
    new, unknown = walked(OURS[0], 0, 1_001_600, settings=today), walked(OURS[1], 0, 1_001_600)
    shown, (said,) = present([*old, new, unknown], ASKED)
    assert shown == [new, unknown] and said.endswith("they are left out")
    table = earlier_settings(Selection([*old, new, unknown], plans=ASKED))
    (row,) = table.rows
    assert row[2] == OURS[0] and row[-1] == f"guidance shadow (agreement), kl 0.5 ({today['kl']})"
    grids = tables.runs(Selection([*old, new, unknown], plans=ASKED))
    assert grids.column("settings") == ["today's and earlier and not recorded"]
    assert figures.newest(Selection([], plans=ASKED), [*old, new]) == [new]


def test_runs_of_other_settings_are_not_compared():
    kme, cme, plain = (settings_of(plan(name)[1].job) for name in (*OURS, ADVANCED))
    assert conflict([walked(OURS[0], 0, 1, settings=kme), walked(OURS[1], 0, 1, settings=cme),
                     walked(ADVANCED, 0, 1, settings=plain), walked("rkhs-ac", 0, 1)]) == ""  # fmt: skip
    old = {**kme, "guidance": "shadow", "kl": "0.5"}
    said = conflict([walked(OURS[0], 0, 1, settings=kme), walked(OURS[0], 1, 1, settings=old)])
    assert said == "some guidance=agreement, others guidance=shadow, and 1 more"
    said = conflict([walked(ADVANCED, 0, 1, settings=plain), walked(OURS[0], 1, 1, settings=old)])
    assert said == f"advanced-ac kl={plain['kl']}, rsa2c-kme kl=0.5", "guidance is what makes them variants"

    def judged(settings):
        guided = [walked(name, seed, 1, mean=280.0, settings=settings) for name in OURS for seed in range(4)]
        others = [walked(ADVANCED, seed, 1, mean=200.0 + seed, settings=plain) for seed in range(4)]
        study = Selection([*guided, *others], plans=ASKED)
        return study, claims.judge(study, paper.claim("improves_returns"), WALKER, "default")

    assert judged(kme)[1].verdict == HOLDS
    study, found = judged(old)
    assert found.verdict == OPEN and not found.comparisons
    assert "rsa2c-kme against advanced-ac: settings differ (" in str(found)
    assert settle(study, found).startswith("runs with today's settings; `rsa2c reproduce walker --grids ablation` (")
    assert "an earlier version of the preset" in verdicts.rests_on(study, found)
    (row, _) = tables.guidance(study, WALKER).rows[:2]
    assert row[4] is None and "the runs of g." not in " ".join(tables.guidance(study, WALKER).notes)


def test_settings_are_kept_beside_the_runs(tmp_path):
    today = settings_of(plan(OURS[0])[1].job)
    records = [walked(OURS[0], 0, 1, settings=today), walked(ADVANCED, 0, 1)]
    append_records(tmp_path, records)
    append_records(tmp_path, records)
    assert [item.settings for item in reproduce.read_records(tmp_path)] == [today, {}]
    lines = (tmp_path / "settings.csv").read_text().splitlines()
    assert len(lines) == 1 + len(today) and lines[1].startswith(fingerprint(today))


def test_other_grids_and_runs_that_nothing_asks_for_stay():
    old, new = walked(OURS[0], 0, 3_990_408), walked(OURS[1], 0, 1_000_000)
    baseline = walked("ppo", 0, 5_046_272, preset="rl-zoo")
    more = walked(OURS[1], 7, 1_000_000)  # a seed beyond the study's own
    shown, remarks = present([old, new, dataclasses.replace(baseline, grid="baselines"), more], ASKED)
    assert [item.run for item in shown] == [new.run, baseline.run, more.run] and len(remarks) == 1


@pytest.mark.parametrize(("steps", "earlier"), [(999_999, True), (1_000_000, False), (1_020_000, False),
                                                (1_200_000, True)])  # fmt: skip
def test_a_run_may_end_with_its_last_epoch(steps, earlier):
    _, remarks = present([walked(OURS[0], 0, steps)], ASKED)
    assert bool(remarks) == earlier


def test_a_page_is_made_of_present_records_and_says_what_it_leaves_out(tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "walker"
    out.mkdir()
    names = (OURS[0], ADVANCED)
    append_records(out, [walked(name, seed, 3_990_408, mean=280.0) for name in names for seed in range(3)])
    reproduce.write("walker", [], out)
    page = (out / "tables.md").read_text()
    assert "they are shown until it is repeated" in page and "| 3,990,408 | 6 |" in page
    new = [walked(OURS[0], seed, 1_001_600, mean=290.0) for seed in range(2)]
    reproduce.write("walker", new, out)
    page = (out / "tables.md").read_text()
    assert "4 runs of the grid ablation have 3,990,408 steps" in page and "they are left out" in page
    assert "| 1,001,600 | 2 |" in page and "| 3,990,408 |" not in page
    rest = [walked(name, seed, 1_001_600, mean=290.0) for name in names for seed in range(3)]
    reproduce.write("walker", rest, out)
    page = (out / "tables.md").read_text()
    assert "left out" not in page and "3,990,408" not in page, "run ids have no steps: the last record of a run counts"
    assert np.isclose(reproduce.read_records(out)[0].mean, 290.0)
    assert figures.curves(Selection(rest), WALKER, "default", tmp_path)

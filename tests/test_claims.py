"""Verdicts on the paper's claims: one-sided, about spreads, times, every noise level, most methods, and the unknown."""

import dataclasses
import json

import numpy as np
import pytest

from rsa2c import reproduce, statistics
from rsa2c.errors import FileFormatError
from rsa2c.reproduce import claims, paper, verdicts
from rsa2c.reproduce.alone import LARGEST_LOAD, ROWS, read_alone
from rsa2c.reproduce.findings import FAILS, HOLDS, OPEN, SHARED
from rsa2c.reproduce.lqr_tables import bound_table, rate_table
from rsa2c.reproduce.records import Curve, Record
from rsa2c.reproduce.selection import Selection
from rsa2c.runs.summary import Return

PENDULUM, LQR, WALKER = "Pendulum-v1", "rsa2c/LQR-v0", "BipedalWalker-v3"
OURS = ("rsa2c-kme", "rsa2c-cme")
ABLATIONS = ("advanced-ac", "uniform-shap", "rkhs-ac")


def made(algorithm, seed, mean=-140.0, drops=(0.0, 0.0, 0.0, 0.0), environment=PENDULUM, **changes):
    """A record whose return is `mean` less what each noise level costs it."""
    steps = np.linspace(1000.0, 10_000.0, 10)
    fields = {
        "run": f"{environment}__{algorithm}__s{seed}", "grid": "g", "environment": environment, "algorithm": algorithm,
        "preset": "rl-zoo" if algorithm in ("sac", "ppo") else "default", "noise": 0.0, "distractors": 0, "seed": seed,
        "varied": "", "steps": 10_000, "seconds": 1.0, "epochs": 10, "states": 50, "capacity": 256,
        "weight_ratio": 2.0, "gflop": 0.1,
        "gap": float("nan"), "commit": "abc", "processor": "a processor", "versions": "numpy 2",
        "curve": Curve(steps, steps / 1e4, np.linspace(-1200.0, mean, 10), np.full(10, np.nan), np.arange(1.0, 11.0)),
        "returns": {
            level: Return(mean - drop, 80.0) for level, drop in zip(claims.NOISE_LEVELS, drops, strict=True)
        },
    }  # fmt: skip
    return Record(**{**fields, **changes})


def several(names, seeds=6, mean=-140.0, scatter=0.1, **changes):
    """Runs of each method whose returns lie `scatter` apart."""
    return [made(name, seed, mean + scatter * seed, **changes) for name in names for seed in range(seeds)]


def judged(id, *records, environment=PENDULUM, alone=()):
    study = Selection([item for group in records for item in group], alone)
    return claims.judge(study, paper.claim(id), environment, "default")


def verdict(id, *records, environment=PENDULUM, alone=()):
    return judged(id, *records, environment=environment, alone=alone).verdict


def falling(algorithm, seed, exponent, last=500, **changes):
    """A run with the theorem's step sizes whose gap falls as T^-exponent."""
    epochs = np.arange(1.0, last + 1.0)
    curve = Curve(epochs * 100, epochs, -epochs, 2.0 * epochs**-exponent, epochs)
    fields = {"environment": LQR, "curve": curve, "varied": "step_rule=polynomial", **changes}
    return made(algorithm, seed, **fields)


def test_the_table_of_rates_has_the_plain_exponent_and_says_where_the_bound_turns():
    table = rate_table(Selection([falling("rsa2c-kme", seed, 0.4) for seed in range(3)]), LQR)
    (exponent,) = table.column("exponent, last iterate")
    assert (exponent.value, exponent.low, exponent.high) == pytest.approx((0.4, 0.4, 0.4))
    assert "rises until T = 2,981" in table.notes[0]


def test_every_schedule_of_batches_has_its_own_rates():
    runs = [falling("rsa2c-kme", seed, 0.4) for seed in range(2)]
    runs += [falling("rsa2c-kme", seed, 0.1, 100, varied="step_rule=polynomial__n_envs=4") for seed in range(3)]
    growing = falling("rsa2c-kme", 0, 0.1, varied="step_rule=polynomial__batch_power=1.5")
    curve = dataclasses.replace(growing.curve, steps=np.cumsum(40.0 * growing.curve.epochs**1.5))
    runs += [dataclasses.replace(growing, curve=curve), made("rsa2c-kme", 0, environment=LQR)]
    table = rate_table(Selection(runs), LQR)
    assert table.column("steps of an epoch") == ["100", "100", f"{round(40 * 2**1.5)} to {round(40 * 500**1.5):,}"]
    assert (table.column("epochs T"), table.column("seeds")) == ([500, 100, 500], [2, 3, 1])
    exponents = [each.value for each in table.column("exponent, last iterate")]
    assert exponents == pytest.approx([0.4, 0.1, 0.1])


def test_the_bound_is_compared_with_the_gap_where_it_falls():
    """gap ~ T^-p falls by (T/e^8)^-p from e^8 on, the bound by (T/e^8)^-1/4 (log T / 8)^2."""
    runs = [falling(name, seed, p, 30_000) for name, p in (("rsa2c-kme", 0.4), ("advanced-ac", 0.0)) for seed in (0, 1)]
    table = bound_table(Selection([*runs, falling("rsa2c-cme", 0, 0.4)]), LQR)
    assert table.column("variant") == ["rsa2c-kme", "advanced-ac"], "those that go far enough"
    growth = 30_000 / np.exp(8)
    assert table.column("bound") == pytest.approx([growth**-0.25 * (np.log(30_000) / 8) ** 2] * 2)
    faster, constant = table.column("last iterate")
    assert (faster.value, faster.low, faster.high) == pytest.approx((growth**-0.4,) * 3, rel=1e-4)
    assert constant.value == 1.0 and table.column("random iterate once stable")[1] is None, "its gap is 200%"
    assert table.column("random iterate")[1].value == pytest.approx(1.0)
    late = dataclasses.replace(runs[0].curve, gap=np.where(runs[0].curve.epochs < 5000, np.inf, 0.5))
    (row,) = bound_table(Selection([dataclasses.replace(runs[0], curve=late)]), LQR).rows
    assert row[-1] is None, "stable only after the bound has begun to fall"


def test_a_gap_that_stays_has_a_rate_only_while_its_unstable_beginning_is_drawn():
    constant = falling("rsa2c-kme", 0, 0.0)
    gap = np.where(np.arange(500) < 5, np.inf, 0.5)
    frozen = dataclasses.replace(constant, curve=dataclasses.replace(constant.curve, gap=gap))
    table = rate_table(Selection([frozen]), LQR)
    (whole,), (settled,) = map(table.column, ("exponent, random iterate", "exponent, random iterate once stable"))
    assert whole.value > 0.25 and settled.value == pytest.approx(0.0, abs=1e-9)
    assert not whole.has_interval, "one run"
    never = dataclasses.replace(constant, curve=dataclasses.replace(constant.curve, gap=np.full(500, np.inf)))
    assert rate_table(Selection([never]), LQR).column("exponent, random iterate once stable") == [None]


def several_gaps(name, *gaps):
    return [made(name, seed, environment=LQR, gap=gap) for seed, gap in enumerate(gaps)]


def test_a_policy_said_to_be_nearer_to_the_optimum_has_to_be_stable():
    unstable, stable = several_gaps("advanced-ac", *[np.inf, 1e5] * 5), several_gaps("rsa2c-kme", *[0.05, 0.06] * 5)
    assert verdict("lqr_kme_improves", stable, unstable, environment=LQR) == HOLDS
    found = judged("lqr_kme_improves", several_gaps("rsa2c-kme", *[np.inf] * 10), unstable, environment=LQR)
    assert found.verdict == FAILS and not found.unmeasured
    assert str(found).startswith("rsa2c-kme, share of runs that end stable: 0 [0, 0.3085]")
    few = several_gaps("rsa2c-kme", *[np.inf] * 5)
    assert verdict("lqr_kme_improves", few, unstable, environment=LQR) == OPEN, "none of 5: half may be stable"
    one = several_gaps("rsa2c-kme", 0.05, *[np.inf] * 9)
    assert "share of runs" not in str(judged("lqr_kme_improves", one, unstable, environment=LQR))


@pytest.mark.parametrize("id", [claim.id for claim in paper.claims() if claim.statistic.startswith("lqr_")])
def test_nothing_that_the_paper_says_of_lqr_reproduces_where_no_run_is_stable(id):
    never = Curve(*[np.arange(1.0, 11.0)] * 2, np.full(10, -500.0), np.full(10, np.inf), np.arange(1.0, 11.0))
    runs = [made(name, seed, environment=LQR, gap=np.inf, curve=never)
            for name in (*OURS, "advanced-ac") for seed in range(10)]  # fmt: skip
    assert verdict(id, runs, environment=LQR) == FAILS


def test_a_method_said_to_be_slower_need_not_arrive():
    late = [dataclasses.replace(item, environment=WALKER) for item in arriving("ppo", np.inf, 10_000)]
    ours = [dataclasses.replace(item, environment=WALKER) for name in OURS for item in arriving(name, np.inf, 10_000)]
    found = judged("ppo_slower_walker", late, ours, environment=WALKER)
    assert found.verdict == OPEN and not found.comparisons


def test_at_most_is_one_sided_and_similar_is_not():
    ours = several(OURS, drops=(0.0, 0.0, 0.0, -50.0))
    assert verdict("mild_noise_drop", ours) == HOLDS, "noise that helps is no loss"
    assert verdict("mild_noise_drop", several(OURS, drops=(0.0, 0.0, 0.0, 10.0))) == HOLDS
    assert verdict("mild_noise_drop", several(OURS, drops=(0.0, 0.0, 0.0, 50.0))) == FAILS
    two_sided = dataclasses.replace(paper.claim("mild_noise_drop"), direction="similar")
    assert claims.judge(Selection(ours), two_sided, PENDULUM, "default").verdict == FAILS


@pytest.mark.parametrize("id", ["modest_overhead_walker", "modest_runtime_overhead", "mild_noise_drop", "small_spread",
                                "robust_walker", "robust_ant", "cost_scales_with_dictionary"])  # fmt: skip
def test_sentences_that_allow_for_less_are_one_sided(id):
    assert paper.claim(id).direction == "at most"


def rows(agent, seconds, seeds=6, simulator="gymnasium", **changes):
    """Rows of `benchmarks/time_to_solution.py`, seeds a thousandth apart."""
    fields = {"agent": agent, "simulator": simulator, "cold": False, "solved": True, "steps": 10_000, "commit": "abc",
              "machine": "a machine", "load": 1.0}  # fmt: skip
    each = [{"seed": seed, "seconds": seconds * (1 + 0.001 * seed)} for seed in range(seeds)]
    return [{**fields, **row, "before": 0.99 * row["seconds"], **changes} for row in each]


def alone(folder, *groups):
    """The records of such rows."""
    path = folder / ROWS
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for group in groups for row in group))
    return read_alone(folder)


SLOWEST_SAC = rows("sac", 40.0), rows("rsa2c", 0.2), rows("ppo", 8.0)


def test_clocks_of_a_study_s_own_runs_say_nothing():
    clocks = [claim for claim in paper.claims() if claim.statistic in ("step_time", "time_to_solution", "epoch_growth")]
    methods = {name for claim in clocks for name in (*claim.subject, *claim.against)}
    assert len(clocks) > 5
    for claim in clocks:
        environment = claim.environments[0]
        runs = [made(name, seed, environment=environment, seconds=9.0 if name == "sac" else 1.0)
                for name in methods for seed in range(6)]  # fmt: skip
        found = judged(claim.id, runs, environment=environment)
        assert found.verdict == SHARED and not found.comparisons
        assert str(found) == f"{SHARED}: {', '.join((*claim.subject, *claim.against))}"


@pytest.mark.parametrize(("factor", "said"), [(0.5, HOLDS), (0.95, FAILS), (0.9, OPEN), (1.5, FAILS)])
def test_clocks_of_runs_alone_are_compared_as_ratios(tmp_path, factor, said):
    claim = dataclasses.replace(paper.claim("lower_runtime_than_sac"), subject=("rsa2c-kme",))
    study = Selection([], alone(tmp_path, rows("sac", 1.0), rows("rsa2c", factor)))
    found = claims.judge(study, claim, PENDULUM, "default")
    assert found.verdict == said, "substantially lower is lower by a tenth"
    assert found.comparisons[0].effect.value == pytest.approx(1 - factor, abs=1e-6)


def test_a_claim_on_time_fails_by_one_method_and_holds_only_with_all(tmp_path):
    timed = alone(tmp_path, *SLOWEST_SAC)
    assert verdict("sac_fastest_pendulum", alone=timed) == FAILS, "RSA2C-CME was not timed; SAC is slower than PPO"
    found = judged("ppo_slower", alone=timed)
    assert found.verdict == SHARED and "not measured alone: rsa2c-cme" in str(found)
    assert found.comparisons[0].verdict == HOLDS
    kme_only = dataclasses.replace(paper.claim("ppo_slower"), against=("rsa2c-kme",))
    assert claims.judge(Selection([], timed), kme_only, PENDULUM, "default").verdict == HOLDS
    few = alone(tmp_path, rows("ppo", 8.0, seeds=4), rows("rsa2c", 0.2, seeds=4))
    assert claims.judge(Selection([], few), kme_only, PENDULUM, "default").verdict == OPEN, "five seeds for clocks"


def test_every_variant_that_was_timed_alone_counts(tmp_path):
    timed = alone(tmp_path, *SLOWEST_SAC, rows("rsa2c-cme", 0.3), rows("advanced-ac", 0.19))
    assert verdict("ppo_slower", alone=timed) == HOLDS
    assert verdict("lower_runtime_than_sac", alone=timed) == HOLDS
    assert verdict("modest_runtime_overhead", alone=timed) == FAILS, "CME takes half as long again"


def test_rows_say_their_environment_and_preset(tmp_path):
    claim = paper.claim("fastest_to_solution_ant")
    agents = ("rsa2c", "rsa2c-cme", "sac", "ppo")
    timed = alone(tmp_path, *(rows(agent, 1.0 + 9.0 * number, environment="Ant-v5")
                              for number, agent in enumerate(agents)))  # fmt: skip
    assert claims.judge(Selection([], timed), claim, "Ant-v5", "default").verdict == HOLDS
    assert claims.judge(Selection([], timed), claim, "Ant-v5", "paper").verdict == SHARED
    timed = alone(tmp_path, rows("ppo", 8.0), *(rows(agent, 0.2, preset="paper") for agent in agents[:2]))
    assert claims.judge(Selection([], timed), paper.claim("ppo_slower"), PENDULUM, "paper").verdict == HOLDS
    assert claims.judge(Selection([], timed), paper.claim("ppo_slower"), PENDULUM, "default").verdict == SHARED


@pytest.mark.parametrize(("late", "said"), [(2.0, HOLDS), (4.0, FAILS)])
def test_growth_is_seen_in_whole_trainings_alone(tmp_path, late, said):
    points = [[0.0, 25.0, 50.0, 75.0, 100.0], [0.0, 2.0, 4.0, 6.0, 6.0 + late]]
    whole = [{name: value for name, value in row.items() if name not in ("before", "seconds")} | {"curve": points}
             for agent in ("rsa2c", "rsa2c-cme") for row in rows(agent, 1.0)]  # fmt: skip
    study = Selection([], alone(tmp_path, whole, rows("rsa2c", 0.2)))
    assert len(study.alone) == 18
    found = claims.judge(study, paper.claim("cost_scales_with_dictionary"), PENDULUM, "default")
    assert found.verdict == said
    slower = claims.judge(study, paper.claim("modest_runtime_overhead"), PENDULUM, "default")
    assert slower.missing == ["rsa2c-cme", "advanced-ac"], "a whole training says nothing of the solution"


def test_time_must_agree_on_every_simulator(tmp_path):
    claim = dataclasses.replace(paper.claim("ppo_slower"), against=("rsa2c-kme",))
    slow = (rows("ppo", 8.0), rows("rsa2c", 0.2))
    quick = (rows("ppo", 0.1, simulator="envpool"), rows("rsa2c", 0.2, simulator="envpool"))
    found = claims.judge(Selection([], alone(tmp_path, *slow, *quick)), claim, PENDULUM, "default")
    assert found.verdict == FAILS and "at worst (backend=envpool)" in str(found)


def test_the_moment_of_a_solution_is_known_to_the_evaluation_before_it(tmp_path):
    claim = dataclasses.replace(paper.claim("ppo_slower"), against=("rsa2c-kme",))
    for before, said in ((0.9, HOLDS), (0.1, OPEN)):
        found = alone(tmp_path, rows("ppo", 1.0, before=before), rows("rsa2c", 0.5))
        assert claims.judge(Selection([], found), claim, PENDULUM, "default").verdict == said
    first = alone(tmp_path, rows("ppo", 1.0, before=0.0), rows("rsa2c", 0.5))
    assert claims.judge(Selection([], first), claim, PENDULUM, "default").verdict == OPEN, "at once, for all we know"
    lost = alone(tmp_path, rows("ppo", 1.0, before=30.0, solved=False), rows("rsa2c", 0.5))
    assert [item.seconds for item in lost[:6]] == [30.0] * 6
    assert claims.judge(Selection([], lost), claim, PENDULUM, "default").verdict == HOLDS, "never is later than all"


def test_a_study_finds_runs_timed_alone_beside_it(tmp_path):
    pytest.importorskip("matplotlib")
    alone(tmp_path, *SLOWEST_SAC)
    page, *_ = reproduce.write("pendulum", several(OURS), tmp_path / "pendulum")
    (line,) = [line for line in page.read_text("utf-8").splitlines() if "SAC reaches the solution threshold" in line]
    assert "; CPU clock, each run alone on a machine; the paper timed sac and ppo on a GPU |" in line
    assert f"| {FAILS} |" in line


def test_rows_that_are_no_measurement_alone_are_left_out(tmp_path):
    assert read_alone(tmp_path) == []
    kept = rows("rsa2c", 0.2, seeds=1)
    unknown = [{name: value for name, value in kept[0].items() if name != "before"}]
    busy = rows("ppo", 8.0, load=LARGEST_LOAD + 0.1)
    found = alone(tmp_path, rows("rsa2c", 9.0, cold=True), busy, rows("sbx-ppo", 8.0), unknown, kept)
    assert [(item.algorithm, item.preset, item.varied) for item in found] == [("rsa2c-kme", "default",
                                                                              "backend=gymnasium")]  # fmt: skip
    again = alone(tmp_path, kept, rows("rsa2c", 0.3, seeds=1))
    assert [item.seconds for item in again] == [0.3], "the last row of a training counts"
    (tmp_path / ROWS).write_text('{"agent": "sac", "before": 1}\n')
    with pytest.raises(FileFormatError, match=r"runs.jsonl is damaged \(KeyError.*Delete it and measure again"):
        read_alone(tmp_path)


def arriving(name, steps, spacing, seeds=6):
    """Runs evaluated every `spacing` steps that are seen to be there after `steps`."""
    at = np.arange(spacing, 100_001.0, spacing)
    curve = Curve(at, at / 1e3, np.where(at >= steps, -150.0, -900.0), np.full(len(at), np.nan), at / 1e3)
    return [made(name, seed, curve=curve, steps=100_000) for seed in range(seeds)]


def test_what_is_seen_at_evaluations_is_known_to_their_spacing():
    soon, late = arriving("rsa2c-kme", 30_000, 10_000), arriving("rsa2c-cme", 40_000, 10_000)
    found = judged("kme_earlier", soon, late)
    assert (found.comparisons[0].effect.low, found.comparisons[0].effect.high) == (0.0, 20_000.0)
    assert found.verdict == OPEN, "both may have arrived at 30,000"
    assert verdict("kme_earlier", soon, arriving("rsa2c-cme", 50_000, 10_000)) == HOLDS
    assert verdict("kme_earlier", arriving("rsa2c-kme", 50_000, 10_000), arriving("rsa2c-cme", 30_000, 10_000)) == FAILS
    assert verdict("kme_earlier", arriving("rsa2c-kme", 30_000, 1_000), arriving("rsa2c-cme", 40_000, 1_000)) == HOLDS


def test_what_is_counted_takes_one_run_and_holds_in_every_run():
    full, free = ([made(name, 0, states=states) for name in OURS] for states in (256, 100))
    assert verdict("memory_controlled", full) == FAILS, "no difference at all refutes a higher one"
    assert verdict("memory_controlled", free) == HOLDS
    found = judged("memory_controlled", free, [made("rsa2c-kme", seed, states=256) for seed in range(1, 9)])
    assert found.verdict == OPEN, "full in some runs"
    effect = found.comparisons[0].effect
    assert (effect.value, effect.low, effect.high) == (0.0, 0.0, pytest.approx(1 - 100 / 256))
    assert verdict("comparable_returns", full, several(["sac"], seeds=1)) == OPEN, "returns are sampled"


def test_what_is_counted_is_compared_over_all_pairs_of_runs():
    ours = [made("rsa2c-kme", seed, environment=WALKER, gflop=gflop) for seed, gflop in enumerate((2.0, 4.0))]
    deep = [made("sac", seed, environment=WALKER, gflop=gflop) for seed, gflop in enumerate((9.0, 7.0))]
    claim = dataclasses.replace(paper.claim("lighter_walker"), subject=("rsa2c-kme",), against=("sac",))
    found = claims.judge(Selection([*ours, *deep]), claim, WALKER, "default")
    unit = 1e9 * 10 / 10_000
    assert found.verdict == HOLDS
    effect = found.comparisons[0].effect
    assert (effect.value, effect.low, effect.high) == pytest.approx((5 * unit, 3 * unit, 7 * unit))
    heavy = [made("rsa2c-kme", 2, environment=WALKER, gflop=8.0)]
    assert claims.judge(Selection([*ours, *heavy, *deep]), claim, WALKER, "default").verdict == OPEN


def scored(name, *means, std=50.0, episodes=100):
    """Runs of these returns on Ant-v5."""
    return [made(name, seed, environment="Ant-v5", returns={0.0: Return(mean, std, episodes)})
            for seed, mean in enumerate(means)]  # fmt: skip


def test_one_run_refutes_what_cannot_be_reached():
    ant, bottleneck = {"environment": "Ant-v5"}, "capacity_bottleneck_ant"
    refuted = judged(bottleneck, scored("rsa2c-kme", 3000.0, 400.0), **ant)
    assert refuted.verdict == FAILS and "best run of rsa2c-kme: 3,000 [" in str(refuted)
    assert verdict(bottleneck, scored("rsa2c-kme", 3000.0), **ant) == FAILS
    assert verdict(bottleneck, scored("rsa2c-kme", 900.0), **ant) == OPEN, "one run does not prove it"
    assert verdict(bottleneck, scored("rsa2c-kme", 1000.0, std=200.0), **ant) == OPEN, "lucky episodes"
    assert verdict(bottleneck, scored("rsa2c-kme", 3000.0, episodes=None), **ant) == OPEN
    half = statistics.mean([-1.0, 1.0] * 50, 1 - 0.05 / 2 / 2 / 2).high  # two subjects; the mean, or one of two runs
    effect = refuted.comparisons[0].best.effect
    assert (effect.low, effect.high) == pytest.approx((3000 - 50 * half, 3000 + 50 * half))


def test_one_run_proves_what_can_be_reached():
    ant, claim = {"environment": "Ant-v5"}, paper.claim("deep_better_ant")
    rest = [item for name in claim.against for item in scored(name, 900.0, 1000.0)]
    better = [*scored("sac", 1200.0, 100.0), *scored("ppo", 1300.0)]
    assert verdict(claim.id, better, rest, **ant) == HOLDS
    assert verdict(claim.id, better, rest[2:], **ant) == OPEN, "a method was not run"
    assert verdict(claim.id, better[:2], rest, **ant) == OPEN, "both of them"
    near = [*scored("sac", 1105.0, 100.0), *scored("ppo", 1300.0)]
    assert verdict(claim.id, near, rest, **ant) == OPEN, "substantially, and episodes vary"
    worse = [item for name in claim.subject for item in scored(name, *np.linspace(100.0, 110.0, 6))]
    many = [item for name in claim.against for item in scored(name, *np.linspace(900.0, 910.0, 6))]
    assert verdict(claim.id, worse, many, **ant) == FAILS, "typical runs of several seeds refute it"


def test_what_one_run_decides_is_a_return():
    decided = [claim for claim in paper.claims() if claim.one_run]
    assert decided and {claim.statistic for claim in decided} == {"return_difference"}
    directions = {(claim.one_run, claim.direction) for claim in decided}
    assert directions <= {("proves", "higher"), ("refutes", "at most")}


def test_a_bound_of_the_prose_is_a_bound():
    ant = {"environment": "Ant-v5"}
    poor = several(("rsa2c-kme", "advanced-ac"), mean=900.0, **ant)
    assert verdict("capacity_bottleneck_ant", poor, environment="Ant-v5") == HOLDS
    rich = several(("rsa2c-kme", "advanced-ac"), mean=3000.0, **ant)
    assert verdict("capacity_bottleneck_ant", rich, environment="Ant-v5") == FAILS


def shared(name, early, late, seeds=6):
    features = ("cos θ", "sin θ", "angular velocity")
    shares = {stage: dict(zip(features, values, strict=True)) for stage, values in (("early", early), ("late", late))}
    return [made(name, seed, importances=shares) for seed in range(seeds)]


def test_orders_may_be_joint_and_shares_of_runs_have_exact_intervals():
    late = shared("rsa2c-cme", (0.4, 0.3, 0.3), (0.5, 0.4, 0.1))
    found = judged("cme_angle_dominates_late", late)
    assert found.verdict == HOLDS
    low = (0.05 / 2) ** (1 / 6)
    assert found.comparisons[0].effect.low == pytest.approx(low), "Clopper and Pearson, 6 of 6"
    assert verdict("cme_angle_dominates_late", shared("rsa2c-cme", (0.4, 0.3, 0.3), (0.3, 0.6, 0.1))) == HOLDS
    assert verdict("cme_angle_dominates_late", shared("rsa2c-cme", (0.4, 0.3, 0.3), (0.6, 0.1, 0.3))) == FAILS


def test_a_share_that_rises():
    assert verdict("kme_sine_rises", shared("rsa2c-kme", (0.5, 0.2, 0.3), (0.5, 0.3, 0.2))) == HOLDS
    assert verdict("kme_sine_rises", shared("rsa2c-kme", (0.5, 0.3, 0.2), (0.5, 0.2, 0.3))) == FAILS


def test_most_noise_levels_are_more_than_half():
    walker = {"environment": WALKER}
    other = several(("rsa2c-cme",), mean=270.0, **walker)
    three = several(("rsa2c-kme",), mean=280.0, drops=(0.0, 0.0, 0.0, 50.0), **walker)
    two = several(("rsa2c-kme",), mean=280.0, drops=(0.0, 0.0, 50.0, 50.0), **walker)
    assert verdict("kme_higher_under_noise_walker", three, other, environment=WALKER) == HOLDS
    assert verdict("kme_higher_under_noise_walker", two, other, environment=WALKER) == FAILS


def test_spreads_have_normal_theory_intervals():
    wide = several(["ppo"], scatter=30.0)
    narrow = several(OURS, scatter=1.0)
    found = judged("ppo_variable", wide, narrow)
    expected = statistics.std_difference([item.mean for item in wide], [item.mean for item in narrow[:6]], 1 - 0.05 / 2)
    assert found.verdict == HOLDS and found.comparisons[0].effect == expected
    assert verdict("ppo_variable", several(["ppo"], scatter=15.0), several(OURS, scatter=10.0)) == OPEN, "six seeds"
    assert verdict("ppo_variable", several(["ppo"], scatter=1.5), narrow) == FAILS, "at most 3% of the return"
    one = judged("ppo_variable", wide[:1], narrow)
    assert one.verdict == OPEN and one.unmeasured == ["ppo"], "one run has no spread"


def test_a_spread_is_small_where_the_prose_puts_it_at_every_level():
    assert verdict("small_spread", several(OURS, scatter=2.0)) == HOLDS
    assert verdict("small_spread", several(OURS, scatter=60.0)) == FAILS

    def returns(seed, scatter):
        return {
            level: Return(-140.0 + (scatter if level == 0.001 else 2.0) * seed, 80.0) for level in claims.NOISE_LEVELS
        }

    at_one = [made(name, seed, returns=returns(seed, 60.0)) for name in OURS for seed in range(6)]
    found = judged("small_spread", at_one)
    assert found.verdict == FAILS and "rsa2c-kme, at worst (noise 0.001)" in str(found)


def test_under_all_noise_is_under_each():
    rest = several((*ABLATIONS, "ppo"), environment=WALKER, mean=100.0)
    ours = several(OURS, environment=WALKER, mean=200.0)
    assert verdict("outperforms_under_noise_walker", ours, rest, environment=WALKER) == HOLDS
    weak = several(OURS, environment=WALKER, mean=200.0, drops=(0.0, 0.0, 150.0, 0.0))
    found = judged("outperforms_under_noise_walker", weak, rest, environment=WALKER)
    assert found.verdict == FAILS and "(noise 0.005)" in str(found)
    unknown = [dataclasses.replace(item, returns={0.0: item.returns[0.0]}) for item in rest]
    silent = judged("outperforms_under_noise_walker", ours, unknown, environment=WALKER)
    assert silent.verdict == OPEN and silent.unmeasured == [*ABLATIONS, "ppo"]


def test_intervals_of_a_claim_about_every_level_hold_together():
    every = paper.claim("mild_noise_drop")
    runs = [made(name, seed, drops=(0.0, *np.random.default_rng(seed).normal(10.0, 5.0, 3)))
            for name in OURS for seed in range(8)]  # fmt: skip
    level = 1 - 0.05 / len(claims.NOISE_LEVELS) / len(OURS)
    drops = [item.mean - item.mean_at(0.01) for item in runs[:8]]
    study = Selection(runs)
    expected = statistics.mean(drops, level)
    found = claims.judge(study, every, PENDULUM, "default")
    assert next(item.effect for item in found.comparisons if item.case == "noise 0.01") == expected


def test_similar_across_noise_levels_is_judged_level_by_level():
    ours = several(OURS)
    assert verdict("sac_similar_under_noise", several(["sac"], mean=-142.0), ours) == HOLDS
    off = several(["sac"], mean=-142.0, drops=(0.0, 0.0, 0.0, 90.0))
    assert verdict("sac_similar_under_noise", off, ours) == FAILS


@pytest.mark.parametrize(("scatters", "said"), [((9.0, 9.0, 9.0), HOLDS), ((0.1, 9.0, 9.0), HOLDS),
                                                ((0.1, 0.1, 9.0), FAILS), ((3.0, 3.0, 9.0), OPEN),
                                                ((1.0, 1.0, 9.0), FAILS)])  # fmt: skip
def test_most_is_more_than_half(scatters, said):
    ours = several(OURS, environment=WALKER, scatter=1.0)
    others = [several([name], environment=WALKER, scatter=scatter)
              for name, scatter in zip(ABLATIONS, scatters, strict=True)]  # fmt: skip
    assert verdict("lower_variance_walker", ours, *others, environment=WALKER) == said
    if scatters[0] == 0.1 and said == HOLDS:
        assert verdict("lower_variance_walker", ours, *others[1:], environment=WALKER) == HOLDS, "two of three suffice"
        assert verdict("lower_variance_walker", ours[:6], *others, environment=WALKER) == OPEN, "of both variants"


def test_noisy_dimensions_are_those_of_runs_with_distractors():
    guided = several(["rsa2c-kme"], mean=-150.0, distractors=10)
    plain = several(["advanced-ac"], mean=-900.0, distractors=10)
    more = several(["rsa2c-kme"], mean=-150.0, distractors=30)
    assert verdict("suppresses_noisy_dimensions", guided, plain, more) == HOLDS
    assert verdict("suppresses_noisy_dimensions", several(["rsa2c-kme", "advanced-ac"])) == OPEN
    beaten = several(["advanced-ac"], mean=-100.0, distractors=30)
    assert verdict("suppresses_noisy_dimensions", guided, plain, more, beaten) == FAILS


def test_operations_are_counted_for_a_step():
    ours = several(OURS, environment=WALKER, gflop=0.3, epochs=1)
    deep = several(["sac", "ppo"], environment=WALKER, gflop=0.1, epochs=10)
    assert verdict("lighter_walker", ours, deep, environment=WALKER) == HOLDS, "more an epoch, less a step"
    assert verdict("lighter_walker", several(OURS, environment=WALKER, gflop=9.0), deep, environment=WALKER) == FAILS


def controlled(name, scale, arrives, scatter):
    """LQR runs that get under a gap of 100% at a step and end at a gap around `scale`."""
    steps = np.linspace(1000.0, 10_000.0, 10)
    gap = np.where(steps >= arrives, 0.5, np.inf)
    curve = Curve(steps, steps / 1e4, -gap, gap, np.arange(1.0, 11.0))
    return [made(name, seed, environment=LQR, curve=curve, gap=scale * np.exp(scatter * seed)) for seed in range(8)]


def test_lqr_is_judged_by_speed_and_by_spread():
    slow = controlled("advanced-ac", 1e-6, 8000.0, 1.0)
    quick = [*controlled("rsa2c-kme", 0.1, 2000.0, 0.1), *controlled("rsa2c-cme", 0.1, 2000.0, 0.1)]
    assert verdict("lqr_faster", quick, slow, environment=LQR) == HOLDS
    assert verdict("lqr_stabler", quick, slow, environment=LQR) == HOLDS
    assert verdict("lqr_kme_improves", quick, slow, environment=LQR) == FAILS
    never = controlled("advanced-ac", 0.01, 1e9, 1.0)
    assert verdict("lqr_faster", quick, never, environment=LQR) == HOLDS, "never is later than all"
    late = [*controlled("rsa2c-kme", 0.1, 1e9, 2.0), *controlled("rsa2c-cme", 0.1, 1e9, 9.0)]
    assert verdict("lqr_faster", late, slow, environment=LQR) == FAILS


def basis(id, environment=PENDULUM, preset="default", alone=()):
    study = Selection(several((*OURS, "advanced-ac", "ppo"), environment=environment, preset=preset), alone)
    return verdicts.rests_on(study, claims.judge(study, paper.claim(id), environment, preset))


def test_a_verdict_says_what_it_rests_on(tmp_path):
    assert basis("mild_noise_drop") == (
        "guidance by the attribution critic; noise at evaluation only, levels as variances; CPU a processor"
    )
    assert basis("kme_order_late") == "attributions of the attribution critic during training; CPU a processor"
    assert basis("kme_order_late", preset="paper").startswith("attributions of the Value Critic")
    critic = "guidance by the attribution critic"
    assert basis("memory_controlled") == f"{critic}; dictionaries at the end of training"
    assert basis("ppo_slower") == f"{critic}; no run was timed alone; the paper timed ppo on a GPU"
    timed = alone(tmp_path, *SLOWEST_SAC)
    assert basis("modest_runtime_overhead", alone=timed) == f"{critic}; CPU clock, each run alone on a machine"
    assert basis("capacity_bottleneck_ant", "Ant-v5").startswith(f"one run can refute it; {critic}; final evaluation")


def test_every_claim_rests_on_something_and_its_note_is_beside_its_verdict():
    environments = [PENDULUM, LQR, WALKER, "Ant-v5"]
    records = [item for each in environments for item in several(OURS, environment=each)]
    table = verdicts.claims_table(Selection(records), environments, ["default"])
    assert all(table.column("rests on"))
    notes = [note for note in table.column("note") if note]
    assert notes == [claim.note for claim in paper.claims() for _ in claim.environments if claim.note]
    assert sum(verdicts.tally(table.column("verdict")).values()) == len(table.rows) == len(notes) + sum(
        len(claim.environments) for claim in paper.claims() if not claim.note)  # fmt: skip
    assert f"{SHARED} {table.column('verdict').count(SHARED)}" in table.notes[0]
    assert "step_flops, memory_left are counted" in " ".join(table.notes)


@pytest.mark.parametrize("id", [claim.id for claim in paper.claims() if "importance" in claim.statistic
                                or "attribution" in claim.statistic])  # fmt: skip
def test_importances_that_are_not_known_say_nothing(id):
    claim = paper.claim(id)
    features = ("cos θ", "sin θ", "angular velocity")
    unknown = {stage: dict.fromkeys(features, float("nan")) for stage in ("early", "late")}
    environment = claim.environments[0]
    runs = several((*claim.subject, *claim.against), environment=environment, importances=unknown)
    found = judged(id, runs, environment=environment)
    assert found.verdict == OPEN and not found.comparisons
    assert found.unmeasured == [*claim.subject, *claim.against] and "not measured" in str(found)


def test_unknown_importances_of_one_method_leave_the_claim_open():
    shares = {"early": {"a": 0.9, "b": 0.1}, "late": {"a": 0.9, "b": 0.1}}
    unknown = {stage: dict.fromkeys(each, float("nan")) for stage, each in shares.items()}
    kme, cme = several(["rsa2c-kme"], importances=shares), several(["rsa2c-cme"], importances=unknown)
    assert verdict("kme_dominated", kme, cme) == OPEN

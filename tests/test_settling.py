"""Effects too small to matter, and what would settle a claim that is open."""

import dataclasses
import re

import numpy as np
import pytest

from rsa2c import reproduce, statistics
from rsa2c.reproduce import claims, counted, effort, paper, verdicts
from rsa2c.reproduce.effects import NEGLIGIBLE, negligible
from rsa2c.reproduce.findings import FAILS, HOLDS, OPEN, SHARED, Comparison
from rsa2c.reproduce.selection import Selection
from rsa2c.reproduce.settling import LADDER, projected, settle
from rsa2c.statistics import Estimate
from test_claims import ABLATIONS, OURS, PENDULUM, WALKER, arriving, judged, made, several, verdict

NOTHING = Selection([])


def around(name, mean, spread, seeds=6, **changes):
    """Runs whose mean and standard deviation (divisor n - 1) are these."""
    values = np.linspace(-1.0, 1.0, seeds)
    values *= spread / values.std(ddof=1)
    return [made(name, seed, mean + value, **changes) for seed, value in enumerate(values)]


def compared(low, high, **changes):
    """What a comparison says whose claim is that an effect is above zero, and 5 is too small to matter."""
    return Comparison("a", "a", Estimate((low + high) / 2, low, high), 6, 0.0, np.inf, **{"negligible": 5.0, **changes})


@pytest.mark.parametrize(("low", "high", "said"), [
    (0.1, 3.0, HOLDS),  # small and sure: what is said is that there is an effect
    (-3.0, 5.0, FAILS), (-90.0, 5.0, FAILS), (-3.0, 5.1, OPEN), (-9.0, -1.0, FAILS), (6.0, 9.0, HOLDS),
])  # fmt: skip
def test_an_interval_without_an_effect_that_matters_refutes_one(low, high, said):
    assert compared(low, high).verdict == said
    assert compared(low, high, negligible=-np.inf).verdict == (OPEN if low < 0.0 < high else said)
    assert dataclasses.replace(compared(low, high), seeds=2).verdict == OPEN


def test_a_gain_within_a_twentieth_of_the_return_is_none():
    claim = "improves_returns"

    def said(mean, spread):
        ours = [item for name in OURS for item in around(name, mean, spread)]
        return verdict(claim, ours, around("advanced-ac", -140.0, spread))

    assert said(-139.0, 2.0) == FAILS, "at most 5 of 140"
    assert said(-139.0, 20.0) == OPEN, "too few seeds for their spread"
    assert said(-120.0, 2.0) == HOLDS
    assert said(-138.0, 0.1) == HOLDS, "small, but above zero beyond doubt"


def test_what_is_too_small_is_measured_by_the_return_or_by_what_is_compared():
    others = several(["advanced-ac"], mean=-200.0, scatter=0.0)
    drop, spread = paper.claim("fixed_weights_not_robust"), paper.claim("uniform_variance")
    assert negligible(drop, others, [3.0]) == negligible(spread, others, [3.0]) == pytest.approx(NEGLIGIBLE * 200.0)
    assert negligible(paper.claim("rsa2c_steadier_walker"), others, [300.0, 500.0]) == pytest.approx(NEGLIGIBLE * 400)
    assert negligible(paper.claim("kme_earlier"), others, [1e4, 2e4, 9e4]) == pytest.approx(NEGLIGIBLE * 2e4)
    assert negligible(paper.claim("ppo_slower"), others, [2.0]) == NEGLIGIBLE, "times are compared as ratios"
    exempt = ("cme_smoother", "attribution_costs_flops_walker", "beats_ppo_walker", "lqr_stabler", "plateau_ant",
              "kme_sine_rises", "limited_gain_ant")  # fmt: skip
    for id in exempt:
        own = None if id == "kme_sine_rises" else [1.0]
        assert negligible(paper.claim(id), others, own) == -np.inf, id
    slight = {claim.id for claim in paper.claims() if claim.slight}
    assert slight == {claim.id for claim in paper.claims() if claim.statistic != "step_flops"
                      and any(word in claim.quote for word in ("slightly", "marginally"))}  # fmt: skip


def test_a_gain_too_small_to_matter_is_refuted_more_often_than_not_only_if_there_is_none():
    """Of many trainings without any difference nearly none shows one; of those with a tenth none is refuted."""
    rng, claim = np.random.default_rng(0), paper.claim("gain_from_signal")

    def share(gain, wanted):
        found = []
        for _ in range(40):
            runs = [made(name, seed, -140.0 + (gain if name == "rsa2c-kme" else 0.0) + rng.normal(0.0, 4.0))
                    for name in ("rsa2c-kme", "shuffled-shap", "advanced-ac") for seed in range(10)]  # fmt: skip
            found.append(claims.judge(Selection(runs), claim, PENDULUM, "default").verdict == wanted)
        return np.mean(found)

    assert share(0.0, FAILS) > 0.7 and share(0.0, HOLDS) <= 0.05
    assert share(14.0, FAILS) == 0.0 and share(14.0, HOLDS) > 0.9


def test_the_same_runs_under_two_names_are_no_second_chance():
    names = (*OURS, "advanced-ac", "uniform-shap", "rkhs-ac")
    found = judged("most_stable_rkhs", several(names, scatter=1.0))
    first, second = ([item.mean for item in several([name], scatter=1.0)] for name in (OURS[0], "advanced-ac"))
    assert found.comparisons[0].effect == -statistics.std_difference(first, second, 1 - 0.05 / 4), "two by two"


def test_the_projection_is_the_interval_of_that_many_seeds():
    values = np.array([-1.0, 1.0])
    few, many = (statistics.mean(3.0 + np.tile(values * np.sqrt((n - 1) / n), n // 2)) for n in (10, 40))
    item = Comparison("a", "a", few, 10, 0.0, np.inf)
    shown = projected(item, 40).effect
    assert (shown.low, shown.high) == pytest.approx((many.low, many.high))
    assert projected(item, 10) is item and projected(item, 5) is item, "seeds are not taken away"
    wide = dataclasses.replace(item, effect=Estimate(3.0, 3.0 - 5.0, 3.0 + 9.0), blur=4.0)
    limit = projected(wide, np.inf).effect
    assert (limit.low, limit.high) == (-1.0, 7.0), "the spacing of evaluations stays"


def test_noise_is_settled_by_the_seeds_that_it_takes():
    claim = "improves_returns"

    def study(seeds):
        ours = [item for name in OURS for item in around(name, -130.0, 20.0, seeds)]
        return judged(claim, ours, around("advanced-ac", -140.0, 20.0, seeds))

    number = int(settle(NOTHING, study(6)).removeprefix("about ").removesuffix(" seeds of each"))
    below = LADDER[LADDER.index(number) - 2]
    assert study(number + 5).verdict == HOLDS and study(below).verdict == OPEN
    same = [item for name in (*OURS, "advanced-ac") for item in around(name, -140.0, 8.0)]
    assert settle(NOTHING, judged(claim, same)).startswith("about "), "that there is no gain can be shown, too"
    assert settle(NOTHING, study(300)) == ""


def test_missing_runs_are_named():
    ours = several(OURS)
    found = judged("guidance_raises_return", ours, several(["advanced-ac"], mean=-400.0))
    assert (found.verdict, settle(NOTHING, found)) == (OPEN, "3 seeds of rkhs-ac")
    nothing = judged("guidance_raises_return", ours)
    assert settle(NOTHING, nothing) == "3 seeds of advanced-ac, rkhs-ac", "Uniform SHAP is Advanced AC"
    few = judged("improves_returns", several(OURS, seeds=1), several(["advanced-ac"], seeds=2, mean=-400.0))
    assert settle(NOTHING, few) == "1 more seed of advanced-ac; 2 more seeds of rsa2c-kme, rsa2c-cme"
    memory = judged("memory_controlled", several(["rsa2c-kme"]))
    assert settle(NOTHING, memory) == "one run of rsa2c-cme"
    unknown = [dataclasses.replace(item, returns={0.0: item.returns[0.0]}) for item in several(["advanced-ac"])]
    assert settle(NOTHING, judged("fixed_weights_not_robust", ours, unknown)) == (
        "runs of uniform-shap, advanced-ac that measured it")  # fmt: skip


def test_trainings_alone_have_their_command():
    timed = judged("ppo_slower", several(OURS))
    wanted = "trainings of ppo, rsa2c-kme, rsa2c-cme that have a machine to themselves"
    script = "python benchmarks/time_to_solution.py --environment Pendulum-v1 --seeds 0-4"
    assert timed.verdict == SHARED and settle(NOTHING, timed) == f"{wanted}: `{script} --agents ppo,rsa2c,rsa2c-cme`"
    growth = claims.judge(NOTHING, paper.claim("cost_scales_with_dictionary"), PENDULUM, "paper")
    assert settle(NOTHING, growth).endswith("--agents rsa2c,rsa2c-cme --preset paper --whole`")
    plans = reproduce.asked("walker")
    walker = judged("fastest_to_solution_walker", environment=WALKER)
    assert re.search(r"`.*--environment BipedalWalker-v3 .*` \(about \d+ hours a simulator at most\)",
                     settle(Selection([], plans=plans), walker))  # fmt: skip


@pytest.mark.parametrize(("id", "target", "environment", "preset", "said"), [
    ("improves_returns", "ant", "Ant-v5", "default", "rsa2c reproduce ant --grids ablation`"),
    ("comparable_returns", "pendulum", PENDULUM, "paper", "rsa2c reproduce pendulum --grids ablation-paper baselines`"),
    ("suppresses_noisy_dimensions", "pendulum", PENDULUM, "paper",
     "rsa2c reproduce pendulum --grids distractors-paper`"),
    ("gain_from_signal", "pendulum", PENDULUM, "default", "rsa2c reproduce pendulum --grids ablation placebo`"),
    ("lqr_kme_improves", "lqr", "rsa2c/LQR-v0", "default", "rsa2c reproduce lqr --grids ablation`"),
])  # fmt: skip
def test_missing_runs_have_their_command_and_its_hours(id, target, environment, preset, said):
    study = Selection([], plans=reproduce.asked(target))
    text = settle(study, claims.judge(study, paper.claim(id), environment, preset))
    assert said in text and re.search(r"\(\d+ runs, about .* on one core\)$", text)
    command = re.search(r"`rsa2c reproduce (\w+) --grids ([^`]*)`", text)
    assert reproduce.grids(command[1], only=command[2].split()), "a command that runs"


def test_hours_are_those_of_recorded_runs_or_of_operations():
    plans = reproduce.asked("pendulum")
    plan = next(plan for plan in plans.values() if plan.grid == "ablation" and plan.job.algorithm == "rsa2c-kme")
    recorded = Selection(several(["rsa2c-kme"], seconds=4.0, settings=plan.settings), plans=plans)
    steps = plan.job.total_timesteps
    assert effort.seconds(recorded, plan) == pytest.approx(4.0 / 10_000 * steps)
    old = Selection(several(["rsa2c-kme"], seconds=4.0, settings={**plan.settings, "kl": "9"}), plans=plans)
    old = dataclasses.replace(old, records=[dataclasses.replace(item, run=plan.job.run_id) for item in old.records])
    full = counted.sizes(PENDULUM, "default")[-1]
    one = counted.counted(PENDULUM, "default", "rsa2c-kme", round(full * 50 / 256))
    each = 1e9 * one.gflop / one.steps / effort.OPERATIONS[False] + effort.SIMULATION[False]
    assert effort.seconds(old, plan) == pytest.approx(each * steps), "of other settings only the dictionaries count"
    assert effort.command(recorded, [plan]).startswith("`rsa2c reproduce pendulum --grids ablation` (50 runs")
    assert effort.command(recorded, [plan], 20).startswith(
        "`rsa2c reproduce pendulum --grids ablation --seeds 20` (100 runs")  # fmt: skip
    assert [effort.duration(each) for each in (5.0, 600.0, 7200.0, 123_456.0)] == [
        "about a minute", "about 10 minutes", "about 2.0 hours", "about 34 hours"]  # fmt: skip


def test_operations_are_counted_without_runs_at_several_sizes():
    sizes = counted.sizes(WALKER, "default")
    found = claims.judge(NOTHING, paper.claim("attribution_costs_flops_walker"), WALKER, "default")
    assert found.without_runs and not found.missing and len(found.comparisons) == 4 * len(sizes)
    assert {item.case for item in found.comparisons} == {f"{states} states" for states in sizes}
    assert found.verdict == HOLDS and "[" not in str(found), "exact"
    assert verdicts.rests_on(NOTHING, found).startswith("counted from today's settings, without a run")
    more, less = (counted.counted(WALKER, "default", "rsa2c-kme", states).gflop for states in (sizes[-1], sizes[0]))
    assert more > less > counted.counted(WALKER, "default", "advanced-ac", sizes[0]).gflop


def test_sizes_that_disagree_leave_operations_open_until_a_run_shows_them():
    claim = paper.claim("lighter_walker")
    found = claims.judge(NOTHING, claim, WALKER, "default")
    assert found.verdict == OPEN, "small dictionaries cost less than PPO, full ones more"
    study = Selection([], plans=reproduce.asked("walker"))
    assert re.match("one run of each, which shows .*; `rsa2c reproduce walker --grids ablation --seeds 1`",
                    settle(study, found))  # fmt: skip
    between = claims.judge(NOTHING, paper.claim("flops_as_ppo_ant"), "Ant-v5", "paper")
    assert {item.verdict for item in between.comparisons} == {FAILS} and between.verdict == OPEN, "equal in between"
    unit = 10_000 / 10 / 1e9
    for flops, said in ((1e5, HOLDS), (2e6, FAILS)):
        ours = Selection(several(OURS, seeds=1, environment=WALKER, gflop=flops * unit))
        found = claims.judge(ours, claim, WALKER, "default")
        assert found.verdict == said and not found.without_runs and not found.missing
        assert "sac and ppo counted from RL-Zoo's settings" in verdicts.rests_on(ours, found)


def test_spacing_that_hides_an_effect_is_told_from_noise():
    found = judged("kme_earlier", arriving("rsa2c-kme", 30_000, 10_000), arriving("rsa2c-cme", 40_000, 10_000))
    assert found.comparisons[0].blur == 10_000.0
    assert settle(NOTHING, found).startswith("evaluations closer together")
    unsure = several(["rsa2c-cme"], importances={"late": {"sin θ": 0.5, "cos θ": 0.4, "angular velocity": 0.1}})
    other = {"late": {"sin θ": 0.1, "cos θ": 0.4, "angular velocity": 0.5}}
    half = [dataclasses.replace(item, importances=other) if item.seed % 2 else item for item in unsure]
    assert "too close to call" in settle(NOTHING, judged("cme_angle_dominates_late", half))


def test_every_open_verdict_says_what_would_settle_it():
    records = [*several((*OURS, *ABLATIONS, "ppo"), seeds=2), *several(["sac"], seeds=1)]
    table = verdicts.claims_table(Selection(records), [PENDULUM], ["default"])
    for verdict_, what in zip(table.column("verdict"), table.column("what would settle it"), strict=True):
        assert bool(what) == (verdict_ in (OPEN, SHARED))
    assert f"over {NEGLIGIBLE:.0%}" in " ".join(table.notes)

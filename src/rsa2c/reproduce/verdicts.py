"""The table of verdicts on the paper's claims: what each is, what it rests on, and how many of each there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rsa2c.baselines.settings import BASELINES
from rsa2c.config import make_config
from rsa2c.config.released import CriticGuidance
from rsa2c.reproduce import paper
from rsa2c.reproduce.cells import Table
from rsa2c.reproduce.claims import judge
from rsa2c.reproduce.earlier import used
from rsa2c.reproduce.effects import MARGIN, NEGLIGIBLE
from rsa2c.reproduce.findings import FAILS, HOLDS, OPEN, SHARED, Finding
from rsa2c.reproduce.measures import CLOCKS, COUNTED, FEWEST_DRAWN, FEWEST_SEEDS, NOISY, OPERATIONS
from rsa2c.reproduce.paper import Claim
from rsa2c.reproduce.present import other_settings
from rsa2c.reproduce.selection import PRESETS, TWINS, Selection
from rsa2c.reproduce.settling import settle

COLUMNS = ["the paper says", "environment", "preset", "statistic", "effect in the claimed direction", "verdict",
           "rests on", "what would settle it", "note"]  # fmt: skip
GUIDED = ("rsa2c-kme", "rsa2c-cme", "shuffled-shap")
"""Variants that a critic's attributions guide."""
FINAL, ALONG = "final evaluation without noise", "evaluations during training, without noise"
PROTOCOLS = {
    "return_difference": FINAL,
    "probability_of_improvement": FINAL,
    "seed_spread": FINAL,
    **dict.fromkeys(NOISY, "noise at evaluation only, levels as variances"),
    "steps_to_threshold": ALONG,
    "early_return": ALONG,
    "curve_roughness": ALONG,
    "distractor_return": "useless features in training and at evaluation, no other noise",
    "step_flops": "counted, with the dictionaries at the end of training",
    "memory_left": "dictionaries at the end of training",
    "lqr_gap": "policy's mean on 1,000 fixed starts, without noise",
    "lqr_spread": "policy's mean on 1,000 fixed starts, without noise",
    "lqr_steps": ALONG,
}
"""How what a statistic needs was obtained; attributions and clocks have more to say."""


def claims_table(study: Selection, environments: Sequence[str], presets: Sequence[str] = PRESETS) -> Table:
    """Every claim about these environments, with verdicts under the presets that were run; operations follow from the
    settings of presets that were not."""
    rows: list[list[Any]] = []
    ran = {(item.environment, item.preset) for item in study.records}
    for claim in paper.claims():
        for environment in claim.environments:
            for preset in presets if environment in environments else ():
                if (environment, preset) in ran or claim.statistic == OPERATIONS:
                    finding = judge(study, claim, environment, preset)
                    said, basis = f"“{claim.quote}” ({claim.where})", rests_on(study, finding)
                    judged = [finding, finding.verdict, basis, settle(study, finding) or None]
                    rows.append([said, environment, preset, claim.statistic, *judged, claim.note])
    table = Table("claims", "The paper's claims", COLUMNS, rows)
    if rows:
        table.notes.extend(_notes(table))
    return table


def rests_on(study: Selection, finding: Finding) -> str:
    """The critic, protocol and hardware behind a verdict, and whether one run can decide it."""
    claim, environment, preset = finding.claim, finding.environment, finding.preset
    parts = [f"one run can {claim.one_run.removesuffix('s')} it"] if claim.one_run else []
    if finding.without_runs:
        return "counted from today's settings, without a run, for dictionaries of the sizes named"
    for name, presets in study.taken_over(environment).items():
        if name in (*claim.subject, *claim.against) and preset in presets:
            parts.append(f"{name} by the runs of {TWINS[name]}, which are the same bit for bit")
    guided = [name for name in (*claim.subject, *claim.against) if name in GUIDED]
    if claim.statistic not in PROTOCOLS and claim.statistic not in CLOCKS:
        parts.append(f"attributions of {_critic(environment, preset, claim.subject[0])} during training")
    elif guided:
        parts.append(f"guidance by {_critic(environment, preset, guided[0])}")
    if claim.statistic in CLOCKS:
        return "; ".join([*parts, *_clock(study, claim, environment)])
    if claim.statistic in PROTOCOLS:
        parts.append(PROTOCOLS[claim.statistic])
    runs = used(study, finding)
    if claim.statistic == OPERATIONS:
        ran = {item.algorithm for item in runs}
        lacking = [name for name in (*claim.subject, *claim.against) if name in BASELINES and name not in ran]
        parts += [f"{' and '.join(lacking)} counted from RL-Zoo's settings, without a run"] if lacking else []
    if any(other_settings(item, study.plans) for item in runs):
        parts.append("an earlier version of the preset")
    if claim.statistic not in COUNTED:
        parts += [f"CPU {name}" for name in sorted({item.processor or "not noted" for item in runs})]
    return "; ".join(parts)


def _critic(environment: str, preset: str, algorithm: str) -> str:
    guidance = make_config(environment, preset, algorithm).guidance
    return "the Value Critic" if isinstance(guidance, CriticGuidance) else "the attribution critic"


def _clock(study: Selection, claim: Claim, environment: str) -> list[str]:
    machines = sorted({item.processor for item in study.timed(environment, claim.statistic)})
    costs = [paper.published_cost(environment, name) for name in (*claim.subject, *claim.against)]
    elsewhere = [cost.algorithm for cost in costs if cost and cost.device != "CPU"]
    timed = [f"CPU clock, each run alone on {machine}" for machine in machines] or ["no run was timed alone"]
    return [*timed, *([f"the paper timed {' and '.join(elsewhere)} on a GPU"] if elsewhere else [])]


def tally(verdicts: Iterable[str]) -> dict[str, int]:
    """How many there are of each verdict."""
    found = list(verdicts)
    return {verdict: found.count(verdict) for verdict in (HOLDS, FAILS, OPEN, SHARED)}


def _notes(table: Table) -> list[str]:
    meanings, used = paper.document()["statistics"], dict.fromkeys(table.column("statistic"))
    counts = []
    for preset in sorted(set(table.column("preset")), key=PRESETS.index):
        found = tally(row[COLUMNS.index("verdict")] for row in table.rows if row[COLUMNS.index("preset")] == preset)
        counts.append(f"{preset}: " + ", ".join(f"{verdict} {count}" for verdict, count in found.items()))
    return [
        "; ".join(counts) + ".",
        "Effects have the sign that makes what the paper says positive, with intervals over seeds that hold together "
        "with 95% for each claim: Welch's or Student's, of standard deviations (divisor n - 1) normal-theory ones, of "
        "medians bootstrap ones; a single run has none. If a claim is about several noise levels, the worst is shown. "
        f"A claim is decided from {FEWEST_SEEDS} seeds of each method on ({FEWEST_DRAWN} where intervals are bootstrap "
        "ones), if the interval, which is as wide as so few seeds make it, is wholly on one side; with fewer seeds it "
        "is inconclusive. If a method of the claim was not run or not measured, or was trained with other settings "
        "than the one it is compared with, the claim cannot hold. The moment a threshold was passed is known up to the "
        "spacing of evaluations, by which intervals are widened. A method of which no run arrives is judged by that. "
        "Numbers of seeds that would settle a claim assume that effects and spreads stay as observed; hours are those "
        "of every run of the named grids.",
        "For claims that something is similar or small, effects are plain differences, and up to "
        f"{MARGIN:.0%} of what is compared counts as similar or small; what the paper calls substantial, significant "
        "or large must exceed that. A claim that one method is above or below another is also refuted by an interval "
        f"without any effect over {NEGLIGIBLE:.0%} in its direction: of the return, for what is in units of return "
        "(returns, what noise costs, spreads of returns); else of what is compared. Exempt are claims that say "
        "“slightly”, probabilities, and what is counted.",
        f"Some claims need fewer seeds. {', '.join(COUNTED)} are counted and not sampled: one run of each method is "
        "enough, and intervals are the range over all pairs of runs. SAC and PPO have no dictionaries, and their "
        "operations need no run. Where other methods were not run and the claim is open without them, the operations "
        "of all are counted from today's settings, for dictionaries of the size after the warm-up, half full and full, "
        "which have to agree. What can be reached is proved, and what cannot be reached is refuted, by one run whose "
        "interval over its episodes does it.",
        f"{', '.join(CLOCKS)} are measured by the clock, and only in trainings that had a machine to themselves "
        "(`benchmarks/time_to_solution.py`); the runs of this study shared theirs. Without such trainings of every "
        f"method a claim is {SHARED}. Effects are relative differences.",
        "Statistics: " + "; ".join(f"`{name}`, {meanings[name]}" for name in used) + ".",
    ]

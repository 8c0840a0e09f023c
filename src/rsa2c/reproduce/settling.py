"""What would settle a claim that is open: the runs that are missing, how many seeds its noise would take, the command
that makes them and its hours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.reproduce import effort
from rsa2c.reproduce.alone import AGENT_OF
from rsa2c.reproduce.earlier import used
from rsa2c.reproduce.findings import OPEN, SHARED, Comparison, Finding, combined
from rsa2c.reproduce.measures import COUNTED, FEWEST_DRAWN, FEWEST_SEEDS, fewest_seeds
from rsa2c.reproduce.present import has_other_steps, other_settings
from rsa2c.reproduce.selection import TWINS, WHOLE, Selection
from rsa2c.reproduce.versions import Plan
from rsa2c.statistics import LEVEL, Estimate

LADDER = (*range(FEWEST_SEEDS, 10), 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000)
"""Numbers of seeds that are tried; beyond the last one a claim is as good as open for ever."""


def settle(study: Selection, finding: Finding) -> str:
    """What would settle an open claim, empty for one that is settled.

    Numbers of seeds are those at which the claim would be settled if every effect and spread stayed as observed.
    """
    if finding.verdict == SHARED:
        return _clocked(study, finding)
    if finding.verdict != OPEN:
        return ""
    methods = list(finding.seeds) or finding.missing
    if finding.without_runs:
        ours = [name for name in methods if name not in BASELINES]
        return "; ".join(["one run of each, which shows the size of its dictionaries",
                          *_commands(study, finding, ours, 1)])  # fmt: skip
    if _earlier(study, finding):
        return "; ".join(["runs with today's settings", *_commands(study, finding, methods)])
    said, enough = _missing(finding), enough_seeds(finding)
    if enough is not None and enough > fewest_seeds(finding.claim.statistic):
        return "; ".join([f"about {enough:,} seeds of each", *_commands(study, finding, methods, enough)])
    if finding.conflicts:
        said.append("runs with equal settings")
    elif not said and finding.claim.statistic in COUNTED:
        said.append("nothing: runs of one method differ")
    elif enough is None and _is_blurred(finding):
        said.append("evaluations closer together: their spacing hides the effect")
    elif not said:
        said.append(f"more than {LADDER[-1]:,} seeds of each: too close to call")
    return "; ".join([*said, *_commands(study, finding, _lacking(finding))])


def _clocked(study: Selection, finding: Finding) -> str:
    """The trainings alone that a claim about the clock lacks, and what makes them."""
    names, is_whole = finding.missing, finding.claim.statistic == WHOLE
    script = f"python benchmarks/time_to_solution.py --environment {finding.environment}"
    script += f" --seeds 0-{FEWEST_DRAWN - 1} --agents {','.join(AGENT_OF[name] for name in names)}"
    script += "" if finding.preset == "default" else f" --preset {finding.preset}"
    script += " --whole" if is_whole else ""
    plans = [plan for name in _trained(names) if (plan := _plan(study, finding, name))]
    hours = effort.duration(FEWEST_DRAWN * sum(effort.seconds(study, plan) for plan in plans))
    most = f" ({hours} a simulator{'' if is_whole else ' at most'})" if plans else ""
    return f"trainings of {', '.join(names)} that have a machine to themselves: `{script}`{most}"


def _lacking(finding: Finding) -> list[str]:
    """The methods of which there are no runs, or too few, or none that measured what the claim is about."""
    fewest = fewest_seeds(finding.claim.statistic)
    few = [name for name, count in finding.seeds.items() if count < fewest]
    return list(dict.fromkeys(_trained([*finding.missing, *few, *finding.unmeasured])))


def _missing(finding: Finding) -> list[str]:
    """The runs without which the claim is open whatever the others say."""
    fewest = fewest_seeds(finding.claim.statistic)
    counted = finding.claim.statistic in COUNTED
    decides = counted or finding.claim.one_run == "proves"
    found = []
    if missing := _trained(finding.missing):
        found.append(f"{'one run' if decides else f'{fewest} seeds'} of {', '.join(missing)}")
    few = {name: fewest - finding.seeds[name] for name in _trained(finding.seeds)
           if 0 < finding.seeds[name] < fewest}  # fmt: skip
    for lacking in sorted(set(few.values())):
        names = [name for name, count in few.items() if count == lacking]
        found.append(f"{lacking} more seed{'s' if lacking > 1 else ''} of {', '.join(names)}")
    if unmeasured := [name for name in finding.unmeasured if name not in few]:
        found.append(f"runs of {', '.join(unmeasured)} that measured it")
    return found


def _trained(names: Iterable[str]) -> list[str]:
    """The methods that would be trained: not one whose runs are another's."""
    return [name for name in names if name not in TWINS]


def enough_seeds(finding: Finding) -> int | None:
    """How many seeds of each method would decide the comparisons that were made; None if no number would."""
    if finding.claim.statistic in COUNTED or not finding.comparisons:
        return None
    absent = {*finding.missing, *finding.unmeasured}

    def verdict(seeds: float) -> str:
        return combined(finding.claim, [projected(item, seeds) for item in finding.comparisons], absent)

    return next((seeds for seeds in LADDER if verdict(seeds) != OPEN), None)


def _is_blurred(finding: Finding) -> bool:
    """Whether the spacing of evaluations hides an effect, however many seeds there are."""
    undecided = [item for item in finding.comparisons if projected(item, LADDER[-1]).verdict == OPEN]
    return any(projected(item, np.inf).verdict == OPEN for item in undecided if item.blur > 0.0)


def _earlier(study: Selection, finding: Finding) -> list[str]:
    """The methods whose runs are of an earlier version of the study, which its grids would make again."""
    old = {item.algorithm for item in used(study, finding)
           if has_other_steps(item, study.plans) or other_settings(item, study.plans)}  # fmt: skip
    return [name for name in _trained(finding.seeds) if name in old]


def _commands(study: Selection, finding: Finding, names: Iterable[str], seeds: int = 0) -> list[str]:
    """The command that makes the runs of these methods, and the methods that no grid of the study trains."""
    plans = {name: _plan(study, finding, name) for name in _trained(dict.fromkeys(names))}
    known = [plan for plan in plans.values() if plan]
    absent = [name for name, plan in plans.items() if plan is None]
    said = [effort.command(study, known, seeds)] if known else []
    if absent and study.plans:
        said.append(f"no grid of the study trains {', '.join(absent)} so")
    return said


def _plan(study: Selection, finding: Finding, name: str) -> Plan | None:
    """What the study asks of a method in the setting that the claim is about."""
    own = PRESET if name in BASELINES else finding.preset
    for plan in study.plans.values():
        job, fields = plan.job, plan.job.fields
        is_plain = not job.changes and not fields.get("noise_variance")
        useless = bool(fields.get("distractors")) == (finding.claim.statistic == "distractor_return")
        if (job.environment, job.algorithm, job.preset) == (finding.environment, name, own) and is_plain and useless:
            return plan
    return None


def projected(item: Comparison, seeds: float) -> Comparison:
    """A comparison as it would be with that many seeds a side: the same effect, and an interval that is narrower as
    Student's is, but for what the spacing of evaluations adds. One run has no interval to begin with."""
    if not item.effect.has_interval or seeds <= item.seeds:
        return item
    effect, scale = item.effect, _half_width(seeds) / _half_width(item.seeds)
    below, above = (max(side - item.blur, 0.0) * scale + min(side, item.blur)
                    for side in (effect.value - effect.low, effect.high - effect.value))  # fmt: skip
    count = int(min(seeds, LADDER[-1]))
    return replace(item, effect=Estimate(effect.value, effect.value - below, effect.value + above), seeds=count)


def _half_width(seeds: float) -> float:
    """Half of Student's interval of the mean of that many numbers with a standard deviation of one."""
    from scipy.stats import t

    return float(t.ppf((1.0 + LEVEL) / 2.0, seeds - 1.0) / np.sqrt(seeds)) if np.isfinite(seeds) else 0.0

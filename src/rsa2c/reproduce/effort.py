"""The command that makes runs of a study, and about how long it takes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rsa2c.reproduce import counted
from rsa2c.reproduce.present import other_settings
from rsa2c.reproduce.selection import Selection
from rsa2c.reproduce.versions import Plan

OPERATIONS = {True: 1.9e10, False: 5e9}
"""Operations that one core does in a second, of a baseline and of ours: recorded runs of SAC on Pendulum-v1 and of
RSA2C on Ant-v5 have these."""
SIMULATION = {True: 2e-3, False: 5e-5}
"""Seconds of simulation per step likewise: Gymnasium in Python, and EnvPool or arrays."""


def command(study: Selection, plans: Iterable[Plan], seeds: int = 0) -> str:
    """The command that runs the grids of these plans, with so many seeds if not with their own, and its hours."""
    asked = list(plans)
    names = list(dict.fromkeys(plan.grid for plan in asked))
    own = min(plan.seeds for plan in asked)
    option = f" --seeds {seeds}" if seeds not in (0, own) else ""
    text = f"rsa2c reproduce {asked[0].target} --grids {' '.join(names)}{option}"
    runs = [(plan, seeds or plan.seeds) for plan in study.plans.values() if plan.grid in names]
    total = sum(count * seconds(study, plan) for plan, count in runs)
    return f"`{text}` ({sum(count for _, count in runs):,} runs, {duration(total)} on one core)"


def seconds(study: Selection, plan: Plan) -> float:
    """About how long a run takes: as long as recorded ones of the same variant and settings did, else by its
    operations with dictionaries as full as those of the preset's earlier runs, or full."""
    job = plan.job
    same = [
        item.seconds / item.steps
        for item in study.records
        if (item.environment, item.algorithm, item.preset) == (job.environment, job.algorithm, job.preset)
        and not item.varied and not other_settings(item, study.plans)
    ]  # fmt: skip
    if same:
        return float(np.median(same)) * job.total_timesteps
    preset = "default" if job.is_baseline else job.preset
    filled = [
        item.states / item.capacity
        for item in study.records
        if (item.environment, item.preset) == (job.environment, job.preset) and item.capacity
    ]
    states = round(counted.sizes(job.environment, preset)[-1] * (float(np.median(filled)) if filled else 1.0))
    one = counted.counted(job.environment, preset, job.algorithm, states)
    each = 1e9 * one.gflop / one.steps / OPERATIONS[job.is_baseline] + SIMULATION[job.is_baseline]
    return each * job.total_timesteps


def duration(seconds: float) -> str:
    """Seconds in words, with two digits."""
    if seconds < 90:
        return "about a minute"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    hours = seconds / 3600
    return f"about {float(f'{hours:.2g}'):,.0f} hours" if hours >= 10 else f"about {hours:.1f} hours"

"""`rsa2c profile`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import tyro

from rsa2c.cli.command import Flag, command, parse, typed_env


@dataclass
class ProfileOptions:
    """Which run, and how long to measure."""

    run: tyro.conf.Positional[str]
    """Run folder, its name under ./runs, a model file, or zoo:ID (`rsa2c zoo` lists them)."""
    epochs: int = 10
    """Epochs to time; two more before them warm up and measure memory."""
    env: str | None = None
    """The environment as module:Name, where the run was trained on one of your own: a run folder imports nothing."""
    json: Flag = False
    """Print JSON."""


@command
def profile(arguments: list[str]) -> None:
    """Where an epoch's time goes: milliseconds, operations and memory of each phase.

    The agent trains on in memory, from its last checkpoint; the files are only read. GFLOP are counted by formula
    (rsa2c.cost), without what the environment computes, and attributions only in the epochs in which they are due.
    """
    options = parse(ProfileOptions, arguments, profile)
    from rsa2c.cost.profile import profile as measure
    from rsa2c.runs.source import opened

    data = opened(options.run, typed_env(options.env))
    agent = data.kernel_agent
    try:
        found = measure(agent, options.epochs)
    finally:
        agent.close()
    if options.json:
        context = {"run": data.name, "environment": agent.env_id, "algorithm": agent.algorithm}
        print(json.dumps({**context, **asdict(found)}, indent=2, allow_nan=False))
        return
    print(f"{agent.env_id}, {agent.algorithm}: {found.epochs} epochs of {found.transitions:,} steps, ", end="")
    print(f"{found.actor_states} and {found.value_states} states, {found.attributions} attributions")
    print(f"{'phase':<10}{'ms':>10}{'share':>8}{'GFLOP':>11}{'GFLOP/s':>10}{'peak MB':>10}{'formula MB':>12}")
    for row in found.phases:
        rate = f"{row.gflops:.1f}" if row.gflop else "-"
        print(
            f"{row.phase:<10}{row.milliseconds:>10.2f}{row.share:>8.1%}{row.gflop:>11.5f}{rate:>10}"
            f"{row.peak_mb:>10.1f}{row.estimated_mb:>12.1f}"
        )
    print(f"{'epoch':<10}{found.milliseconds:>10.2f}{'':>8}{found.gflop:>11.5f}", end="")
    print(f"{1e3 * found.gflop / found.milliseconds:>10.1f}   process peak {found.process_mb:.0f} MB")

"""`rsa2c tune`."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from rsa2c.cli.command import Flag, choice, command, keyword_arguments, parse, program, typed_env
from rsa2c.config import ALGORITHMS


@dataclass
class TuneOptions:
    """What to tune, and how long."""

    env: tyro.conf.Positional[str]
    """Gymnasium id, such as Pendulum-v1; module:Id or module:Class of your own; dm:CheetahRun-v1 for dm_control's tasks
    (EnvPool)."""
    trials: int = 30
    """Trials in all; those that the folder has already count."""
    total_timesteps: int | None = None
    """Environment steps of each training; unset: a number that suits the environment."""
    seeds: int = 1
    """Agents that each trial trains, from seed 1000 on; their mean return is the trial's score."""
    episodes: int = 20
    """Episodes of each evaluation."""
    algorithm: Annotated[str, choice(*ALGORITHMS)] = "rsa2c-kme"
    """Variant of the method."""
    env_kwargs: tuple[str, ...] = ()
    """Arguments of the environment, as key=value."""
    out: str | None = None
    """Folder of the search; unset: runs/tune-<env>."""
    quiet: Flag = False
    """Show no progress."""


@command
def tune(arguments: list[str]) -> None:
    """Search for settings that suit an environment (extra `tune`); if started again, it continues.

    Trials vary kl, gamma, gae_lambda, value_lambda, value_ridge, length_scale, capacity and policy_decay around the
    preset, which is the first trial. A trial below the median of the others is given up.
    """
    options = parse(TuneOptions, arguments, tune)
    typed_env(options.env)
    from rsa2c.runs.evaluation import terminations_interrupt
    from rsa2c.runs.tuning import BEST
    from rsa2c.runs.tuning import tune as searched

    out = Path(options.out) if options.out else Path("runs") / f"tune-{re.sub(r'[/:]', '-', options.env)}"
    again = f"{program()} tune {' '.join(arguments)}"
    try:
        with terminations_interrupt():
            found = searched(
                options.env,
                options.algorithm,
                options.total_timesteps,
                out,
                trials=options.trials,
                seeds=options.seeds,
                episodes=options.episodes,
                env_kwargs=keyword_arguments(options.env_kwargs),
                show=None if options.quiet else _show,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted; finished trials are kept in {out}.\nContinue with: {again}") from None
    print(f"{options.env}: {found.trials} trials, {found.given_up} of them given up early")
    print(f"  preset  {found.preset_score:.2f}")
    print(f"  best    {found.score:.2f}")
    print(f"  flags   {found.flags or '(none: the preset is best)'}")
    print(f"  file    {found.folder / BEST}\n")
    print(found.document, end="")
    print("\nThe best of many trials is partly luck: try it on other seeds.")
    if found.search.registered:
        print(f"next: {program()} sweep {found.folder / BEST}")


def _show(number: int, score: float | None, settings: dict[str, Any]) -> None:
    result = "given up" if score is None else f"{score:.2f}"
    changed = ", ".join(f"{name} {value}" for name, value in settings.items()) or "the preset"
    print(f"trial {number + 1:>3}  {result:>10}  {changed}", file=sys.stderr)

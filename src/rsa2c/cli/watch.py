"""`rsa2c watch`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from rsa2c.cli.command import command, parse, typed_env


@dataclass
class WatchOptions:
    """Which agent, which episode, and where to write."""

    run: tyro.conf.Positional[str]
    """Run folder, its name under ./runs, a model file, or zoo:ID (`rsa2c zoo` lists them)."""
    out: str | None = None
    """File to write, .gif or .mp4; unset: episode.gif in the run folder, or episode-<name>.gif beside a model file and,
    for the zoo, in the current folder."""
    seed: int = 0
    """Seed of the episode, as in `rsa2c evaluate`."""
    frames: int = 200
    """Most frames; of a longer episode every second step is shown, or every third, ..."""
    picture: Literal["auto", "environment", "chart"] = "auto"
    """The environment's own drawing, a chart of the features, or the first where it works."""
    env: str | None = None
    """The environment as module:Name, where the run was trained on one of your own: a run folder imports nothing."""


@command
def watch(arguments: list[str]) -> None:
    """Write an episode as GIF or MP4, with what each feature adds to the action (extra `watch`)."""
    options = parse(WatchOptions, arguments, watch)
    from rsa2c.report.watch import watch as filmed
    from rsa2c.runs.source import opened

    data = opened(options.run, typed_env(options.env))
    agent = data.kernel_agent
    out = Path(options.out) if options.out else data.output("episode.gif")
    written = filmed(agent, out, options.seed, options.frames, options.picture)
    episode = written.episode
    print(f"{agent.env_id}, {agent.algorithm}, seed {episode.seed}: return {episode.total:.2f} in ", end="")
    print(f"{len(episode.rewards)} steps, {episode.ended}")
    print(f"  {written.frames} frames  {'the environment draws' if written.drawn else 'chart of the features'}")
    print(f"  file  {written.path}")

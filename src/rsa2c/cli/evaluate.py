"""`rsa2c evaluate`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

import tyro

from rsa2c.cli.command import Flag, command, parse


@dataclass
class EvaluateOptions:
    """Which run, and under which conditions."""

    run: tyro.conf.Positional[str]
    """Run folder, or its name under ./runs."""
    episodes: int = 100
    """Episodes, started from seed, seed + 1, ..."""
    noise_variance: float = 0.0
    """Variance of Gaussian noise added to the observations, in raw units."""
    seed: int = 0
    """Seed of the first episode."""
    json: Flag = False
    """Print JSON, with every return."""


@command
def evaluate(arguments: list[str]) -> None:
    """Returns of a run's agent over fixed-seed episodes of Gymnasium's own environment."""
    options = parse(EvaluateOptions, arguments, evaluate)
    from rsa2c.evaluate import evaluate as measure
    from rsa2c.store import Run
    from rsa2c.training import load_agent, longest_episode

    run = Run.open(options.run)
    agent = load_agent(run)
    result = measure(
        agent,
        agent.env_id,
        episodes=options.episodes,
        noise_variance=options.noise_variance,
        distractors=agent.config.distractors,
        seed=options.seed,
        max_steps=longest_episode(agent),
    )
    if options.json:
        interval = [bound if math.isfinite(bound) else None for bound in result.interval()]
        summary = {"mean": result.mean, "std": result.std, "interval": interval}
        series = {"returns": result.returns.tolist(), "lengths": result.lengths.tolist()}
        asked = {key: value for key, value in asdict(options).items() if key not in ("json", "run")}
        context = {"run": str(run.path), "environment": agent.env_id, "num_timesteps": agent.num_timesteps}
        print(json.dumps({**context, **asked, **summary, **series}, indent=2, allow_nan=False))
        return
    low, high = result.interval()
    noise = f"{options.noise_variance:g} (standard deviation {options.noise_variance**0.5:g})"
    print(f"{agent.env_id}, {agent.algorithm}, {agent.num_timesteps:,} steps")
    print(f"mean return      {result.mean:.2f}   95% interval {low:.2f} to {high:.2f}")
    print(f"over episodes    standard deviation {result.std:.2f}, worst {result.returns.min():.2f}")
    print(f"{options.episodes} episodes from seed {options.seed}, noise variance {noise}")

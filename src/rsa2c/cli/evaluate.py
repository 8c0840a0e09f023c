"""`rsa2c evaluate`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Literal

import tyro

from rsa2c.cli.command import Flag, command, parse, typed_env
from rsa2c.errors import ConfigError


@dataclass
class EvaluateOptions:
    """Which run, and under which conditions."""

    run: tyro.conf.Positional[str]
    """Run folder, its name under ./runs, a model file, or zoo:ID (`rsa2c zoo` lists them)."""
    episodes: int = 100
    """Episodes, started from seed, seed + 1, ..."""
    noise_variance: float = 0.0
    """Variance of Gaussian noise added to the observations, in raw units."""
    attack: Literal["random", "mad", "critic", "box"] | None = None
    """Perturb what the agent sees: at random, to change the action most (mad), to the action its critic thinks worst
    (critic), or by a search without gradients (box)."""
    epsilon: float | None = None
    """Size of the attack's perturbations, in raw units."""
    norm: Literal["l2", "linf"] = "l2"
    """Norm in which that size is measured."""
    seed: int = 0
    """Seed of the first episode."""
    env: str | None = None
    """The environment as module:Name, where the run was trained on one of your own: a run folder imports nothing."""
    json: Flag = False
    """Print JSON, with every return."""


@command
def evaluate(arguments: list[str]) -> None:
    """Returns of a run's agent over fixed-seed episodes of Gymnasium's own environment."""
    options = parse(EvaluateOptions, arguments, evaluate)
    if (options.attack is None) != (options.epsilon is None):
        raise ConfigError("--attack and --epsilon go together: give both, or neither.")
    from rsa2c.robustness.attacks import make_attack
    from rsa2c.runs.evaluation import evaluate_policy
    from rsa2c.runs.source import opened
    from rsa2c.statistics.words import shown

    data = opened(options.run, typed_env(options.env))
    agent = data.agent
    attack = None
    if options.attack is not None and options.epsilon is not None:
        attack = make_attack(options.attack, agent, options.epsilon, options.norm)
    result = evaluate_policy(agent, options.episodes, options.noise_variance, options.seed, attack=attack)
    if options.json:
        interval = [bound if math.isfinite(bound) else None for bound in result.interval()]
        summary = {"mean": result.mean, "std": result.std, "interval": interval}
        series = {"returns": result.returns.tolist(), "lengths": result.lengths.tolist()}
        asked = {key: value for key, value in asdict(options).items() if key not in ("env", "json", "run")}
        context = {"run": data.name, "environment": agent.env_id, "num_timesteps": data.steps}
        print(json.dumps({**context, **asked, **summary, **series}, indent=2, allow_nan=False))
        return
    low, high = result.interval()
    noise = f"{options.noise_variance:g} (standard deviation {options.noise_variance**0.5:g})"
    print(f"{agent.env_id}, {agent.algorithm}, {data.steps:,} steps{data.which_acts}")
    least, most, spread, worst = (shown(x, 2, result.mean) for x in (low, high, result.std, result.returns.min()))
    between = f"   95% interval {least} to {most}" if math.isfinite(low) else ""
    print(f"mean return      {shown(result.mean, 2)}{between}")
    print(f"over episodes    standard deviation {spread}, worst {worst}")
    under = f", attack {options.attack} of {options.norm} size {options.epsilon:g}" if attack else ""
    count = f"{options.episodes} episode{'s' if options.episodes > 1 else ''}"
    print(f"{count} from seed {options.seed}, noise variance {noise}{under}")

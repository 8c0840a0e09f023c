"""What every training in a run folder needs: the fixed-seed evaluation, and signals that stop it cleanly."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rsa2c.agent import RSA2C
from rsa2c.baselines.policy import Baseline
from rsa2c.envs import Source
from rsa2c.envs.known import find
from rsa2c.evaluation import EvaluationResult, evaluate
from rsa2c.runs.folder import Run
from rsa2c.signals import handlers

EVALUATION_SEED = 10_000
"""First seed of the evaluations' episodes: far from the seeds of runs and of `rsa2c evaluate`."""

GAP_STARTS = 200
"""Starts of the optimality gap along training; tables take 1,000."""


class TrainingInterrupted(KeyboardInterrupt):
    """A signal stopped a run; `kept` says what its folder has."""

    def __init__(self, run: Run, kept: str) -> None:
        super().__init__(f"Interrupted; {kept}.\nContinue with: rsa2c resume {run.path}{run.env_option}")


def evaluate_agent(agent: RSA2C | Baseline) -> EvaluationResult:
    """The fixed-seed evaluation of a run's learning curve, under the noise it trains with."""
    config = agent.config
    return evaluate_policy(agent, config.evaluation_episodes, config.noise_variance, seed=EVALUATION_SEED)


def evaluate_policy(
    agent: RSA2C | Baseline, episodes: int, noise_variance: float = 0.0, seed: int = 0, **options: Any
) -> EvaluationResult:
    """`evaluate` in the environment that an agent was trained on, with its distractors and its longest episode."""
    return evaluate(
        agent,
        agent.source if isinstance(agent, RSA2C) else Source(id=agent.env_id),
        episodes=episodes,
        noise_variance=noise_variance,
        distractors=agent.config.distractors,
        distractor_kind=agent.config.distractor_kind,
        seed=seed,
        step_timeout=agent.config.step_timeout,
        **options,
    )


def optimality_gap(agent: RSA2C | Baseline) -> float:
    """Relative excess cost of the deterministic policy over the optimum, on a few fixed starts.

    NaN if the environment's optimum is not known.
    """
    known = find(agent.env_id)
    if known is None or known.optimality_gap is None or not isinstance(agent, RSA2C):
        return float("nan")
    return known.optimality_gap(agent.policy_mean, GAP_STARTS)


@contextmanager
def terminations_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP act as Ctrl-C does, if handlers can be set (in the main thread).

    Signals that are ignored stay ignored, as `nohup` asks.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heeded = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    with handlers(interrupt, *heeded):
        yield


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Only SIGKILL can interrupt what is written meanwhile."""
    with handlers(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield

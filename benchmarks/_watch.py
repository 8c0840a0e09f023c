"""A clock of training that pauses while the policy is evaluated."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import rsa2c

FIRST_SEED = 10_000
"""Seed of the first start state: far from the seeds of trainings."""
OTHER_STARTS = 100


@dataclass
class Solution:
    """When the goal was first reached, in wall-clock and CPU seconds; infinite if it was not."""

    seconds: float
    cpu_seconds: float
    steps: int
    mean_return: float
    before: float = 0.0
    """Wall-clock seconds of training at the last evaluation that did not reach it; zero if there was none."""
    elsewhere: float = np.nan
    """Mean return from other starts of the policy that reached it."""


class Watch:
    """Counts the seconds of training until the mean return over fixed start states reaches a goal."""

    def __init__(self, env_id: str, goal: float, episodes: int, apart: int = 0) -> None:
        self.env_id, self.goal, self.episodes = env_id, goal, episodes
        self.apart, self.last = apart, -apart
        self.policy: Any = None
        self.taken, self.since = np.zeros(2), _now()
        self.solution = Solution(np.inf, np.inf, 0, -np.inf)

    def tried(self, steps: int) -> bool:
        """Evaluate unless fewer steps than `apart` have passed since the last time; return whether the goal is
        reached."""
        if steps - self.last < self.apart:
            return False
        self.last = steps
        return self.solved(steps)

    def solved(self, steps: int) -> bool:
        """Evaluate now; return whether the goal is reached."""
        self.taken += _now() - self.since
        mean = rsa2c.evaluate(self.policy, self.env_id, episodes=self.episodes, seed=FIRST_SEED).mean
        done = mean >= self.goal
        wall, cpu = self.taken if done else (np.inf, np.inf)
        before = self.solution.before if done else float(self.taken[0])
        self.solution = Solution(float(wall), float(cpu), steps, mean, before)
        self.since = _now()
        return done

    def confirmed(self) -> Solution:
        """The solution, with what the policy is worth from starts that did not decide when to stop."""
        seed = FIRST_SEED + self.episodes
        mean = rsa2c.evaluate(self.policy, self.env_id, episodes=OTHER_STARTS, seed=seed).mean
        return replace(self.solution, elsewhere=mean)


def _now() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])

"""What the fidelity benchmark trains: tasks, some of whose true importances are known, and one agent for each seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from _suite_tasks import MILLION
from rsa2c import RSA2C
from rsa2c.config import default_timesteps

STEP, DRAG, LIMIT = 0.1, 0.1, 100
PLANTS = 100_000
"""Environment steps of the tasks that are not Gymnasium's."""
LQR = "rsa2c/LQR-v0"


class TwoCarts(gym.Env[Any, Any]):
    """Two carts with drag, alike in everything and each with a force of its own; the reward knows the first alone.

    s = (x1, v1, x2, v2), x' = x + 0.1 v, v' = 0.9 v + 0.1 u, reward -(x1^2 + 0.1 v1^2 + 0.01 u1^2). So value and first
    force of a good policy do not depend on the second cart, and nothing says what the second force should be.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self) -> None:
        self.state = np.zeros(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 4)
        return self.state.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        u = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
        x, v = self.state[::2], self.state[1::2]
        reward = -(x[0] ** 2 + 0.1 * v[0] ** 2 + 0.01 * u[0] ** 2)
        self.state = np.column_stack([x + STEP * v, (1 - DRAG) * v + STEP * u]).ravel()
        return self.state.copy(), float(reward), False, False, {}


def two_carts() -> gym.Env[Any, Any]:
    return TimeLimit(TwoCarts(), LIMIT)


@dataclass(frozen=True)
class Task:
    """An environment, and what is known about importances in it."""

    env: str | Callable[[], Any]
    steps: int
    seeds: int = 5
    settings: dict[str, Any] = field(default_factory=dict)
    ignored: tuple[int, ...] = ()
    """Features that the reward ignores."""
    output: int = 0
    """The action dimension that the reward judges, where some features are ignored."""


TASKS = {
    "Pendulum-v1": Task("Pendulum-v1", default_timesteps("Pendulum-v1")),
    LQR: Task(LQR, default_timesteps(LQR)),
    # attributed more often than by default, for which its 25 epochs are too few to be guided
    "two carts": Task(two_carts, PLANTS, settings={"attribution_every": 2}, ignored=(2, 3)),
    "Pendulum-v1 and its twin": Task(
        "Pendulum-v1", PLANTS, settings={"distractors": 3, "distractor_kind": "twin"}, ignored=(3, 4, 5)
    ),
    "Hopper-v5": Task("Hopper-v5", MILLION, seeds=2),
}


def path_of(name: str, seed: int, folder: Path) -> Path:
    """Where the agent of a task and a seed is."""
    return folder / f"{name.replace('/', '-').replace(' ', '-')}__s{seed}.safetensors"


def trained(name: str, seed: int, folder: Path, steps: int | None = None) -> RSA2C:
    """The agent of a task and a seed: from its file if there is one, else trained and saved there.

    `steps` are the task's unless given.
    """
    path = path_of(name, seed, folder)
    if not path.exists():
        task = TASKS[name]
        folder.mkdir(parents=True, exist_ok=True)
        agent = RSA2C(task.env, seed=seed, **task.settings)
        agent.learn(steps or task.steps)
        agent.save(path)
        agent.close()
    return RSA2C.load(path)

"""Made-up trained agents of every shape that can be exported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rsa2c.algorithm.actor import ActionBounds, GaussianPolicy
from rsa2c.algorithm.following import Scale
from rsa2c.algorithm.state import TrainingState
from rsa2c.algorithm.task import Task
from rsa2c.algorithm.weights import Importances
from rsa2c.config import Config
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.trained import Trained


def made(kernel="rbf", squash="tanh", q=40, d=5, m=3, seed=0, value=True, knee=None) -> Trained:
    """An agent with random tables: unequal weights, a clip that some states meet, unequal action ranges."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=d), rng.uniform(0.5, 2, d)
    visited = mean + std * rng.normal(size=(64, d))

    def function(names, weights, size):
        metric = Metric(mean, std, 2.5 if knee is None else 1000.0, weights, knee)
        chosen = kernel_from_name(kernel, 1.5 * np.sqrt(d), metric)
        dictionary = Dictionary.empty(chosen).grown(mean + std * rng.normal(size=(8 * q, d)), 1e-6, q)
        coefficients = size * rng.normal(size=(dictionary.size, len(names)))
        return RKHSFunction(dictionary, coefficients, names, rng.normal(size=len(names)))

    names = tuple(f"joint {i}" for i in range(m))
    policy_mean = replace(function(names, rng.uniform(0.2, 3, d), 1.0), offset=np.zeros(m))
    low, high = -rng.uniform(0.5, 3, m), rng.uniform(0.5, 3, m)
    if squash == "none":
        low, high = np.full(m, -np.inf), np.full(m, np.inf)
    policy = GaussianPolicy(policy_mean, np.full(m, 0.3), ActionBounds(low, high, squash))
    critic = function(("value",), np.ones(d), 20.0) if value else None
    state = TrainingState(policy, critic, policy_mean, Importances.none(d), Scale.of(visited), visited, 1, 100, 10)
    task = Task("rsa2c/Made-v0", False, None, tuple(f"x{i} (m/s)" for i in range(d)), names)
    return Trained(task, Config(), state)


def observations(agent: Trained, count=1000, seed=1) -> np.ndarray:
    """Raw states: most as visited, some far outside, where inputs are clipped."""
    rng = np.random.default_rng(seed)
    visited = agent.background[rng.integers(len(agent.background), size=count)]
    spread = visited.std(axis=0) * rng.choice([0.3, 5.0], size=(count, 1), p=[0.8, 0.2])
    return visited + spread * rng.normal(size=visited.shape)

"""An environment with the functional interface of Brax and MuJoCo Playground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax


@jax.tree_util.register_dataclass
@dataclass
class State:
    """A state as Brax's environments have it."""

    obs: Any
    reward: Any
    done: Any


class Integrator:
    """It is rewarded near zero and ends far away."""

    observation_size, action_size = 2, 1

    def __init__(self, far=3.0):
        self.far = far

    def reset(self, key):
        return State(jax.random.uniform(key, (2,), minval=-1.0), jax.numpy.zeros(()), jax.numpy.zeros(()))

    def step(self, state, action):
        place, speed = state.obs
        speed = speed + 0.1 * action[0]
        obs = jax.numpy.stack([place + 0.1 * speed, speed])
        return State(obs, 1.0 - place**2, (abs(obs[0]) > self.far).astype(float))


class Short(Integrator):
    """Its episodes are truncated early, and its numbers have names."""

    episode_limit = 30
    observation_names, action_names = ("place", "speed"), ("force",)

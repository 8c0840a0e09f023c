"""Environments of `rsa2c.gpu` as Brax has them, and Brax's PPO as it runs on the JAX that is installed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from brax.envs.base import Env, State
from brax.training.agents.ppo import train as ppo

from rsa2c.gpu.environments import Environment

__all__ = ["Simulated", "ppo"]


class Simulated(Env):
    """An environment whose actions lie in [-1, 1]; a simulation that diverged ends its episode."""

    def __init__(self, env: Environment) -> None:
        self._env, self._middle, self._half = env, (env.low + env.high) / 2, (env.high - env.low) / 2

    def reset(self, rng: Any) -> State:
        state, zero = self._env.reset(rng), jnp.zeros(())
        return State(state, self._env.observe(state), zero, zero)

    def step(self, state: State, action: Any) -> State:
        action = self._middle.astype(np.float32) + self._half.astype(np.float32) * action
        after, reward, terminated, truncated = self._env.step(state.pipeline_state, action)
        done = (terminated | truncated).astype(jnp.float32)
        return state.replace(pipeline_state=after, obs=self._env.observe(after), reward=reward, done=done)

    @property
    def observation_size(self) -> int:
        return self._env.features

    @property
    def action_size(self) -> int:
        return len(self._env.low)

    @property
    def backend(self) -> str:
        return "mjx"


def _replicated(tree: Any, devices: list[Any]) -> Any:
    """Arrays with an axis in front that lies across the devices; named as Brax does, or its second step is compiled
    anew."""
    sharding = jax.NamedSharding(jax.sharding.Mesh(np.array(devices), ("i",)), jax.P("i"))
    return jax.tree.map(lambda leaf: jax.device_put(jnp.stack([leaf] * len(devices)), sharding), tree)


# JAX 0.11 has it no more, and Brax 0.14.2 calls it once.
jax.device_put_replicated = _replicated

"""Environments as pure functions of arrays, so that thousands of them step side by side on a GPU.

An `Environment` describes one copy; the rollout maps its functions over all of them. States are trees of arrays and
hold all that the next step needs, so a training can stop and go on with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rsa2c.envs import functional, lqr
from rsa2c.envs.known import find
from rsa2c.errors import EnvError, did_you_mean

Array = Any
State = Any
"""A tree of arrays."""


class Environment:
    """One copy of an environment: its spaces, and its start, observation and step as functions."""

    id: str
    features: int
    """Length d of an observation."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """Bounds of an action, (m,) each."""
    episode_limit: int | None
    """Steps after which an episode is truncated."""
    reports_divergence = False
    """Whether an episode that is truncated before its limit is a simulation that diverged."""

    def reset(self, key: Array) -> State:
        """A start state, drawn with `key`."""
        raise NotImplementedError

    def observe(self, state: State) -> Array:
        """The observation (d,) of a state."""
        raise NotImplementedError

    def step(self, state: State, action: Array) -> tuple[State, Array, Array, Array]:
        """The next state, the reward, and whether the episode was terminated or truncated (its limit aside)."""
        raise NotImplementedError


class Pendulum(Environment):
    """Gymnasium's Pendulum-v1, state (theta, theta_dot); `envs/pendulum.py` has the equations."""

    id, features, episode_limit = "Pendulum-v1", 3, 200
    low, high = np.array([-2.0]), np.array([2.0])

    def reset(self, key: Array) -> State:
        high = jnp.array([jnp.pi, 1.0])
        return jax.random.uniform(key, (2,), minval=-high, maxval=high)

    def observe(self, state: State) -> Array:
        return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])

    def step(self, state: State, action: Array) -> tuple[State, Array, Array, Array]:
        angle, speed = state
        torque = jnp.clip(action[0], -2.0, 2.0)
        wrapped = (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
        reward = -(wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = jnp.clip(speed + (15.0 * jnp.sin(angle) + 3.0 * torque) * 0.05, -8.0, 8.0)
        never = jnp.zeros((), bool)
        return jnp.stack([angle + speed * 0.05, speed]), reward, never, never


class LQR(Environment):
    """The benchmark rsa2c/LQR-v0: the matrices and bounds of `envs/lqr.py`."""

    id, features = "rsa2c/LQR-v0", 4
    low, high = np.array([-lqr.ACTION_BOUND]), np.array([lqr.ACTION_BOUND])

    def __init__(self) -> None:
        known = find(self.id)
        assert known is not None, "the benchmark is this package's own"
        self.episode_limit = known.episode_limit

    def reset(self, key: Array) -> State:
        return jax.random.uniform(key, (4,), minval=-lqr.START_HIGH, maxval=lqr.START_HIGH)

    def observe(self, state: State) -> Array:
        return state

    def step(self, state: State, action: Array) -> tuple[State, Array, Array, Array]:
        control = jnp.clip(action, -lqr.ACTION_BOUND, lqr.ACTION_BOUND)
        reward = -(jnp.sum(state**2 * np.diag(lqr.P1)) + lqr.P2 * control[0] ** 2)
        state = lqr.A.astype(state.dtype) @ state + lqr.B.astype(state.dtype) @ control
        return state, reward, jnp.zeros((), bool), jnp.max(jnp.abs(state)) > lqr.STATE_BOUND


class Functional(Environment):
    """An environment with the functional interface of Brax and MuJoCo Playground (`envs/functional.py`).

    Two are equal if they are of the same object with the same limit, so that its programs are compiled once.
    """

    def __init__(self, given: functional.Functional) -> None:
        self._env, self.id, self.features = given.env, given.name, given.features
        self.episode_limit = given.episode_limit
        self.low, self.high = -np.ones(given.actions), np.ones(given.actions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Functional):
            return NotImplemented
        return other._env is self._env and other.episode_limit == self.episode_limit

    def __hash__(self) -> int:
        return id(self._env)

    def reset(self, key: Array) -> State:
        return self._env.reset(key)

    def observe(self, state: State) -> Array:
        return state.obs

    def step(self, state: State, action: Array) -> tuple[State, Array, Array, Array]:
        state = self._env.step(state, action)
        return state, state.reward, state.done.astype(bool), jnp.zeros((), bool)


def _physics(name: str) -> Callable[[], Environment]:
    def made() -> Environment:
        from rsa2c.gpu import robots

        return getattr(robots, name)()

    return made


ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    Pendulum.id: Pendulum,
    LQR.id: LQR,
    **{f"{name}-v5": _physics(name) for name in ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d")},
}
"""What makes the environments that run on a device, by Gymnasium id."""


@cache
def environment(env_id: str) -> Environment:
    """The environment of a Gymnasium id on the device; always the same one, so that its programs are compiled once."""
    if env_id not in ENVIRONMENTS:
        raise EnvError(
            f"{env_id} does not run on a GPU: {', '.join(ENVIRONMENTS)} do, and environments with the functional "
            f"interface of Brax and MuJoCo Playground. Use device='cpu'.{did_you_mean(env_id, ENVIRONMENTS)}"
        )
    return ENVIRONMENTS[env_id]()

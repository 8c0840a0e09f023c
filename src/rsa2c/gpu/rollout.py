"""Rollouts of thousands of environments on the device.

Environments go on from one epoch to the next: where each makes a dozen steps in an epoch, starting afresh would show
starts alone. What they carry over is part of the training's state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.gpu.arrays import Array, Centres, Coordinates, features, measured, padded
from rsa2c.gpu.environments import Environment, State
from rsa2c.gpu.fits import Grid

UNSEEN = np.finfo(np.float32).min
"""In place of an episode's rewards so far: its beginning was not seen. Rewards are too small to change it."""


class Acting(NamedTuple):
    """A policy as arrays: mean, standard deviations (m,) and the correlation of its noise."""

    metric: Coordinates
    centres: Centres
    coefficients: Array
    sigma: Array
    correlation: Array

    @classmethod
    def of(cls, policy: GaussianPolicy, capacity: int, correlation: float = 0.0) -> Acting:
        """That of a policy."""
        mean = policy.mean
        parts = Coordinates.of(mean.kernel), Centres.of(mean.dictionary, capacity), padded(mean.coefficients, capacity)
        return jax.tree.map(np.float32, cls(*parts, policy.sigma, np.float64(correlation)))


class Carried(NamedTuple):
    """What environments carry from one step to the next, each (n, ...)."""

    states: State
    elapsed: Array
    """Steps of the episode so far."""
    noise: Array
    total: Array
    """Rewards of the episode so far; `UNSEEN` in one that is taken to have begun before the training."""


class Ended(NamedTuple):
    """Episodes that ended with a step, (steps, n) each: whether one did that was seen from its start, its return and
    length."""

    which: Array
    totals: Array
    lengths: Array


def begun(env: Environment, n: int, key: Array) -> Carried:
    """Environments at their starts, at different distances from the episode limit, so that they do not end together."""
    first, second, exploring = jax.random.split(key, 3)
    states = jax.vmap(env.reset)(jax.random.split(first, n))
    elapsed = jnp.zeros(n, jnp.int32)
    if env.episode_limit is not None:
        elapsed = jax.random.randint(second, (n,), 0, env.episode_limit, jnp.int32)
    total = jnp.where(elapsed > 0, UNSEEN, jnp.zeros(n, jnp.float32))
    return Carried(states, elapsed, jax.random.normal(exploring, (n, len(env.low)), jnp.float32), total)


def squashed(env: Environment, u: Array, squash: str) -> Array:
    """`ActionBounds.action`."""
    if squash == "none":
        return u
    middle, half = (jnp.asarray(each, u.dtype) for each in ((env.low + env.high) / 2, (env.high - env.low) / 2))
    return middle + half * (jnp.tanh(u) if squash == "tanh" else jnp.clip(u, -1.0, 1.0))


def sensed(observations: Array, errors: Array | None, key: Array) -> Array:
    """What is seen of observations (n, d): with noise of standard deviations `errors` (n, d), or as they are."""
    if errors is None:
        return observations
    return observations + errors * jax.random.normal(key, observations.shape, observations.dtype)


@cache
def rollout(env: Environment, steps: int, squash: str) -> Callable[..., tuple[Carried, Grid, Ended]]:
    """The compiled rollout of `steps` steps: a function of what environments carry, a key, the policy, and standard
    deviations (n, d) of noise on the observations, None for none."""

    def run(carried: Carried, key: Array, acting: Acting, errors: Array | None = None) -> tuple[Carried, Grid, Ended]:
        step = partial(_step, env, squash, acting, errors)
        keys = jax.random.split(key, steps + 1)
        seen = sensed(jax.vmap(env.observe)(carried.states), errors, keys[-1])
        (carried, _), (grid, ended) = jax.lax.scan(step, (carried, seen), keys[:-1])
        return carried, grid, ended

    return jax.jit(run)


def _step(
    env: Environment,
    squash: str,
    acting: Acting,
    errors: Array | None,
    now: tuple[Carried, Array],
    key: Array,
) -> tuple[tuple[Carried, Array], tuple[Grid, Ended]]:
    """One step of every environment from what is seen of it, and the start of a new episode where one ended."""
    (carried, seen), (exploring, starting, *sensing) = now, jax.random.split(key, 4)
    n = len(carried.elapsed)
    mean = features(measured(seen, acting.metric), acting.centres) @ acting.coefficients
    rho = acting.correlation
    noise = rho * carried.noise + jnp.sqrt(1 - rho**2) * jax.random.normal(exploring, mean.shape, mean.dtype)
    u = mean + acting.sigma * noise
    states, rewards, terminated, truncated = jax.vmap(env.step)(carried.states, squashed(env, u, squash))
    after = sensed(jax.vmap(env.observe)(states), errors, sensing[0])
    elapsed, total = carried.elapsed + 1, carried.total + rewards
    if env.episode_limit is not None:
        truncated = truncated | (elapsed >= env.episode_limit)
    truncated = truncated & ~terminated
    over = terminated | truncated
    starts = jax.vmap(env.reset)(jax.random.split(starting, n))
    first = sensed(jax.vmap(env.observe)(starts), errors, sensing[1])

    def anew(fresh: Array, old: Array) -> Array:
        return jnp.where(over.reshape(-1, *[1] * (old.ndim - 1)), fresh, old)

    fresh = Carried(starts, jnp.zeros_like(elapsed), noise, jnp.zeros_like(total))
    following = jax.tree.map(anew, (fresh, first), (Carried(states, elapsed, noise, total), after))
    grid = Grid(seen, after, mean, u, rewards, terminated, truncated)
    return following, (grid, Ended(over & (total != UNSEEN), total, elapsed))


@cache
def trial(env: Environment, n: int, steps: int, squash: str) -> Callable[..., tuple[Array, Array]]:
    """The compiled trial of p policies: returns (p, n) of first episodes without exploration, and their lengths (p, n).

    A function of a key, the policies as arrays with p in front, and standard deviations (n, d) of noise on the
    observations, None for none. Policies have the same starts. It ends with the last episode.
    """

    def mean(acting: Acting, seen: Array) -> Array:
        return features(measured(seen, acting.metric), acting.centres) @ acting.coefficients

    def run(key: Array, acting: Acting, errors: Array | None = None) -> tuple[Array, Array]:
        starting, sensing = jax.random.split(key)
        start = jax.vmap(env.reset)(jax.random.split(starting, n))
        every, counts = _Sided(len(acting.sigma), n), (len(acting.sigma), n)

        def going(now: tuple[Any, ...]) -> Array:
            return (now[0] < steps) & now[-1].any()

        def step(now: tuple[Any, ...]) -> tuple[Any, ...]:
            t, states, total, lengths, running = now
            noisy = partial(sensed, errors=errors, key=jax.random.fold_in(sensing, t))
            seen = jax.vmap(noisy)(every.apart(jax.vmap(env.observe)(states)))
            actions = squashed(env, every.joined(jax.vmap(mean)(acting, seen)), squash)
            states, rewards, terminated, truncated = jax.vmap(env.step)(states, actions)
            total += jnp.where(running, every.apart(rewards), 0.0)
            return t + 1, states, total, lengths + running, running & ~every.apart(terminated | truncated)

        states = jax.tree.map(every.repeated, start)
        first = 0, states, jnp.zeros(counts, jnp.float32), jnp.zeros(counts, jnp.int32), jnp.ones(counts, bool)
        _, _, total, lengths, _ = jax.lax.while_loop(going, step, first)
        return total, lengths

    return jax.jit(run)


class _Sided(NamedTuple):
    """The environments of `policies` policies side by side, n of each."""

    policies: int
    n: int

    def repeated(self, rows: Array) -> Array:
        """(n, ...) for each policy: (policies n, ...)."""
        return jnp.tile(rows, (self.policies, *[1] * (rows.ndim - 1)))

    def apart(self, rows: Array) -> Array:
        """(policies n, ...) as (policies, n, ...)."""
        return rows.reshape(self.policies, self.n, *rows.shape[1:])

    def joined(self, rows: Array) -> Array:
        """(policies, n, ...) as (policies n, ...)."""
        return rows.reshape(self.policies * self.n, *rows.shape[2:])

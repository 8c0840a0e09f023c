"""The linear-quadratic benchmark `rsa2c/LQR-v0`, whose optimal policy and value are known in closed form.

The cart-pole of mass 1 with a pole of mass 0.1 and half length 0.5, linearised at the upright position and
discretised by Euler's rule with dt = 0.02: s' = A s + B u for s = (x, x_dot, theta, theta_dot). A step
costs s^T P1 s + P2 u^2 and the reward is minus that. The optimal discounted cost is s^T P3 s, reached by u
= -K s, with P3 from the Riccati equation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_are

from rsa2c.envs.known.lqr import LQR
from rsa2c.envs.plugin import register
from rsa2c.envs.vectorised import VectorisedEnv

GAMMA = 0.99
ACTION_BOUND = 40.0  # twice what the optimal gain needs from any start, so that clipping does not change the problem
STATE_BOUND = 10.0
START_HIGH = np.array([0.5, 0.5, 0.1, 0.5])
P1 = np.diag([1.0, 0.1, 10.0, 0.1])
P2 = 0.01
HOPELESS = 1e6
"""Only an unstable policy has a gap beyond this; its gap grows with the length of the rollout."""

Controller = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # states (N, 4) to controls (N, 1)


def _linearised_cart_pole() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    cart, pole, half_length, gravity, dt = 1.0, 0.1, 0.5, 9.8, 0.02
    mass = cart + pole
    inertia = half_length * (4.0 / 3.0 - pole / mass)
    theta_acceleration = np.array([gravity, -1.0 / mass]) / inertia  # per unit of theta, of force
    x_acceleration = np.array([0.0, 1.0 / mass]) - pole * half_length / mass * theta_acceleration
    rate = np.zeros((4, 4))
    rate[0, 1] = rate[2, 3] = 1.0
    rate[1, 2], rate[3, 2] = x_acceleration[0], theta_acceleration[0]
    force = np.array([[0.0], [x_acceleration[1]], [0.0], [theta_acceleration[1]]])
    return np.eye(4) + dt * rate, dt * force


A, B = _linearised_cart_pole()


def dynamics(states: NDArray[np.float64], controls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Next states (N, 4) of states (N, 4) under controls (N, 1)."""
    following = controls * B.T
    for state, effect in zip(states.T, A.T, strict=True):  # a matrix product would round a row by the number of rows
        following += state[:, None] * effect
    return following


def cost(states: NDArray[np.float64], controls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stage cost s^T P1 s + P2 u^2, (N,)."""
    return np.sum(states * states * np.diag(P1), axis=1) + P2 * controls[:, 0] ** 2


def riccati() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P3 (4, 4) and gain K (1, 4): the optimal discounted cost is s^T P3 s, the optimal control -K s.

    The discounted problem of (A, B) is the undiscounted problem of (sqrt(gamma) A, sqrt(gamma) B).
    """
    root = np.sqrt(GAMMA)
    p3 = solve_discrete_are(root * A, root * B, P1, np.array([[P2]]))
    gain = np.linalg.solve(P2 + GAMMA * B.T @ p3 @ B, GAMMA * B.T @ p3 @ A)
    return p3, gain


def fixed_starts(n: int) -> NDArray[np.float64]:
    """The n start states (n, 4) on which the gap is measured."""
    return np.random.default_rng(0).uniform(-START_HIGH, START_HIGH, (n, 4))


def optimal_cost(starts: NDArray[np.float64]) -> NDArray[np.float64]:
    """s^T P3 s for every start (N,)."""
    p3, _ = riccati()
    return np.einsum("ni,ij,nj->n", starts, p3, starts)


def policy_cost(
    policy: Controller, starts: NDArray[np.float64], steps: int = 2000, most: float = np.inf
) -> NDArray[np.float64]:
    """Discounted cost (N,) of deterministic rollouts without clipping.

    It is infinite if the state diverges, and for all starts as soon as the mean exceeds `most`, since it only grows.
    """
    states = np.array(starts, dtype=np.float64)
    total = np.zeros(len(states))
    discount = 1.0
    for _ in range(steps):
        controls = np.asarray(policy(states), dtype=np.float64).reshape(len(states), 1)
        total += discount * cost(states, controls)
        states = dynamics(states, controls)
        discount *= GAMMA
        if total.mean() > most:
            return np.full(len(states), np.inf)
        diverged = np.abs(states).max(axis=1) > 1e100
        if diverged.any():
            total[diverged] = np.inf
            states[diverged] = 0.0
    return total


def gap(policy: Controller, n_starts: int = 1000) -> float:
    """Relative excess J(policy) / J(optimal) - 1 of the mean cost over fixed starts; infinite beyond `HOPELESS`."""
    starts = fixed_starts(n_starts)
    best = float(optimal_cost(starts).mean())
    return float(policy_cost(policy, starts, most=(1.0 + HOPELESS) * best).mean()) / best - 1.0


def _spaces() -> tuple[spaces.Box, spaces.Box]:
    return (
        spaces.Box(-np.inf, np.inf, shape=(4,), dtype=np.float64),
        spaces.Box(-ACTION_BOUND, ACTION_BOUND, shape=(1,), dtype=np.float64),
    )


class LQREnv(gym.Env[NDArray[np.float64], NDArray[np.float64]]):
    """One cart-pole of the benchmark; truncated when any |s_i| > 10, controls clipped to +-40."""

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space: Any
        self.action_space: Any
        self.observation_space, self.action_space = _spaces()
        self.state = np.zeros(4)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-START_HIGH, START_HIGH)
        return self.state.copy(), {}

    def step(self, action: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        control = np.clip(action, -ACTION_BOUND, ACTION_BOUND)[None]
        reward = -cost(self.state[None], control)[0]
        self.state = dynamics(self.state[None], control)[0]
        return self.state.copy(), float(reward), False, bool(np.abs(self.state).max() > STATE_BOUND), {}


class LQRVector(VectorisedEnv):
    """Many cart-poles of the benchmark at once."""

    known = LQR
    start_high = START_HIGH

    def __init__(self, num_envs: int = 1) -> None:
        super().__init__(num_envs, *_spaces())

    def observe(self) -> NDArray[np.float64]:
        return self.states.copy()

    def advance(self, actions: NDArray[Any]) -> NDArray[np.float64]:
        controls = np.clip(actions, -ACTION_BOUND, ACTION_BOUND)
        rewards = -cost(self.states, controls)
        self.states = dynamics(self.states, controls)
        return rewards

    def escaped(self) -> NDArray[np.bool_]:
        return np.abs(self.states).max(axis=1) > STATE_BOUND


register()

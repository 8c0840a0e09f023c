"""Hand-tuned controllers of the plants, with Stable-Baselines3's `predict`, and doing nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_discrete_are

from _plants import GRAVITY, CartPole, Docking, Drone, Plant


class Law:
    """Actions (N, m), limited to their bounds, as a function of observations (N, d)."""

    def __init__(self, law: Callable[[NDArray], NDArray], low: float, high: float) -> None:
        self.law, self.low, self.high = law, low, high

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray, Any]:
        found = np.asarray(self.law(np.asarray(observation, np.float64)), np.float64)
        return np.clip(found.reshape(len(observation), -1), self.low, self.high), state


def nothing(env: gymnasium.Env) -> Law:
    """Zero, or the bound next to it."""
    box = env.action_space
    assert isinstance(box, gymnasium.spaces.Box) and box.shape is not None
    return Law(lambda s: np.zeros((len(s), *box.shape)), float(box.low[0]), float(box.high[0]))


def linearised(plant: Plant, at: NDArray, u: NDArray) -> tuple[NDArray, NDArray]:
    """Derivatives A (d, d) and B (d, m) of a sampling period about a state and an action."""

    def moved(z: NDArray) -> NDArray:
        plant.state = z[: len(at)].tolist()
        plant.advance(*z[len(at) :].tolist())
        return np.array(plant.state)

    z, h = np.concatenate([at, u]), 1e-5
    both = np.column_stack([(moved(z + h * e) - moved(z - h * e)) / (2 * h) for e in np.eye(len(z))])
    return both[:, : len(at)], both[:, len(at) :]


def lqr(a: NDArray, b: NDArray, q: list[float], r: list[float]) -> NDArray[np.float64]:
    """The gain K (m, d) of u = -K s that minimises the sum of s^T diag(q) s + u^T diag(r) u."""
    p = solve_discrete_are(a, b, np.diag(q), np.diag(r))
    return np.linalg.solve(np.diag(r) + b.T @ p @ b, b.T @ p @ a)


def linear(plant: Plant, q: list[float], r: list[float], u: list[float]) -> Law:
    """LQR about rest at the origin, where the plant needs the action u."""
    gain = lqr(*linearised(plant, np.zeros(len(q)), np.array(u)), q, r)
    return Law(lambda s: u - s @ gain.T, *plant.bounds)


def motor() -> Law:
    a, b = np.array([[1.0, -0.016], [0.0, 0.8]]), np.array([[-0.008], [0.4]])
    gain = lqr(a, b, [1.0, 0.002], [0.0005])
    return Law(lambda s: -s @ gain.T, -12.0, 12.0)


def two_tanks() -> Law:
    """The flow that holds the set point, and both levels fed back."""

    def law(s: NDArray) -> NDArray:
        upper, lower, wanted = s.T
        return 0.05 * np.sqrt(2 * GRAVITY * wanted) + 2.3 * (wanted - upper) + 9.5 * (wanted - lower)

    return Law(law, 0.0, 0.2)


def heater() -> Law:
    """Predicts the temperature over the dead time, then feeds back its error."""

    def law(s: NDArray) -> NDArray:
        temperature, wanted, inputs = s[:, 0], s[:, 1], s[:, 2:]
        for i in range(5):
            temperature = temperature + (20.0 + 50.0 * inputs[:, 4 - i] - temperature) / 30
        return (wanted - 20.0) / 50.0 + 0.35 * (wanted - temperature)

    return Law(law, 0.0, 4.0)


def vessel() -> Law:
    """Predicts the pressure that the present inflow leads to, then feeds back its error."""

    def law(s: NDArray) -> NDArray:
        pressure, inflow, wanted = s.T
        steady = 2e-9 * (wanted - 101325.0)
        return steady + 1.6e-7 * (wanted - pressure) - 0.9 * (inflow - steady)

    return Law(law, 0.0, 1e-3)


def swing_up() -> Law:
    """Pumps energy into the pole, and balances it by LQR where it is nearly upright."""
    balance = lqr(*linearised(CartPole(), np.zeros(4), np.zeros(1)), [1.0, 0.1, 5.0, 0.1], [0.01])[0]

    def law(s: NDArray) -> NDArray:
        x, v, cosine, sine, turn = s.T
        angle = np.arctan2(sine, cosine)
        energy = turn**2 / 2 - 1.5 * GRAVITY * (1 - cosine)  # of the pole, over its inertia; 0 where it balances
        pump = 1.1 * energy * turn * cosine - 1.8 * x - 3.0 * v
        near = np.abs(angle) < 0.29
        return np.where(near, -np.column_stack([x, v, angle, turn]) @ balance, pump)

    return Law(law, -10.0, 10.0)


def cart_pole() -> Law:
    return linear(CartPole(), [0.2, 0.001, 5.0, 0.001], [0.001], [0.0])


def docking() -> Law:
    return linear(Docking(), [0.01, 0.01, 0.1, 0.1], [0.001, 0.001], [0.0, 0.0])


def drone() -> Law:
    return linear(Drone(), [0.05, 0.05, 0.005, 0.005, 0.05, 0.005], [0.001] * 2, [GRAVITY / 2] * 2)


def cruise() -> Law:
    """PI, with the drag of the set speed."""
    return Law(lambda s: 0.0005 * s[:, 2] ** 2 - 2.4 * s[:, 0] - 2.1 * s[:, 1], -4.0, 4.0)


def positioner() -> Law:
    return Law(lambda s: -1.05 * s[:, 0] - 0.24 * s[:, 1], -1.0, 1.0)


def tank() -> Law:
    return Law(lambda s: -10.0 * s, -1.0, 1.0)

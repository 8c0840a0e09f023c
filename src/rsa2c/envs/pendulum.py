"""Pendulum-v1 as arrays: many pendulums at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rsa2c.envs.known.pendulum import PENDULUM
from rsa2c.envs.vectorised import VectorisedEnv

_MAX_SPEED, _MAX_TORQUE, _DT, _PI = 8, 2.0, 0.05, np.pi


class PendulumVector(VectorisedEnv):
    """Gymnasium's Pendulum-v1 (g = 10, m = l = 1), state (theta, theta_dot), theta = 0 upright.

    The reward is -(theta^2 + 0.1 theta_dot^2 + 0.001 u^2) with theta in [-pi, pi), then
    theta_dot <- clip(theta_dot + (15 sin theta + 3 u) dt, +-8) and theta <- theta + theta_dot dt.
    Operations are in Gymnasium's order, so that states agree to the last bit.
    """

    known = PENDULUM
    start_high = np.array([_PI, 1.0])

    def __init__(self, num_envs: int = 1) -> None:
        high = np.array([1.0, 1.0, _MAX_SPEED], dtype=np.float32)
        super().__init__(
            num_envs,
            spaces.Box(-high, high, dtype=np.float32),
            spaces.Box(-_MAX_TORQUE, _MAX_TORQUE, shape=(1,), dtype=np.float32),
        )

    def observe(self) -> NDArray[np.float32]:
        angle = self.states[:, 0]
        observations = np.empty((self.num_envs, 3), dtype=np.float32)
        observations[:, 0] = np.cos(angle)
        observations[:, 1] = np.sin(angle)
        observations[:, 2] = self.states[:, 1]
        return observations

    def advance(self, actions: NDArray[Any]) -> NDArray[np.float64]:
        angle, speed = self.states.T
        torque = np.minimum(np.maximum(actions[:, 0], -_MAX_TORQUE), _MAX_TORQUE)
        wrapped = (angle + _PI) % (2 * _PI) - _PI
        rewards = -(wrapped * wrapped + 0.1 * (speed * speed) + 0.001 * (torque * torque))
        speed += (15.0 * np.sin(angle) + 3.0 * torque) * _DT
        np.minimum(np.maximum(speed, -_MAX_SPEED, out=speed), _MAX_SPEED, out=speed)
        angle += speed * _DT
        return rewards

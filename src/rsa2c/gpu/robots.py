"""The robots: what Gymnasium's version 5 rewards, observes and calls healthy."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from rsa2c.gpu.environments import Array
from rsa2c.gpu.physics import Robot


class HalfCheetah(Robot):
    id, model = "HalfCheetah-v5", "half_cheetah.xml"
    start_noise, normal_velocities = 0.1, True
    control_weight, healthy_reward = 0.1, 0.0


class Hopper(Robot):
    id, model, skip = "Hopper-v5", "hopper.xml", 4
    start_noise, fastest = 5e-3, 10.0

    def healthy(self, q: Array, v: Array) -> Array:
        rest = jnp.concatenate([q[2:], v])
        return (jnp.abs(rest) < 100.0).all() & (q[1] > 0.7) & (jnp.abs(q[2]) < 0.2)


class Walker2d(Robot):
    id, model, skip = "Walker2d-v5", "walker2d_v5.xml", 4
    start_noise, fastest = 5e-3, 10.0

    def healthy(self, q: Array, v: Array) -> Array:
        return (q[1] > 0.8) & (q[1] < 2.0) & (jnp.abs(q[2]) < 1.0)


class Ant(Robot):
    """Its observation has the contact forces on its bodies, clipped to +-1."""

    id, model, hidden = "Ant-v5", "ant.xml", 2
    start_noise, normal_velocities = 0.1, True
    control_weight = 0.5
    needs_forces = True

    def healthy(self, q: Array, v: Array) -> Array:
        return (q[2] >= 0.2) & (q[2] <= 1.0)

    def extra(self, data: Any) -> Array:
        return jnp.clip(data._impl.cfrc_ext[1:], -1.0, 1.0).ravel()

    def first_extra(self, data: Any) -> Array:
        return jnp.zeros(6 * (self._model.nbody - 1))

    def place(self, data: Any) -> Array:
        return data.xpos[1, 0]

    def _kinematics(self, model: Any, data: Any) -> Any:
        return data.replace(xpos=jnp.zeros((self._model.nbody, 3)).at[1].set(data.qpos[:3]))

    def contact_cost(self, data: Any) -> Array:
        return 5e-4 * jnp.sum(jnp.clip(data._impl.cfrc_ext, -1.0, 1.0) ** 2)


class Humanoid(Robot):
    """Its observation has inertias, velocities and contact forces of its bodies, and the actuators' forces."""

    id, model, hidden = "Humanoid-v5", "humanoid.xml", 2
    start_noise = 1e-2
    forward_weight, control_weight, healthy_reward = 1.25, 0.1, 5.0
    needs_forces = True

    def healthy(self, q: Array, v: Array) -> Array:
        return (q[2] > 1.0) & (q[2] < 2.0)

    def extra(self, data: Any) -> Array:
        inner = data._impl
        parts = (inner.cinert[1:], data.cvel[1:], data.qfrc_actuator[6:], inner.cfrc_ext[1:])
        return jnp.concatenate([part.ravel() for part in parts])

    def first_extra(self, data: Any) -> Array:
        no_force = jnp.zeros(self._model.nv - 6 + 6 * (self._model.nbody - 1))
        return jnp.concatenate([data._impl.cinert[1:].ravel(), data.cvel[1:].ravel(), no_force])

    def place(self, data: Any) -> Array:
        """The centre of mass."""
        mass = self._model.body_mass / np.sum(self._model.body_mass)
        return jnp.sum(mass * data.xipos[:, 0])

    def contact_cost(self, data: Any) -> Array:
        return jnp.minimum(5e-7 * jnp.sum(data._impl.cfrc_ext**2), 10.0)

    def _kinematics(self, model: Any, data: Any) -> Any:
        from mujoco.mjx._src import smooth

        return smooth.com_vel(model, smooth.com_pos(model, smooth.kinematics(model, data)))

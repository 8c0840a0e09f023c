"""Gymnasium's MuJoCo robots in MJX: the same models and the same step, for thousands of copies.

After a step MuJoCo's positions and velocities are new, while everything derived from them (body positions, contact
forces) still belongs to the integrator's last stage. Gymnasium's rewards and observations use both, and MJX keeps the
same order, so they agree.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from rsa2c.errors import require
from rsa2c.gpu.environments import Array, Environment, State
from rsa2c.gpu.simulator import QUICK, Solver, adapted

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"


class Robot(Environment):
    """A robot that is rewarded for moving forward.

    Its state holds positions q, velocities v, the solver's start w, the place x whose speed is rewarded, and what the
    observation has besides positions and velocities.
    """

    model: str
    """Gymnasium's XML file."""
    skip = 5
    """Steps of the simulation in a step of the environment."""
    hidden = 1
    """Positions that the observation leaves out: where the robot is."""
    start_noise = 0.0
    normal_velocities = False
    """Whether start velocities are drawn from a normal distribution instead of a uniform one."""
    fastest = np.inf
    """Velocities in observations are clipped there."""
    forward_weight, control_weight, healthy_reward = 1.0, 1e-3, 1.0
    needs_forces = False
    """Whether contact forces are observed or cost something."""
    episode_limit = 1000
    reports_divergence = True

    def __init__(self, solver: Solver = QUICK) -> None:
        self._mjx: Any = require("mujoco.mjx", "gpu", f"{self.id} on a GPU")
        import mujoco

        spec = mujoco.MjSpec.from_file(str(ASSETS / self.model))
        if solver.contacts is not None:
            for own in spec.numerics:  # MJX reads the first number of all where a model has several of these
                spec.delete(own)
            spec.add_numeric(name="max_contact_points", size=1, data=[solver.contacts])
        with warnings.catch_warnings():  # of old attributes in Gymnasium's files
            warnings.simplefilter("ignore")
            model = spec.compile()
        if model.opt.solver == mujoco.mjtSolver.mjSOL_PGS:  # MJX has no PGS; Newton's method has the same solution
            model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        model.opt.iterations = solver.iterations or model.opt.iterations
        model.opt.ls_iterations = solver.line_search or model.opt.ls_iterations
        self._solver, self._model = solver, model
        self.low, self.high = model.actuator_ctrlrange.T.astype(np.float64)
        self.dt = self.skip * model.opt.timestep
        shapes = jax.eval_shape(lambda key: self.observe(self.reset(key)), jax.random.PRNGKey(0))
        self.features = shapes.shape[0]

    def extra(self, data: Any) -> Array:
        """What is observed besides positions and velocities."""
        return jnp.zeros(0)

    def first_extra(self, data: Any) -> Array:
        """The same at a start, where no force has acted yet."""
        return jnp.zeros(0)

    def place(self, data: Any) -> Array:
        """The coordinate whose speed is rewarded."""
        return data.qpos[0]

    def healthy(self, q: Array, v: Array) -> Array:
        """Whether the episode goes on."""
        return jnp.ones((), bool)

    def contact_cost(self, data: Any) -> Array:
        return jnp.zeros(())

    def reset(self, key: Array) -> State:
        positions, velocities = jax.random.split(key)
        q = jnp.asarray(self._model.qpos0) + jax.random.uniform(
            positions, (self._model.nq,), minval=-self.start_noise, maxval=self.start_noise
        )
        if self.normal_velocities:
            v = jax.random.normal(velocities, (self._model.nv,))
        else:
            v = jax.random.uniform(velocities, (self._model.nv,), minval=-1.0, maxval=1.0)
        return self.placed(q, self.start_noise * v)

    def placed(self, q: Array, v: Array) -> State:
        """The state at rest of forces, as Gymnasium's `set_state` leaves it."""
        q, v = jnp.asarray(q), jnp.asarray(v)
        model, data = self._on_device()
        data = self._kinematics(model, data.replace(qpos=q, qvel=v))
        return {"q": q, "v": v, "w": jnp.zeros_like(v), "x": self.place(data), "extra": self.first_extra(data)}

    def observe(self, state: State) -> Array:
        velocities = jnp.clip(state["v"], -self.fastest, self.fastest)
        return jnp.concatenate([state["q"][self.hidden :], velocities, state["extra"]])

    def step(self, state: State, action: Array) -> tuple[State, Array, Array, Array]:
        data = self._simulated(state, action)
        after = {"q": data.qpos, "v": data.qvel, "w": data.qacc_warmstart, "x": self.place(data),
                 "extra": self.extra(data)}  # fmt: skip
        finite = jnp.array([jnp.isfinite(each).all() for each in after.values()]).all()
        healthy = self.healthy(data.qpos, data.qvel)
        speed = (after["x"] - state["x"]) / self.dt
        costs = self.control_weight * jnp.sum(action**2) + self.contact_cost(data)
        reward = self.forward_weight * speed + self.healthy_reward * healthy - costs
        # A simulation that diverged is left where it was last known: MuJoCo itself starts it anew.
        after = jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, state)
        return after, jnp.where(finite, reward, 0.0), finite & ~healthy, ~finite

    def _simulated(self, state: State, action: Array) -> Any:
        """The simulation's data after `skip` steps under the action."""
        from mujoco.mjx._src import smooth

        model, data = self._on_device()
        data = data.replace(qpos=state["q"], qvel=state["v"], qacc_warmstart=state["w"], ctrl=action)
        with adapted(self._solver):
            data = jax.lax.fori_loop(0, self.skip, lambda _, each: self._stepped(model, each), data)
        return smooth.rne_postconstraint(model, data) if self.needs_forces else data

    def _stepped(self, model: Any, data: Any) -> Any:
        """After one step of the simulation; in double precision MJX changes the type of some integers."""
        after = self._mjx.step(model, data)
        return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, data)

    def _kinematics(self, model: Any, data: Any) -> Any:
        """What places and first observations are made of; most robots need positions alone."""
        return data

    def _on_device(self) -> tuple[Any, Any]:
        """The model and blank data, in the precision that is current."""
        return self._mjx.put_model(self._model), self._mjx.make_data(self._model)

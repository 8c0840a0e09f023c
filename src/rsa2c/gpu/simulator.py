"""MJX as it is used here: where its solver stops, and two changes to it while a step is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Solver:
    """Where MuJoCo's constraint solver stops; None leaves the model's own number, and its convergence test."""

    iterations: int | None = None
    line_search: int | None = None
    contacts: int | None = None
    """Contacts that are kept, the deepest first."""


FULL = Solver()
"""As in Gymnasium's model: what agreement with it is tested with."""
QUICK = Solver(iterations=2, line_search=4, contacts=8)
"""For training. Newton's method starts from the last step's solution, so two iterations come close; loops of a fixed
length are unrolled, where a test of convergence would wait for the slowest of thousands of copies."""


@contextmanager
def adapted(solver: Solver) -> Iterator[None]:
    """What is traced inside steps as MuJoCo does, with the loops of a solver that stops early written out: MJX has no
    setting for either."""
    from mujoco.mjx._src import collision_driver, types
    from mujoco.mjx._src import solver as module

    colliders, pair = collision_driver._COLLISION_FUNC, (types.GeomType.PLANE, types.GeomType.CAPSULE)
    own, scanned, plane_capsule = module.jax, module._while_loop_scan, colliders[pair]
    colliders[pair] = _aligned(plane_capsule)
    if solver.iterations is not None and solver.line_search is not None:
        count = solver.iterations
        module.jax = _Replaced(own, lax=_Replaced(own.lax, while_loop=lambda c, b, v: _repeated(c, b, v, count)))
        module._while_loop_scan = _repeated
    try:
        yield
    finally:
        module.jax, module._while_loop_scan, colliders[pair] = own, scanned, plane_capsule


def _aligned(plane_capsule: Callable[..., Any]) -> Callable[..., Any]:
    """The contacts of capsules with a plane, their friction's first direction along the capsule.

    MuJoCo does so for any capsule that is not upright; MJX only for those that lie flat enough.
    """

    def collide(model: Any, data: Any, key: Any, geometries: Any) -> tuple[Any, Any, Any]:
        distance, position, _ = plane_capsule(model, data, key, geometries)
        normal, axis = (data.geom_xmat[geometries[:, k]][..., 2] for k in (0, 1))
        along = axis - normal * jnp.sum(normal * axis, axis=-1, keepdims=True)
        length = jnp.linalg.norm(along, axis=-1, keepdims=True)
        along = jnp.where(length > 1e-8, along / jnp.maximum(length, 1e-8), jnp.array([1.0, 0.0, 0.0]))
        frames = jnp.stack([normal, along, jnp.cross(normal, along)], axis=1)
        return distance, position, jnp.repeat(frames, 2, axis=0)  # a capsule has a contact at each end

    collide.ncon = 2  # type: ignore[attr-defined]
    return collide


def _repeated(condition: Any, body: Any, value: Any, count: int) -> Any:
    """A loop that stops where `condition` fails, written out `count` times."""
    for _ in range(count):
        going, new = condition(value), body(value)
        value = jax.tree.map(lambda old, changed, going=going: jnp.where(going, changed, old), value, new)
    return value


class _Replaced:
    """A module with some names replaced."""

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

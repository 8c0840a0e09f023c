"""How a state is drawn. The page draws some environments from the state alone, so that it can draw any state.

The page knows how to draw the pendulum, the cart-pole and the walker. For MuJoCo robots whose observation begins with
their joint positions it is given the tree of bodies and does the kinematics itself. Nothing here needs a renderer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rsa2c.envs.known import find
from rsa2c.envs.single import make_single

JOINTS = {0: "free", 1: "ball", 2: "slide", 3: "hinge"}
GEOMS = {2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "capsule", 6: "box"}
PLANE = 0


def scene(env_id: str) -> dict[str, Any] | None:
    """What the page needs to draw a state of the environment, or None if it cannot draw it."""
    known = find(env_id)
    if known is not None and known.drawing is not None:
        return {"kind": known.drawing}
    env = make_single(env_id)
    try:
        return _mujoco(env)
    finally:
        env.close()


def _mujoco(env: Any) -> dict[str, Any] | None:
    base = env.unwrapped
    structure = getattr(base, "observation_structure", None) or {}
    if not hasattr(base, "model") or "qpos" not in structure:
        return None
    observation = env.reset(seed=0)[0]
    skipped, count = int(structure.get("skipped_qpos", 0)), int(structure["qpos"])
    if not np.array_equal(observation[:count], base.data.qpos[skipped:]):
        return None
    model = base.model
    return {
        "kind": "bodies",
        "qpos": base.init_qpos,
        "reference": np.array(model.qpos0),
        "skipped": skipped,
        "observed": count,
        "bodies": [_body(model, number) for number in range(model.nbody)],
    }


def _body(model: Any, number: int) -> dict[str, Any]:
    joints = range(model.body_jntadr[number], model.body_jntadr[number] + model.body_jntnum[number])
    geoms = range(model.body_geomadr[number], model.body_geomadr[number] + model.body_geomnum[number])
    return {
        "parent": int(model.body_parentid[number]),
        "position": model.body_pos[number].tolist(),
        "rotation": model.body_quat[number].tolist(),
        "joints": [
            {
                "kind": JOINTS[int(model.jnt_type[j])],
                "axis": model.jnt_axis[j].tolist(),
                "anchor": model.jnt_pos[j].tolist(),
                "at": int(model.jnt_qposadr[j]),
            }
            for j in joints
        ],
        "geoms": [
            {
                "kind": GEOMS.get(int(model.geom_type[g]), "sphere"),
                "size": model.geom_size[g].tolist(),
                "position": model.geom_pos[g].tolist(),
                "rotation": model.geom_quat[g].tolist(),
            }
            for g in geoms
            if int(model.geom_type[g]) != PLANE
        ],
    }

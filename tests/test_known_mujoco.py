"""Names and units of MuJoCo's robots, checked by moving, driving and pushing the simulated bodies."""

from __future__ import annotations

import numpy as np
import pytest

from known import made, named
from rsa2c.envs.known import find, known_ids

mujoco = pytest.importorskip("mujoco")
pytestmark = pytest.mark.filterwarnings("ignore:.*environment .* is out of date:DeprecationWarning")

JOINTS = {
    "Ant": {
        "root": "torso",
        **{f"{joint}_{i}": f"{leg} {joint}" for joint in ("hip", "ankle")
           for i, leg in enumerate(("front left", "front right", "back left", "back right"), 1)},
    },
    "HalfCheetah": {
        "rootx": "torso x", "rootz": "torso z", "rooty": "torso",
        **{f"{side[0]}{part}": f"{side} {part}" for side in ("back", "front") for part in ("thigh", "shin", "foot")},
    },
    "Hopper": {
        "rootx": "torso x", "rootz": "torso z", "rooty": "torso",
        "thigh_joint": "thigh", "leg_joint": "leg", "foot_joint": "foot",
    },
    "Humanoid": {
        "root": "torso",
        **{f"abdomen_{axis}": f"abdomen {axis}" for axis in "xyz"},
        **{f"{side}_{joint}": f"{side} {name}" for side in ("right", "left") for joint, name in
           (("hip_x", "hip x"), ("hip_y", "hip y"), ("hip_z", "hip z"), ("knee", "knee"), ("shoulder1", "shoulder 1"),
            ("shoulder2", "shoulder 2"), ("elbow", "elbow"))},
    },
    "InvertedPendulum": {"slider": "cart x", "hinge": "pole"},
    "InvertedDoublePendulum": {"slider": "cart x", "hinge": "lower pole", "hinge2": "upper pole"},
    "Pusher": {
        f"r_{name.replace(' ', '_')}_joint": name
        for name in ("shoulder pan", "shoulder lift", "upper arm roll", "elbow flex", "forearm roll", "wrist flex",
                     "wrist roll")
    },
    "Reacher": {"joint0": "shoulder", "joint1": "elbow"},
    "Swimmer": {
        "slider1": "torso x", "slider2": "torso y", "free_body_rot": "torso",
        "motor1_rot": "front joint", "motor2_rot": "rear joint",
    },
    "Walker2d": {
        "rootx": "torso x", "rootz": "torso z", "rooty": "torso",
        "thigh_joint": "right hip", "leg_joint": "right knee", "foot_joint": "right ankle",
        "thigh_left_joint": "left hip", "leg_left_joint": "left knee", "foot_left_joint": "left ankle",
    },
}  # fmt: skip
"""What this package calls each joint of Gymnasium's models."""
JOINTS["HumanoidStandup"] = JOINTS["Humanoid"]
MUJOCO_IDS = [env_id for env_id in known_ids() if env_id.split("-")[0] in JOINTS]
CONFIGURATION = {"", "m", "rad", "m/s", "rad/s"}
"""Units of positions and velocities; other units are of forces and inertias, which depend on both."""


def changed(env_id: str, array: str, index: int) -> dict[str, float]:
    """By how much each feature changes if one entry of the initial `qpos` or `qvel` grows by 0.01."""
    env = made(env_id)
    start = getattr(env.unwrapped, f"init_{array}")
    before = named(env_id, env.reset(seed=3)[0].copy())
    start[index] += 0.01
    after = named(env_id, env.reset(seed=3)[0].copy())
    start[index] -= 0.01
    unit = dict(find(env_id).features)
    return {
        name: after[name] - before[name]
        for name in before
        if abs(after[name] - before[name]) > 1e-6 and unit[name] in CONFIGURATION and "spatial" not in name
    }


@pytest.mark.parametrize("env_id", MUJOCO_IDS)
def test_each_joint_moves_the_features_named_after_it(env_id):
    model, family = made(env_id).unwrapped.model, env_id.split("-")[0]
    unit = dict(find(env_id).features)
    for number in range(model.njnt):
        joint = JOINTS[family].get(model.joint(number).name)
        if joint is None:
            continue  # objects of Reacher and Pusher, which are placed at random
        position, velocity = int(model.jnt_qposadr[number]), int(model.jnt_dofadr[number])
        if model.jnt_type[number] == mujoco.mjtJoint.mjJNT_FREE:
            assert changed(env_id, "qpos", position + 2) == pytest.approx({"torso z": 0.01})
            for i, axis in enumerate("xyz"):
                assert changed(env_id, "qvel", velocity + i) == pytest.approx({f"torso velocity {axis}": 0.01})
                found = changed(env_id, "qvel", velocity + 3 + i)
                assert found == pytest.approx({f"torso angular velocity {axis}": 0.01})
            continue
        slide = model.jnt_type[number] == mujoco.mjtJoint.mjJNT_SLIDE
        kinds = ("m", "m/s") if slide else ("rad", "rad/s")
        body = joint.rsplit(" ", 1)[0] if slide else joint
        found = changed(env_id, "qpos", position)
        if family in ("Reacher", "Pusher"):  # the joints move the hand too
            found = {name: by for name, by in found.items() if not name.startswith("fingertip")}
        if f"sin {joint} angle" in found:
            assert set(found) == {f"sin {joint} angle", f"cos {joint} angle"}
        elif found:
            assert found == pytest.approx({joint if slide else f"{joint} angle": 0.01})
            assert {unit[name] for name in found} == {kinds[0]}
        else:
            assert joint in ("torso x", "torso y")  # observations leave out where the robot is
        [(name, by)] = changed(env_id, "qvel", velocity).items()
        assert by == pytest.approx(0.01) and unit[name] == kinds[1]
        assert name.startswith(body) and "velocity" in name
        if slide and body == "torso":
            assert name == f"torso velocity {joint[-1]}"


@pytest.mark.parametrize("env_id", MUJOCO_IDS)
def test_each_action_drives_the_joint_named_like_it(env_id):
    model, joints = made(env_id).unwrapped.model, JOINTS[env_id.split("-")[0]]
    for actuator, action in enumerate(find(env_id).actions):
        joint = joints[model.joint(int(model.actuator_trnid[actuator, 0])).name]
        assert action.name == ("cart force" if joint == "cart x" else joint)
        assert (action.unit == "N m") == (model.actuator_gear[actuator, 0] == 1.0)


@pytest.mark.parametrize("env_id", ["Humanoid-v4", "Humanoid-v5", "HumanoidStandup-v5"])
def test_inertias_and_velocities_are_those_of_the_humanoids_bodies(env_id):
    env = made(env_id)
    model, data = env.unwrapped.model, env.unwrapped.data
    env.unwrapped.init_qvel += 1.0
    found = named(env_id, env.reset(seed=5)[0])
    env.unwrapped.init_qvel -= 1.0
    centre = data.subtree_com[1]
    for number in range(1, model.nbody):
        body = model.body(number).name.replace("lwaist", "lower waist").replace("_", " ")
        mass, offset = model.body_mass[number], data.xipos[number] - centre
        axes = data.ximat[number].reshape(3, 3)
        inertia = axes @ np.diag(model.body_inertia[number]) @ axes.T
        inertia += mass * (offset @ offset * np.eye(3) - np.outer(offset, offset))
        spatial = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, number, spatial, 0)
        turning, moving = spatial[:3], spatial[3:] + np.cross(spatial[:3], centre - data.xpos[number])
        assert found[f"{body} mass"] == pytest.approx(mass)
        for i, axis in enumerate("xyz"):
            assert found[f"{body} mass times offset {axis}"] == pytest.approx(mass * offset[i])
            assert found[f"{body} spatial angular velocity {axis}"] == pytest.approx(turning[i])
            assert found[f"{body} spatial velocity {axis}"] == pytest.approx(moving[i])
            for j, other in enumerate("xyz"[i:], i):
                assert found[f"{body} inertia {axis}{other}"] == pytest.approx(inertia[i, j])


@pytest.mark.parametrize("env_id", ["Humanoid-v4", "Humanoid-v5"])
def test_motor_torques_are_those_of_the_actions(env_id):
    env, facts = made(env_id), find(env_id)
    for number, action in enumerate(facts.actions):
        env.reset(seed=0)
        found = named(env_id, env.step(0.1 * np.eye(17)[number])[0])
        torques = {name: value for name, value in found.items() if "motor" in name and value}
        gear = env.unwrapped.model.actuator_gear[number, 0]
        assert torques == pytest.approx({f"{action.name} motor torque": 0.1 * gear})


@pytest.mark.parametrize("env_id", ["Ant-v5", "Humanoid-v4", "Humanoid-v5"])
def test_forces_act_on_the_body_named(env_id):
    env = made(env_id)
    model, data = env.unwrapped.model, env.unwrapped.data
    names = {number: model.body(number).name.replace("lwaist", "lower waist").replace("_", " ")
             for number in range(1, model.nbody)}  # fmt: skip
    for joint, name in JOINTS["Ant"].items() if env_id == "Ant-v5" else ():
        body = int(model.joint(joint).bodyid[0])
        names[body] = name.replace("hip", "aux")  # feet have no name in the model
        if joint.startswith("hip"):
            names[int(model.body_parentid[body])] = name.replace("hip", "leg")
    env.unwrapped.init_qpos[2] += 5.0  # in the air, where nothing else acts
    for number, body in names.items():
        env.reset(seed=0)
        data.xfrc_applied[number, 2] = 0.5
        found = named(env_id, env.step(np.zeros(model.nu))[0])
        forces = {name: value for name, value in found.items() if "contact force" in name and value}
        assert forces == pytest.approx({f"{body} contact force z": 0.5})
    env.unwrapped.init_qpos[2] -= 5.0


def test_the_weight_of_a_standing_ant_is_its_vertical_contact_force():
    env = made("Ant-v5").unwrapped
    env.reset(seed=0)
    for _ in range(100):
        env.step(np.zeros(8))
    forces = env.data.cfrc_ext.sum(axis=0)
    assert forces[5] == pytest.approx(9.81 * env.model.body_mass.sum(), rel=0.01) and abs(forces[2]) < 0.5


def test_pushers_and_reachers_places_are_where_they_say():
    for env_id, bodies in (("Pusher-v5", {"fingertip": "tips_arm", "object": "object", "goal": "goal"}),
                           ("Reacher-v5", {"target": "target"})):  # fmt: skip
        env = made(env_id)
        found = named(env_id, env.reset(seed=1)[0])
        for name, body in bodies.items():
            place = env.unwrapped.data.body(body).xpos
            assert [found[f"{name} {axis}"] for axis in "xy"] == pytest.approx(place[:2].tolist())
    data = env.unwrapped.data
    distance = data.body("fingertip").xpos - data.body("target").xpos
    assert [found[f"fingertip minus target {axis}"] for axis in "xy"] == pytest.approx(distance[:2].tolist())

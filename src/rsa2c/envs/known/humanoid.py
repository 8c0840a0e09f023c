"""Humanoid and HumanoidStandup: a body of 13 parts and 17 hinges.

After positions and velocities come, for each part, its inertia (`cinert`) and velocity (`cvel`) about the centre of
mass of the whole body, the torques of the motors (`qfrc_actuator`) and the external forces (`cfrc_ext`). v4 has them
for the immovable world and the unactuated torso too, where all are 0 or constant; v5 leaves those out.
"""

from __future__ import annotations

from rsa2c.envs.known.facts import WIDE_NETWORK, Known, Quantity, Skill, by_id, mujoco_rl_zoo
from rsa2c.envs.known.mujoco import (
    EPISODE_LIMIT,
    FREE_POSITION,
    FREE_VELOCITY,
    angles,
    axes,
    contacts,
    motors,
    rates,
)

ABDOMEN = tuple(f"abdomen {axis}" for axis in "zyx")
LEGS = tuple(f"{side} {joint}" for side in ("right", "left") for joint in ("hip x", "hip z", "hip y", "knee"))
ARMS = tuple(f"{side} {joint}" for side in ("right", "left") for joint in ("shoulder 1", "shoulder 2", "elbow"))
JOINTS = (*ABDOMEN, *LEGS, *ARMS)
BODIES = (
    *("torso", "lower waist", "pelvis"),
    *(f"{side} {part}" for side in ("right", "left") for part in ("thigh", "shin", "foot")),
    *(f"{side} {part}" for side in ("right", "left") for part in ("upper arm", "lower arm")),
)


def _inertia(body: str) -> tuple[Quantity, ...]:
    return (
        *(Quantity(f"{body} inertia {pair}", "kg m²") for pair in ("xx", "yy", "zz", "xy", "xz", "yz")),
        *axes(f"{body} mass times offset", "kg m"),
        Quantity(f"{body} mass", "kg"),
    )


def _velocity(body: str) -> tuple[Quantity, ...]:
    return (*axes(f"{body} spatial angular velocity", "rad/s"), *axes(f"{body} spatial velocity", "m/s"))


def _features(bodies: tuple[str, ...], unactuated: tuple[Quantity, ...] = ()) -> tuple[Quantity, ...]:
    return (
        *FREE_POSITION,
        *angles(JOINTS),
        *FREE_VELOCITY,
        *rates(JOINTS),
        *(part for body in bodies for part in _inertia(body)),
        *(part for body in bodies for part in _velocity(body)),
        *unactuated,
        *(Quantity(f"{joint} motor torque", "N m") for joint in JOINTS),
        *contacts(bodies),
    )


V4 = _features(("world", *BODIES), (*axes("torso motor force", "N"), *axes("torso motor torque", "N m")))
V5 = _features(BODIES)
# the motors begin with the abdomen's y, the joints in the observation with its z
ACTIONS = motors(("abdomen y", "abdomen z", "abdomen x", *LEGS, *ARMS))
# one that stands has 5 a step; another 0.5 is 0.4 metres a second
SKILL = Skill("walks for 1,000 steps without falling", 5_500.0, whole_episodes=True)

RL_ZOO = mujoco_rl_zoo(
    "Humanoid-v4",
    ppo_steps=10_000_000,
    sac_steps=2_000_000,
    gamma=0.95,
    batch_size=256,
    n_steps=512,
    learning_rate=3.56987e-05,
    ent_coef=0.00238306,
    clip_range=0.3,
    n_epochs=5,
    gae_lambda=0.9,
    max_grad_norm=2,
    vf_coef=0.431892,
    policy_kwargs=WIDE_NETWORK,
)

KNOWN = by_id(
    Known("Humanoid-v4", V4, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
    Known("Humanoid-v5", V5, ACTIONS, EPISODE_LIMIT, rl_zoo=RL_ZOO, skill=SKILL),
    Known("HumanoidStandup-v4", V4, ACTIONS, EPISODE_LIMIT),
    Known("HumanoidStandup-v5", V5, ACTIONS, EPISODE_LIMIT),
)

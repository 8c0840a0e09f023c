"""Ant: a four-legged robot, one of the paper's three environments."""

from __future__ import annotations

import math
from typing import Any

from rsa2c.envs.known.facts import RELEASED, Known, Skill, by_id
from rsa2c.envs.known.mujoco import (
    EPISODE_LIMIT,
    FREE_POSITION,
    FREE_VELOCITY,
    angles,
    contacts,
    motors,
    rates,
)

LEGS = ("front left", "front right", "back left", "back right")
JOINTS = tuple(f"{leg} {joint}" for leg in LEGS for joint in ("hip", "ankle"))
BODIES = ("torso", *(f"{leg} {part}" for leg in LEGS for part in ("leg", "aux", "ankle")))

V4 = (*FREE_POSITION, *angles(JOINTS), *FREE_VELOCITY, *rates(JOINTS))
V5 = (*V4, *contacts(BODIES))
# the motors start with the back right leg, the joints in the observation with the front left one
ACTIONS = motors((*JOINTS[6:], *JOINTS[:6]))

# The paper's table calls 10 the variance of the kernel. As a length scale it makes the Value Critic's sweeps diverge
# with the table's learning rate: that times |k(s)|^2 is 23 to 33 after 100 epochs, and must stay below 2. As a variance
# it is nearly the length scale of the released launcher, 3.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        **RELEASED,
        "n_envs": 4,
        "horizon": 1000,
        "length_scale": math.sqrt(10.0),
        "capacity": 4096,
        "initial_centres": 192,
        "admission_threshold_final": 0.0007,
        "admission_epochs": 600,
        "admission_limit": 24,
        "admission_every": 3,
        "replacement_every": 3,
        "replacement_limit": 24,
        "value_fit": "mc",
        "value_step": 0.05,
        "value_sweeps": 3,
        "smooth_advantage": True,
        "sigma_initial": 1.0,
        "sigma_final": 0.3,
        "sigma_epochs": 1200,
        "step_size": 0.5,  # the table's 0.25 times the released code's gradient scale of 2
        "gradient_clip": 0.6,
        "attribution_every": 25,
        "attribution_warmup": 3,
        "ratio_mix": 0.08,
        "ratio_range": 1.4,
        "ratio_features": 4,
        "trust_region": 0.002,
        "cme_ridge": 0.002,
    },
}
# The usual noise fells a robot that would stand: untrained, it falls after 90 steps instead of never, and the noise
# costs more than standing earns. After 1 M steps: 1,983 with 0.7 (seed 0), 2,581 with 0.25, 2,785 and 2,819 with this
# (tuning seeds). On the processor the general rule finds it too, with a second warm-up; on a GPU rollouts are too short
# to see a fall, and with 0.7 the first 2,000 take 12 s instead of 7 to 10.
EXCEPTIONS = {"sigma_initial": 0.4}
# one that stands has 1 a step; another 1 is a metre a second
SKILL = Skill("walks for 1,000 steps without falling", 2_000.0, whole_episodes=True)

KNOWN = by_id(
    Known("Ant-v4", V4, ACTIONS, EPISODE_LIMIT, exceptions=EXCEPTIONS, skill=SKILL),
    # with the warm-up and the last epoch rounded up, a run ends below 4 M steps
    Known(
        "Ant-v5",
        V5,
        ACTIONS,
        EPISODE_LIMIT,
        total_timesteps=3_980_000,
        exceptions=EXCEPTIONS,
        presets=PRESETS,
        skill=SKILL,
    ),
)

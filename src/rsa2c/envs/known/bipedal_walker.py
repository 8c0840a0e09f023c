"""BipedalWalker: a two-legged robot with lidar, one of the paper's three environments."""

from __future__ import annotations

from typing import Any

from rsa2c.envs.known.facts import RELEASED, Known, Quantity, RLZoo, Settings, Skill, by_id


def _leg(number: int) -> tuple[Quantity, ...]:
    return (
        Quantity(f"hip {number} angle", "rad"),
        Quantity(f"hip {number} speed"),
        Quantity(f"knee {number} angle", "rad"),
        Quantity(f"knee {number} speed"),
        Quantity(f"leg {number} ground contact"),
    )


# Velocities of the hull are scaled: rad/s times 0.04, m/s times 0.12 (horizontal) and 0.08 (vertical). Joint speeds are
# fractions of 4 rad/s (hip) and 6 rad/s (knee), lidar ranges fractions of 5.33 m. Knee angles are offset by 1 rad.
FEATURES = (
    Quantity("hull angle", "rad"),
    Quantity("hull angular velocity"),
    Quantity("horizontal velocity"),
    Quantity("vertical velocity"),
    *_leg(1),
    *_leg(2),
    *(Quantity(f"lidar {ray}") for ray in range(1, 11)),
)
# An action's sign is the direction of the motor, its size the share of the largest torque, 80 N m.
ACTIONS = tuple(Quantity(joint) for joint in ("hip 1", "knee 1", "hip 2", "knee 2"))

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        **RELEASED,
        "n_envs": 12,
        "horizon": 1600,
        "length_scale": 3.0,
        "capacity": 1024,
        "initial_centres": 192,
        "admission_threshold_final": 0.0007,
        "admission_epochs": 600,
        "admission_limit": 24,
        "admission_every": 3,
        "replacement_every": 3,
        "replacement_limit": 24,
        "value_fit": "mc",
        "value_step": 0.005,
        "value_sweeps": 3,
        "smooth_advantage": True,
        "sigma_initial": 0.9,
        "sigma_final": 0.4,
        "sigma_epochs": 1200,
        "step_size": 0.16,  # the table's 0.08 times the released code's gradient scale of 2
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

RL_ZOO = RLZoo(
    "BipedalWalker-v3",
    {
        "sac": Settings(
            500_000,
            arguments={
                "learning_rate": 7.3e-4,
                "buffer_size": 300_000,
                "batch_size": 256,
                "ent_coef": "auto",
                "gamma": 0.98,
                "tau": 0.02,
                "train_freq": 64,
                "gradient_steps": 64,
                "learning_starts": 10_000,
                "use_sde": True,
                "policy_kwargs": {"log_std_init": -3, "net_arch": [400, 300]},
            },
        ),
        "ppo": Settings(
            5_000_000,
            n_envs=32,
            normalise=True,
            arguments={
                "n_steps": 2048,
                "batch_size": 64,
                "gae_lambda": 0.95,
                "gamma": 0.999,
                "n_epochs": 10,
                "ent_coef": 0.0,
                "learning_rate": 3e-4,
                "clip_range": 0.18,
            },
        ),
    },
)

KNOWN = by_id(
    Known(
        "BipedalWalker-v3",
        FEATURES,
        ACTIONS,
        1_600,
        total_timesteps=3_960_000,  # with the warm-up and the last epoch rounded up, a run ends below 4 M
        presets=PRESETS,
        rl_zoo=RL_ZOO,
        drawing="walker",
        # the whole way gives 300 and a fall costs 100
        skill=Skill("walks without falling", 200.0),
    ),
    Known("BipedalWalkerHardcore-v3", FEATURES, ACTIONS, 2_000),
)

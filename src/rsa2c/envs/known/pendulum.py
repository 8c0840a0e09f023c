"""Pendulum-v1: swing a pole up and hold it, one of the paper's three environments."""

from __future__ import annotations

from typing import Any

from rsa2c.envs.known.facts import RELEASED, Known, Quantity, RLZoo, Settings, Skill, by_id

PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "scaling": "frozen",
        "sigma": "scheduled",
        "precision": "float64",
        "n_envs": 12,
        "gamma": 0.98,
        "length_scale_factor": 0.46,
        "capacity": 256,
        "admission_threshold": 0.002,
        "admission_candidates": 1500,
        "value_lambda": 0.8,
        "value_ridge": 1e-06,  # a larger one hides the value of one swing more at the hardest starts
        "value_kernel": "guided",
        "gae_lambda": 0.9,
        "sigma_initial": 0.7,
        "sigma_final": 0.25,
        "sigma_epochs": 60,
        "kl": 0.03,
        "kl_final": 0.002,
        "kl_epochs": 60,
        "guide": "value+advantage",
        "attribution_every": 2,
        "attribution_warmup": 4,
        "attribution_centres": 120,
        "attribution_states": 32,
        "attribution_background": 32,
        "moment_decay": 0.97,
        "weight_floor": 0.02,
    },
    "paper": {
        **RELEASED,
        "n_envs": 24,
        "horizon": 200,
        "restart_p": 0.001,
        "length_scale": 0.8,
        "capacity": 384,
        "initial_centres": 128,
        "admission_threshold_final": 0.0002,
        "admission_epochs": 300,
        "admission_limit": 64,
        "admission_candidates": 1000,
        "replacement_every": 1,
        "replacement_limit": 64,
        "value_fit": "td",
        "value_lambda": 0.9,
        "value_step": 0.01,
        "value_sweeps": 2,
        "sigma_initial": 0.35,
        "sigma_final": 0.25,
        "sigma_epochs": 300,
        "step_size": 1.0,
        "attribution_every": 10,
        "attribution_warmup": 1,
        "ratio_mix": 0.25,
        "ratio_range": 2.0,
        "trust_region": 0.005,
        "cme_ridge": 0.001,
    },
}

RL_ZOO = RLZoo(
    "Pendulum-v1",
    {
        "sac": Settings(20_000, arguments={"learning_rate": 1e-3}),
        "ppo": Settings(
            100_000,
            n_envs=4,
            arguments={
                "n_steps": 1024,
                "gae_lambda": 0.95,
                "gamma": 0.9,
                "n_epochs": 10,
                "ent_coef": 0.0,
                "learning_rate": 1e-3,
                "clip_range": 0.2,
                "use_sde": True,
                "sde_sample_freq": 4,
            },
        ),
    },
    evaluation_steps=1_000,
)


def _vector(n: int) -> Any:
    from rsa2c.envs.pendulum import PendulumVector

    return PendulumVector(n)


PENDULUM = Known(
    "Pendulum-v1",
    (Quantity("cos θ"), Quantity("sin θ"), Quantity("angular velocity", "rad/s")),
    (Quantity("torque", "N m"),),
    200,
    total_timesteps=200_000,
    presets=PRESETS,
    rl_zoo=RL_ZOO,
    drawing="pendulum",
    vector=_vector,
    # a pole that hangs costs 9.9 a step, one that spins 3.3 or more: neither is left with -500 after 200 steps
    skill=Skill("swings up from anywhere and holds", -500.0),
)
KNOWN = by_id(PENDULUM)

"""Pendulum-v1: swing a pole up and hold it, one of the paper's three environments."""

from __future__ import annotations

from typing import Any

from rsa2c.envs.known.facts import RELEASED, Known, Quantity, RLZoo, Settings, Skill, by_id

EXCEPTIONS: dict[str, Any] = {
    # One swing is all there is to learn, from little: small first batches, loud noise and large first steps. The
    # general rule alone needs more than 20,000 steps to -200 and stays at -185; these reach it in 7,200 (mean of four
    # seeds) and -162 after 200,000. In brackets what one of them left out costs, seen with a length scale of 1.1 and
    # batches that double after 8,000 steps, which reach it in 6,700 and -163; but a length scale that does not know how
    # many features there are fails with useless ones.
    "n_envs": 4,  # (17,300 steps with batches of 4,000)
    "batch_doubling": 4_500,  # (-292 after 100,000 with batches of 800 throughout)
    "sigma_initial": 1.0,  # (8,950)
    "noise_correlation": 0.5,  # (9,570)
    "kl": 0.15,  # (10,600)
    "kl_halving": 20_000,  # (-182)
    "kl_largest": None,  # (7,600 instead of 6,300, six other seeds; none of these at -184 after 100,000, where one is)
    "policy_decay": 0.0,  # (-167)
    "gamma": 0.985,  # (8,440)
    "gae_lambda": 0.8,  # (9,620)
    "value_lambda": 0.8,  # (7,690)
    "value_ridge": 1e-4,  # (8,150)
    "value_damping": 0.3,  # (-167)
    "keep": "last",  # (-164 after 200,000 instead of -162: steps anneal so fast that the last policies differ little)
    "epochs_between_evaluations": 5,
    # guidance that stands up to useless features (docs/results.md, distractors)
    "guide": "value+advantage",
    "attribution_every": 2,
    "attribution_warmup": 4,
    "moment_decay": 0.97,
}
PRESETS: dict[str, dict[str, Any]] = {
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
    exceptions=EXCEPTIONS,
    presets=PRESETS,
    rl_zoo=RL_ZOO,
    drawing="pendulum",
    vector=_vector,
    # a pole that hangs costs 9.9 a step, one that spins 3.3 or more: neither is left with -500 after 200 steps
    skill=Skill("swings up from anywhere and holds", -500.0),
)
KNOWN = by_id(PENDULUM)

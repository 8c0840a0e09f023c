"""Returns of a policy whose observations are perturbed, in standard deviations of the states that it visits itself.

Every policy is measured by its own states, whoever trained it: a kernel's scale may be wider on purpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.agent import RSA2C
from rsa2c.baselines.policy import Baseline
from rsa2c.robustness.attacks import Attack, Generators, make_attack
from rsa2c.runs.evaluation import evaluate_policy

EPSILON = {"Hopper-v5": 0.075, "Walker2d-v5": 0.05, "HalfCheetah-v5": 0.15, "Ant-v5": 0.15}
"""Largest change of a feature, in its standard deviations: what the literature on robust learning uses."""
NOISE = 0.1
"""Standard deviation of Gaussian noise, in those of the features."""
KINDS = ("mad", "critic")
EPISODES = 50
EPISODES_OF_SCALE = 10
SEED = 30_000
SMALLEST = 1e-9
"""Standard deviation of a feature that never varies, such as the force on a body that touches nothing: next to none,
so such a feature is left as it is."""

PUBLISHED_METHODS = ("PPO", "SA-PPO", "ATLA-PPO", "WocaR-PPO")
PUBLISHED = {
    "Hopper-v5": ((3167, 636), (3705, 1076), (3291, 1772), (3616, 2579)),
    "Walker2d-v5": ((4472, 1086), (4487, 2908), (3842, 3663), (4156, 2722)),
    "HalfCheetah-v5": ((7117, -661), (3632, 3028), (6157, 5058), (6032, 4269)),
    "Ant-v5": ((5687, -872), (4292, 2511), (5359, 3765), (5596, 3164)),
}
"""(no attack, strongest attack) of `PUBLISHED_METHODS`, on version 2 of the environments. The first three are from the
README of github.com/huanzhang12/ATLA_robust_RL (commit 8bde894; ATLA-PPO: LSTM + SA-Reg), medians of 21 trainings under
the strongest of six attacks. WocaR-PPO's are those that WocaR-PPO/README.md in github.com/umd-huang-lab/WocaR-RL
(commit c28a618) reports of its paper, medians of 30 trainings under the strongest of its own attacks, SA-RL and PA-AD
among them."""

Array = NDArray[np.float64]


class Recorder:
    """Stands where an attack would, changes nothing, and keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[Array] = []

    def __call__(self, observations: NDArray[Any], rngs: Generators) -> Array:
        self.seen.append(np.array(observations, dtype=np.float64))
        return self.seen[-1]


def visited_scale(agent: RSA2C | Baseline) -> Array:
    """(d,): standard deviations of the features where the policy goes, without noise."""
    recorder = Recorder()
    evaluate_policy(agent, EPISODES_OF_SCALE, seed=SEED, attack=recorder)
    return np.maximum(np.concatenate(recorder.seen).std(axis=0), SMALLEST)


def gaussian(scale: Array) -> Attack:
    """Noise of `NOISE` standard deviations on every feature, fresh at every step."""

    def noise(observations: NDArray[Any], rngs: Generators) -> Array:
        drawn = np.stack([rng.standard_normal(len(scale)) for rng in rngs])
        return observations + NOISE * scale * drawn

    return noise


def attacked_returns(agent: RSA2C | Baseline, environment: str) -> dict[str, float]:
    """Mean return under noise and under each attack of the size in `EPSILON`."""
    scale = visited_scale(agent)
    attacks = {"noise": gaussian(scale)}
    attacks |= {kind: make_attack(kind, agent, EPSILON[environment], "linf", scale=scale) for kind in KINDS}
    return {
        name: round(float(evaluate_policy(agent, EPISODES, seed=SEED, attack=attack).returns.mean()), 4)
        for name, attack in attacks.items()
    }

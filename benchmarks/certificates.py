"""Certificates and attacks on trained agents: returns under noise and attacks, certified against attacked deviations.

Errors are boxes (l-infinity) in standard deviations of the agent's normaliser, of the same raw sizes for
Stable-Baselines3's PPO. Pendulum-v1 is trained here (seed 0); other environments come from run folders.

    python benchmarks/certificates.py [RUN ...] [--episodes 20] [--ppo-steps 100000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import numpy as np

import rsa2c
from _provenance import write
from rsa2c.attacks import ATTACKS, make_attack, output_attacks
from rsa2c.perturbations import Region
from rsa2c.store import Run
from rsa2c.theory import paper_quantities
from rsa2c.training import load_policy, longest_episode, train_run

SIZES = (0.1, 0.3)
"""Observation errors of the returns, in standard deviations."""
SMALL = (0.01, 0.05)
"""Observation errors of the tightness."""
STATES, TRIALS = 128, 6


def returns(policy: Any, like: rsa2c.RSA2C, episodes: int) -> list[str]:
    """One row for each size: clean, noise of that standard deviation, each attack."""
    std = like.policy_mean.normaliser.std
    options: dict[str, Any] = {"episodes": episodes, "max_steps": longest_episode(like)}
    clean = rsa2c.evaluate(policy, like.env_id, **options).mean
    rows = []
    for size in SIZES:
        noisy = rsa2c.evaluate(policy, like.env_id, noise_variance=(size * std) ** 2, **options)
        attacked = []
        for name in ATTACKS:
            attack = make_attack(name, policy, size, "linf", scale=std)
            attacked.append(rsa2c.evaluate(policy, like.env_id, attack=attack, **options).mean)
        certified = "-"
        if policy is like:
            certificate = like.certify(like.background[:STATES], size, "linf", "normalised")
            certified = f"{np.mean(certificate.deviation / (2 * like.policy.bounds.half)):.3f}"
        cells = [f"{mean:.1f}" for mean in (clean, noisy.mean, *attacked)]
        label = f"{like.env_id} | {policy.algorithm}, {policy.num_timesteps:,} steps"
        rows.append(f"| {label} | {size:g} | {' | '.join(cells)} | {certified} |")
        print(rows[-1], flush=True)
    return rows


def tightness(agent: rsa2c.RSA2C) -> list[str]:
    """Certified over strongest attacked deviation of the actions after squashing, and which bound was the smallest."""
    rows, rng = [], np.random.default_rng(0)
    states, std = agent.background[:STATES], agent.policy_mean.normaliser.std
    for norm in ("l2", "linf"):
        for size in SMALL:
            began = time.perf_counter()
            certificate = agent.certify(states, size, norm, "normalised")
            milliseconds = (time.perf_counter() - began) * 1e3 / len(states)
            moved = output_attacks(agent.policy_mean, states, Region(size, norm, std), rng, TRIALS)
            means = agent.policy_mean(moved.reshape(-1, states.shape[1])).reshape(len(moved), *certificate.action.shape)
            attacked = np.abs(agent.policy.bounds.action(means) - certificate.action).max(axis=0)
            assert np.all(attacked <= certificate.deviation), "a certificate was broken"
            by_name = {name: float(np.median(bound)) for name, bound in certificate.bounds.items()}
            bounds = ", ".join(f"{name} {bound:.3g}" for name, bound in by_name.items())
            ratio = certificate.deviation / np.maximum(attacked, np.finfo(float).tiny)
            medians = f"{np.median(attacked):.3g} | {np.median(certificate.deviation):.3g}"
            rows.append(
                f"| {agent.env_id} | {norm} {size:g} | {medians} "
                f"| {np.median(ratio):.3f} | {np.quantile(ratio, 0.95):.3f} | {bounds} | {milliseconds:.1f} |"
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help="run folders of kernel agents, and of ppo on the same environments")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--ppo-steps", type=int, default=100_000, help="steps of PPO on Pendulum-v1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = train_run("Pendulum-v1", "rsa2c-kme", out=folder, track=False)
        peer = train_run("Pendulum-v1", "ppo", total_timesteps=options.ppo_steps, out=folder, track=False)
        policies = [load_policy(run) for run in (ours, peer, *map(Run.open, options.runs))]
    agents = {policy.env_id: policy for policy in policies if isinstance(policy, rsa2c.RSA2C)}
    attacks = " | ".join(ATTACKS)
    table = [
        f"| environment | agent | error | clean | noise | {attacks} | certified |",
        "|---|---|---|---|---|" + "---|" * (len(ATTACKS) + 1),
    ]
    tight = [
        "| environment | error | attacked | certified | ratio, median | ratio, 95% "
        "| median of each bound, before squashing | ms a state |",
        "|---|---|---|---|---|---|---|---|",
    ]
    theory = []
    for env_id, agent in agents.items():
        tight += tightness(agent)
        region = Region(0.05, "l2", agent.policy_mean.normaliser.std)
        theory.append(f"\n{env_id}, l2 errors of 0.05 standard deviations at 32 visited states:\n")
        for quantity in paper_quantities(agent, agent.background[:32], region, np.random.default_rng(0)):
            theory.append(f"- {quantity}")
        for policy in policies:
            if policy.env_id == env_id:
                table += returns(policy, agent, options.episodes)
    body = "\n".join(
        [
            f"Mean return over {options.episodes} episodes; errors in every feature at once (l-infinity), in standard "
            "deviations of",
            "the kernel agent's normaliser. `certified` is the mean certified change of an action as a share of its "
            "range.",
            "",
            *table,
            "",
            f"Certified against the strongest attacked change of an action, {STATES} visited states "
            f"({2 * TRIALS} attacks and {TRIALS} random errors an output):",
            "",
            *tight,
            *theory,
        ]
    )
    print(write("certificates", "Certificates and attacks", body, "stable-baselines3", "torch"))


if __name__ == "__main__":
    main()

"""Attacks on what the zoo's robots see, at the sizes that the literature on robust reinforcement learning uses.

    python benchmarks/attacks.py [--environments Hopper-v5,...] [--episodes 50]

Every observation is perturbed by at most epsilon standard deviations of each feature: at random, to change the action
most (MAD), or to lower the agent's own value (critic). Published figures of PPO, SA-PPO and ATLA-PPO stand beside ours:
the median agent of 21 trainings on version 2 of the environments, under the strongest of six attacks. Two of these,
Robust Sarsa and a learned adversary, are not among ours, and were mostly the strongest.
"""

from __future__ import annotations

import argparse

import rsa2c
from _provenance import write
from rsa2c.robustness.attacks import make_attack

EPSILON = {"Hopper-v5": 0.075, "Walker2d-v5": 0.05, "HalfCheetah-v5": 0.15, "Ant-v5": 0.15}
KINDS = ("random", "mad", "critic")
PUBLISHED = {
    "Hopper-v5": ((3167, 636), (3705, 1076), (3291, 1772)),
    "Walker2d-v5": ((4472, 1086), (4487, 2908), (3842, 3663)),
    "HalfCheetah-v5": ((7117, -661), (3632, 3028), (6157, 5058)),
    "Ant-v5": ((5687, -872), (4292, 2511), (5359, 3765)),
}
"""(no attack, strongest attack) of PPO, SA-PPO and ATLA-PPO (LSTM + SA-Reg), from the README of
github.com/huanzhang12/ATLA_robust_RL (commit 8bde894)."""
SEED = 30_000


def returns(env_id: str, episodes: int) -> list[float]:
    """The zoo agent's mean return without an attack and under each kind."""
    agent = rsa2c.load(f"zoo:{env_id}")
    found = [rsa2c.evaluate(agent, env_id, episodes=episodes, seed=SEED).returns.mean()]
    for kind in KINDS:
        attack = make_attack(kind, agent, epsilon=EPSILON[env_id], norm="linf", units="normalised")
        found.append(rsa2c.evaluate(agent, env_id, episodes=episodes, seed=SEED, attack=attack).returns.mean())
        print(env_id, kind, f"{found[-1]:.0f}", flush=True)
    return [float(each) for each in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", default=",".join(EPSILON))
    parser.add_argument("--episodes", type=int, default=50)
    options = parser.parse_args()
    heads = ("environment", "epsilon", "no attack", *KINDS, "PPO", "SA-PPO", "ATLA-PPO")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for env_id in options.environments.split(","):
        ours = [f"{each:,.0f}" for each in returns(env_id, options.episodes)]
        theirs = [f"{clean:,} / {worst:,}" for clean, worst in PUBLISHED[env_id]]
        lines.append(f"| {env_id} | {EPSILON[env_id]:g} | {' | '.join([*ours, *theirs])} |")
    body = f"""\
Mean return of the zoo's agents (`rsa2c zoo`), which were not trained for attacks, over {options.episodes} episodes.
Every feature of every observation is perturbed by at most epsilon of its standard deviations: at random, to change the
action most (`mad`), or to lower the agent's own value (`critic`), by projected gradient ascent.

{chr(10).join(lines)}

The last three columns are published figures without an attack and under the strongest of six attacks: the median agent
of 21 trainings, on version 2 of the environments ([ATLA](https://github.com/huanzhang12/ATLA_robust_RL), README, commit
8bde894). Their six attacks include Robust Sarsa and a learned adversary, which are stronger than `mad` and `critic` and
which we do not have, so the columns say how large these perturbations are rather than which method is better. SA-PPO
and ATLA-PPO are trained against attacks of this size.
"""
    print("written to", write("attacks", "Attacks on what robots see", body))


if __name__ == "__main__":
    main()

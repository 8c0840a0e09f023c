"""Attacks on what the zoo's robots see, at the sizes that the literature on robust reinforcement learning uses.

    python benchmarks/attacks.py [--environments Hopper-v5,...] [--episodes 50] [--learn STEPS]

Every observation is perturbed by at most epsilon standard deviations of each feature: at random, to change the action
most (MAD), to lower the agent's own value (critic), or, with --learn, by an adversary that was trained for so many
steps to lower the return (`rsa2c.adversary`). Published figures of PPO, SA-PPO, ATLA-PPO and WocaR-PPO stand beside
ours: the median agent of 21 or 30 trainings on version 2 of the environments, under the strongest of several attacks.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import rsa2c
from _attacked import EPSILON, PUBLISHED, PUBLISHED_METHODS, SEED
from _earlier import note
from _provenance import write
from rsa2c.adversary import learn_attack
from rsa2c.robustness.attacks import Attack, make_attack
from rsa2c.zoo import cards

KINDS = ("random", "mad", "critic")


def returns(env_id: str, episodes: int, steps: int) -> list[float]:
    """The zoo agent's mean return without an attack, under each kind, and under an adversary if it has `steps`."""
    agent, epsilon = rsa2c.load(f"zoo:{env_id}"), EPSILON[env_id]

    def tried(name: str, attack: Attack | None) -> float:
        mean = float(rsa2c.evaluate(agent, env_id, episodes=episodes, seed=SEED, attack=attack).returns.mean())
        print(env_id, name, f"{mean:.0f}", flush=True)
        return mean

    found = [tried("no attack", None)]
    found += [tried(kind, make_attack(kind, agent, epsilon, "linf", "normalised")) for kind in KINDS]
    if steps:
        found.append(tried("learned", learn_attack(agent, env_id, epsilon, units="normalised", total_timesteps=steps)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", default=",".join(EPSILON))
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--learn", type=int, default=0, metavar="STEPS")
    options = parser.parse_args()
    environments = options.environments.split(",")
    measured = {env_id: returns(env_id, options.episodes, options.learn) for env_id in environments}
    body = page(measured, options.episodes, options.learn)
    print("written to", write("attacks", "Attacks on what robots see", body))


def page(measured: Mapping[str, Sequence[float]], episodes: int, steps: int = 0) -> str:
    """What was measured of each environment's agent, beside published figures; an adversary was trained for `steps`."""
    learned = ("learned",) if steps else ()
    heads = ("environment", "epsilon", "no attack", *KINDS, *learned, *PUBLISHED_METHODS)
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for env_id, each in measured.items():
        ours = [f"{mean:,.0f}" for mean in each]
        theirs = [f"{clean:,} / {worst:,}" for clean, worst in PUBLISHED[env_id]]
        lines.append(f"| {env_id} | {EPSILON[env_id]:g} | {' | '.join([*ours, *theirs])} |")
    adversary = f" `learned` is an adversary that RSA2C trained for {steps:,} steps." if steps else ""
    return f"""\
Mean return of the zoo's agents (`rsa2c zoo`), one for each robot, not chosen by score and not trained for attacks, over
{episodes} episodes. Every feature of every observation is perturbed by at most epsilon of its standard
deviations: at random, or by projected gradient ascent to change the action most (`mad`) or to lower the agent's own
value (`critic`).{adversary} {note(cards()[env_id].path for env_id in measured)}

{chr(10).join(lines)}

The last four columns are published figures without an attack and under the strongest of several, on version 2 of the
environments; all but PPO's are of agents trained for attacks of this size. PPO's, SA-PPO's and ATLA-PPO's are the
median agent of 21 trainings under the strongest of six attacks
([ATLA](https://github.com/huanzhang12/ATLA_robust_RL), README, commit 8bde894). WocaR-PPO's are from its authors
([WocaR-RL](https://github.com/umd-huang-lab/WocaR-RL), WocaR-PPO/README.md, commit c28a618): the median of 30 trainings
under the strongest of their own attacks, so they compare with the other three only roughly. The attacks include Robust
Sarsa and adversaries that were learned, which are stronger than ours. So the columns say how large these perturbations
are; they do not decide which method is better.
"""


if __name__ == "__main__":
    main()

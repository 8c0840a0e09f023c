"""RSA2C-KME at `default` on Pendulum-v1 over ten seeds, beside SB3 SAC on the same start states.

Steps and seconds to a mean return of -200 over 20 fixed start states, then, after 200,000 steps, the mean over 100
fixed-seed episodes; SAC (RL-Zoo hyper-parameters) after 20,000 steps on the same 100 episodes.

    python benchmarks/pendulum.py [--seeds 10] [--sac-seeds 3]
"""

from __future__ import annotations

import argparse

import numpy as np

import rsa2c
from _provenance import write

ENV, GOAL, STEPS, SAC_STEPS = "Pendulum-v1", -200.0, 200_000, 20_000


def ours(seed: int, algorithm: str) -> dict[str, float]:
    agent = rsa2c.RSA2C(ENV, algorithm, seed=seed)
    reached: list[int] = []

    def watch(*_: object) -> None:
        if not reached and rsa2c.evaluate(agent, ENV, episodes=20, seed=10_000).mean >= GOAL:
            reached.append(agent.num_timesteps)

    agent.learn(STEPS - agent.num_timesteps, callback=watch)
    result = rsa2c.evaluate(agent, ENV, episodes=100, seed=0)
    weights = agent.kernel_weights
    return {
        "steps to -200": reached[0] if reached else float("inf"),
        "return": result.mean,
        "states": agent.dictionary_size,
        "weights": float(weights.max() / weights.min()),
        "seconds": sum(agent.seconds.values()),
    }


def sac(seed: int) -> float:
    from rsa2c.baselines import make_baseline, torch_threads

    with torch_threads(1):
        baseline = make_baseline("sac", ENV, seed=seed)
        baseline.model.learn(SAC_STEPS)
        return rsa2c.evaluate(baseline, ENV, episodes=100, seed=0).mean


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sac-seeds", type=int, default=3)
    arguments = parser.parse_args()
    lines = ["| agent | seed | steps to -200 | return, 100 episodes | states | weight ratio | training seconds |"]
    lines.append("|---|---|---|---|---|---|---|")
    means: dict[str, list[float]] = {}
    for algorithm in ("rsa2c-kme", "advanced-ac"):
        for seed in range(arguments.seeds):
            row = ours(seed, algorithm)
            means.setdefault(algorithm, []).append(row["return"])
            lines.append(
                f"| {algorithm} | {seed} | {row['steps to -200']:,.0f} | {row['return']:.1f} | {row['states']} "
                f"| {row['weights']:.1f} | {row['seconds']:.1f} |"
            )
            print(lines[-1], flush=True)
    for seed in range(arguments.sac_seeds):
        means.setdefault("SB3 SAC, 20,000 steps", []).append(sac(seed))
        lines.append(f"| SB3 SAC, 20,000 steps | {seed} | | {means['SB3 SAC, 20,000 steps'][-1]:.1f} | | | |")
        print(lines[-1], flush=True)
    summary = [f"- {name}: mean over seeds {np.mean(rows):.1f}" for name, rows in means.items()]
    print("\n".join(summary))
    body = "\n".join([*summary, "", *lines])
    print(write("pendulum", "Pendulum-v1 at default", body, "stable-baselines3", "torch"))


if __name__ == "__main__":
    main()

"""The LQR benchmark: gap to the Riccati optimum over training.

The gap is the excess of the mean cost of deterministic, unclipped rollouts of 2,000 steps from 1,000 fixed starts over
the optimal cost, as a fraction of it.

    python benchmarks/lqr.py [--seeds 5]
"""

from __future__ import annotations

import argparse

import rsa2c
from _provenance import write
from rsa2c.envs import lqr

ENV, MARKS = "rsa2c/LQR-v0", (300_000, 600_000, 1_200_000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    _, gain = lqr.riccati()
    lines = [
        f"Gap of the optimal linear gain: {lqr.gap(lambda s: -s @ gain.T):.1e}",
        "",
        "| agent | seed | gap at 300 k, 600 k, 1.2 M steps | gain at the origin |",
        "|---|---|---|---|",
    ]
    for algorithm in ("rsa2c-kme", "advanced-ac"):
        for seed in range(arguments.seeds):
            agent = rsa2c.RSA2C(ENV, algorithm, seed=seed)
            gaps = []
            for steps in MARKS:
                agent.learn(steps - agent.num_timesteps)
                gaps.append(lqr.gap(agent.policy_mean))
            local = agent.linearise([0.0, 0.0, 0.0, 0.0])[0]
            shown = ", ".join(f"{gap:.3f}" if gap < 100 else "unstable" for gap in gaps)
            lines.append(f"| {algorithm} | {seed} | {shown} | {', '.join(f'{k:.1f}' for k in local)} |")
            print(lines[-1], flush=True)
    print("\n".join(lines))
    print(write("lqr", "LQR: gap to the Riccati optimum", "\n".join(lines)))


if __name__ == "__main__":
    main()

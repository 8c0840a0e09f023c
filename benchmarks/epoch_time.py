"""Milliseconds per epoch of the `paper` preset on Pendulum-v1, by phase.

An epoch has 24 episodes of 200 steps and two TD(lambda) sweeps, with dictionaries of 384 states (both filled before
the clock starts). The paper's released code takes 1.8 s for the same epoch on a machine like this one.

    python benchmarks/epoch_time.py [--epochs 50]
"""

from __future__ import annotations

import argparse
import time

import rsa2c
from _provenance import write
from rsa2c.algorithm.epoch import PHASES

RELEASED_CODE_MS = 1800.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50)
    arguments = parser.parse_args()
    # The preset's threshold admits fewer states; a tiny one fills both dictionaries to the paper's 384.
    filled = {"admission": "constant", "admission_threshold": 1e-8, "initial_centres": 384}
    agent = rsa2c.RSA2C("Pendulum-v1", "rsa2c-kme", preset="paper", seed=0, **filled)
    epochs_before = 0
    while min(agent.dictionary_sizes.values()) < agent.sizes.capacity and epochs_before < 60:
        agent.learn(1)
        epochs_before += 1
    seconds = dict.fromkeys(PHASES, 0.0)

    def add(*_: object) -> None:
        for phase in PHASES:
            seconds[phase] += agent.record.seconds[phase]

    began = time.perf_counter()
    agent.learn(arguments.epochs * agent.sizes.epoch_steps, callback=add)
    total = (time.perf_counter() - began) / arguments.epochs * 1e3
    lines = [
        f"{total:.1f} ms per epoch over {arguments.epochs} epochs, {RELEASED_CODE_MS / total:.0f} times faster than "
        f"the released code's {RELEASED_CODE_MS:.0f} ms. The dictionaries were full ({agent.dictionary_sizes}) after "
        f"{epochs_before} epochs, which are not counted.",
        "",
        "| phase | ms per epoch |",
        "|---|---|",
        *(f"| {name} | {spent / arguments.epochs * 1e3:.2f} |" for name, spent in seconds.items()),
    ]
    print("\n".join(lines))
    print(write("epoch_time", "An epoch of the `paper` preset on Pendulum-v1", "\n".join(lines)))


if __name__ == "__main__":
    main()

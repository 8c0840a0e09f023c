"""Milliseconds per epoch by phase, for the paper's preset and for `default`.

    python benchmarks/epoch_time.py [--epochs 50] [--environments Hopper-v5,Ant-v5]

The preset `paper` on Pendulum-v1: an epoch has 24 episodes of 200 steps and two TD(lambda) sweeps, with dictionaries of
384 states (both filled before the clock starts). The paper's released code takes 1.8 s for the same epoch on a machine
like this one.

The preset `default` on robots: each phase beside the least time it could take on one core. For rollouts that is the
time inside the environments' own steps; for everything else the phase's operations (`rsa2c.cost`, checked against
counted ones in the tests) at the rate of a product of large matrices, measured beside it.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import rsa2c
from _provenance import write
from rsa2c.algorithm.epoch import PHASES
from rsa2c.algorithm.threads import limited_threads
from rsa2c.cost.profile import profile

RELEASED_CODE_MS = 1800.0
SETTLED = 60
"""Epochs before the clock starts: dictionaries are full then, and weights have been measured."""
STEPPED = 10
"""Epochs in which the environments' own steps are timed."""


def paper(epochs: int) -> list[str]:
    """The section on the paper's preset."""
    # The preset's threshold admits fewer states; a tiny one fills both dictionaries to the paper's 384.
    filled = {"admission": "constant", "admission_threshold": 1e-8, "initial_centres": 384}
    agent = rsa2c.RSA2C("Pendulum-v1", "rsa2c-kme", preset="paper", seed=0, **filled)
    before = 0
    while min(agent.dictionary_sizes.values()) < agent.sizes.capacity and before < 60:
        agent.learn(1)
        before += 1
    seconds = dict.fromkeys(PHASES, 0.0)

    def add(*_: object) -> None:
        for phase in PHASES:
            seconds[phase] += agent.record.seconds[phase]

    began = time.perf_counter()
    agent.learn(epochs * agent.sizes.epoch_steps, callback=add)
    total = (time.perf_counter() - began) / epochs * 1e3
    return [
        "## Preset `paper` on Pendulum-v1\n",
        f"{total:.1f} ms per epoch over {epochs} epochs, {RELEASED_CODE_MS / total:.0f} times faster than "
        f"the released code's {RELEASED_CODE_MS:.0f} ms. The dictionaries were full ({agent.dictionary_sizes}) after "
        f"{before} epochs, which are not counted.",
        "",
        "| phase | ms per epoch |",
        "|---|---|",
        *(f"| {name} | {spent / epochs * 1e3:.2f} |" for name, spent in seconds.items()),
    ]


class Stepping:
    """Seconds that environments take for their own steps."""

    def __init__(self, env: Any) -> None:
        self.seconds, self._step = 0.0, env.step
        env.step = self

    def __call__(self, actions: Any) -> Any:
        began = time.perf_counter()
        answer = self._step(actions)
        self.seconds += time.perf_counter() - began
        return answer


def product_rate(n: int = 1024, times: int = 20) -> float:
    """Operations per second of a product of matrices in double precision."""
    a, b = np.random.default_rng(0).standard_normal((2, n, n))
    a @ b
    began = time.perf_counter()
    for _ in range(times):
        a @ b
    return 2 * n**3 * times / (time.perf_counter() - began)


def stepping_ms(agent: rsa2c.RSA2C) -> float:
    """Milliseconds that the environments' own steps take in a rollout, mean over `STEPPED` epochs."""
    stepping, total = Stepping(agent.env), 0.0
    for _ in range(STEPPED):
        stepping.seconds, inside = 0.0, []
        agent.run_epoch(observe=lambda step, inside=inside: inside.append(stepping.seconds))
        total += inside[-1]  # what follows the rollout's last step are trials
    return 1e3 * total / STEPPED


def default(env_id: str, epochs: int) -> list[str]:
    """The section on a robot."""
    agent = rsa2c.RSA2C(env_id, "rsa2c-kme", seed=0)
    with limited_threads(agent.config.threads):
        rate = product_rate()
        for _ in range(SETTLED):
            agent.run_epoch()
        found, stepping = profile(agent, epochs), stepping_ms(agent)
    lines = []
    for each in found.phases:
        least = 1e12 * each.gflop / rate + (stepping if each.phase == "collect" else 0.0)
        ratio = f"{each.milliseconds / least:.1f}" if least else "-"  # nothing was due
        lines.append(f"| {each.phase} | {each.milliseconds:.1f} | {least:.1f} | {ratio} |")
    rest = found.milliseconds - sum(each.milliseconds for each in found.phases)
    return [
        f"\n## Preset `default` on {env_id}\n",
        f"{found.milliseconds:.0f} ms per epoch of {found.transitions:,} steps over {epochs} epochs after {SETTLED} "
        f"others, {1e3 * found.transitions / found.milliseconds:,.0f} steps per second; dictionaries "
        f"{agent.dictionary_sizes}. Products of matrices ran at {rate / 1e9:.0f} GFLOP per second.",
        "",
        "| phase | ms per epoch | at least | times that |",
        "|---|---|---|---|",
        *lines,
        f"| trials of the policy that is kept, and the rest | {rest:.1f} | | |",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--environments", default="Hopper-v5,Ant-v5")
    arguments = parser.parse_args()
    lines = paper(arguments.epochs)
    for env_id in arguments.environments.split(","):
        lines += default(env_id, arguments.epochs)
    print("\n".join(lines))
    print(write("epoch_time", "An epoch", "\n".join(lines)))


if __name__ == "__main__":
    main()

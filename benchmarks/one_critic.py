"""One critic for both: guidance by the Value Critic, which is what is explained, beside that by the attribution critic.

    python benchmarks/one_critic.py                    four ways, seeds 0 to 4; writes results/one-critic.md

The rule that turns importances into weights is the same, and so is what is attributed, the value; the default, which
attributes the advantage too, is beside them. The Value Critic has no shadow features, so its null is zero; its kernel
takes the weights, or with `value_kernel="plain"` it does not, so that nothing is circular.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from _provenance import write
from _suite_table import table
from fidelity import interval
from rsa2c import RSA2C, evaluate, statistics
from rsa2c.algorithm import reweighting
from rsa2c.algorithm.guidance import Explained, value_critic
from rsa2c.algorithm.samples import states

ENVIRONMENT, USELESS, STEPS, EPISODES = "Pendulum-v1", 10, 100_000, 50
OWN, GUIDED, PLAIN = (
    "attribution critic, of the value",
    "Value Critic, its kernel weighted",
    "Value Critic, its kernel plain",
)
BOTH = "attribution critic, of value and advantage (the default)"
WAYS: dict[str, dict[str, Any]] = {
    OWN: {"guide": "value"},
    BOTH: {},
    GUIDED: {"guide": "value"},
    PLAIN: {"guide": "value", "value_kernel": "plain"},
}
"""What guides, and the settings that make it."""
INTRODUCTION = f"""\
What guides on {ENVIRONMENT} with {USELESS} features of noise: {STEPS:,} steps, mean return over {EPISODES}
deterministic episodes, and the share of the kernel's weights that the three true features have (23% where all weigh
alike). Means over seeds with Student's 95% interval; the difference is that of pairs of equal seeds.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0")
    parser.add_argument("--steps", type=int, default=STEPS, help="of every training")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for seed in range(options.seeds):
        for name in WAYS:
            found[name].append(trained(name, seed, options.steps))
            print(seed, name, *found[name][-1], flush=True)
    write("one-critic", "One critic for both", page(found))


def page(found: dict[str, list[tuple[float, float]]]) -> str:
    """A row for each way: its returns and weights, and what it loses."""
    columns = ("guided by", "seeds", "mean return", "difference", "weight on true features")
    lines = []
    for name, pairs in found.items():
        returns, weights = (list(each) for each in zip(*pairs, strict=True))
        own = [score for score, _ in found[OWN]]
        lost = "-" if name == OWN else interval([a - b for a, b in zip(returns, own, strict=True)])
        share = statistics.mean(weights).value
        lines.append([name, f"{len(pairs)}", interval(returns), lost, f"{share:.0%}"])
    return f"{INTRODUCTION}\n{table(columns, lines)}"


def trained(name: str, seed: int, steps: int) -> tuple[float, float]:
    """Mean return, and the share of the weights on true features, of an agent guided in this way."""
    with guided_by(name):
        agent = RSA2C(ENVIRONMENT, seed=seed, distractors=USELESS, **WAYS[name])
        agent.learn(steps)
    weights = agent.kernel_weights
    score = evaluate(agent, ENVIRONMENT, episodes=EPISODES, distractors=USELESS).mean
    return round(float(score), 1), float(weights[:-USELESS].sum() / weights.sum())


@contextmanager
def guided_by(name: str) -> Iterator[None]:
    """Attribute the Value Critic instead of a critic with shadow features, while agents are trained."""
    before = reweighting._explained
    if name in (GUIDED, PLAIN):
        reweighting._explained = _value_critic
    try:
        yield
    finally:
        reweighting._explained = before


def _value_critic(
    rule: Any, value: Any, samples: Any, estimate: Any, kernel: str, rng: np.random.Generator
) -> Explained:
    return value_critic(samples.take(states, np.arange(samples.n)), value)


if __name__ == "__main__":
    main()

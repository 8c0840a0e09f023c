"""What features in place of the Gram matrix buy the game CME where it guides training: time and faithfulness.

    python benchmarks/cme_in_training.py [--backgrounds 48 256 1024] [--rank 64] [--repeats 5]

The Value Critic of a trained agent is attributed as `guidance.measure` does it while training: 64 states, a background,
8 orders of features in antithetic pairs (all coalitions up to five features). Exactly, with Nystroem's features and
with random Fourier ones. Milliseconds are those of the processor, the fewest of the repeats. Rank agreement (Spearman)
and relative error are of the importances, means of absolute values over the states, to those of the exact regression on
the same states, background and orders. Beside them what other orders change.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

import rsa2c
from _provenance import header
from rsa2c.algorithm.guidance import CME_PERMUTATIONS, enumerates
from rsa2c.algorithm.threads import limited_threads
from rsa2c.attribution.cme import _sampled, cme_values
from rsa2c.attribution.embedding import ConditionalGame
from rsa2c.attribution.game import Game
from rsa2c.attribution.progress import silent
from rsa2c.envs import make_env

AGENTS = ("Pendulum-v1", "Hopper-v5")
STATES = 64
KINDS = (None, "nystroem", "fourier")


def visited(agent: rsa2c.RSA2C, env_id: str, count: int) -> NDArray[np.float64]:
    """(count, d): states of the agent's own episodes, with its exploration noise."""
    env = make_env(env_id, 8)
    found, rng = [], np.random.default_rng(0)
    states, _ = env.reset(seed=0)
    while len(found) * 8 < 4 * count:
        found.append(states)
        states, *_ = env.step(agent.predict(states, deterministic=False, rng=rng)[0])
    env.close()
    return rng.permutation(np.concatenate(found).astype(np.float64))[:count]


def importances(game: Game, kind: str | None, rank: int, orders: int) -> tuple[NDArray[np.float64], float]:
    """(d,): mean absolute values, and the seconds they took; `orders` seeds the orders of features."""
    began = time.process_time()
    if enumerates(game.player_count):
        phi = cme_values(game, approximation=kind, rank=rank)[0]
    else:
        conditional = ConditionalGame(game, approximation=kind, rank=rank)
        phi = _sampled(conditional, CME_PERMUTATIONS // 2, np.random.default_rng(orders), None, silent)[0]
    return np.abs(phi[..., 0]).mean(axis=0), time.process_time() - began


def row(env_id: str, agent: rsa2c.RSA2C, background: int, rank: int, repeats: int) -> None:
    value = agent.value
    assert value is not None, "the zoo's agents have a Value Critic"
    games = []
    for k in range(repeats):
        x = value.coordinates(np.random.default_rng(k).permutation(visited(agent, env_id, STATES + background)))
        games.append(Game(x[:STATES], x[STATES:], value.centres, value.coefficients, value.kernel))
    exact = [importances(game, None, rank, 0) for game in games]
    rows = {kind or "exact": [importances(game, kind, rank, 0) for game in games] for kind in KINDS}
    if not enumerates(value.kernel.dimension):
        rows["exact, other orders"] = [importances(game, None, rank, 1) for game in games]
    for name, found in rows.items():
        pairs = [(a, b) for (a, _), (b, _) in zip(found, exact, strict=True)]
        agreement = np.mean([spearmanr(a, b).statistic for a, b in pairs])
        error = np.mean([np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs])
        milliseconds = 1e3 * min(seconds for _, seconds in found)
        print(f"| {env_id} ({value.kernel.dimension}) | {background:,} | {name} | {milliseconds:,.0f} | "
              f"{agreement:.2f} | {error:.1%} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backgrounds", type=int, nargs="+", default=[48, 256, 1024])
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(header())
    print("| critic (features) | background states | regression | ms | rank agreement | relative error |")
    print("|---|---|---|---|---|---|")
    with limited_threads(1):
        for env_id in AGENTS:
            agent = rsa2c.load(f"zoo:{env_id}")
            for background in options.backgrounds:
                row(env_id, agent, background, options.rank, options.repeats)


if __name__ == "__main__":
    main()

"""Share of an epoch's time that attribution and reweighting take, for RSA2C-KME with the `default` preset.

Measured over whole periods of `attribution_every`, once the dictionaries are full and weights are being set.

    python benchmarks/shap_share.py [Pendulum-v1 BipedalWalker-v3 Ant-v5]
"""

from __future__ import annotations

import sys

import rsa2c
from _provenance import write
from rsa2c.algorithm.threads import limited_threads

EPOCHS = {"Pendulum-v1": (20, 40), "BipedalWalker-v3": (30, 20), "Ant-v5": (30, 20)}


def main() -> None:
    columns = "| environment | every n epochs | attribution, ms per epoch | epoch, ms | share |"
    lines = [columns, "|---|---|---|---|---|"]
    for env in sys.argv[1:] or EPOCHS:
        before, measured = EPOCHS[env]
        agent = rsa2c.RSA2C(env, "rsa2c-kme", seed=0)
        agent.learn(agent.num_timesteps + before * agent.sizes.epoch_steps)
        with limited_threads(agent.config.threads):
            records = [agent.run_epoch() for _ in range(measured)]
        attribution = sum(record.seconds["attribute"] for record in records)
        total = sum(sum(record.seconds.values()) for record in records)
        lines.append(
            f"| {env} | {agent.config.guidance.attribution_every} | {attribution / measured * 1e3:.1f} "
            f"| {total / measured * 1e3:.1f} | {attribution / total:.1%} |"
        )
        print(lines[-1], flush=True)
    print(write("shap_share", "What the SHAP step costs", "\n".join(lines)))


if __name__ == "__main__":
    main()

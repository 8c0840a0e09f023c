"""The quantities of the convergence theory during training, and how fast a TD(lambda) critic learns the value on LQR.

The first part trains RSA2C-KME on Pendulum-v1 with `diagnostics=True`. The second part measures, on rsa2c/LQR-v0, the
critic's relative error at visited states against rollouts of the policy: for LSTD during training, and for TD(lambda)
with the theory's steps b0 (t+1)^-1/2, starting from zero, while the policy (after 20 epochs of training) hardly moves.
In theory, the squared error falls as (t+1)^-1/2, down to a floor.

    python benchmarks/diagnostics.py [--epochs 64]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np

import rsa2c
from _provenance import write
from rsa2c.algorithm.diagnostics import tracking_error

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "img"
NAMES = {
    "zeta_a": "ζ_a, unexplained advantage",
    "lambda_F": "λ_F, smallest Fisher eigenvalue",
    "span_distance_value": "distance to the value's dictionary",
    "span_distance_actor": "distance to the actor's dictionary",
    "delta_K_h": "δ_K,h, kernel drift",
}
STABLE = 20
"""Epochs after which the LQR policy is stable, so that its value exists."""


def error(agent: rsa2c.RSA2C, states: np.ndarray) -> float:
    rng, gamma = np.random.default_rng(1), float(agent.config.gamma)
    return tracking_error(agent.policy, agent.value, gamma, states, rng, rollouts=16, steps=400)


def pendulum() -> list[dict[str, float]]:
    agent = rsa2c.RSA2C("Pendulum-v1", "rsa2c-kme", seed=0, precision="float64", diagnostics=True)
    return agent.learn(200_000).history


def lqr_errors(epochs: int) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """(epoch, error) of LSTD once the policy is stable, and of TD from zero with a policy that hardly moves."""
    agent = rsa2c.RSA2C("rsa2c/LQR-v0", "advanced-ac", seed=0, sigma_epochs=15)
    agent.learn(agent.num_timesteps + STABLE * agent.sizes.epoch_steps)
    slow = rsa2c.RSA2C.of(agent.snapshot())
    slow.config = slow.config.updated(
        value_fit="td", value_step=0.03, value_lambda=0.9, value_ridge=1e-6, step_rule="polynomial", step_size=1e-6,
        sigma_initial=float(agent.policy.sigma[0]), sigma_final=float(agent.policy.sigma[0]),
    )  # fmt: skip
    zero = replace(slow.value, coefficients=np.zeros_like(slow.value.coefficients), offset=np.zeros(1))
    slow.state = replace(slow.state, value=zero, epoch=0, steps=0)
    states = agent.background[:64]
    closed, td = [(agent.epoch, error(agent, states))], []
    for _ in range(4):
        agent.learn(5 * agent.sizes.epoch_steps)
        closed.append((agent.epoch, error(agent, agent.background[:64])))
    while slow.epoch < epochs:
        slow.learn(max(1, slow.epoch) * slow.sizes.epoch_steps)
        td.append((slow.epoch, error(slow, states)))
        print("TD", td[-1], flush=True)
    return closed, td


def draw(history: list[dict[str, float]], td: list[tuple[int, float]]) -> None:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(10, 5), constrained_layout=True)
    epochs = [row["epoch"] for row in history]
    for axis, (name, label) in zip(axes.flat, NAMES.items(), strict=False):
        values = np.array([row[name] for row in history])
        axis.plot(epochs, np.where(values > 0, values, np.nan), marker="." if name == "delta_K_h" else None)
        axis.set(title=label, xlabel="epoch")
        if name in ("lambda_F", "delta_K_h"):
            axis.set_yscale("log")
    axis = axes.flat[-1]
    t, squared = np.array([e for e, _ in td]), np.array([e**2 for _, e in td])
    axis.loglog(t, squared, marker=".", label="measured")
    axis.loglog(t, squared[0] * (t / t[0]) ** -0.5, "--", label="(t+1)^-1/2")
    axis.set(title="LQR: squared error of TD(λ)", xlabel="epoch")
    axis.legend()
    figure.savefig(IMAGES / "diagnostics.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=64)
    epochs = parser.parse_args().epochs
    history = pendulum()
    closed, td = lqr_errors(epochs)
    draw(history, td)
    lines = ["Pendulum-v1, RSA2C-KME, seed 0, 200,000 steps, double precision:", ""]
    lines += ["| epoch | " + " | ".join(NAMES) + " |", "|" + "---|" * (len(NAMES) + 1)]
    for row in history[:: max(1, len(history) // 8)]:
        lines.append(f"| {row['epoch']} | " + " | ".join(f"{row[name]:.3g}" for name in NAMES) + " |")
    drifts = [row["delta_K_h"] for row in history if row["delta_K_h"] > 0]
    largest = max(drifts, default=0.0)
    lines += ["", f"The kernel changed in {len(drifts)} epochs, with a drift of at most {largest:.2g}.", ""]
    later = [(t, e) for t, e in td if t >= 2]
    slope = np.polyfit(np.log([t for t, _ in later]), np.log([e**2 for _, e in later]), 1)[0]
    lines += ["rsa2c/LQR-v0, relative error of the value at 64 visited states:", ""]
    lines += ["- LSTD, during training: " + ", ".join(f"{e:.3f} (epoch {t})" for t, e in closed)]
    lines += ["- TD from zero, with a policy that hardly moves: " + ", ".join(f"{e:.3f} (epoch {t})" for t, e in td)]
    lines += [f"- the squared error of TD falls as t^{slope:.2f}; the theory's rate is t^-0.5, down to a floor"]
    print(write("diagnostics", "Quantities of the convergence theory", "\n".join(lines)))
    print("\n".join(lines))


if __name__ == "__main__":
    main()

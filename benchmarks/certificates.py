"""Certificates and attacks on trained agents: returns under noise and attacks, and certified against attacked changes.

Errors are boxes (l-infinity) in standard deviations of the kernel agent's metric. Stable-Baselines3's PPO is
measured afterwards, with errors of the same raw size. The measurements of each run are stored in results/certificates/,
and the page is made from all of them. Without arguments, agents are trained on Pendulum-v1 (seed 0) and measured.

    python benchmarks/certificates.py [RUN ...] [--episodes 20] [--ppo-steps 100000]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from typing import Any

import numpy as np

import rsa2c
from _earlier import RULE, SIGN, mark
from _provenance import RESULTS, command, write
from rsa2c.robustness.attacks import ATTACKS, make_attack, output_attacks
from rsa2c.robustness.bounds import paper_quantities
from rsa2c.robustness.regions import Region
from rsa2c.runs.folder import Run
from rsa2c.runs.provenance import provenance
from rsa2c.runs.training import load_policy, train_run

PIECES = RESULTS / "certificates"
COMMIT = provenance()["commit"]
"""Commit of the measuring code, read once at the start: writing results modifies the working tree."""
SIZES = (0.1, 0.3)
"""Sizes of the observation errors for the returns, in standard deviations."""
SMALL = (0.01, 0.05)
"""Sizes of the observation errors for the tightness, in standard deviations."""
STATES, TRIALS = 128, 6


def returns(policy: Any, std: np.ndarray, max_steps: int | None, episodes: int) -> list[str]:
    """One row per error size: clean, noise of that standard deviation, each attack."""
    options: dict[str, Any] = {"episodes": episodes, "max_steps": max_steps}
    clean = rsa2c.evaluate(policy, policy.env_id, **options).mean
    rows = []
    for size in SIZES:
        noisy = rsa2c.evaluate(policy, policy.env_id, noise_variance=(size * std) ** 2, **options)
        attacked = []
        for name in ATTACKS:
            attack = make_attack(name, policy, size, "linf", scale=std)
            attacked.append(rsa2c.evaluate(policy, policy.env_id, attack=attack, **options).mean)
        certified = "-"
        if isinstance(policy, rsa2c.RSA2C):
            certificate = policy.certify(policy.background[:STATES], size, "linf", "normalised")
            certified = f"{np.mean(certificate.deviation / (2 * policy.policy.bounds.half)):.3f}"
        cells = [f"{mean:.1f}" for mean in (clean, noisy.mean, *attacked)]
        label = f"{policy.env_id} | {policy.algorithm}, {policy.num_timesteps:,} steps"
        rows.append(f"| {label} | {size:g} | {' | '.join(cells)} | {certified} |")
        print(rows[-1], flush=True)
    return rows


def tightness(agent: rsa2c.RSA2C) -> list[str]:
    """Certified change of the action over the largest attacked one, after squashing, and the median of each bound."""
    rows, rng = [], np.random.default_rng(0)
    states, std = agent.background[:STATES], agent.policy_mean.kernel.metric.std
    for norm in ("l2", "linf"):
        for size in SMALL:
            began = time.process_time()  # other work on the machine affects it less than the wall's clock
            certificate = agent.certify(states, size, norm, "normalised")
            milliseconds = (time.process_time() - began) * 1e3 / len(states)
            moved = output_attacks(agent.policy_mean, states, Region(size, norm, std), rng, TRIALS)
            means = agent.policy_mean(moved.reshape(-1, states.shape[1])).reshape(len(moved), *certificate.action.shape)
            attacked = np.abs(agent.policy.bounds.action(means) - certificate.action).max(axis=0)
            assert np.all(attacked <= certificate.deviation), "a certificate was broken"
            by_name = {name: float(np.median(bound)) for name, bound in certificate.bounds.items()}
            bounds = ", ".join(f"{name} {bound:.3g}" for name, bound in by_name.items())
            ratio = certificate.deviation / np.maximum(attacked, np.finfo(float).tiny)
            medians = f"{np.median(attacked):.3g} | {np.median(certificate.deviation):.3g}"
            rows.append(
                f"| {agent.env_id} | {norm} {size:g} | {medians} "
                f"| {np.median(ratio):.3f} | {np.quantile(ratio, 0.95):.3f} | {bounds} | {milliseconds:.1f} |"
            )
            print(rows[-1], flush=True)
    return rows


def measured(policy: Any, episodes: int) -> dict[str, Any]:
    """The measurements of one agent; a baseline uses the units of the kernel agent that was measured before it."""
    if isinstance(policy, rsa2c.RSA2C):
        agent, std = policy, policy.policy_mean.kernel.metric.std
        region, states = Region(0.05, "l2", std), agent.background[:32]
        parts = (agent.policy, agent.value, agent.background, float(agent.config.gamma), states)
        theory = [str(line) for line in paper_quantities(*parts, region, np.random.default_rng(0))]
        piece = {"tightness": tightness(agent), "theory": theory, "std": std.tolist(),
                 "max_steps": agent.longest_episode}  # fmt: skip
    else:
        own = _piece(policy.env_id, "rsa2c-kme")
        piece = {"std": own["std"], "max_steps": own["max_steps"]}
    rows = returns(policy, np.array(piece["std"]), piece["max_steps"], episodes)
    return {"environment": policy.env_id, "command": command(), "commit": COMMIT, "episodes": episodes,
            "variant": "", "returns": rows, **piece}  # fmt: skip


def _piece(env_id: str, algorithm: str) -> dict[str, Any]:
    path = PIECES / f"{env_id}__{algorithm}.json"
    if not path.exists():
        raise SystemExit(f"{path.name} does not exist: measure the run of {algorithm} on {env_id} first.")
    return json.loads(path.read_text("utf-8"))


def page() -> str:
    """Everything measured so far: environments with fewer features first, kernel agents before baselines."""
    pieces = [json.loads(path.read_text("utf-8")) for path in PIECES.glob("*.json")]
    pieces.sort(key=lambda piece: (len(piece["std"]), "tightness" not in piece))
    attacks = " | ".join(ATTACKS)
    lines = [
        "Mean return over episodes with fixed seeds. Errors affect every feature at once (l-infinity) and are given in",
        "standard deviations of the kernel agent's metric. `certified` is the mean certified change of an action",
        "as a share of its range.",
        "",
        f"| environment | agent | error | clean | noise | {attacks} | certified |",
        "|---|---|---|---|---|" + "---|" * (len(ATTACKS) + 1),
        *(row for piece in pieces for row in piece["returns"]),
        "",
        f"Certified change of an action against the largest change an attack achieved, at {STATES} visited states "
        f"({2 * TRIALS} attacks and {TRIALS} random errors per output):",
        "",
        "| environment | error | attacked | certified | ratio, median | ratio, 95% "
        "| median of each bound, before squashing | CPU ms per state |",
        "|---|---|---|---|---|---|---|---|",
        *(row for piece in pieces for row in piece.get("tightness", ())),
    ]
    for piece in pieces:
        if "theory" in piece:
            lines.append(f"\n{piece['environment']}, l2 errors of 0.05 standard deviations at 32 visited states:\n")
            lines += [f"- {line}" for line in piece["theory"]]
    lines += ["", "Measured by:", ""]
    lines += [f"- `{piece['command']}`, {piece['episodes']} episodes, at {piece['commit']}{mark([piece])}"
              for piece in pieces]  # fmt: skip
    if mark(pieces):
        lines += ["", f"{SIGN}: of {RULE}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help="run folders of kernel agents, then ppo runs on the same environments")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--ppo-steps", type=int, default=100_000, help="steps of PPO on Pendulum-v1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [Run.open(run) for run in options.runs]
        if not runs:
            for name, steps in (("rsa2c-kme", None), ("ppo", options.ppo_steps)):
                runs.append(train_run("Pendulum-v1", name, total_timesteps=steps, out=folder, track=False))
        policies = [load_policy(run) for run in runs]
    PIECES.mkdir(parents=True, exist_ok=True)
    for policy in policies:
        piece = measured(policy, options.episodes)
        (PIECES / f"{policy.env_id}__{policy.algorithm}.json").write_text(json.dumps(piece, indent=1) + "\n", "utf-8")
        print(write("certificates", "Certificates and attacks", page(), "stable-baselines3", "torch"))


if __name__ == "__main__":
    main()

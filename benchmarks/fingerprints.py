"""Hashes of the results of short trainings, to show that a refactoring leaves behaviour unchanged.

    python benchmarks/fingerprints.py                      print the hashes of every case
    python benchmarks/fingerprints.py --write FILE         also write them to FILE (JSON)
    python benchmarks/fingerprints.py --check FILE         also compare them with FILE; exit code 1 if any differs

A case trains one algorithm with one preset for a few epochs, with settings that make every phase run: attributions from
the first epoch on, and dictionaries small enough to reach capacity. A fingerprint has one hash for each part of an
agent (policy, scale, the policy kept, value, advantage, importances, background) and one for its metrics, which shows
where a difference lies. The hashes are of numbers, not files. They are valid for one machine and one set of versions,
because BLAS and the processor determine the last bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rsa2c import RSA2C, make_env
from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.config import ALGORITHMS
from rsa2c.runs.provenance import blas

GUIDED = ("rsa2c-kme", "rsa2c-cme", "shuffled-shap")
SMALL: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"n_envs": 6, "capacity": 90},
    "rsa2c/LQR-v0": {"n_envs": 8, "capacity": 60},
    "BipedalWalker-v3": {"n_envs": 3, "horizon": 300, "capacity": 160},
    "Ant-v5": {"n_envs": 3, "horizon": 300, "capacity": 160},
}
"""Sizes at which six epochs take about a second and dictionaries fill up."""
EPOCHS = 6


def train(env: Any, algorithm: str, preset: str, epochs: int = EPOCHS, **fields: Any) -> RSA2C:
    """An agent trained for `epochs` epochs."""
    agent = RSA2C(env, algorithm, preset=preset, **fields)
    return agent.learn(agent.num_timesteps + epochs * agent.sizes.epoch_steps)


def eager(env_id: str, algorithm: str, preset: str) -> dict[str, Any]:
    """Settings with small sizes and attributions frequent enough to matter within a few epochs."""
    fields: dict[str, Any] = {**SMALL[env_id], "seed": 7, "replacement_every": 1}
    if preset == "paper":
        fields["admission_every"] = 1
    if algorithm in GUIDED:
        fields |= {"attribution_every": 1, "attribution_warmup": 1}
    if env_id != "Pendulum-v1":
        fields["initial_centres"] = 40
    return fields


def cases() -> Iterator[tuple[str, Callable[[], RSA2C]]]:
    """Every case with its name."""
    for env_id in SMALL:
        for preset in ("default", "paper"):
            for algorithm in ALGORITHMS:
                fields = eager(env_id, algorithm, preset)
                name = f"{env_id} {preset} {algorithm}"
                yield name, lambda e=env_id, a=algorithm, p=preset, f=fields: train(e, a, p, **f)
    for preset in ("default", "paper"):
        for env_id, epochs in (("Pendulum-v1", 30), ("rsa2c/LQR-v0", 8), ("BipedalWalker-v3", 2), ("Ant-v5", 2)):
            name = f"{env_id} {preset} rsa2c-kme, as set"
            yield name, lambda e=env_id, p=preset, n=epochs: train(e, "rsa2c-kme", p, n)
    pendulum = eager("Pendulum-v1", "rsa2c-kme", "default")

    def kme(env: Any = "Pendulum-v1", preset: str = "default", **more: Any) -> RSA2C:
        return train(env, "rsa2c-kme", preset, **{**pendulum, **more})

    yield "distractors", lambda: kme(distractors=4)
    yield "noise_variance", lambda: kme(noise_variance=0.01)
    yield "laplace", lambda: kme(kernel="laplace")
    yield "diagnostics", lambda: kme(diagnostics=True)
    yield "restarts", lambda: kme(restart_p=0.02)
    yield "gymnasium", lambda: kme(backend="gymnasium")
    yield "guide value+policy", lambda: kme(guide="value+policy")
    yield "squash clip", lambda: kme(squash="clip")
    yield "float32", lambda: kme(precision="float32")
    yield "polynomial steps", lambda: kme(step_rule="polynomial", value_fit="td")
    for name, more in {
        "metric": {"metric": "fisher", "step_rule": "kl"},
        "rkhs metric": {"metric": "rkhs"},
        "critic": {"value_fit": "closed"},
        "statistic": {"phi_statistic": "absolute"},
        "estimator": {"phi_estimator": "exact"},
        "projection": {"reproject": True},
    }.items():
        yield f"correction {name}", lambda m=more: kme(preset="paper", **m)
    yield "factory", lambda: kme(pendulum_factory)
    yield "vector environment", lambda: kme(make_env("Pendulum-v1", 6))
    yield (
        "Hopper-v5, no preset",
        lambda: train(
            "Hopper-v5", "rsa2c-kme", "default", 3, n_envs=3, horizon=300, attribution_every=1, attribution_warmup=1
        ),
    )
    yield "policy kept", lambda: train("Pendulum-v1", "rsa2c-kme", "default", 2, keep="best", n_envs=150, seed=7)
    yield "resumed", resumed


def pendulum_factory() -> Any:
    """Gymnasium's own Pendulum-v1."""
    import gymnasium

    return gymnasium.make("Pendulum-v1")


def resumed() -> RSA2C:
    """Train three epochs, save, load, and train three more."""
    agent = train("Pendulum-v1", "rsa2c-kme", "default", 3, **eager("Pendulum-v1", "rsa2c-kme", "default"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        agent.save(path)
        agent = RSA2C.load(path)
    return agent.learn(3 * agent.sizes.epoch_steps)


def fingerprint(agent: RSA2C) -> dict[str, str]:
    """A hash for each part of an agent."""
    state, kept = agent.state, agent.state.kept
    parts: dict[str, list[Any]] = {
        "policy": _policy(state.policy),
        "scale": [state.scale.mean, state.scale.variance],
        "kept": [] if kept is None else [*_policy(kept.policy), kept.epoch, kept.score, kept.episodes],
        "advantage": [agent.advantage.coefficients],
        "importances": [
            agent.importances.agreed, agent.importances.alone, agent.importances.explained, agent.importances.moved,
            agent.importances.updates,
        ],
        "background": [agent.background],
        "metrics": [sorted(row.items()) for row in agent.history],
        "attributions": [part for epoch, *rest in agent.attribution_log for part in (epoch - 1, *rest)],
        "steps": [agent.epoch, agent.num_timesteps],
    }  # fmt: skip
    if agent.algorithm != "rkhs-ac":
        value, errors = agent.value, agent.value.dictionary.errors
        parts["value"] = [value.centres, errors, value.coefficients, value.offset, value.kernel.weights]
    return {name: _hash(content) for name, content in parts.items()}


def _policy(policy: GaussianPolicy) -> list[Any]:
    mean, metric = policy.mean, policy.mean.kernel.metric
    return [
        mean.centres, mean.dictionary.errors, mean.coefficients, mean.kernel.length_scale, policy.sigma,
        metric.weights, metric.mean, metric.std, metric.clip, metric.knee or 0.0,
    ]  # fmt: skip


def _hash(content: list[Any]) -> str:
    digest = hashlib.sha256()
    for item in content:
        array = np.asarray(item) if not isinstance(item, list) else None
        digest.update(repr(item).encode() if array is None else array.tobytes() + str(array.shape).encode())
    return digest.hexdigest()[:12]


BLAS = "BLAS"
"""Name of the entry that says which kernels made a file; OPENBLAS_CORETYPE chooses others."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, help="file to write the hashes to")
    parser.add_argument("--check", type=Path, help="file to compare the hashes with")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    options = parser.parse_args()
    known = json.loads(options.check.read_text()) if options.check else {}
    found, differing = {}, 0
    for name, case in cases():
        if options.only not in name:
            continue
        found[name] = fingerprint(case())
        wrong = [part for part, value in found[name].items() if known and known.get(name, {}).get(part) != value]
        differing += bool(wrong)
        verdict = "" if not known else f"  DIFFERS in {', '.join(wrong)}" if wrong else "  equal"
        print(f"{name:<48} {' '.join(found[name].values())}{verdict}", flush=True)
    if options.write:
        options.write.write_text(json.dumps({BLAS: blas(), **found}, indent=1) + "\n")
    if known:
        print(f"{len(found) - differing} of {len(found)} cases equal")
    if differing and known.get(BLAS) != blas():
        print(f"The file was made with {known.get(BLAS)}, this process has {blas()}: other kernels, other bytes.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

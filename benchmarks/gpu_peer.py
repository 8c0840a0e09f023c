"""Brax's PPO in the simulations that rsa2c trains in on a GPU, measured as `gpu_training.py` measures rsa2c.

    python benchmarks/gpu_peer.py --plan "Ant-v5:0:240;Ant-v5:1:240" [--until 570] [--set num_timesteps=20000000]

It needs Brax (`pip install brax`). The options are those of `gpu_training.py`, whose page shows the measurements too.
Models, solver, rewards, terminations and starts are `rsa2c.gpu`'s; episodes, resets and learning are Brax's own, with
the settings that Brax published for a robot. A training ends after its number of steps, or where its seconds do.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from _gpu_page import BRAX
from gpu_training import EPISODES, FINAL_EPISODES, Compiling, Found, Kind, Plan, Rules, arguments, device_name, measure

COMMON = {"num_timesteps": 50_000_000, "episode_length": 1000, "normalize_observations": True, "action_repeat": 1,
          "num_minibatches": 32, "learning_rate": 3e-4}  # fmt: skip
PUBLISHED = {
    "Ant-v5": {**COMMON, "reward_scaling": 10, "unroll_length": 5, "num_updates_per_batch": 4, "discounting": 0.97,
               "entropy_cost": 1e-2, "num_envs": 4096, "batch_size": 2048},
    "HalfCheetah-v5": {**COMMON, "reward_scaling": 1, "unroll_length": 20, "num_updates_per_batch": 8,
                       "discounting": 0.95, "entropy_cost": 1e-3, "num_envs": 2048, "batch_size": 512},
    "Humanoid-v5": {**COMMON, "reward_scaling": 0.1, "unroll_length": 10, "num_updates_per_batch": 8,
                    "discounting": 0.97, "entropy_cost": 1e-3, "num_envs": 2048, "batch_size": 1024},
}  # fmt: skip
"""Of Brax's own robots of these names: notebooks/training.ipynb in its repository, where hopper and walker2d have SAC
instead."""


@dataclass(frozen=True)
class Network:
    """Brax's policy without noise: layers with x sigmoid(x) between them; the last has the mean before tanh first."""

    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    """Of observations, (d,) each."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """Bounds of an action, (m,) each."""
    layers: list[tuple[NDArray[np.float32], NDArray[np.float32]]]
    """Weights (inputs, outputs) and biases (outputs,)."""

    @classmethod
    def of(cls, low: NDArray[np.float64], high: NDArray[np.float64], normaliser: Any, policy: Any) -> Network:
        """That of Brax's parameters."""
        layers = policy["params"]
        each = [layers[f"hidden_{k}"] for k in range(len(layers))]
        return cls(np.asarray(normaliser.mean), np.asarray(normaliser.std), low, high,
                   [(np.asarray(one["kernel"]), np.asarray(one["bias"])) for one in each])  # fmt: skip

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[NDArray[np.float64], Any]:
        (*hidden, (weights, biases)), x = self.layers, (observation - self.mean) / self.std
        for each, bias in hidden:
            x = x @ each + bias
            x = x * expit(x)
        mean = (x @ weights + biases)[..., : len(self.low)]
        return (self.low + self.high) / 2 + (self.high - self.low) / 2 * np.tanh(mean), state

    def save(self, path: Path) -> None:
        layers = {f"{name}_{k}": array for k, layer in enumerate(self.layers)
                  for name, array in zip(("weights", "biases"), layer, strict=True)}  # fmt: skip
        np.savez(path, mean=self.mean, std=self.std, low=self.low, high=self.high, **layers)

    @classmethod
    def load(cls, path: Path) -> Network:
        with np.load(path) as file:
            count = sum(name.startswith("weights_") for name in file)
            layers = [(file[f"weights_{k}"], file[f"biases_{k}"]) for k in range(count)]
            return cls(file["mean"], file["std"], file["low"], file["high"], layers)


class Over(Exception):
    """Ends a training: Brax has no other way."""


def trained(rules: Rules, seed: int, given: float, to: Connection) -> None:
    """One training by Brax of `given` seconds without compilation, until the deadline, or of its number of steps."""
    import jax

    # Brax trains on all devices of JAX's first platform.
    jax.config.update("jax_platforms", {"cuda": "cuda,cpu", "jax-cpu": "cpu"}[rules.device])
    from _brax import Simulated, ppo
    from rsa2c.gpu.environments import environment

    compiling, settings = Compiling(), rules.settings
    durations, facts = list[float](), {"construction": 0.0, "device": device_name(rules.device)}
    began, reached, saving, next_trial = time.perf_counter(), 0.0, 0.0, 0.0

    def learned(steps: int, _: Any, parameters: Any) -> None:
        """Brax calls it at the start and after each of its training's steps."""
        nonlocal reached, saving, next_trial
        now, compiled = time.perf_counter() - began - saving, compiling.seconds
        spent, reached = now - compiled - reached, now - compiled
        if steps == 0:
            facts["construction"] = now
            return
        durations.append(round(spent, 4))
        over = reached >= given or time.time() >= rules.deadline or steps >= settings["num_timesteps"]
        if over or reached >= next_trial:
            next_trial = reached + rules.between
            path = rules.folder / f"{rules.env}-{seed}-{steps}-{time.time_ns()}.npz"
            Network.of(env.low, env.high, *jax.device_get(parameters[:2])).save(path)
            found = [Found("curve", now, compiled, steps, path, FINAL_EPISODES if over else EPISODES)]
            told = {"epochs": len(durations), "durations": durations, "phases": {"training step": sum(durations)}}
            to.send((found, {**facts, **told}))
            saving = time.perf_counter() - began - now
        if over:
            raise Over

    with compiling.listening():
        env = environment(rules.env)
        step = settings["batch_size"] * settings["unroll_length"] * settings["num_minibatches"]
        calls = math.ceil(settings["num_timesteps"] / step) + 1
        with suppress(Over):
            ppo.train(Simulated(env), seed=seed, num_evals=calls, run_evals=False, policy_params_fn=learned, **settings)


PEER = Kind(trained, Network.load, ("brax",), PUBLISHED)


def main() -> None:
    parser = arguments(__doc__)
    parser.set_defaults(algorithm=BRAX, plan="Ant-v5:0:240;Ant-v5:1:240", name=["brax-ppo"])
    options = parser.parse_args()
    for plan in map(Plan.of, options.plan.split(";")):
        if plan.env not in PUBLISHED:
            raise SystemExit(f"--plan: Brax published no PPO settings for {plan.env}, but for {', '.join(PUBLISHED)}.")
    measure(options, PEER)


if __name__ == "__main__":
    main()

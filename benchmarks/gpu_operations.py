"""Times what an epoch on a device does besides stepping environments, operation by operation, at the sizes of Ant-v5.

    python benchmarks/gpu_operations.py [--device cuda] [--states 1024] [--write]

Each operation is timed on the device and, where it has a twin there, on the processor: median of a few calls from and
to NumPy arrays, compilation aside. Data are random. `--write` puts the table into results/gpu/simulation.md, with the
command, the commit and the machine; `gpu_training.py page` has it then.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpu_simulation import write
from rsa2c.algorithm.fits import Estimate
from rsa2c.algorithm.guidance import SAMPLES, attribution_critics, measure, product_values
from rsa2c.config import make_config
from rsa2c.gpu.algebra import DeviceAlgebra
from rsa2c.gpu.batch import DeviceBatch
from rsa2c.gpu.device import computing, found
from rsa2c.gpu.fits import Grid
from rsa2c.gpu.fitting import DeviceFits
from rsa2c.gpu.rollout import Ended
from rsa2c.gpu.samples import DeviceSamples
from rsa2c.kernel.algebra import NUMPY
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction

STEPS, FEATURES, ACTIONS = 16, 105, 8
CALLS = 5
Operations = dict[str, list[Callable[[], Any]]]
"""Name -> the operation on the device, and on the processor where it has a twin there."""


def sampled(device: Any, environments: int, capacity: int, rng: np.random.Generator) -> DeviceSamples:
    """A rollout of random numbers."""

    def drawn(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=(STEPS, environments, *shape)).astype(np.float32))

    none = jnp.zeros((STEPS, environments), bool)
    grid = Grid(*(drawn(k) for k in (FEATURES, FEATURES, ACTIONS, ACTIONS)), drawn(), none, none)
    batch = DeviceBatch(grid, Ended(none, drawn(), jnp.zeros(none.shape, jnp.int32)))
    workers: Any = SimpleNamespace(algebra=DeviceAlgebra(device, capacity), device=device, capacity=capacity)
    return DeviceSamples(workers, batch, Metric.fitted(rng.normal(size=(1000, FEATURES)), 100.0, 2.0))


def operations(device: str, size: int, environments: int) -> Operations:
    """What is timed."""
    rng, config = np.random.default_rng(0), make_config("Ant-v5", algorithm="rsa2c-kme", device=device)
    there = found(device)
    with computing(there, double=False):
        samples = sampled(there, environments, size, rng)
    kernel = RBF(1.35 * (FEATURES - 2) ** 0.5, samples.metric)
    raw = rng.normal(size=(8 * size, FEATURES))
    dictionary = Dictionary.empty(kernel).grown(raw[: 4 * size], 3e-3, size)
    value = RKHSFunction(dictionary, np.zeros((dictionary.size, 1)), ("value",), np.zeros(1))
    config, fits = config.updated(gamma=0.99), DeviceFits()
    fits.value(value, samples, config, 1)
    estimate: Estimate = fits.estimate(value, samples, config)
    positions = rng.choice(samples.n, min(samples.n, SAMPLES), replace=False)
    x, targets = fits.attributed(samples, positions, estimate, "value")
    first, other = samples.first_half(positions), samples.metric.reweighted(rng.uniform(0.5, 2.0, FEATURES))

    def critics(algebra: Any) -> Any:
        return attribution_critics(x, targets, first, "rbf", 200, np.random.default_rng(1), algebra)

    halves, both, candidates = critics(NUMPY), (samples.algebra, NUMPY), raw[-1000:]
    names = tuple(f"a{k}" for k in range(ACTIONS))
    function = RKHSFunction(dictionary, rng.normal(size=(dictionary.size, ACTIONS)), names, np.zeros(ACTIONS))
    policy: Any = SimpleNamespace(mean=function, sigma=np.full(ACTIONS, 0.5))
    plays = [product_values(each) for each in (device, "cpu")]
    start = function.coefficients
    return {
        "fit of the value": [partial(fits.value, value, samples, config, 1)],
        "advantages": [partial(fits.estimate, value, samples, config)],
        "fit of the advantage": [partial(fits.advantage, policy, samples, estimate, config)],
        "rows of an attribution": [partial(fits.attributed, samples, positions, estimate, "value")],
        "two attribution critics": [partial(critics, each) for each in both],
        "games of both": [partial(measure, halves, config.guidance, np.random.default_rng(2), each) for each in plays],
        "readmission": [partial(each.readmitted, dictionary, other, 1e-3) for each in both],
        "growth by 64": [partial(each.grown, dictionary, candidates, 1e-6, 64) for each in both],
        "removal of 64": [partial(each.pruned, function, candidates, 64) for each in both],
        "re-projection": [partial(each.projected, function, dictionary, raw, 1e-6, start) for each in both],
        "values at 1,000 states": [partial(each.values, function, candidates) for each in both],
    }


def milliseconds(call: Callable[[], Any]) -> float:
    """The median of a few calls, after one that compiles."""
    call()
    spent = []
    for _ in range(CALLS):
        began = time.perf_counter()
        jax.block_until_ready(call())
        spent.append(time.perf_counter() - began)
    return 1e3 * statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--states", type=int, default=1024, help="of a dictionary")
    parser.add_argument("--environments", type=int, default=4096)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = [f"Milliseconds of each operation, {options.environments:,} environments of {STEPS} steps, {FEATURES} "
             f"features, dictionaries of {options.states:,}\nstates, on {found(options.device).device_kind}:\n",
             "| operation | device | processor |", "|---|---|---|"]  # fmt: skip
    for name, calls in operations(options.device, options.states, options.environments).items():
        cells = [f"{milliseconds(call):.1f}" for call in calls]
        lines.append(f"| {name} | {' | '.join([*cells, '-'][:2])} |")
        print(lines[-1], flush=True)
    if options.write:
        write("Operations of an epoch", "\n".join(lines))


if __name__ == "__main__":
    main()

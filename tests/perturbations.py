"""Random functions, states and perturbations that try to break bounds."""

from __future__ import annotations

import numpy as np

from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF, Laplace
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.attacks import output_attacks
from rsa2c.robustness.regions import Region

NORMS = ("l2", "linf")
KERNELS = (RBF, Laplace)


def make_function(rng: np.random.Generator, kernel: type = RBF, d: int = 3, q: int = 20, m: int = 2) -> RKHSFunction:
    """A random function whose metric shifts, scales, and clips at 2 (so that some states are clipped)."""
    weights = rng.uniform(0.3, 2.0, d)
    centres = rng.uniform(-2, 2, (q, d))
    metric = Metric(rng.normal(size=d), rng.uniform(0.2, 3.0, d), 2.0, weights)
    dictionary = Dictionary(kernel(0.6 * np.sqrt(d), metric), centres * metric.std + metric.mean, np.zeros(q))
    names = tuple(f"u{i}" for i in range(m))
    return RKHSFunction(dictionary, rng.normal(size=(q, m)), names, rng.normal(size=m))


def make_states(rng: np.random.Generator, function: RKHSFunction, n: int) -> np.ndarray:
    """Inside the clipped range, at its edge and beyond it."""
    x = rng.uniform(-2.6, 2.6, (n, function.kernel.dimension))
    return x * function.kernel.metric.std + function.kernel.metric.mean


def perturbed(
    rng: np.random.Generator, function: RKHSFunction, states: np.ndarray, region: Region, random: int, attacked: int
) -> np.ndarray:
    """(K, N, d): random perturbations of each state, and attacks on each output in both directions."""
    drawn = [states + region.sampled([rng] * len(states), states.shape[1]) for _ in range(random)]
    return np.stack([*drawn, *output_attacks(function, states, region, rng, attacked)])

"""The numbers a controller needs, in the units and the order in which exported code uses them.

`expansion` is the only place that looks inside an `RKHSFunction`; every exporter works from what it returns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.state import Kept, TrainingState
from rsa2c.algorithm.task import Task
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import choose_nodes, exact_nodes
from rsa2c.attribution.prototypes import familiar
from rsa2c.attribution.quadrature import quadrature
from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.rkhs import RKHSFunction

Array = NDArray[np.float64]
TOLERANCE = 1e-12
"""Estimated error of exported attributions, relative to the largest, where fewer nodes than the exact number do."""
CHECKED_CORNERS = 6


@dataclass(frozen=True, eq=False)
class Expansion:
    """f(s) = offset + sum_j k(z, c_j) a_j, with log k = -|z - c_j|^2 / 2 (rbf) or -|z - c_j|_1 (laplace) and

    z_i = tail((s_i - mean_i) gain_i) scale_i, where tail clips at +-`clip` and, if logarithmic, takes asinh.

    Length scale and feature weights are in `scale`; mean, gain and scale are (d,). Centres c (q, d) are in the units of
    z; coefficients a are (q, m), the offset (m,).
    """

    kernel: str
    logarithmic: bool
    clip: float
    mean: Array
    gain: Array
    scale: Array
    centres: Array
    coefficients: Array
    offset: Array

    def arrays(self) -> dict[str, Array]:
        """The tables by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    @property
    def form(self) -> tuple[str, bool, float]:
        """What is part of the code and not of the tables: kernel, tails, clip."""
        return self.kernel, self.logarithmic, self.clip

    def inputs(self, states: NDArray) -> NDArray:
        """(N, d): z of raw states, in the precision of the states."""
        mean, gain, scale = (table.astype(states.dtype) for table in (self.mean, self.gain, self.scale))
        z = np.clip((states - mean) * gain, -self.clip, self.clip)
        return (np.arcsinh(z) if self.logarithmic else z) * scale

    def __call__(self, states: NDArray) -> NDArray:
        """(N, m): f as exported C computes it: in the precision of the states, and one term after the other."""
        dtype = states.dtype
        centres, coefficients = self.centres.astype(dtype), self.coefficients.astype(dtype)
        offset, values = self.offset.astype(dtype)[None], []
        for z in self.inputs(states):
            u = centres - z
            sizes = np.abs(u) if self.kernel == "laplace" else u * u
            total = np.cumsum(sizes, axis=1)[:, -1]
            k = np.exp(-total if self.kernel == "laplace" else dtype.type(-0.5) * total)
            values.append(np.cumsum(np.vstack([offset, k[:, None] * coefficients]), axis=0)[-1])
        return np.array(values)

    def game(self, states: Array, background: Array) -> Game:
        """The interventional game of raw states against raw background states."""
        kernel = kernel_from_name(self.kernel, 1.0, np.ones(len(self.mean)))
        return Game(self.inputs(states), self.inputs(background), self.centres, self.coefficients, kernel)


def expansion(function: RKHSFunction) -> Expansion:
    """An RKHS function as tables."""
    scales, metric = function.kernel.scales, function.kernel.metric
    knee = metric.knee or 1.0  # b asinh(z / b): in gain and clip, and in the scale
    found = Expansion(
        kernel=function.kernel.name,
        logarithmic=metric.knee is not None,
        clip=metric.clip / knee,
        mean=metric.mean,
        gain=1.0 / (knee * metric.std),
        scale=knee * scales,
        centres=function.centres * scales,
        coefficients=function.coefficients,
        offset=np.array(function.offset),
    )
    for name, table in found.arrays().items():
        if not np.isfinite(table).all():
            raise DataError(f"the agent's {name} must be finite to be exported, got NaN or infinity. Train it again.")
    return found


@dataclass(frozen=True, eq=False)
class Controller:
    """A policy as tables: action = mid + half squash(f(s)), with squash tanh, clip to +-1, or none."""

    task: Task
    policy: Expansion
    squash: str
    mid: Array
    half: Array
    visited: Array
    """(b, d): raw states visited last."""
    value: Expansion | None
    familiar: float
    """Similarity to the nearest remembered state that 99% of the visited states exceed."""

    def actions(self, states: NDArray) -> NDArray:
        """(N, m): actions as exported code computes them, in the precision of the states."""
        u = self.policy(states)
        if self.squash == "none":
            return u
        inside = np.tanh(u) if self.squash == "tanh" else np.clip(u, -1, 1)
        return self.mid.astype(u.dtype) + self.half.astype(u.dtype) * inside


def controller(task: Task, acting: TrainingState | Kept) -> Controller:
    """The tables of an agent."""
    policy, bounds = acting.policy.mean, acting.policy.bounds
    value = None if acting.value is None else expansion(acting.value)
    return Controller(
        task, expansion(policy), bounds.squash, bounds.mid, bounds.half, acting.background, value,
        familiar(policy, acting.background),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Attribution:
    """What Shapley values of an expansion need besides it: background states and quadrature nodes on [0, 1]."""

    background: Array
    """(B, d): in the units of z."""
    nodes: Array
    weights: Array
    """Gauss-Legendre weights divided by B."""
    base: Array
    """(m,): mean of f over the background."""
    exact: bool
    """Whether there are ceil(d/2) nodes, which make quadrature exact."""

    def arrays(self) -> dict[str, Array]:
        """The tables by name."""
        return {name: value for name, value in vars(self).items() if name != "exact"}


def attribution(function: Expansion, visited: Array, count: int) -> Attribution:
    """Against the first `count` visited states; nodes are exact, or fewer with an estimated error of 1e-12."""
    if not 1 <= count <= len(visited):
        raise ConfigError(
            f"background must be between 1 and {len(visited)}, the visited states a model keeps, got {count}."
        )
    background = visited[:count]
    # The corners of the visited range are farther out than most states a controller will meet
    states = np.vstack([visited[-CHECKED_CORNERS:], visited.min(axis=0), visited.max(axis=0)])
    nodes, _ = choose_nodes(function.game(states, background), TOLERANCE)
    x, w = quadrature(nodes)
    exact = nodes >= exact_nodes(visited.shape[1])
    return Attribution(function.inputs(background), x, w / count, function(background).mean(axis=0), exact)

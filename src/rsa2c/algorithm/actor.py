"""The Actor: a Gaussian policy whose mean lives in a vector-valued RKHS.

u ~ N(h(s), Sigma), action = mid + half * squash(u), with h an `RKHSFunction` on the actor's dictionary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike, NDArray

from rsa2c.algorithm.critics import AdvantageFit
from rsa2c.algorithm.rollout import Act
from rsa2c.errors import ConfigError, EnvError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.kernel.rowwise import rowwise

SMALLEST_SIGMA = 0.1
"""Least standard deviation that is learned, in units of the squashed action's half width: below it a batch says too
little about other actions."""
NEAR = 1e-6
"""Steps of u below which a quotient of differences is less precise than the slope in their middle."""


class Normals(Protocol):
    """Where exploration noise comes from: a generator, or one for each environment."""

    def standard_normal(self, size: Any, /) -> NDArray[np.float64]: ...


@dataclass(frozen=True, eq=False)
class ActionBounds:
    """The action box and how the Gaussian variable u enters it."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    squash: str

    def __post_init__(self) -> None:
        if self.squash != "none" and not np.all(np.isfinite(self.low) & np.isfinite(self.high)):
            raise EnvError(
                f"squash={self.squash!r} needs finite bounds of every action, got low {self.low}, high {self.high}. "
                "Give the action_space such bounds (ClipAction takes them away: leave it out), or set squash='none', "
                "which limits nothing."
            )

    @classmethod
    def of(cls, box: Box, squash: str) -> ActionBounds:
        """Those of an environment's actions."""
        return cls(np.array(box.low, np.float64), np.array(box.high, np.float64), squash)

    @cached_property
    def half(self) -> NDArray[np.float64]:
        """Half the width of the box; 1 where actions are not squashed."""
        return np.ones_like(self.low) if self.squash == "none" else (self.high - self.low) / 2

    @cached_property
    def mid(self) -> NDArray[np.float64]:
        """The middle of the box; 0 where actions are not squashed."""
        return np.zeros_like(self.low) if self.squash == "none" else (self.low + self.high) / 2

    def action(self, u: NDArray) -> NDArray[np.float64]:
        """mid + half * squash(u)."""
        if self.squash == "none":
            return np.asarray(u, dtype=np.float64)
        inside = np.tanh(u) if self.squash == "tanh" else np.clip(u, -1.0, 1.0)
        return self.mid + self.half * inside

    def slope(self, u: NDArray) -> NDArray[np.float64]:
        """d action / d u."""
        if self.squash == "tanh":
            return self.half * (1.0 - np.tanh(u) ** 2)
        if self.squash == "clip":
            return self.half * (np.abs(u) < 1.0)
        return np.ones_like(u)

    def mean_slope(self, start: NDArray, end: NDArray) -> NDArray[np.float64]:
        """The mean of `slope` on the straight line between two u: (action(end) - action(start)) / (end - start).

        Contributions to end - start, times it, are contributions to action(end) - action(start): the Aumann-Shapley
        values of the squashed sum.
        """
        step = np.asarray(end) - start
        near = np.abs(step) < NEAR
        quotient = (self.action(end) - self.action(start)) / np.where(near, 1.0, step)
        return np.where(near, self.slope(start + step / 2), quotient)


@dataclass(frozen=True, eq=False)
class GaussianPolicy:
    """N(h(s), diag(sigma^2)) before squashing."""

    mean: RKHSFunction
    sigma: NDArray[np.float64]
    """(m,): standard deviation of each action dimension."""
    bounds: ActionBounds

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Sigma, (m, m)."""
        return np.diag(self.sigma**2)

    def with_sigma(self, sigma: float) -> GaussianPolicy:
        """The same mean with one standard deviation for all action dimensions."""
        return replace(self, sigma=np.full(len(self.bounds.low), sigma))

    def divergence(self, before: NDArray, after: NDArray) -> float:
        """Mean KL divergence between Gaussians with these means (N, m) and this policy's standard deviations."""
        first = self.sigma[0]
        squared = (after - before) ** 2 * (first / self.sigma) ** 2
        return float(np.mean(np.sum(squared, axis=1))) / (2 * first**2)

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.float32], Any]:
        """The action for one observation (d,) or a batch (N, d), as in Stable-Baselines3.

        `state` and `episode_start` are there for that interface and unused; `rng` draws the noise of actions that are
        not deterministic.
        """
        u = self.mean(observation)
        if not deterministic:
            if rng is None:
                raise ConfigError("deterministic=False needs rng, a NumPy generator; agent.predict has one.")
            u = u + self.sigma * rng.standard_normal(u.shape)
        return self.bounds.action(u).astype(np.float32), state

    def __repr__(self) -> str:
        sigma = ", ".join(f"{each:.3g}" for each in self.sigma)
        return f"GaussianPolicy(mean={self.mean!r}, sigma=({sigma}), squash={self.bounds.squash!r})"

    def sampler(self, rng: Normals, dtype: np.dtype | type, correlation: float = 0.0) -> Act:
        """The map from coordinates (n, d) to mean, sampled u and action that `rollout.collect` calls."""
        at = rowwise(self.mean, dtype)
        noise = correlated_noise(rng, correlation)

        def act(x: NDArray) -> tuple[NDArray, NDArray, NDArray]:
            mean = at(x)
            u = mean + self.sigma * noise(mean.shape)
            return mean, u, self.bounds.action(u)

        return act

    def spread(self, change: NDArray) -> GaussianPolicy:
        """With log sigma changed by `change` (m,), but no standard deviation under the floor."""
        return replace(self, sigma=np.maximum(self.sigma * np.exp(change), SMALLEST_SIGMA))

    def shrunk(self, share: float) -> GaussianPolicy:
        """(1 - share) h."""
        if share == 0:
            return self
        return replace(self, mean=replace(self.mean, coefficients=(1 - share) * self.mean.coefficients))

    def step(self, direction: NDArray, size: float) -> GaussianPolicy:
        """h + size * sum_j k(., s_j) direction_j."""
        return replace(self, mean=replace(self.mean, coefficients=self.mean.coefficients + size * direction))


def correlated_noise(rng: Normals, correlation: float) -> Callable[[tuple[int, ...]], NDArray[np.float64]]:
    """Standard normal noise of a given shape at each call: e_t = rho e_{t-1} + sqrt(1 - rho^2) xi_t, e_0 = xi_0."""
    last: NDArray[np.float64] | None = None

    def draw(shape: tuple[int, ...]) -> NDArray[np.float64]:
        nonlocal last
        fresh = rng.standard_normal(shape)
        if correlation == 0.0 or last is None:
            last = fresh
        else:
            last = correlation * last + np.sqrt(1 - correlation**2) * fresh
        return last

    return draw


def step_direction(fit: AdvantageFit, dictionary: Dictionary, metric: str) -> NDArray[np.float64]:
    """P^-1 g for the metric P: `fisher` gives w_A, `rkhs` K_DD^-1 g, `euclidean` g itself; g less the gradient of a
    penalty, where there is one."""
    if metric == "fisher":
        return fit.weights if fit.damped_penalty is None else fit.weights - fit.damped_penalty
    gradient = fit.gradient if fit.penalty is None else fit.gradient - fit.penalty
    return dictionary.solve(gradient) if metric == "rkhs" else gradient


def mean_kl(direction: NDArray, second_moment: NDArray, covariance: NDArray) -> float:
    """KL of a unit step, averaged over the batch: tr(D^T G D Sigma^-1) / 2."""
    return float(np.trace(np.linalg.solve(covariance, direction.T @ second_moment @ direction))) / 2


def largest_kl(direction: NDArray, features: NDArray, covariance: NDArray) -> float:
    """KL of a unit step at the state of the batch where it is largest: max_s |Sigma^-1/2 D^T k_D(s)|^2 / 2."""
    change = (features @ direction.astype(features.dtype)).astype(np.float64)
    return float(np.max(np.sum(change * np.linalg.solve(covariance, change.T).T, axis=1))) / 2


def kl_step_size(
    direction: NDArray, second_moment: NDArray, covariance: NDArray, kl: float, spread: NDArray | None = None
) -> float:
    """The size at which a step along `direction` has the mean KL `kl`; zero for a zero direction.

    With `spread`, a direction (m,) of log sigma, the step goes along both; its KL is that of the mean and sum spread^2.
    """
    unit = mean_kl(direction, second_moment, covariance)
    if spread is not None:
        unit += float(np.sum(spread**2))
    return float(np.sqrt(kl / unit)) if unit > 0 else 0.0

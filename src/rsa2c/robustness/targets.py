"""What an attacker knows of a policy: its mean action and derivatives of it.

Derivatives are exact for kernel expansions, torch's for models of Stable-Baselines3, and central differences of
`predict` for any other policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rsa2c.errors import require
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.regions import Array, Region

DIFFERENCE, SMALLEST_DIFFERENCE = 0.05, 1e-4
"""Half the span of a central difference: a share of epsilon, but no less than a policy in single precision resolves."""

Score = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Target:
    """What an attacker knows of a policy: its mean action (n, m), and J^T v for weights v (n, m) on its outputs."""

    mean: Score
    pull: Callable[[Array, Array], Array]


def policy_target(policy: Any, region: Region) -> Target:
    """The policy's mean before squashing where it is a kernel expansion, else its deterministic `predict`, whose
    clipping (SB3's PPO) the gradients do not see."""
    if isinstance(function := getattr(policy, "policy_mean", None), RKHSFunction):
        return Target(function, lambda states, weights: pulled(function, states, weights))

    def mean(observations: Array) -> Array:
        return np.asarray(policy.predict(observations, deterministic=True)[0], dtype=np.float64)

    if (network := network_of(policy)) is not None:
        return Target(mean, network.pull)

    def along(observations: Array, weights: Array) -> Array:
        return np.sum(mean(observations) * weights, axis=1)

    return Target(mean, lambda states, weights: differenced(along, states, region, weights))


def pulled(function: RKHSFunction, states: Array, weights: Array) -> Array:
    """(n, d): gradient of sum_o weights_no f_o at each raw state, for weights (n, m) on the outputs; O(n q (m + d))."""
    x = function.coordinates(states)
    pull = function.kernel.pull(x, function.centres, weights @ function.coefficients.T)
    return np.asarray(pull * function.kernel.metric.slope(states))


def differenced(score: Callable[..., Array], states: Array, region: Region, *rows: Array) -> Array:
    """(n, d): central differences of a score (n,) of states and of further arrays with a row for each state."""
    n, d = states.shape
    width = np.maximum(DIFFERENCE * region.radii(n)[:, None] * region.scale, SMALLEST_DIFFERENCE * (1 + np.abs(states)))
    steps = width[:, None, :] * np.eye(d)
    moved = [(states[:, None] + sign * steps).reshape(n * d, d) for sign in (1.0, -1.0)]
    repeated = [np.repeat(row, d, axis=0) for row in rows]
    high, low = (score(s, *repeated).reshape(n, d) for s in moved)
    return (high - low) / (2 * width)


@dataclass(frozen=True, eq=False)
class Network:
    """The torch module of a Stable-Baselines3 model, seen from raw observations."""

    module: Any
    normaliser: Any = None
    """SB3's VecNormalize, where the model takes normalised observations."""

    def pull(self, states: Array, weights: Array) -> Array:
        """(n, d): gradient of the weighted (n, m) actions at each raw state."""
        if self.module.squash_output:
            weights = weights * (self.module.action_space.high - self.module.action_space.low) / 2
        return self._gradient(lambda seen: self.module._predict(seen, deterministic=True), states, weights)

    def value(self, states: Array) -> Array:
        """(n,): the critic of states."""
        with self._torch.no_grad():
            return np.asarray(self.module.predict_values(self._seen(states)).cpu().numpy()[:, 0], dtype=np.float64)

    def value_gradient(self, states: Array) -> Array:
        """(n, d): derivative of the critic at each raw state."""
        return self._gradient(self.module.predict_values, states, np.ones((len(states), 1)))

    @property
    def _torch(self) -> Any:
        return require("torch", "baselines", "An attack on a Stable-Baselines3 model")

    def _seen(self, states: Array) -> Any:
        seen = states if self.normaliser is None else self.normaliser.normalize_obs(states)
        return self._torch.as_tensor(np.asarray(seen, dtype=np.float32), device=self.module.device)

    def _gradient(self, function: Callable[[Any], Any], states: Array, weights: Array) -> Array:
        seen = self._seen(states).requires_grad_()
        outputs = function(seen)
        along = self._torch.as_tensor(weights, dtype=outputs.dtype, device=outputs.device)
        gradient = self._torch.autograd.grad((outputs * along).sum(), seen)[0].cpu().numpy().astype(np.float64)
        if self.normaliser is None:
            return gradient
        inside = (seen.detach().abs() < self.normaliser.clip_obs).cpu().numpy()
        return gradient * inside / np.sqrt(self.normaliser.obs_rms.var + self.normaliser.epsilon)


def network_of(policy: Any) -> Network | None:
    """The network of a Stable-Baselines3 model, or of a baseline that wraps one; None for any other policy."""
    module = getattr(getattr(policy, "model", policy), "policy", None)
    shown = all(hasattr(module, name) for name in ("_predict", "squash_output", "device"))
    return Network(module, getattr(policy, "normaliser", None)) if shown else None

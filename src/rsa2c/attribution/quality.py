"""How good is an explanation? Deletion and insertion, infidelity and sensitivity.

All are measured on the function itself, with absent features replaced by background states, so they say whether the
values describe the function. Whether the ranking matters to the task is measured by `rsa2c.closed_loop.masked_returns`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.explanation import Explanation
from rsa2c.attribution.inputs import checked
from rsa2c.errors import DataError
from rsa2c.kernel.rkhs import RKHSFunction

Array = NDArray[np.float64]
CHUNK = 2**16


@dataclass(frozen=True)
class Curves:
    """Mean over states of |v(C) - f(s)| in units of its value for C empty, against the number of features changed.

    deletion[name] (steps + 1,) removes features, most important first: it should rise fast. insertion[name]
    adds them to the empty set: it should fall fast. Names are "shapley", "gradient" and "random".
    """

    features: NDArray[np.intp]
    deletion: dict[str, Array]
    insertion: dict[str, Array]

    @property
    def deletion_area(self) -> dict[str, float]:
        """Area under each deletion curve, features counted as fractions: larger is better."""
        return {name: _area(self.features, curve) for name, curve in self.deletion.items()}

    @property
    def insertion_area(self) -> dict[str, float]:
        """Area under each insertion curve: smaller is better."""
        return {name: _area(self.features, curve) for name, curve in self.insertion.items()}


def deletion_insertion(
    function: RKHSFunction,
    explanation: Explanation,
    background: ArrayLike,
    rng: np.random.Generator,
    output: int = 0,
    steps: int = 20,
) -> Curves:
    """Deletion and insertion curves of an explanation's ranking, of a gradient's and of a random one.

    Features are ranked for each state by |phi_i|, and by |df/ds_i| times the background's standard deviation.
    """
    states, b = _pair(explanation, background)
    d = states.shape[1]
    gradient = np.abs(function.gradient(states)[:, output, :]) * b.std(axis=0)
    rankings = {
        "shapley": np.argsort(-np.abs(explanation.values[..., output]), axis=1, kind="stable"),
        "gradient": np.argsort(-gradient, axis=1, kind="stable"),
        "random": np.argsort(rng.random(states.shape), axis=1),
    }
    counts = np.unique(np.linspace(0, d, min(steps, d) + 1).round().astype(np.intp))
    full = function(states)[:, output]
    scale = np.abs(_game(function, states, b, np.zeros(states.shape, bool), output) - full).mean()
    deletion, insertion = {}, {}
    for name, order in rankings.items():
        rank = np.argsort(order, axis=1)
        kept = [np.abs(_game(function, states, b, rank >= k, output) - full).mean() for k in counts]
        added = [np.abs(_game(function, states, b, rank < k, output) - full).mean() for k in counts]
        deletion[name], insertion[name] = np.array(kept) / scale, np.array(added) / scale
    return Curves(counts, deletion, insertion)


def infidelity(
    function: RKHSFunction,
    explanation: Explanation,
    background: ArrayLike,
    rng: np.random.Generator,
    output: int = 0,
    draws: int = 50,
) -> float:
    """E over states and random sets C of (sum_{i in C} phi_i - (f(s) - v(rest)))^2, relative to E (f(s) - v(rest))^2.

    Yeh et al. (2019), with features replaced by the background as perturbation; sizes of C are uniform. Zero
    for a function that is additive in its features; any attribution misses its interactions.
    """
    states, b = _pair(explanation, background)
    full, phi = function(states)[:, output], explanation.values[..., output]
    missed, moved = 0.0, 0.0
    for _ in range(draws):
        removed = rng.random(states.shape) < rng.random((len(states), 1))
        drop = full - _game(function, states, b, ~removed, output)
        missed += float(np.square((phi * removed).sum(axis=1) - drop).sum())
        moved += float(np.square(drop).sum())
    return missed / moved


def sensitivity_max(
    explainer: Callable[[Array], Explanation],
    states: ArrayLike,
    rng: np.random.Generator,
    radius: float | ArrayLike = 0.02,
    draws: int = 10,
) -> Array:
    """Largest |phi(s + e) - phi(s)| / |phi(s)| over draws of |e_i| <= radius (raw units), for each state."""
    rows = np.atleast_2d(np.asarray(states, dtype=np.float64))
    values = explainer(rows).values
    size = np.sqrt(np.square(values).sum(axis=(1, 2)))
    worst = np.zeros(len(rows))
    for _ in range(draws):
        moved = explainer(rows + np.asarray(radius) * rng.uniform(-1, 1, rows.shape)).values
        worst = np.maximum(worst, np.sqrt(np.square(moved - values).sum(axis=(1, 2))) / size)
    return worst


def _pair(explanation: Explanation, background: ArrayLike) -> tuple[Array, Array]:
    if explanation.values.shape[1] != np.shape(background)[-1]:
        raise DataError(
            f"quality is measured on features: the explanation has {explanation.values.shape[1]} players and the "
            f"background {np.shape(background)[-1]} features. Explain without groups."
        )
    return explanation.data, checked("background", background, explanation.data.shape[1])


def _game(function: RKHSFunction, states: Array, background: Array, kept: NDArray[np.bool_], output: int) -> Array:
    """v(C) = E_b f(s_C, x^b_rest) of each state for its own set of kept features, (T,)."""
    values = np.empty(len(states))
    block = max(1, CHUNK // len(background))
    for t in range(0, len(states), block):
        s = slice(t, t + block)
        mixed = np.where(kept[s, None, :], states[s, None, :], background[None])
        flat = function(mixed.reshape(-1, states.shape[1]))[:, output]
        values[s] = flat.reshape(len(mixed), -1).mean(axis=1)
    return values


def _area(features: NDArray[np.intp], curve: Array) -> float:
    return float(np.trapezoid(curve, features / features[-1]))

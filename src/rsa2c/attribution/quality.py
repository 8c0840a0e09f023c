"""How good is an explanation? Deletion and insertion, infidelity and sensitivity; does a ranking describe a function?

All are measured on the function itself, with absent features replaced by background states, so they say whether the
values describe the function. Whether the ranking matters to the task is measured by `rsa2c.closed_loop.masked_returns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.explanation import Explanation
from rsa2c.attribution.game import spread
from rsa2c.attribution.inputs import checked
from rsa2c.errors import DataError
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.statistics import rank_agreement

Array = NDArray[np.float64]
CHUNK = 2**16
OWN, RANDOM = "these values", "random order"
"""Names of the two rankings that every other one is compared with."""
MOST_STATES, FEWEST_STATES, REPLACEMENTS = 128, 32, 64
"""States, and background states, from which the deletion of a ranking is measured: to about a tenth of itself."""
FIDELITY_WORK = 20_000_000_000
"""Centres x features x evaluations that may be spent on it: a few seconds."""


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


@dataclass(frozen=True)
class Fidelity:
    """Whether one ranking of the features, the same for all states, describes a function."""

    agreement: float
    """Rank correlation with the importances that the explanation shows; NaN where the ranking tells no features
    apart."""
    deletion: float
    """Area under the deletion curve, the share of the function that is left while features are removed in this order:
    smaller is better. Below 0 where removing features takes the function beyond its mean, as it does where features of
    a state balance each other; NaN for a function that does not vary."""


def fidelity(
    function: RKHSFunction,
    explanation: Explanation,
    background: ArrayLike,
    rankings: Mapping[str, ArrayLike],
    rng: np.random.Generator,
    steps: int = 8,
) -> dict[str, Fidelity]:
    """The fidelity of each of `rankings` (d,), of the explanation's own and of a random one.

    The curve is 1 - D(k) / D(d) against k / d, with D(k) = E_s mean_o |f_o(s) - v_o(s without the k most important)|
    over the outputs o explained. Features that rank alike are removed in random order, drawn for each state.
    """
    data, b = _pair(explanation, background)
    outputs = _outputs(function, explanation)
    own, d = explanation.importances.mean(axis=1), data.shape[1]
    asked = {OWN: own, **rankings, RANDOM: np.zeros(d)}
    b = b[spread(len(b), REPLACEMENTS)]
    affordable = FIDELITY_WORK // (function.centres.size * len(b) * steps * len(asked))
    data = data[spread(len(data), max(FEWEST_STATES, min(MOST_STATES, affordable)))]
    full = function(data)[:, outputs]
    counts = np.unique(np.linspace(0, d, min(steps, d) + 1).round().astype(np.intp))

    def deletion(ranking: Array) -> float:
        rank = np.argsort([np.lexsort((rng.random(ranking.shape), -ranking)) for _ in data], axis=1)
        moved = [np.abs(_games(function, data, b, rank >= k)[:, outputs] - full).mean() for k in counts]
        return _area(counts, 1.0 - np.array(moved) / moved[-1]) if moved[-1] > 0 else float("nan")

    found = {name: np.asarray(ranking, dtype=np.float64) for name, ranking in asked.items()}
    return {name: Fidelity(rank_agreement(ranking, own), deletion(ranking)) for name, ranking in found.items()}


def order_note(found: Mapping[str, Fidelity]) -> str:
    """What stands beside importances of the function that they are importances of."""
    own, random = found[OWN].deletion, found[RANDOM].deletion
    return f"deletion area {own:.2f} in this order, {random:.2f} in random order (less is better)"


def guide_note(found: Mapping[str, Fidelity], name: str, of: str) -> str:
    """What stands beside the ranking `name`, which guided: is it that of the function `of`?"""
    one = found[name]
    agreement = "tells no features apart" if np.isnan(one.agreement) else f"rank agreement {one.agreement:.2f}"
    areas = f"deletion area {one.deletion:.2f}, theirs {found[OWN].deletion:.2f}, random {found[RANDOM].deletion:.2f}"
    return f"{agreement} with Shapley values of the {of}; {areas}"


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


def _outputs(function: RKHSFunction, explanation: Explanation) -> list[int]:
    """The outputs of the function that are explained."""
    names, has = explanation.output_names, function.output_names
    if not set(names) <= set(has):
        raise DataError(f"the explanation is of {', '.join(names)}, and the function has {', '.join(has)}.")
    return [has.index(name) for name in names]


def _game(function: RKHSFunction, states: Array, background: Array, kept: NDArray[np.bool_], output: int) -> Array:
    """`_games` of one output, (T,)."""
    return _games(function, states, background, kept)[:, output]


def _games(function: RKHSFunction, states: Array, background: Array, kept: NDArray[np.bool_]) -> Array:
    """v(C) = E_b f(s_C, x^b_rest) of each state for its own set of kept features, (T, m)."""
    values = np.empty((len(states), len(function.output_names)))
    block = max(1, CHUNK // len(background))
    for t in range(0, len(states), block):
        s = slice(t, t + block)
        mixed = np.where(kept[s, None, :], states[s, None, :], background[None])
        flat = function(mixed.reshape(-1, states.shape[1]))
        values[s] = flat.reshape(len(mixed), len(background), -1).mean(axis=1)
    return values


def _area(features: NDArray[np.intp], curve: Array) -> float:
    return float(np.trapezoid(curve, features / features[-1]))

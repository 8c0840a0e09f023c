"""Which remembered states carried a decision: f(s) = offset + sum_j k(s, s_j) c_j, term by term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.inputs import checked, named_features
from rsa2c.errors import DataError
from rsa2c.kernel.rkhs import RKHSFunction

Array = NDArray[np.float64]
FAMILIAR_QUANTILE = 0.01
"""Quantile of the visited states' familiarity below which a state counts as extrapolation."""


@dataclass(frozen=True)
class Prototypes:
    """The k remembered states with the largest shares of f(s), largest first, and what the others add.

    shares (k, m) are signed and in the units of f; shares, `others` (m,) and `offset` (m,) add up to `value` (m,).
    states (k, d) are raw observations, similarity (k,) is the kernel between state and prototype, numbers (k,) are
    their positions in the dictionary.
    """

    numbers: NDArray[np.intp]
    states: Array
    similarity: Array
    shares: Array
    others: Array
    offset: Array
    value: Array
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return f"Prototypes of {', '.join(self.output_names)}\n{self}"

    def __str__(self) -> str:
        lines = [f"{'state':>8} {'similar':>8}  " + "  ".join(f"{name:>10}" for name in self.output_names)]
        for number, similar, shares in zip(self.numbers, self.similarity, self.shares, strict=True):
            lines.append(f"{'#' + str(number):>8} {similar:8.3f}  " + "  ".join(f"{s:+10.3f}" for s in shares))
        for name, row in (("others", self.others), ("offset", self.offset), ("sum", self.value)):
            lines.append(f"{name:>8} {'':8}  " + "  ".join(f"{s:+10.3f}" for s in row))
        return "\n".join(lines)


def prototypes(
    function: RKHSFunction, state: ArrayLike, k: int = 5, feature_names: Sequence[str] | None = None
) -> Prototypes:
    """The k remembered states that carry f(state), ranked by the sum over outputs of their absolute shares."""
    d = function.kernel.dimension
    if np.ndim(state) != 1:
        raise DataError(f"prototypes explains one state of shape ({d},), got shape {np.shape(state)}.")
    if k < 1:
        raise DataError(f"prototypes needs k of at least 1, got {k}.")
    names = named_features(feature_names, d)
    x = function.coordinates(checked("state", state, d))
    similarity = function.kernel(x, function.centres)[0]
    shares = similarity[:, None] * function.coefficients
    order = np.argsort(-np.abs(shares).sum(axis=1), kind="stable")
    shown, hidden = order[:k], order[k:]
    others = shares[hidden].sum(axis=0)
    offset = np.zeros(shares.shape[1]) if function.offset is None else function.offset
    return Prototypes(
        numbers=shown,
        states=function.remembered_states[shown],
        similarity=similarity[shown],
        shares=shares[shown],
        others=others,
        offset=offset.copy(),
        value=shares[shown].sum(axis=0) + others + offset,
        feature_names=names,
        output_names=tuple(function.output_names),
    )


def familiarity(function: RKHSFunction, states: ArrayLike) -> Array:
    """(N,): max_j k(s, s_j), similarity of each raw state to its nearest remembered state: 1 at a remembered state,
    towards 0 far from all of them.

    Without the clip of the function's inputs: beyond it all states are alike to the function, but not familiar.
    """
    unclipped = replace(function.kernel.metric, clip=np.inf)
    x = unclipped(checked("states", states, function.kernel.dimension))
    return np.asarray(function.kernel(x, function.centres).max(axis=1))


def familiar(function: RKHSFunction, visited: ArrayLike) -> float:
    """The familiarity that 99% of the visited states exceed; a state below it is unlike those of training."""
    return float(np.quantile(familiarity(function, visited), FAMILIAR_QUANTILE))

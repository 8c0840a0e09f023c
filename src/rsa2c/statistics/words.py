"""Numbers as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_NAMED = 5
"""Features that a line names."""
ALIKE = 0.01
"""Relative difference up to which weights count as equal."""
HARDLY = 0.1
"""Share of the largest weight up to which a feature is not worth naming."""


def shown(value: float, digits: int = 1, beside: float = 0.0) -> str:
    """A return with so many decimals, and below 1 with three significant digits: rewards may be of any size.

    `beside` is the mean that a spread or a bound stands beside; if that has decimals, so has this.
    """
    return f"{value:.{digits}f}" if value == 0 or max(abs(value), abs(beside)) >= 1 else f"{value:.3g}"


def leading(weights: NDArray) -> NDArray[np.intp]:
    """The features whose kernel weights (d,) are the largest, or as large."""
    return np.flatnonzero(weights >= (1 - ALIKE) * weights.max())


def attended(weights: NDArray, names: Sequence[str]) -> str | None:
    """The features with the largest kernel weights (d,); their number where more have the same than a line can name,
    and none where all have."""
    first = leading(weights)
    if len(first) == len(weights):
        return None
    if len(first) > MOST_NAMED:
        return f"{len(first)} of {len(weights)} features alike: {', '.join(names[i] for i in first[:MOST_NAMED])}, ..."
    order = np.argsort(-weights, kind="stable")[:MOST_NAMED]
    return ", ".join(f"{names[i]} {weights[i]:.2f}" for i in order if weights[i] > HARDLY * weights.max())

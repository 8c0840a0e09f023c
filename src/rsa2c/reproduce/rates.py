"""Rates of convergence on the linear-quadratic benchmark: the random iterate of the theorem, fitted exponents, and the
gap beside the theorem's bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rsa2c.reproduce import paper
from rsa2c.reproduce.records import Record

LARGEST_GAP = 1e3
"""As a multiple of the optimal cost; larger ones count as this."""


def bounded(gap: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaps, those of unstable policies limited to `LARGEST_GAP`."""
    return np.minimum(gap, LARGEST_GAP)


def random_iterate(record: Record, stable: bool = False) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Epochs T and the expected gap of Theorem 2's random iterate, drawn from t < T with weights alpha_t; with
    `stable`, from the iterates since the first one with a gap under 100%.

    The gap between two evaluations is taken to be that of the later one.
    """
    exponent = paper.document()["theory"]["actor"]
    epochs = record.curve.epochs
    edges = np.concatenate([[0.0], epochs])
    mass = np.diff((edges + 1.0) ** (1.0 - exponent))  # the integral of (t+1)^-exponent, up to a factor
    gap = bounded(record.curve.gap)
    first = int(np.argmax(np.append(gap < 1.0, True))) if stable else 0
    return epochs[first:], np.cumsum((mass * gap)[first:]) / np.cumsum(mass[first:])


def fitted_rate(epochs: NDArray[np.float64], gap: NDArray[np.float64]) -> float:
    """Exponent p of gap ~ T^-p, by least squares on logarithms over the last nine tenths of the epochs.

    Without the theorem's log^2 T: its bound rises until T = e^8, and a fit with it finds a rate in a constant gap.
    """
    late = (epochs >= epochs.max(initial=0.0) / 10) & (gap > 0) & np.isfinite(gap)
    if late.sum() < 3:
        return float("nan")
    return float(-np.polyfit(np.log(epochs[late]), np.log(gap[late]), 1)[0])


def bound(epochs: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """T^-1/4 log^2 T: the theorem's bound up to its constant."""
    theory = paper.document()["theory"]
    return np.asarray(epochs) ** -theory["rate"] * np.log(epochs) ** theory["log_power"]


def peak() -> float:
    """The T from which the bound falls, e^8."""
    theory = paper.document()["theory"]
    return float(np.exp(theory["log_power"] / theory["rate"]))


def change(epochs: NDArray[np.float64], gap: NDArray[np.float64], first: float) -> float:
    """gap(T) / gap(first) at the last T, on a logarithmic scale between evaluations; NaN where the curve begins after
    `first` or ends there."""
    if not len(epochs) or not epochs[0] <= first < epochs[-1]:
        return float("nan")
    return float(gap[-1] / np.exp(np.interp(np.log(first), np.log(epochs), np.log(gap))))

"""Figures: explanations over states and over training, and learning curves. They draw what they are given.

Every function returns a matplotlib `Figure`, free of pyplot's global state; `save` writes it as PNG and SVG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import DataError, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rsa2c.attribution.explanation import Explanation

Array = NDArray[np.float64]
POSITIVE, NEGATIVE, INK, PALE = "#c8412b", "#2b6fb3", "#222222", "#dddddd"
LINES = ("#2b6fb3", "#c8412b", "#3a8f5d", "#8a5fb0", "#c98a1b", "#5b6770")
WIDTH = 6.4


def beeswarm(explanation: Explanation, output: str | int = 0, features: int = 12, note: str = "") -> Figure:
    """One row per feature, one dot per state, placed at its Shapley value and coloured by the feature's value.

    `note` is written above it, as in `heatmap` and `bar`, with a line for each part between semicolons.
    """
    one = explanation.output(output)
    values, data = one.values[..., 0], one.data
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")[:features]
    figure, axes = _canvas(0.34 * len(order) + 1.1)
    axes.axvline(0, color=PALE, zorder=0)
    for row, i in enumerate(order):
        dots = axes.scatter(
            values[:, i],
            len(order) - 1 - row + _spread_out(values[:, i]),
            c=_ranks(data[:, i]),
            cmap=_colours(),
            vmin=0,
            vmax=1,
            s=9,
            linewidths=0,
        )
    axes.set_yticks(range(len(order)), [one.feature_names[i] for i in order[::-1]])
    axes.set_xlabel(f"Shapley value for {one.output_names[0]}")
    _noted(axes, _short(one.game), *note.split("; "))
    bar = figure.colorbar(dots, ax=axes, ticks=[0, 1], aspect=30, pad=0.02)
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("feature value", labelpad=-12)
    bar.outline.set_visible(False)
    return figure


def heatmap(
    epochs: ArrayLike,
    importances: ArrayLike,
    feature_names: Sequence[str],
    label: str = "mean |Shapley value|",
    features: int = 30,
    note: str = "",
) -> Figure:
    """Importances or kernel weights (n, d) over training, one row per feature, the most important on top.

    `epochs` (n,) counts finished epochs from 1, as `metrics.csv` and `attributions.npz` do.
    """
    table, x = np.asarray(importances, dtype=np.float64), np.asarray(epochs)
    if table.shape != (len(x), len(feature_names)):
        raise DataError(
            f"a heatmap needs importances of the shape (epochs, features) = {(len(x), len(feature_names))}, "
            f"got {table.shape}."
        )
    order = np.argsort(-table.mean(axis=0), kind="stable")[:features]
    figure, axes = _canvas(max(0.24 * len(order) + 1.0, 2.2))
    step = (x[-1] - x[0]) / max(len(x) - 1, 1) or 1
    image = axes.imshow(
        table[:, order].T,
        aspect="auto",
        interpolation="nearest",
        cmap="magma_r",
        extent=(x[0] - step / 2, x[-1] + step / 2, len(order) - 0.5, -0.5),
    )
    axes.set_yticks(range(len(order)), [feature_names[i] for i in order])
    axes.set_xlabel("epoch")
    _noted(axes, *note.split("; "))
    bar = figure.colorbar(image, ax=axes, aspect=30, pad=0.02, label=label)
    bar.outline.set_visible(False)
    return figure


def waterfall(explanation: Explanation, state: int = 0, output: str | int = 0, features: int = 10) -> Figure:
    """From the base value to one state's value, feature by feature, the largest on top, the small ones together."""
    one = explanation[state].output(output)
    values, base = one.values[0, :, 0], float(one.base_values[0, 0])
    order = np.argsort(-np.abs(values), kind="stable")
    shown = order[:features] if len(order) > features else order
    steps = [(f"{one.feature_names[i]} = {one.data[0, i]:.3g}", float(values[i])) for i in shown]
    hidden = order[len(shown) :]
    if len(hidden):
        steps.append((f"{len(hidden)} others", float(values[hidden].sum())))
    figure, axes = _canvas(0.34 * len(steps) + 1.1)
    start = base
    for row, (_, value) in reversed(list(enumerate(steps))):
        axes.barh(row, value, left=start, color=POSITIVE if value > 0 else NEGATIVE, height=0.66)
        axes.annotate(
            f"{value:+.3g}",
            (start + value, row),
            xytext=(3 if value > 0 else -3, 0),
            va="center",
            ha="left" if value > 0 else "right",
            textcoords="offset points",
            fontsize=8,
        )
        axes.plot([start + value] * 2, [row - 1, row + 0.33], color=PALE, lw=0.8, zorder=0)
        start += value
    axes.axvline(base, color=PALE, zorder=0)
    ends = np.cumsum([base, *(value for _, value in reversed(steps))])
    room = 0.16 * (np.ptp(ends) or 1.0)
    axes.set_xlim(ends.min() - room, ends.max() + room)
    axes.set_yticks(range(len(steps)), [name for name, _ in steps])
    axes.set_ylim(len(steps) - 0.4, -0.8)
    axes.set_xlabel(f"{one.output_names[0]}: from the mean {base:.3g} to {start:.3g}")
    return figure


def bar(explanation: Explanation, output: str | int = 0, features: int = 15, note: str = "") -> Figure:
    """Mean absolute Shapley values, the largest on top, with standard errors where values are sampled."""
    one = explanation.output(output)
    size = one.importances[:, 0]
    order = np.argsort(-size, kind="stable")[:features]
    error = None if one.std_error is None else one.std_error.mean(axis=0)[order, 0]
    figure, axes = _canvas(0.26 * len(order) + 0.9)
    axes.barh(range(len(order)), size[order], xerr=error, color=LINES[0], height=0.7)
    axes.set_yticks(range(len(order)), [one.feature_names[i] for i in order])
    axes.invert_yaxis()
    axes.set_xlabel(f"mean |Shapley value| for {one.output_names[0]}")
    _noted(axes, *note.split("; "))
    return figure


def learning_curve(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]],
    ylabel: str = "return",
    xlabel: str = "environment steps",
) -> Figure:
    """Named curves (steps, mean) or (steps, mean, low, high), the last two as a band."""
    figure, axes = _canvas(3.6)
    for (name, curve), colour in zip(curves.items(), LINES * (len(curves) // len(LINES) + 1), strict=False):
        steps, mean = (np.asarray(part) for part in curve[:2])
        axes.plot(steps, mean, color=colour, lw=1.5, label=name)
        if len(curve) == 4:
            axes.fill_between(steps, curve[2], curve[3], color=colour, alpha=0.18, linewidth=0)  # type: ignore[arg-type]
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.legend(frameon=False)
    return figure


def save(figure: Figure, path: str | Path) -> list[Path]:
    """Write <path>.png and <path>.svg, whatever ending the path has; equal figures give equal files."""
    matplotlib = require("matplotlib", "explain", "Drawing")
    stem = Path(path)
    stem = stem.with_suffix("") if stem.suffix in (".png", ".svg") else stem
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
    with matplotlib.rc_context({"svg.hashsalt": "rsa2c"}):
        figure.savefig(written[0], dpi=150)
        figure.savefig(written[1], metadata={"Date": None})
    return written


def _canvas(height: float) -> tuple[Figure, Axes]:
    module = require("matplotlib.figure", "explain", "Drawing")
    figure = module.Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, length=2)
    axes.xaxis.label.set_size(9)
    return figure, axes


def _noted(axes: Axes, *notes: str) -> None:
    axes.set_title("\n".join(filter(None, notes)), loc="left", fontsize=8, color=INK)


def _colours() -> Any:
    colors = require("matplotlib.colors", "explain", "Drawing")
    return colors.LinearSegmentedColormap.from_list("rsa2c", [NEGATIVE, "#b9b4bd", POSITIVE])


def _ranks(values: Array) -> Array:
    """Fractions of the range between the 5th and 95th percentiles, so that outliers do not take all the colours."""
    low, high = np.percentile(values, [5, 95])
    return np.clip((values - low) / (high - low), 0, 1) if high > low else np.full(len(values), 0.5)


def _spread_out(values: Array, bins: int = 60, height: float = 0.38) -> Array:
    """Vertical places of dots in a row: dots of one bin are stacked alternately above and below the middle."""
    low, high = values.min(), values.max()
    place = np.zeros(len(values))
    if high <= low:
        return place
    cell = ((values - low) / (high - low) * (bins - 1)).astype(int)
    crowd = np.bincount(cell).max()
    for number in np.unique(cell):
        rows = np.flatnonzero(cell == number)
        level = (np.arange(len(rows)) + 1) // 2 * np.where(np.arange(len(rows)) % 2, 1, -1)
        place[rows] = level * min(0.09, 2 * height / max(crowd, 1))
    return place


def _short(game: str, width: int = 90) -> str:
    return game if len(game) <= width else game[: width - 1] + "…"

"""Figures of a study: what is drawn is chosen here, how it is drawn is up to `rsa2c.plots`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from rsa2c import plots, statistics
from rsa2c.attribution.quality import guide_note, order_note
from rsa2c.baselines.settings import PRESET
from rsa2c.reproduce import paper
from rsa2c.reproduce.earlier import newest
from rsa2c.reproduce.rates import bounded, random_iterate
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import Selection
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.trained import MEASURED

EXPLAINED = 200
"""States of the beeswarms."""


def curves(study: Selection, environment: str, preset: str, folder: Path) -> list[Path]:
    """Mean evaluation return with its 95% interval: the ablation, and one figure with SAC and PPO if they were run."""
    chosen = newest(study, study.of(environment=environment, preset=preset))
    written = _curves(study, chosen, folder / f"ablation_{preset}")
    baselines = study.of(environment=environment, preset=PRESET)
    ours = [item for item in chosen if item.algorithm in ("rsa2c-kme", "rsa2c-cme")]
    if ours and baselines:
        written += _curves(study, [*ours, *baselines], folder / f"comparison_{preset}")
    return written


def distractor_curves(study: Selection, environment: str, folder: Path) -> list[Path]:
    """The same with useless features."""
    counts = sorted({item.distractors for item in study.records if item.environment == environment} - {0})
    written = []
    for count in counts:
        chosen = newest(study, study.of(environment=environment, preset="default", distractors=count))
        written += _curves(study, chosen, folder / f"distractors_{count}")
    return written


def _curves(study: Selection, records: Sequence[Record], stem: Path) -> list[Path]:
    shown = {}
    for algorithm in study.algorithms(records):
        runs = [item.curve.returns for item in records if item.algorithm == algorithm]
        grid = statistics.common_grid(runs, 80)
        shown[algorithm] = (grid, *statistics.curve_interval(statistics.aligned(runs, grid), study.rng))
    return plots.save(plots.learning_curve(shown), stem) if shown else []


def gap_curves(study: Selection, environment: str, preset: str, folder: Path) -> list[Path]:
    """LQR: median gap along training with the interquartile range."""
    shown = {}
    chosen = study.of(environment=environment, preset=preset)
    for algorithm in study.algorithms(chosen):
        runs = [item.curve for item in chosen if item.algorithm == algorithm]
        count = min(len(item.steps) for item in runs)
        values = bounded(np.stack([item.gap[:count] for item in runs]))
        low, median, high = np.percentile(values, [25, 50, 75], axis=0)
        shown[algorithm] = (runs[0].steps[:count], median, low, high)
    if not shown:
        return []
    figure = plots.learning_curve(shown, ylabel="gap to the optimal cost (fraction)")
    figure.axes[0].set_yscale("log")
    return plots.save(figure, folder / f"gap_{preset}")


def rate_curves(study: Selection, environment: str, folder: Path) -> list[Path]:
    """LQR under the theory's step sizes: the theorem's rate, and the expected gap of the random iterate, drawn from all
    iterates and from those since the first stable one."""
    written = _rate_curves(study, environment, False, folder / "random_iterate")
    return written + _rate_curves(study, environment, True, folder / "random_iterate_stable")


def _rate_curves(study: Selection, environment: str, stable: bool, stem: Path) -> list[Path]:
    theory = paper.document()["theory"]
    runs = study.theory(environment)
    shown: dict[str, Any] = {}
    for algorithm in study.algorithms(runs):
        found = [random_iterate(item, stable) for item in runs if item.algorithm == algorithm]
        epochs = reduce(np.intersect1d, [at for at, _ in found])
        if not len(epochs):
            continue
        gaps = np.stack([gap[np.isin(at, epochs)] for at, gap in found])
        low, median, high = np.percentile(gaps, [25, 50, 75], axis=0)
        shown[algorithm] = (epochs, median, low, high)
    if not shown:
        return []
    epochs, median, *_ = next(iter(shown.values()))
    for power, label in ((0, "T^-1/4, scaled"), (theory["log_power"], "T^-1/4 log² T, scaled")):
        shape = epochs ** -theory["rate"] * np.log(epochs + np.e) ** power
        shown[label] = (epochs, shape * (median[0] / shape[0]))
    figure = plots.learning_curve(shown, ylabel="expected gap of the random iterate", xlabel="epochs T")
    figure.axes[0].set_xscale("log")
    figure.axes[0].set_yscale("log")
    return plots.save(figure, stem)


def size_curves(rows: Sequence[Sequence[Any]], folder: Path) -> list[Path]:
    """Milliseconds and memory of an epoch against the states of the dictionaries, from the rows of `sizes`."""
    written = []
    for column, label, name in ((2, "ms per epoch", "cost_time"), (4, "peak memory of arrays (MB)", "cost_memory")):
        shown = {}
        for variant in dict.fromkeys(row[0] for row in rows):
            states, values = np.array([[float(row[k]) for k in (1, column)] for row in rows if row[0] == variant]).T
            shown[variant] = (states, values)
        figure = plots.learning_curve(shown, ylabel=label, xlabel="states in each dictionary")
        written += plots.save(figure, folder / name)
    return written


def explanations(study: Selection, environment: str, runs: Path, preset: str, folder: Path) -> list[Path]:
    """Beeswarm of the value and heatmap of importances over training, under KME and CME, of the first seed's agent."""
    written = []
    for method in ("kme", "cme"):
        found = study.of(environment=environment, preset=preset, algorithm=f"rsa2c-{method}")
        if not found:
            continue
        data = RunData.of(Run(runs / min(found, key=lambda item: item.seed).run))
        agent = data.kernel_agent
        explained = agent.explain(agent.background[:EXPLAINED], of="value", method=method)
        fidelity = agent.fidelity(explained)
        figure = plots.beeswarm(explained, note=order_note(fidelity))
        written += plots.save(figure, folder / f"beeswarm_{method}_{preset}")
        if (log := data.attributions) is not None:
            note = guide_note(fidelity, MEASURED, "value") if MEASURED in fidelity else ""
            figure = plots.heatmap(log["epoch"], log["phi"], agent.feature_names, note=note)
            written += plots.save(figure, folder / f"heatmap_{method}_{preset}")
    return written

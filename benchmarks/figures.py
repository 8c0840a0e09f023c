"""The figures of the documentation: value and torque of a trained Pendulum agent under both games, importances during
training, and the error of CME values against the size of the background.

    python benchmarks/figures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import rsa2c
from rsa2c import plots
from shapley import BACKGROUNDS, EMBEDDINGS, conditional_errors

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "img"


def main() -> None:
    agent = rsa2c.RSA2C("Pendulum-v1", "rsa2c-kme", seed=0).learn(200_000)
    states = agent.background[:200]
    for of in ("value", "action"):
        for method in ("kme", "cme"):
            explanation = agent.explain(states, of=of, method=method)
            plots.save(plots.beeswarm(explanation), IMAGES / f"pendulum_{of}_{method}")
            importances = dict(zip(explanation.feature_names, np.round(explanation.importances[:, 0], 3), strict=True))
            pairs = zip(explanation.data.T, explanation.values[:, :, 0].T, strict=True)
            correlations = [round(float(np.corrcoef(data, phi)[0, 1]), 2) for data, phi in pairs]
            print(of, method, importances, "correlation of feature and attribution", correlations)
    epochs, importances, weights = zip(*agent.attribution_log, strict=True)
    plots.save(plots.heatmap(epochs, importances, agent.feature_names), IMAGES / "pendulum_training")
    plots.save(plots.heatmap(epochs, weights, agent.feature_names, label="kernel weight"), IMAGES / "pendulum_weights")
    down_left = np.array([np.cos(2.6), np.sin(2.6), -1.0])
    plots.save(plots.waterfall(agent.explain(down_left[None], of="action")), IMAGES / "pendulum_torque_at_a_state")
    print(agent.prototypes(down_left, 3))
    errors = conditional_errors(BACKGROUNDS, 8)
    curves = {name: (BACKGROUNDS, column) for name, column in zip(EMBEDDINGS, errors.T, strict=True)}
    figure = plots.learning_curve(curves, ylabel="relative error", xlabel="background states")
    figure.axes[0].set_xscale("log", base=2)
    figure.axes[0].set_yscale("log")
    plots.save(figure, IMAGES / "cme_error")


if __name__ == "__main__":
    main()

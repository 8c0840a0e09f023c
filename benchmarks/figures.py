"""The pictures of the documentation: value and torque of a trained Pendulum agent under both games, importances during
training, the error of CME values against the size of the background, and the report of `make demo`.

    python benchmarks/figures.py [--only attributions,embeddings,report]

The report's pictures need Chromium and Playwright. What pages say of the figures is printed.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import rsa2c
from rsa2c import plots
from rsa2c.report import write_report
from rsa2c.runs.training import train_run
from shapley import BACKGROUNDS, EMBEDDINGS, conditional_errors

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "img"
DEMO_STEPS = 100_000
"""Steps of `make demo`."""
FALLING = {"angle θ from upright (°), typed": "-85", "angular velocity (rad/s), typed": "-4"}
"""The state that the report is asked about."""


def save(figure: Any, name: str) -> None:
    figure.savefig(IMAGES / f"{name}.png", dpi=150)


def attributions() -> None:
    """docs/pendulum.md: beeswarms of value and torque, importances during training, the torque at one state."""
    agent = rsa2c.RSA2C("Pendulum-v1", "rsa2c-kme", seed=0).learn(200_000)
    states = agent.background[:200]
    for of in ("value", "action"):
        for method in ("kme", "cme"):
            explanation = agent.explain(states, of=of, method=method)
            save(plots.beeswarm(explanation), f"pendulum_{of}_{method}")
            means = explanation.importances[:, 0].round(3).tolist()
            importances = dict(zip(explanation.feature_names, means, strict=True))
            pairs = zip(explanation.data.T, explanation.values[:, :, 0].T, strict=True)
            correlations = [round(float(np.corrcoef(data, phi)[0, 1]), 2) for data, phi in pairs]
            print(of, method, importances, "correlation of feature and attribution", correlations)
    epochs, importances, weights = zip(*agent.attribution_log, strict=True)
    save(plots.heatmap(epochs, importances, agent.feature_names), "pendulum_training")
    print("kernel weights", weights[-1].round(2))
    down_left = np.array([np.cos(2.6), np.sin(2.6), -1.0])
    save(plots.waterfall(agent.explain(down_left[None], of="action")), "pendulum_torque_at_a_state")
    print(agent.prototypes(down_left, 3))


def embeddings() -> None:
    """docs/attribution.md: the error of observational values."""
    errors = conditional_errors(BACKGROUNDS, 8)
    curves = {name: (BACKGROUNDS, column) for name, column in zip(EMBEDDINGS, errors.T, strict=True)}
    figure = plots.learning_curve(curves, ylabel="relative error", xlabel="background states")
    figure.axes[0].set_xscale("log", base=2)
    figure.axes[0].set_yscale("log")
    save(figure, "cme_error")


def report() -> None:
    """README.md and docs/report.md: the first two sections of the report of `make demo`."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        run = train_run("Pendulum-v1", "rsa2c-kme", seed=0, total_timesteps=DEMO_STEPS, out=folder, track=False)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(write_report(run).absolute().as_uri())
        for label, value in FALLING.items():
            page.get_by_label(label, exact=True).fill(value)
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(500)
        ask, lead = page.locator("#ask").bounding_box(), page.locator(".lead").bounding_box()
        assert ask is not None and lead is not None
        height = ask["y"] + ask["height"] - lead["y"]
        cut = {"x": ask["x"] - 20, "y": lead["y"] - 10, "width": ask["width"] + 40, "height": height}
        page.screenshot(path=IMAGES / "report_pendulum_ask.png", clip=cut, full_page=True)
        page.locator("#episode").screenshot(path=IMAGES / "report_pendulum_episode.png")
        browser.close()


def main() -> None:
    parts = {part.__name__: part for part in (attributions, embeddings, report)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(parts), help="some of them, separated by commas")
    for name in parser.parse_args().only.split(","):
        parts[name]()


if __name__ == "__main__":
    main()

"""The report: its JavaScript against Python, its size, and the time to build it and to respond to a drag.

    python benchmarks/report.py RUN [RUN ...] [--states 1000]

Needs node; timing a drag in a browser also needs Chromium and Playwright. Half of the states are visited states with
noise of half a standard deviation; the other half are uniform over the visited range of each feature. Differences are
relative to the largest value of each output over all states. A drag is everything the page does when a slider moves:
action, value, remembered states, attributions, drawing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _provenance import write
from rsa2c.agent import RSA2C
from rsa2c.report import write_report
from rsa2c.report.embedded import Embedded
from rsa2c.report.encoding import to_json
from rsa2c.report.page import FOLDER
from rsa2c.runs.folder import Run
from rsa2c.runs.training import load_agent

SCRIPT = Path(__file__).resolve().parent.parent / "tests" / "report_states.mjs"
DRAGS = 15
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
DRAG = """async (drags) => {
    const slider = document.querySelector("#ask-sliders input[type=range]");
    const low = Number(slider.min), high = Number(slider.max);
    const times = [];
    for (let k = 0; k < drags; k++) {
        slider.value = low + ((k + 1) / drags) * (high - low);
        slider.dispatchEvent(new Event("input"));
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        times.push(Number(document.getElementById("ask-note").dataset.milliseconds));
    }
    return times;
}"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--states", type=int, default=1000)
    arguments = parser.parse_args()
    lines = [
        "| run | background | nodes | action | value | attributions | node, ms per state | drag in Chromium, ms "
        "| page, MB | build time, s | of which CPU time, s |",
        "|" + "---|" * 11,
    ]
    for path in arguments.runs:
        lines.append(measured(Run.open(path), arguments.states))
        print(lines[-1], flush=True)
    body = (
        f"Largest relative difference between the page's JavaScript and Python at {arguments.states} states, for the "
        "action, the value and the Shapley values of both. Both sides use the page's background and quadrature nodes. "
        "`node, ms per state` is the time of one explanation of the value or the action, whichever is slower.\n\n"
        + "\n".join(lines)
    )
    print(write("report", "The report", body, "playwright"))


def measured(run: Run, count: int) -> str:
    """One row of the table."""
    agent = load_agent(run)
    page = Embedded(agent)
    states = random_states(agent, count)
    with tempfile.TemporaryDirectory() as folder:
        found = javascript(Path(folder), model=page.document(), states=states)
        began, computing = time.perf_counter(), time.process_time()
        report = write_report(run, Path(folder) / "report.html")
        built, computed = time.perf_counter() - began, time.process_time() - computing
        size, drag = report.stat().st_size / 1e6, browser_milliseconds(report)
    action = relative(found["action"], agent.policy.bounds.action(agent.policy_mean(states)))
    value, worst = None, 0.0
    for name, function in page.functions.items():
        rows = found["functions"][name]
        expected = page.explain(name, states).values
        worst = max(worst, relative(np.array([row["values"] for row in rows]).reshape(expected.shape), expected))
        if name == "value":
            value = relative([row["prediction"] for row in rows], function(states))
    nodes = "/".join(str(n) for n in sorted(set(page.nodes.values())))
    background = f"{len(page.background)} of {len(agent.background)}"
    return (
        f"| {agent.env_id}, {agent.dictionary_size} states | {background} | {nodes} "
        f"| {action:.1e} | {'-' if value is None else f'{value:.1e}'} | {worst:.1e} "
        f"| {max(found['milliseconds'].values()):.1f} | {drag} | {size:.2f} | {built:.1f} | {computed:.1f} |"
    )


def random_states(agent: RSA2C, count: int) -> NDArray[np.float64]:
    rng, visited = np.random.default_rng(0), agent.background
    some = visited[rng.integers(len(visited), size=count - count // 2)]
    near = some + 0.5 * visited.std(axis=0) * rng.standard_normal(some.shape)
    anywhere = rng.uniform(visited.min(axis=0), visited.max(axis=0), (count // 2, visited.shape[1]))
    return np.vstack([near, anywhere])


def relative(found: Any, expected: NDArray[np.float64]) -> float:
    axes = tuple(range(expected.ndim - 1))
    return float((np.abs(np.asarray(found) - expected).max(axis=axes) / np.abs(expected).max(axis=axes)).max())


def javascript(folder: Path, **given: Any) -> dict[str, Any]:
    source = folder / "input.json"
    source.write_text(to_json(given), encoding="utf-8")
    command = ["node", str(SCRIPT), str(FOLDER / "js"), str(source)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return found


def browser_milliseconds(report: Path) -> str:
    """Median and largest time of a drag, or the reason why it could not be measured."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "no Playwright"
    if chromium is None:
        return "no Chromium"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        page.goto(report.as_uri())
        page.evaluate(DRAG, DRAGS)  # compiles
        times = page.evaluate(DRAG, DRAGS)
        browser.close()
    return f"{statistics.median(times):.0f} (largest {max(times):.0f})"


if __name__ == "__main__":
    main()

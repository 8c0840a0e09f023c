"""The report in a real browser: it opens from a file, answers, plays, and fits a phone.

Needs Debian's Chromium (apt-get install chromium) and Playwright for Python, which drives it.
"""

from __future__ import annotations

import os
import re
import shutil
import time

import numpy as np
import pytest

from rsa2c.report import write_comparison, write_report
from rsa2c.runs.folder import Run
from rsa2c.runs.training import train_run

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium, or set CHROMIUM")

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
INSIDE = ("file:", "data:", "blob:")
SECTIONS = ("ask", "episode", "attention", "result", "trust")
MOST_WORDS = 525
"""Half of what the first version of the page had, numbers on axes included."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    fields = {"n_envs": 4, "horizon": 100, "capacity": 40, "evaluation_episodes": 2}
    out = tmp_path_factory.mktemp("runs")
    return train_run("Pendulum-v1", "rsa2c-kme", total_timesteps=2000, out=out, track=False, **fields)


@pytest.fixture(scope="module")
def report(run):
    return write_report(run, episodes=4)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open a page; at the end, it must have complained of nothing and asked the network for nothing."""
    complaints, contexts = [], []

    def go(path, width=1200, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith(INSIDE) or complaints.append(r.url))
        page.goto(path.resolve().as_uri())
        eventually(page, "document.documentElement.dataset.ready === 'true'")
        eventually(page, "!document.getElementById('ask') || !!document.querySelector('#ask-waterfall svg')")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def eventually(page, condition, seconds=20.0):
    """Wait until the condition holds; the page's security policy forbids Playwright's own way of waiting."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"never came true: {condition}"
        page.wait_for_timeout(50)


def waterfall(page):
    return page.evaluate(
        """() => {
            const host = document.getElementById("ask-waterfall");
            const bars = [...host.querySelectorAll("rect.bar")].map((bar) => Number(bar.getAttribute("width")));
            return { ...host.dataset, bars };
        }"""
    )


def settle(page):
    """Wait for the next drawn frame."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def overflowing(page):
    """Texts of charts that leave their drawing, by more than a rounding."""
    return page.evaluate(
        """() => [...document.querySelectorAll("svg:not(.scene) text")].filter((text) => {
            const [a, b] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
            return a.width && (a.left < b.left - 1.5 || a.right > b.right + 1.5 || a.bottom > b.bottom + 2);
        }).map((text) => text.textContent)"""
    )


def overlapping(page):
    """Pairs of texts of one chart that cover each other."""
    return page.evaluate(
        """() => [...document.querySelectorAll("svg:not(.scene)")].flatMap((svg) => {
            const all = [...svg.querySelectorAll("text")].filter((t) => t.textContent);
            const texts = all.map((t) => [t.textContent, t.getBoundingClientRect()]);
            return texts.flatMap(([name, a], i) => texts.slice(i + 1).filter(([, b]) =>
                a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 5 && b.top < a.bottom - 5)
                .map(([other]) => `${name} | ${other}`));
        })"""
    )


def test_opens_from_a_file_and_agrees_with_python(visit, report):
    page = visit(report)
    assert float(page.get_attribute("#trust-check", "data-difference")) < 1e-9
    tops = [page.locator(f"#{name} h2").bounding_box()["y"] for name in SECTIONS]
    assert tops == sorted(tops)
    assert page.locator(".lead").bounding_box()["y"] < tops[0] < 200
    assert page.locator("#result-curve polyline").count() == 1  # of two, one has no number
    assert page.locator("#attention-swarm circle").count() == 3 * 200


def test_a_slider_changes_the_waterfall_and_bars_sum_to_the_prediction(visit, report):
    page = visit(report)
    before = waterfall(page)
    slider = page.locator("#ask-sliders input[type=range]").last
    slider.focus()
    page.keyboard.press("Home")
    settle(page)
    after = waterfall(page)
    assert after["bars"] != before["bars"]
    for shown in (before, after):
        base, total, prediction = (float(shown[key]) for key in ("base", "sum", "prediction"))
        assert base + total == pytest.approx(prediction, rel=1e-9, abs=1e-9)
    assert len(after["bars"]) == 3
    # it ends at the torque that the bar above it shows
    assert page.locator("#ask-waterfall text.strong").last.text_content() == page.locator(".action-value").inner_text()


def test_remembered_states_say_what_is_done_there(visit, report):
    page = visit(report)
    for text in page.locator("#ask-prototypes .prototype").all_inner_texts():
        similar, torque = re.search(r"([\d.]+) % similar\ntorque ([−\d.]+) N m", text).groups()
        assert 0 <= float(similar) <= 100 and abs(float(torque.replace("−", "-"))) <= 2


def test_has_few_words_and_folds_the_cost_away(visit, report):
    page = visit(report)
    assert len(page.evaluate("document.body.innerText").split()) <= MOST_WORDS
    phases = page.locator("#result-phases")
    assert not phases.is_visible()
    page.get_by_text("Memory, time and cost").click()
    settle(page)
    assert "compile" in phases.text_content()
    assert overflowing(page) == [] and overlapping(page) == []


def test_a_curve_without_a_number_is_not_in_the_legend(visit, report):
    """Epochs of this run are shorter than its episodes, so that none ended in training."""
    assert visit(report).locator("#result-curve .legend").inner_text().startswith("evaluation, 2 episodes each")
    assert "exploring" not in visit(report).locator("#result-curve .legend").inner_text()


def test_longer_bars_are_better_returns(visit, report):
    page = visit(report)
    bars = [float(bar.get_attribute("width")) for bar in page.locator("#result-robustness rect.bar").all()]
    notes = page.locator("#result-robustness text.note").all_text_contents()
    returns = [float(note.replace("−", "-").replace(",", "")) for note in notes]
    assert len(bars) == 4 and [bars[k] for k in np.argsort(returns)] == sorted(bars)


def test_typing_and_dragging_set_the_state(visit, report):
    page = visit(report)
    typed = page.get_by_label("angular velocity (rad/s), typed")
    typed.fill("3.25")
    settle(page)
    assert float(page.get_by_label("angular velocity (rad/s)", exact=True).input_value()) == pytest.approx(3.25)
    scene = page.locator("#ask-scene svg")
    scene.scroll_into_view_if_needed()
    box = scene.bounding_box()
    torque = page.locator(".action-value").first.inner_text()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 60, box["y"] + box["height"] / 2)
    page.mouse.up()
    settle(page)
    # the bob at the left is a positive angle of a right angle: cos 0, sin 1
    assert float(page.get_by_label("sin θ", exact=True).input_value()) == pytest.approx(1.0, abs=0.02)
    assert float(page.get_by_label("angular velocity (rad/s)", exact=True).input_value()) == pytest.approx(3.25)
    assert page.locator(".action-value").first.inner_text() != torque


def test_far_states_are_marked_as_extrapolation(visit, report):
    page = visit(report)
    page.get_by_label("angular velocity (rad/s), typed").fill("300")
    settle(page)
    assert page.locator("#ask-familiar").inner_text().startswith("extrapolation")
    page.get_by_role("button", name="Typical state").click()
    settle(page)
    assert page.locator("#ask-familiar").inner_text().startswith("familiar")


def test_the_episode_plays_and_a_click_in_the_heatmap_jumps(visit, report):
    page = visit(report)
    step = page.locator("#episode-step")
    assert step.get_attribute("data-step") == "0"
    page.locator("#episode-play").click()
    eventually(page, "Number(document.getElementById('episode-step').dataset.step) > 3")
    page.locator("#episode-play").click()
    stopped = int(step.get_attribute("data-step"))
    page.wait_for_timeout(300)
    assert int(step.get_attribute("data-step")) == stopped
    image = page.locator("#episode-heatmap image").first
    image.scroll_into_view_if_needed()
    box = image.bounding_box()
    page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    assert int(step.get_attribute("data-step")) == pytest.approx(150, abs=2)
    page.keyboard.press("ArrowRight")
    assert int(step.get_attribute("data-step")) == pytest.approx(151, abs=2)
    page.locator("#episode-choice button").nth(1).click()
    assert step.get_attribute("data-step") == "0"


def test_dark_mode_by_system_and_by_button(visit, report):
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(report), visit(report, scheme="dark")
    assert light.evaluate(background) == "rgb(255, 255, 255)"
    night = dark.evaluate(background)
    assert night == "rgb(20, 23, 28)"
    light.locator("#theme").click()
    assert light.evaluate(background) == night


@pytest.mark.parametrize("width", [390, 820, 1240])
def test_fits_the_screen(visit, report, width):
    page = visit(report, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert overflowing(page) == []
    assert overlapping(page) == []
    assert page.locator("header").bounding_box()["height"] < 48  # one line
    cut = "[...document.querySelectorAll('.gauge b')].filter((each) => each.scrollWidth > each.clientWidth).length"
    page.evaluate("document.querySelectorAll('.gauge b').forEach((each) => (each.textContent = '−0.0364'))")
    assert page.evaluate(cut) == 0, "the number of an action stays in its column"


def test_a_step_is_at_one_place_in_all_charts_of_an_episode(visit, report):
    page = visit(report)
    lines = page.evaluate(
        """() => [...document.querySelectorAll("#episode-charts svg")].map((chart) =>
            [...chart.querySelectorAll("line.grid")].map((line) => line.getAttribute("x1")))"""
    )
    assert len(lines) == 3 and len({left for chart in lines for left in chart}) == 1
    assert all(len(chart) >= 2 for chart in lines), "one number at an axis has no scale"
    gap = page.locator("#episode-scene").bounding_box()["y"]
    above = page.locator("#episode-choice").bounding_box()
    assert gap - above["y"] - above["height"] > 4


def test_an_agent_without_a_training_log_has_a_page(visit, run, tmp_path):
    """As an agent that was downloaded has none: the sections that need one are left out or say so."""
    bare = Run(shutil.copytree(run.path, tmp_path / run.path.name))
    for path in (bare.metrics_path, bare.evaluations_path, bare.attributions_path):
        path.unlink()
    page = visit(write_report(bare, episodes=2), width=390)
    assert "on average over 2 episodes" in page.locator(".lead").inner_text()
    assert page.locator("#result-robustness rect.bar").count() == 4
    assert page.locator("#result-curve svg").count() == page.locator("#attention-weights").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_coinciding_lines_of_a_sweep_stay_visible(visit, run, tmp_path):
    """Two settings with the same curve: where one line is drawn, the other has a gap."""
    for name in ("Pendulum-v1__rsa2c-kme__default__n0__s0", "Pendulum-v1__uniform-shap__default__n0__s0"):
        shutil.copytree(run.path, tmp_path / name)
    page = visit(write_comparison(tmp_path))
    lines = page.locator("#curve-charts polyline")
    assert lines.count() == 2
    assert {line.get_attribute("stroke-dasharray") for line in lines.all()} == {"14 14"}
    assert {line.get_attribute("stroke-dashoffset") for line in lines.all()} == {"0", "-14"}


def test_comparison_sorts_and_downloads(visit, run, tmp_path):
    run.write_returns(np.array([0.0]), np.array([[-1.0, -2.0]]), np.array([[200, 200]]))
    try:
        page = visit(write_comparison(run.path.parent, tmp_path / "sweep.html"), width=390)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.locator("#table-groups th button").first.click()
        assert page.locator("#table-groups th").first.get_attribute("aria-sort") == "ascending"
        with page.expect_download() as waiting:
            page.locator("#table-csv").click()
        saved = tmp_path / "table.csv"
        waiting.value.save_as(saved)
        head, line = saved.read_text().splitlines()
        assert head.startswith("environment,setting,runs") and line.startswith("Pendulum-v1,rsa2c-kme,1,2,-1.5")
    finally:
        run.returns_path.unlink()

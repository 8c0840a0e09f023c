"""README and documentation: every block of code runs, links lead somewhere, named lines of source exist."""

from __future__ import annotations

import ast
import contextlib
import csv
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pages import LANGUAGES, blocks, run_page

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])
RUN_ELSEWHERE = {"controller.md"}  # test_controller_page.py
RUNNING = [page for page in PAGES if {name for name, _ in blocks(page)} - {"text"} and page.name not in RUN_ELSEWHERE]
NEEDS = {
    "kernel-models.md": ("shap", "sklearn", "matplotlib"),
    "README.md": ("sklearn",),
    "scaling.md": ("jax",),
    "tools.md": ("optuna", "PIL", "pygame", "stable_baselines3", "tensorboard"),
}
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?:#[^)]*)?\)")
ROW = re.compile(r"\| `([^`]+)` \| \[`([\w.]+)`\]\(\.\./(src/[\w/]+\.py)\) \|$", re.MULTILINE)
INDENTED = re.compile(r"\n\n {4}\S")


def title(page):
    return page.name


@pytest.mark.parametrize("page", RUNNING, ids=title)
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch):
    for module in NEEDS.get(page.name, ()):
        pytest.importorskip(module, reason="pip install 'rsa2c[all]'")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=Recorded))
    monkeypatch.chdir(tmp_path)
    names = run_page(page, tmp_path)
    STATEMENTS.get(page.name, lambda names: None)(names)


class Recorded(contextlib.nullcontext):
    """In place of a run of W&B, which needs an account: the rows that were sent."""

    def __init__(self, project, sync_tensorboard=False):
        super().__init__(self)
        self.sent = []

    def log(self, row, step):
        self.sent.append((step, row))

    def finish(self):
        """Nothing."""


def tracked(names):
    """TensorBoard's writer has the training, and W&B was sent every epoch of the run folder."""
    logs = Path(names["agent"].logger.dir)
    assert any(path.stat().st_size > 1000 for path in logs.glob("events.out.tfevents.*"))
    steps, rows = zip(*names["run"].sent, strict=True)
    assert steps[-1] >= 10_000 and list(steps) == sorted(set(steps))
    assert all("ep_rew_mean" in row for row in rows)


def reactor(names):
    """The learned policy is as good as the tuned controller, and the gains have the signs that the page claims."""
    assert names["score"].mean > 1.5 * names["peer"].mean
    assert -7 < names["peer"].mean < -5
    assert names["gain"][0] > 0 > names["gain"][1]


def shap_fails(names):
    """What the page says of shap, where shap is the version that the page names."""
    if names["shap"].__version__.startswith("0.51."):
        assert names["failed_model"].startswith("TypeError")
        assert names["failed_pipeline"].startswith("AttributeError")
        assert names["failed_exact"].startswith("ValueError: It takes 1048576")
    assert names["of_pipeline"].values.shape == (2, 10, 1)
    assert abs(names["of_wide"].efficiency_residual).max() < 1e-9


def quick_start(names):
    assert names["score"].mean > -250
    assert abs(names["explanation"].efficiency_residual).max() < 1e-8


def robust(names):
    near, far = names["agent"].familiarity([names["upright"], names["impossible"]])
    assert near > 0.5 > far
    assert names["noisy"].mean < names["clean"].mean + 20


STATEMENTS = {
    "own-environment.md": reactor,
    "kernel-models.md": shap_fails,
    "quickstart.md": quick_start,
    "robust.md": robust,
    "tools.md": tracked,
}


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_code_is_in_blocks_that_name_their_language(page):
    text = page.read_text(encoding="utf-8")
    assert {language for language, _ in blocks(page)} <= set(LANGUAGES)
    if page.name != "api.md":  # whose options are indented
        outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert not INDENTED.search(outside), "indented code does not run; put it in a block"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_links_lead_to_files(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


def test_formulas_stand_beside_the_lines_that_compute_them():
    rows = ROW.findall((ROOT / "docs" / "method.md").read_text(encoding="utf-8"))
    assert len(rows) > 20
    for line, name, path in rows:
        assert line in source_of(ROOT / path, name), f"{path}: {name} has no line {line!r}"


def test_the_noise_that_the_notes_quote_is_in_the_study_s_table():
    def numbers(cells):
        return [float(cell.split(" ")[0]) for cell in cells]

    text = (ROOT / "docs" / "notes-on-the-paper.md").read_text(encoding="utf-8")
    head, *lines = [line.strip("| ").split(" | ") for line in re.findall(r"^\| (?:variance|0\.\d+) \|.*", text, re.M)]
    assert len(lines) == 3
    study = (ROOT / "results" / "pendulum" / "noise_pendulum.csv").read_text(encoding="utf-8").splitlines()
    rows = {row["variance"]: row for row in csv.DictReader(study) if row["variant"] == "rsa2c-kme"}
    columns = ["paper, level as variance", *(f"`default`, {name}" for name in head[2:])]
    for level, *quoted in lines:
        assert numbers(quoted) == numbers([rows[level][column] for column in columns])
    ours, said = numbers(rows["0.01"][column] for column in (columns[-1], "paper, level as standard deviation"))
    assert f"gave us {ours} and the paper has {said}." in " ".join(text.split())


def source_of(path, name):
    """The text of a function, class or method."""
    text = path.read_text(encoding="utf-8")
    node = ast.parse(text)
    for part in name.split("."):
        named = [each for each in node.body if getattr(each, "name", None) == part]
        assert named, f"{path} has no {name}"
        node = named[0]
    return ast.get_source_segment(text, node)

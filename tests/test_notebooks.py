"""The site's notebooks run from top to bottom in a Jupyter kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pages import blocks

ROOT = Path(__file__).parent.parent
pytest.importorskip("mkdocs", reason="pip install 'rsa2c[docs]'")
sys.path.insert(0, str(ROOT / "docs"))
import hooks  # noqa: E402

TIMEOUT = 600
"""Seconds of one cell."""
ACCOUNT = {"tools.md"}  # a cell of it logs in to Weights & Biases; test_pages.py runs it with a stand-in
PAGES = sorted(
    page
    for page in ROOT.glob("docs/*.md")
    if page.name not in ACCOUNT and any(language == "python" for language, _ in blocks(page))
)
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


def name(path):
    return path.name


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_notebook_of_an_example(path, tmp_path, monkeypatch):
    execute(hooks.notebook(hooks.example(path)), tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_notebook_of_a_page(page, tmp_path, monkeypatch):
    execute(hooks.notebook(page.read_text(encoding="utf-8")), tmp_path, monkeypatch)


def test_a_cell_that_fails_is_noticed(tmp_path, monkeypatch):
    client = pytest.importorskip("nbclient", reason="pip install 'rsa2c[dev]'")
    with pytest.raises(client.exceptions.CellExecutionError, match="ZeroDivisionError"):
        execute(hooks.notebook("```python\n1 / 0\n```\n"), tmp_path, monkeypatch)


def execute(text, folder, monkeypatch):
    """Run the cells in `folder`, with the programs of this environment first."""
    nbformat = pytest.importorskip("nbformat", reason="pip install 'rsa2c[dev]'")
    client = pytest.importorskip("nbclient", reason="pip install 'rsa2c[dev]'")
    pytest.importorskip("ipykernel", reason="pip install 'rsa2c[dev]'")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.reads(text, as_version=4)
    client.NotebookClient(notebook, timeout=TIMEOUT, resources={"metadata": {"path": str(folder)}}).execute()

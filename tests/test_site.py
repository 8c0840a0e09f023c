"""The documentation's site builds without a warning."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pages import NAME, blocks

ROOT = Path(__file__).parent.parent


def test_the_site_builds_without_a_warning(tmp_path):
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module, reason="pip install 'rsa2c[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    method = (tmp_path / "site" / "method" / "index.html").read_text(encoding="utf-8")
    reference = (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")
    assert 'href="quickstart/"' in home
    assert "source/algorithm/critics/#__codelineno-0-" in method
    assert "certified_radius" in reference
    for page in ROOT.glob("docs/*.md"):
        if any(name == "python" for name, _ in blocks(page)):
            check_notebook(tmp_path / "site" / "notebooks" / f"{page.stem}.ipynb", page)
    for path in ROOT.glob("examples/*.py"):
        check_example(tmp_path / "site", path)


def check_notebook(path, page):
    """A notebook writes and runs what the page does, which test_pages.py tries."""
    cells = [cell["source"] for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    shown = [(name, code) for name, code in blocks(page) if name != "text"]
    files = [f"%%writefile {found[1]}\n{code}".strip() for _, code in shown if (found := NAME.match(code))]
    runs = [("%%sh\n" if name == "sh" else "") + code.strip() for name, code in shown if name in ("python", "sh")]
    assert [cell for cell in cells if cell.startswith("%%writefile")] == files
    assert [cell for cell in cells if not cell.startswith("%%writefile")] == runs


def check_example(site, path):
    """Its notebook is the script, which test_examples.py runs, and its page leads there."""
    cells = json.loads((site / "notebooks" / "source" / "examples" / f"{path.stem}.ipynb").read_text("utf-8"))["cells"]
    said, code = (cell["source"] for cell in cells if cell["source"])
    assert f'"""{said}\n"""\n\n{code}\n' == path.read_text(encoding="utf-8")
    page = (site / "source" / "examples" / path.stem / "index.html").read_text(encoding="utf-8")
    assert f'href="../../../notebooks/source/examples/{path.stem}.ipynb"' in page

"""The documentation's site builds without a warning."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pages import blocks

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
    check_notebook(tmp_path / "site" / "notebooks" / "own-environment.ipynb", ROOT / "docs" / "own-environment.md")


def check_notebook(path, page):
    """A notebook runs what the page runs, which test_pages.py tries."""
    cells = [cell["source"] for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    written, rest = cells[0], cells[1:]
    assert written.startswith("%%writefile reactor.py\n")
    expected = [("%%sh\n" if name == "sh" else "") + code.strip() for name, code in blocks(page) if name != "text"]
    assert rest == expected

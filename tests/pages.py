"""Runs the code blocks of a documentation page in order, in one folder, as a reader would.

A ```python block continues those before it; if its first line is `# name.py`, it is written to that file as well as
run. A ```c block is a file whose name is in its first line, `/* name.c: ... */`; a ```yaml block likewise,
`# name.yaml`. A ```sh block is a script. A ```text block shows output and is not run. Pages have no other blocks.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = ("python", "sh", "c", "yaml", "text")
NAME = re.compile(r"(?:/\*|#) (\w+\.(?:c|py|yaml))\b")


@contextlib.contextmanager
def sought(folder: Path) -> Iterator[None]:
    """Modules of the folder can be imported, as in a session that was started there, and are forgotten afterwards."""
    sys.path.insert(0, str(folder))
    before = set(sys.modules)
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run_page(page: Path, folder: Path) -> dict[str, Any]:
    """Run a page's blocks in `folder`; returns what its Python blocks defined, and all its scripts printed."""
    names: dict[str, Any] = {"__name__": "__main__", "output": ""}
    paths = (str(folder), os.environ.get("PYTHONPATH"))
    script = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    with contextlib.chdir(folder), sought(folder):
        for language, code in blocks(page):
            assert language in LANGUAGES, f"{page}: a block of {language!r}; known are {', '.join(LANGUAGES)}"
            found = NAME.match(code)
            if found is not None:
                Path(found[1]).write_text(code, encoding="utf-8")
            assert found is not None or language not in ("c", "yaml"), f"{page}: a block without a name: {code[:40]}"
            if language == "python":
                exec(compile(code, str(page), "exec"), names)
            elif language == "sh":
                done = subprocess.run(["sh", "-e"], input=code, capture_output=True, text=True, env=script)
                assert done.returncode == 0, f"{page}: {code}\n{done.stdout}{done.stderr}"
                names["output"] += done.stdout
    return names

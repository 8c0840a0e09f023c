"""Runs the code blocks of a documentation page in order, in one folder, as a reader would.

A ```python block continues those before it. A ```c block is a file whose name is in its first line,
`/* name.c: ... */`. A ```sh block is a script. Other blocks show output and are not run.
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

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"/\* (\w+\.c): ")


@contextlib.contextmanager
def sought(folder: Path) -> Iterator[None]:
    """Modules of the folder can be imported, as in a session that was started there."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def run_page(page: Path, folder: Path) -> dict[str, Any]:
    """Run a page's blocks in `folder`; returns what its Python blocks defined."""
    names: dict[str, Any] = {"__name__": "__main__"}
    script = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with contextlib.chdir(folder), sought(folder):
        for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "python":
                exec(compile(code, str(page), "exec"), names)
            elif language == "c":
                found = NAME.match(code)
                assert found is not None, f"{page}: a C block must begin with /* name.c: ... */, got {code[:40]}"
                Path(found[1]).write_text(code, encoding="utf-8")
            elif language == "sh":
                done = subprocess.run(["sh", "-e"], input=code, capture_output=True, text=True, env=script)
                assert done.returncode == 0, f"{page}: {code}\n{done.stdout}{done.stderr}"
                names["output"] = done.stdout
    return names

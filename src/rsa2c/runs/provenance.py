"""What computed a run: versions, processor, commit."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from rsa2c.workers.software import blas, versions


@cache
def provenance(*packages: str) -> dict[str, Any]:
    """Versions of the packages that compute (and of `packages`), the processor, the linear algebra that it runs, and
    the commit if rsa2c runs from its own git checkout."""
    return {"versions": versions(*packages), "processor": cpu(), "blas": blas(), "commit": _commit()}


def cpu() -> str:
    """The processor's model name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str | None:
    package = Path(__file__).resolve().parent.parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        # A virtual environment may be inside somebody else's repository: only our own layout counts.
        if Path(git("rev-parse", "--show-toplevel")) / "src" / "rsa2c" != package:
            return None
        # Results that a benchmark has just written do not change what computes the next ones.
        modified = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD") + ("-modified" if modified else "")
    except (OSError, subprocess.SubprocessError):
        return None

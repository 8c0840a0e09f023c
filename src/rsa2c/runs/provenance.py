"""What computed a run: versions, processor, commit."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from functools import cache
from importlib import metadata as package_metadata
from pathlib import Path
from typing import Any


@cache
def provenance(*packages: str) -> dict[str, Any]:
    """Versions of the packages that compute (and of `packages`), the processor, the linear algebra that it runs, and
    the commit if rsa2c runs from its own git checkout."""
    versions: dict[str, str] = {}
    for name in ("rsa2c", "numpy", "scipy", "numba", "gymnasium", "envpool", "mujoco", "box2d", *packages):
        with contextlib.suppress(package_metadata.PackageNotFoundError):
            versions[name] = package_metadata.version(name)
    return {"versions": versions, "processor": cpu(), "blas": blas(), "commit": _commit()}


def cpu() -> str:
    """The processor's model name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def blas() -> str:
    """The libraries of linear algebra that NumPy and SciPy have loaded, and the processor that their kernels are for.

    OpenBLAS chooses kernels by the processor, and equal seeds give equal bytes only with equal kernels.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    loaded = [each for each in threadpool_info() if each["user_api"] == "blas"]
    names = (f"{each['internal_api']} {each['version']} ({each.get('architecture', 'unknown')})" for each in loaded)
    return ", ".join(sorted(set(names)))


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

"""What computes here: versions, sources, kernels of linear algebra. A training on several machines has the same bytes
as on one only where these are the same."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from rsa2c.errors import ConfigError

PACKAGES = ("rsa2c", "numpy", "scipy", "numba", "gymnasium", "envpool", "mujoco", "box2d")
"""Those that compute, environments' included."""


def versions(*packages: str) -> dict[str, str]:
    """Versions of the packages that compute, and of `packages`, as far as they are installed."""
    found: dict[str, str] = {}
    for name in (*PACKAGES, *packages):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def linear_algebra() -> list[dict[str, Any]]:
    """The libraries of linear algebra that are loaded, NumPy's and SciPy's at least."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return [each for each in threadpool_info() if each["user_api"] == "blas"]


def blas() -> str:
    """The libraries of linear algebra, and the processor that their kernels are for.

    OpenBLAS chooses kernels by the processor, and equal seeds give equal bytes only with equal kernels.
    """
    names = (
        f"{each['internal_api']} {each['version']} ({each.get('architecture', 'unknown')})" for each in linear_algebra()
    )
    return ", ".join(sorted(set(names)))


@cache
def software() -> dict[str, str]:
    """What has to be the same wherever a training computes."""
    return {"Python": platform.python_version(), **versions(), "sources of rsa2c": _sources()}


@cache
def processor() -> str:
    """The kind of processor that linear algebra has kernels for."""
    kinds = {each["architecture"] for each in linear_algebra() if "architecture" in each}
    return ", ".join(sorted(kinds)) or platform.machine()


def check_same(there: Mapping[str, str], who: str) -> None:
    """Refuse a worker with other software than this process has."""
    here = software()
    differing = [
        f"{name} {there.get(name, '(none)')} there and {here.get(name, '(none)')} here"
        for name in {**here, **there}
        if there.get(name) != here.get(name)
    ]
    if differing:
        raise ConfigError(
            f"{who} has other software than its driver: {', '.join(differing)}. The result would depend on who "
            "computes what. Install the same on all machines."
        )


def _sources() -> str:
    """A hash of the package's code: two checkouts may have the same version."""
    package = Path(__file__).resolve().parent.parent
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:12]

"""The library's modules and what they import, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "rsa2c"
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "signals", "lazy"),
    ("files", "statistics"),
    ("kernel", "zoo", "datasets"),
    ("attribution",),
    ("envs",),
    ("config",),
    ("algorithm",),
    ("workers",),
    ("robustness", "export", "gpu"),
    ("evaluation", "plots"),
    ("closed_loop", "progress", "sb3", "trained", "agent"),
    ("baselines", "adversary"),
    ("cost", "runs"),
    ("reproduce", "report"),
    ("cli",),
)
"""Packages and top-level modules, lowest first: each may import from its own layer and from those before it."""


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name; `python -m rsa2c` is no part of the library."""
    found = {}
    for path in sorted(set(SOURCE.rglob("*.py")) - {SOURCE / "__main__.py"}):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Dotted names that a file imports anywhere in it, for type checking too, and their lines."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in known else node.module), node.lineno


def unit(module: str) -> str:
    """The package or top-level module that a module belongs to."""
    return module.split(".")[1] if "." in module else module


def layer(name: str) -> int:
    """The number of a unit's layer."""
    return next(number for number, units in enumerate(LAYERS) if name in units)


@cache
def arrows() -> dict[tuple[str, str], list[str]]:
    """Imports between units: (importing, imported) -> the places."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, path in modules().items():
        if name == "rsa2c":
            continue
        for imported, line in imports(path):
            if imported.startswith("rsa2c.") and unit(imported) != unit(name):
                found.setdefault((unit(name), unit(imported)), []).append(f"{path.relative_to(SOURCE)}:{line}")
    return found

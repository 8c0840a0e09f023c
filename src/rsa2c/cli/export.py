"""`rsa2c export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rsa2c.cli.command import choice, command, parse


@dataclass
class ExportOptions:
    """Which policy, and as what."""

    run: tyro.conf.Positional[str]
    """Run folder, its name under ./runs, a model file, or zoo:ID (`rsa2c zoo` lists them)."""
    to: Annotated[str, choice("c", "onnx", "numpy")]
    """A C99 header, an ONNX graph (extra `export`) or a NumPy file."""
    out: str | None = None
    """File to write; unset: controller.h, .onnx or .py beside the model (zoo: here)."""
    include: tuple[str, ...] = ()
    """What else the file computes: value, familiarity, and in C attribution."""
    precision: str | None = None
    """float64 or, for C on small processors, float32; unset: float64."""
    background: int | None = None
    """States that attributions compare with, of those the agent visited last; unset: 16."""


@command
def export(arguments: list[str]) -> None:
    """Write a policy as C, ONNX or NumPy code that needs no rsa2c."""
    options = parse(ExportOptions, arguments, export)
    from rsa2c.export import SUFFIXES
    from rsa2c.runs.source import opened

    data = opened(options.run)
    agent = data.kernel_agent
    out = Path(options.out) if options.out else data.output(f"controller{SUFFIXES.get(options.to, '')}")
    written = agent.export(out, options.to, options.include, options.precision, options.background)
    remembered, d, m = agent.dictionary_sizes["actor"], len(agent.feature_names), len(agent.action_names)
    print(f"{agent.env_id}, {agent.algorithm}: {d} features, {m} actions, {remembered} remembered states")
    print(f"  file      {written.path}")
    print(f"  tables    {written.bytes:,} bytes")
    for name, count in written.tables.items():
        print(f"  {count:>12,}  {name}")
    print(f"  an action {remembered} exponentials, {remembered * (d + m):,} multiplications")
    if options.precision == "float32":
        print(f"  float32   at the visited states, actions differ by up to {written.error:.1e} from float64")

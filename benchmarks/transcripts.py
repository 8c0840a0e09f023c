"""What three newcomers see: each from an empty virtual environment and the wheel to a result of their own.

    python benchmarks/transcripts.py            # writes docs/transcripts.md
    python benchmarks/transcripts.py --here     # the same with this environment's packages: seconds instead of minutes

The paths are those of tests/test_package.py.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "transcripts.md"
INSTALLED = ", with packages that were installed already"
ACTIVATE = ". .venv/bin/activate"
TIMEOUT = 1200
"""Seconds of one command."""


@dataclass(frozen=True)
class Newcomer:
    """Someone who decides in ten minutes."""

    who: str
    story: str
    extra: str
    """What is installed beyond the core: an extra in brackets, or nothing."""
    example: str
    """A script under examples/."""
    then: tuple[str, ...]
    """What they try next."""

    def commands(self, wheel: str) -> list[str]:
        """What they type."""
        install = f"pip install --quiet './{wheel}{self.extra}'"
        return ["python3 -m venv .venv", ACTIVATE, install, f"python {self.example}", *self.then]


NEWCOMERS = (
    Newcomer(
        "A user of Stable-Baselines3",
        "They know `EvalCallback` and `evaluate_policy`, use them as they are, and then ask why the policy acts.",
        "[baselines]",
        "from_stable_baselines3.py",
        ("rsa2c evaluate zoo:Pendulum-v1 --episodes 20",),
    ),
    Newcomer(
        "A control engineer",
        "They write down the equations of a plant, compare the learned controller with one of their own, and take C "
        "home. Then they train the same class from the command line.",
        "",
        "two_tanks.py",
        ("rsa2c train two_tanks:TwoTanks --horizon 100 --total-timesteps 100000 --quiet",),
    ),
    Newcomer(
        "A user of shap",
        "They have a Gaussian process behind a scaler, and do not trust exactness before they have seen it.",
        "[explain]",
        "explain_scikit_learn.py",
        ("rsa2c explain zoo:Pendulum-v1 --of action",),
    ),
)


def build(folder: Path) -> Path:
    """The wheel of this repository."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True, timeout=TIMEOUT)
    return next(folder.glob("*.whl"))


def walked(newcomer: Newcomer, wheel: Path, folder: Path, here: bool = False) -> str:
    """The transcript of a newcomer's path in an empty folder; a command that fails is an error with its output.

    `here` takes the packages of the running environment instead of installing them.
    """
    shutil.copy(wheel, folder)
    shutil.copy(ROOT / "examples" / newcomer.example, folder)
    scripts = Path(sys.executable).parent if here else folder / ".venv" / "bin"
    removed = ("PYTHONPATH", "VIRTUAL_ENV") if not here else ()
    environment = {name: value for name, value in os.environ.items() if name not in removed}
    environment |= {"PATH": f"{scripts}{os.pathsep}{environment['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    lines = []
    for command in newcomer.commands(wheel.name):
        lines.append(f"$ {command}")
        if command == ACTIVATE or (here and not command.startswith(("python ", "rsa2c "))):
            continue
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, f"{newcomer.who}: {command}\n{done.stdout}"
        if not command.startswith("pip "):  # which tells of this machine's package index
            lines += done.stdout.strip("\n").splitlines()
    text = "\n".join(line.rstrip() for line in lines)
    for place in (str(folder.resolve()), str(folder), str(ROOT), sys.prefix, str(Path.home())):
        assert place not in text, f"{newcomer.who}: the transcript has the path {place}\n{text}"
    return text


def page(wheel: Path, folder: Path, here: bool) -> str:
    """The page of the documentation."""
    parts = [
        "# Three newcomers, line by line",
        "",
        textwrap.fill(
            "What people see who begin with the wheel and an empty virtual environment. "
            "`python benchmarks/transcripts.py` makes this page; `make soak` walks the same paths "
            "(`tests/test_package.py`).",
            120,
        ),
        "",
        f"Made on {date.today()}{INSTALLED if here else ''}. Scores will differ: Stable-Baselines3's evaluations",
        "draw new starts each time, and another processor rounds differently ([why](reliability.md)).",
    ]
    for newcomer in NEWCOMERS:
        own = folder / newcomer.example.removesuffix(".py")
        own.mkdir()
        print(newcomer.who, flush=True)
        text = walked(newcomer, wheel, own, here)
        script = f"[`{newcomer.example}`](../examples/{newcomer.example})."
        told = textwrap.fill(f"{newcomer.story} The script: {script}", 120, break_long_words=False)
        parts += ["", f"## {newcomer.who}", "", told, "", "```text", text, "```"]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="take the packages of this environment; install nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        PAGE.write_text(page(wheel, Path(folder), options.here), encoding="utf-8")


if __name__ == "__main__":
    main()

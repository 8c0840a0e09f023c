"""The wheel and the source distribution: what they hold, and that they work where nothing else is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import transcripts

ROOT = Path(__file__).parent.parent
TRIED = """
import pathlib, rsa2c
assert rsa2c.__file__.startswith({root!r}), rsa2c.__file__
assert (pathlib.Path(rsa2c.__file__).parent / "py.typed").exists()
agent = rsa2c.load("zoo:Pendulum-v1")
print(rsa2c.evaluate(agent, "Pendulum-v1", episodes=2))
agent.export("controller.h")
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """A source distribution of the repository, and a wheel that was made from it and not from the repository."""
    pytest.importorskip("hatchling", reason="pip install 'rsa2c[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t"]
    subprocess.run([*build, "sdist"], cwd=ROOT, check=True, capture_output=True, timeout=120)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")
    subprocess.run([*build, "wheel"], cwd=unpacked, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return unpacked, wheel


def test_the_wheel_has_all_of_the_package_and_nothing_else(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", "src/rsa2c"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode != 0 or not tracked.stdout:
        pytest.skip("not a clone of the repository")
    assert names == {name.removeprefix("src/") for name in tracked.stdout.split()}
    assert {"rsa2c/py.typed", "rsa2c/zoo/agents/Pendulum-v1.safetensors", "rsa2c/report/report.html.j2"} <= names


def test_the_source_distribution_has_what_its_tests_need(distributions):
    source, _ = distributions
    for name in (
        "README.md",
        "Makefile",
        "mkdocs.yml",
        "docs/quickstart.md",
        "tests/pages.py",
        "examples/two_tanks.py",
    ):
        assert (source / name).exists(), name


def test_the_wheel_works(distributions, tmp_path):
    """Unpacked in front of this environment's own packages."""
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    paths = os.pathsep.join([str(tmp_path / "installed"), sysconfig.get_paths()["purelib"]])
    environment = {**os.environ, "PYTHONPATH": paths}
    code = TRIED.format(root=str(tmp_path / "installed"))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("newcomer", transcripts.NEWCOMERS, ids=lambda newcomer: newcomer.example)
def test_three_newcomers_start_from_an_empty_environment(distributions, newcomer, tmp_path):
    """Control engineer, user of Stable-Baselines3, user of shap: the wheel, one extra, one script."""
    _, wheel = distributions
    said = transcripts.walked(newcomer, wheel, tmp_path)
    assert [line[2:] for line in said.splitlines() if line.startswith("$ ")] == newcomer.commands(wheel.name)
    check_installed(tmp_path)


@pytest.mark.slow
def test_the_source_distribution_installs_into_an_empty_environment(distributions, tmp_path):
    unpacked, _ = distributions
    subprocess.run([sys.executable, "-m", "venv", tmp_path / ".venv"], check=True, timeout=120)
    install = [tmp_path / ".venv" / "bin" / "pip", "install", "--quiet", f"{unpacked}.tar.gz"]
    subprocess.run(install, cwd=tmp_path, check=True, timeout=1200)
    check_installed(tmp_path)


def check_installed(folder):
    """What is installed in a folder's virtual environment works, and is not this repository."""
    python = folder / ".venv" / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    tried = [python, "-c", TRIED.format(root=str(folder / ".venv"))]
    done = subprocess.run(tried, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr

"""The scripts under examples/ run, without a warning, and do what they are there to show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import transcripts

EXAMPLES = Path(__file__).parent.parent / "examples"


def output(name, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_tanks_are_controlled_and_exported(tmp_path):
    shown = output("two_tanks.py", tmp_path)
    learned, steady = (float(text) for text in re.findall(r"(-[\d.]+) \+- ", shown))
    assert learned > 0.7 * steady
    assert (tmp_path / "two_tanks.h").exists()


def test_callbacks_and_evaluation_of_stable_baselines3(tmp_path):
    pytest.importorskip("stable_baselines3", reason="pip install 'rsa2c[baselines]'")
    shown = output("from_stable_baselines3.py", tmp_path)
    assert "Stopping training" in shown
    assert float(re.search(r"steps: (-[\d.]+)", shown)[1]) > -260


def test_values_of_a_gaussian_process_are_those_of_enumeration(tmp_path):
    pytest.importorskip("sklearn", reason="pip install 'rsa2c[explain]'")
    assert "largest difference to enumeration" in output("explain_scikit_learn.py", tmp_path)


def test_every_example_is_tried():
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{path.name}"' in text for path in EXAMPLES.glob("*.py"))


def test_the_page_of_transcripts_has_every_path_and_no_path_of_a_machine():
    text = transcripts.PAGE.read_text(encoding="utf-8")
    typed = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    wheel = re.search(r"rsa2c-[\w.-]+\.whl", text)[0]
    assert typed == [command for newcomer in transcripts.NEWCOMERS for command in newcomer.commands(wheel)]
    assert not re.search(r"(?<![\w.])/(?:home|root|tmp|usr|opt|var|work)\b|site-packages|Traceback", text)
    assert {newcomer.example for newcomer in transcripts.NEWCOMERS} == {path.name for path in EXAMPLES.glob("*.py")}

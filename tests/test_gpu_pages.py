"""The page of what was measured on a GPU: its parts have their origin, and compilation is told from epochs."""

from __future__ import annotations

import sys

import pytest

from benchmark_runs import BENCHMARKS

sys.path.append(str(BENCHMARKS))

from _gpu_page import section, write_page
from _provenance import RESULTS
from gpu_simulation import write


def test_a_part_is_replaced_where_it_was_and_the_others_stay(tmp_path):
    path = tmp_path / "simulation.md"
    path.write_text("## Simulation\n\nold\n\n## Learning\n\nstays\n", encoding="utf-8")
    write("Simulation", "new", path)
    write("Agreement", "added", path)
    first, second, third = path.read_text(encoding="utf-8").removeprefix("## ").split("\n\n## ")
    assert first.startswith("Simulation\n\n- command: `") and first.endswith("\n\nnew") and "old" not in first
    assert second == "Learning\n\nstays"
    assert third.startswith("Agreement\n\n- command: `") and third.endswith("\n\nadded\n")


@pytest.mark.parametrize(("more", "told"), [
    ({}, "Milliseconds of an epoch: collect 200, actor 5."),
    ({"timed": 5}, "Milliseconds of an epoch in which nothing was compiled: collect 400, actor 10."),
])  # fmt: skip
def test_epochs_in_which_nothing_was_compiled_are_told_apart(more, told):
    trial = {"seconds": 9.0, "compiling": 2.0, "steps": 1000, "mean": -300.0, "worst": -400.0, "episodes": 10}
    seed = {"seed": 0, "start": "cold", "given": 7.0, "device": "a card", "epochs": 10, "curve": [trial], "kept": [],
            "phases": {"collect": 2.0, "actor": 0.05, "compile": 1.0}, **more}  # fmt: skip
    page = section({"env": "Pendulum-v1", "algorithm": "rsa2c-kme", "settings": {}, "header": "", "seeds": [seed]})
    assert page.endswith(f"{told}\n") and "| 0 | 7 | - | - | -300, 7 s | -300 (worst of 10: -400), 7 s" in page


def test_the_page_is_what_its_parts_make(tmp_path):
    write_page(RESULTS / "gpu", tmp_path / "gpu.md")
    assert (tmp_path / "gpu.md").read_text("utf-8") == (RESULTS / "gpu.md").read_text("utf-8")

"""The benchmark suite: runs with a row are skipped, milestones are those of an unbroken run, the page judges."""

from __future__ import annotations

import json
from functools import partial

import pytest

from benchmark_runs import queued

TRIAL = ("--only", "Pendulum-v1", "--seeds", "0")
UNTIMED = {"seconds", "goal_seconds", "peak_rss_mib"}


suite = partial(queued, "suite")


def rows(folder):
    return [json.loads(line) for line in (folder / "results" / "suite" / "runs.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def milestones(tmp_path_factory):
    """A folder with one run that was judged after 3,000 steps and trained on to 8,000."""
    folder = tmp_path_factory.mktemp("milestones")
    for steps in ("3000", "8000"):
        assert f"finished  Pendulum-v1 rsa2c-kme seed 0 {int(steps):,} steps" in suite(folder, *TRIAL, "--steps", steps)
    return folder


def test_a_run_with_a_row_is_skipped(milestones):
    before = rows(milestones)
    assert "started" not in suite(milestones, *TRIAL, "--steps", "8000")
    assert rows(milestones) == before
    assert len(before) == 2


def test_milestones_are_those_of_an_unbroken_run(milestones, tmp_path):
    suite(tmp_path, *TRIAL, "--steps", "8000")
    [unbroken] = rows(tmp_path)
    continued = rows(milestones)[1]
    assert {name: unbroken[name] for name in unbroken.keys() - UNTIMED} == {
        name: continued[name] for name in continued.keys() - UNTIMED
    }


def test_a_row_says_what_it_measured(milestones):
    first, second = rows(milestones)
    assert first["acting_steps"] == first["trained_steps"] < second["trained_steps"]
    assert first["episodes"] == 100 and first["falls"] == 0
    assert first["worst"] <= first["median"] <= 0
    assert first["goal_steps"] == second["goal_steps"] > 0
    assert first["states"].keys() == {"actor", "value"}


def test_a_milestone_that_was_passed_is_refused(milestones):
    text = suite(milestones, *TRIAL, "--steps", "5000", code=1)
    assert "trained towards 8,000 steps already" in text
    assert len(rows(milestones)) == 2


def test_the_page_judges_the_seeds_together(milestones, tmp_path):
    row = rows(milestones)[1] | {"environment": "Hopper-v5", "steps": 1_000_000, "falls": 5}
    row.pop("goal_steps")
    scores = (3000.0, 3200.0, 3300.0, 3400.0, 3500.0)
    made = [row | {"seed": seed, "mean": score} for seed, score in enumerate(scores)]
    made += [row | {"environment": "Walker2d-v5", "mean": 4599.0}]
    folder = tmp_path / "results" / "suite"
    folder.mkdir(parents=True)
    (folder / "runs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in made) + '{"torn')
    suite(tmp_path, "--table")
    page = (tmp_path / "results" / "suite.md").read_text("utf-8")
    hopper, walker, cheetah = ([cell.strip() for cell in line.split("|")[1:-1]] for line in _lines(page)[:3])
    # mean 3280, standard deviation 192.35, so t(4) 2.776 * 192.35 / sqrt(5) = 238.8
    assert hopper[3:7] == ["5 of 5", "3,280 [3,041, 3,519]", "3,000", "5.0%"]
    assert hopper[-4:] == ["3,200", "yes", "3,700", "no"]
    assert walker[3:5] == ["1 of 5", "4,599"] and walker[-4:] == ["4,600", "no, so far", "5,500", "no, so far"]
    assert cheetah[3:5] == ["0 of 5", "-"] and cheetah[-3] == "not run"
    assert "2,410 ± 10.0 (1M)" in page


def _lines(page):
    """The lines of the page's first table."""
    return page.split("## Results")[1].split("##")[0].strip().splitlines()[2:]


def test_what_the_suite_does_not_have_is_refused_by_name(tmp_path):
    text = suite(tmp_path, "--only", "Hoper-v5", code=1)
    assert "Hoper-v5" in text and "Hopper-v5" in text

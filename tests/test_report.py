"""The report: what it says about a run, what it says when things are missing, names as text.

The page's arithmetic is in test_report_script.py, its behaviour in a browser in test_report_browser.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from report_pages import GUIDED, TINY, document, trained, visible
from rsa2c.algorithm.weights import Importances
from rsa2c.attribution.quality import OWN, RANDOM
from rsa2c.cli import main
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError
from rsa2c.evaluation import EvaluationResult, evaluate
from rsa2c.files.versions import VERSION
from rsa2c.report import attention, write_comparison, write_report
from rsa2c.report.gather import run_document
from rsa2c.report.lead import lead, skill
from rsa2c.report.page import bundled
from rsa2c.report.result import rerun_command
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.training import load_agent
from rsa2c.trained import MEASURED, WEIGHTS

EARLY = {"attribution_every": 1}
"""Weights that differ after 13 epochs."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs"), **EARLY)


@pytest.fixture(scope="module")
def page(run):
    return write_report(run, episodes=3).read_text(encoding="utf-8")


class TestPage:
    def test_has_every_section_and_no_outside_reference(self, page):
        assert re.findall(r'<section id="(\w+)">', page) == ["ask", "episode", "attention", "result", "trust"]
        for heading in ("Ask the policy", "Episodes", "Features", "Training", "Trust"):
            assert f"<h2>{heading}</h2>" in page
        for folded in ("Memory, time and cost", "Run it again", "Details"):
            assert f"<details><summary>{folded}</summary>" in page
        assert document(page)["missing"] == {}
        # nothing that a browser would fetch: no address but the SVG name space
        assert set(re.findall(r"https?://[^\s\"'`<]+", page)) == {"http://www.w3.org/2000/svg"}
        assert "default-src 'none'" in page
        assert not re.search(r"<(?:link|img|iframe|script) [^>]*(?:src|href)=", page)
        assert len(page) < 1_000_000

    def test_holds_the_numbers_of_the_run(self, run, page):
        agent, data = load_agent(run), document(page)
        assert data["features"] == list(agent.feature_names)
        assert data["feature_units"] == ["", "", "rad/s"] and data["action_units"] == ["N m"]
        assert data["outputs"] == ["value", "torque"]
        results = run.read_evaluations()["results"]
        assert data["result"]["evaluations"]["mean"] == results.mean(axis=1).tolist()
        assert data["result"]["final"]["episodes"] == 3
        assert [row["variance"] for row in data["result"]["robustness"]] == [0.0, 0.001, 0.01, 0.05]
        assert data["trust"]["residuals"][0]["relative"] < 1e-9
        assert [row["output"] for row in data["trust"]["measures"]] == ["value", "torque"]
        assert len(data["trust"]["certificates"]) == 3
        assert {row["episodes"] for row in data["result"]["robustness"]} == {3}
        assert data["result"]["robustness"][0]["mean"] == data["result"]["final"]["mean"] == data["lead"]["mean"]
        assert set(data["result"]["operations"]) == {"collect", "admit", "value", "attribute", "advantage", "actor"}

    def test_episodes_are_those_of_the_evaluation(self, run, page):
        agent = load_agent(run)
        returns = evaluate(agent, "Pendulum-v1", episodes=3).returns
        shown = document(page)["episodes"]
        assert [one["label"] for one in shown] == ["worst", "median", "best"]
        assert [one["return"] for one in shown] == pytest.approx(sorted(returns), rel=1e-12)
        assert all(one["length"] == 200 and one["ended"] == "truncated" for one in shown)

    def test_every_score_of_a_run_is_the_same_number(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in {**TINY, **GUIDED}.items()]
        assert main(["train", "Pendulum-v1", "--total-timesteps", "600", "--no-track", *flags]) == 0
        printed = capsys.readouterr()
        score = re.search(r"mean return  (.*)", printed.out)[1]
        assert re.fullmatch(r"-\d+\.\d over 100 episodes", score)
        assert re.search(r"evaluation -\d+\.\d over 2 episodes", printed.err)
        steps = re.search(r"training     ([\d,]+ steps)", printed.out)[1]
        assert main(["list"]) == 0 and f"{steps}, mean return {score}" in capsys.readouterr().out
        page = document(next(tmp_path.glob("runs/*/report.html")).read_text(encoding="utf-8"))
        for said in (page["lead"], page["result"]["final"], page["result"]["robustness"][0]):
            assert f"{said['mean']:.1f} over {said['episodes']} episodes" == score
        assert [one["return"] for one in page["episodes"]][::2] == pytest.approx(
            [page["result"]["final"][key] for key in ("worst", "best")], rel=1e-6
        )

    def test_is_the_same_when_written_again(self, run, page, tmp_path):
        assert write_report(run, tmp_path / "again.html", episodes=3).read_text(encoding="utf-8") == page

    def test_rerun_command_names_only_what_the_preset_has_otherwise(self, run):
        command = rerun_command(run.read_config())
        start = "rsa2c train Pendulum-v1 --algorithm rsa2c-kme --seed 0 --total-timesteps 2600"
        assert command.startswith(start)
        flags = {flag.split()[0].replace("-", "_") for flag in command.removeprefix(start).split(" --")[1:]}
        assert {"capacity", "initial_centres"} <= flags <= {*TINY, *GUIDED, *EARLY}

    def test_a_sweeps_score_is_taken_over(self, tmp_path):
        run = trained(tmp_path)
        run.write_returns(np.array([0.0, 0.2]), np.full((2, 100), -7.0), np.full((2, 100), 200))
        data = run_document(RunData.of(run))
        assert data["result"]["final"]["mean"] == -7.0 and data["result"]["final"]["episodes"] == 100
        assert [row["variance"] for row in data["result"]["robustness"]] == [0.0, 0.2]

    def test_the_score_of_an_agent_trained_under_noise_is_the_clean_one(self, tmp_path):
        run = trained(tmp_path, noise_variance=0.5)
        clean = evaluate(load_agent(run), "Pendulum-v1", episodes=2)
        assert run_document(RunData.of(run), 2)["result"]["final"]["mean"] == pytest.approx(clean.mean, rel=1e-12)

    def test_a_trainings_score_is_taken_over_and_noise_is_added(self, tmp_path):
        run = trained(tmp_path)
        run.write_returns(np.zeros(1), np.full((1, 100), -7.0), np.full((1, 100), 200))
        data = run_document(RunData.of(run))
        assert data["result"]["final"]["mean"] == -7.0
        assert [row["variance"] for row in data["result"]["robustness"]] == [0.0, 0.001, 0.01, 0.05]
        assert [row["episodes"] for row in data["result"]["robustness"]] == [100] * 4

    @pytest.mark.parametrize("module", ["report", "comparison"])
    def test_bundle_imports_nothing(self, module):
        script = bundled(module)
        assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
        assert "const dom_module" in script
        assert script.index("const dom_module") < script.index("const lines_module")


class TestLead:
    @pytest.mark.parametrize(
        ("env_id", "returns", "lengths", "words"),
        [
            ("Pendulum-v1", [-120.0, -390.0], [200, 200], "swings up from anywhere and holds"),
            ("Pendulum-v1", [-120.0, -900.0], [200, 200], None),
            ("Hopper-v5", [2500.0, 3000.0], [1000, 1000], "hops for 1,000 steps without falling"),
            ("Hopper-v5", [2500.0, 3000.0], [1000, 900], None),
            ("Reacher-v5", [0.0], [50], None),
            ("Unknown-v0", [0.0], [50], None),
        ],
    )
    def test_a_skill_is_named_only_if_every_episode_shows_it(self, env_id, returns, lengths, words):
        assert skill(env_id, EvaluationResult(np.array(returns), np.array(lengths))) == words

    def test_names_the_feature_with_the_largest_effect_and_without_an_explanation_the_largest_weight(self, run):
        agent = load_agent(run)
        explained = {"action": agent.explain(agent.background[:20], of="action")}
        found = lead(agent, None, explained)
        assert found["mean"] is None and found["skill"] is None
        effects = np.abs(explained["action"].values).mean(axis=(0, 2))
        assert found["verb"] == "responds most to"
        assert found["feature"] == agent.feature_names[int(effects.argmax())]
        weights = agent.kernel_weights
        assert np.ptp(weights) > 0, "it was guided"
        found = lead(agent, None, None)
        assert found["verb"] == "looks most at"
        assert found["feature"] == agent.feature_names[int(weights.argmax())]


class TestReasons:
    @pytest.mark.parametrize(
        ("moved", "agreed", "says"),
        [
            ([9.0, 9.0, 9.0], [0.0, 1.0, 0.0], "Actions move 3 of 3 features."),
            ([0.0, 9.0, 0.0], [0.0, 0.0, 1.0], "Actions move 1 of 3 features; 1 counts by attributions that repeat "
             "(angular velocity); 1 counts for neither reason."),
        ],
    )  # fmt: skip
    def test_say_why_features_count(self, run, moved, agreed, says):
        agent = load_agent(run)
        found = Importances(np.array([agreed]), np.ones((1, 3)), np.ones(1), np.array(moved), updates=9)
        shown = SimpleNamespace(config=agent.config, importances=found, feature_names=agent.feature_names)
        assert attention.reasons(shown) == says

    def test_stand_beside_the_weights(self, page):
        assert document(page)["attention"]["reasons"] in visible(page)

    def test_are_not_given_where_nothing_guided(self, run):
        agent = load_agent(run)
        assert attention.reasons(agent) is not None
        never = SimpleNamespace(config=agent.config, importances=Importances.none(3))
        assert attention.reasons(never) is None


class TestFidelity:
    def test_stands_beside_the_importances(self, run, page):
        rows = document(page)["attention"]["fidelity"]["rows"]
        assert [row["ranking"] for row in rows] == [OWN, MEASURED, WEIGHTS, RANDOM]
        found = document(page)["attention"]["fidelity"]["functions"]
        assert found == ["value", "action"]
        assert [cell["agreement"] for cell in rows[0]["cells"]] == [1.0, 1.0]
        assert [cell["agreement"] for cell in rows[-1]["cells"]] == [None, None]
        assert all(-5 < cell["deletion"] < 1 for row in rows for cell in row["cells"])
        assert "Is what guided what is explained?" in visible(page)

    def test_of_a_run_that_nothing_guided(self, tmp_path):
        run = trained(tmp_path, "advanced-ac")
        text = write_report(run, episodes=2).read_text(encoding="utf-8")
        assert [row["ranking"] for row in document(text)["attention"]["fidelity"]["rows"]] == [OWN, RANDOM]
        assert "Do these values rank the features well?" in visible(text)


class TestMissing:
    def test_a_run_without_attributions(self, tmp_path):
        data = run_document(RunData.of(trained(tmp_path, "advanced-ac")), 2)
        assert data["missing"] == {
            "attention": ["No attributions were computed during training: advanced-ac does not guide its kernel."]
        }
        assert data["attention"]["swarm"]["outputs"] == ["value", "torque"]

    def test_a_run_without_a_value(self, tmp_path):
        run = trained(tmp_path, "rkhs-ac")
        data = run_document(RunData.of(run), 2)
        assert data["outputs"] == ["torque"] and list(data["model"]["functions"]) == ["action"]
        assert "Trust" in visible(write_report(run, episodes=2).read_text(encoding="utf-8"))

    def test_a_run_without_frames(self, tmp_path, monkeypatch):
        import gymnasium as gym

        monkeypatch.setattr("rsa2c.report.gather.scene", lambda env_id: None)

        make = gym.make

        def without_renderer(name, **options):
            if "render_mode" in options:
                raise gym.error.DependencyNotInstalled("pygame is not installed")
            return make(name, **options)

        monkeypatch.setattr(gym, "make", without_renderer)
        data = run_document(RunData.of(trained(tmp_path)), 2)
        assert data["missing"]["episodes"] == [
            "A picture is missing: Pendulum-v1 needs a simulator that is not installed (pygame is not installed). "
            "Install it with: pip install 'rsa2c[envs]'"
        ]
        assert len(data["episodes"]) == 2 and "frames" not in data["episodes"][0]

    def test_frames_where_there_is_no_drawing(self, tmp_path, monkeypatch):
        pytest.importorskip("pygame")
        pytest.importorskip("PIL")
        monkeypatch.setattr("rsa2c.report.gather.scene", lambda env_id: None)
        data = run_document(RunData.of(trained(tmp_path)), 1)
        frames = data["episodes"][0]["frames"]
        assert len(frames["images"]) == -(-200 // frames["every"])
        assert all(image.startswith("data:image/webp;base64,") for image in frames["images"])

    def test_a_plant_that_cannot_draw_says_so_in_a_line(self, tmp_path, monkeypatch):
        """Not with the mistake of its constructor and advice on arguments."""
        code = "from plants import Tank\n\nclass Blind(Tank):\n    def __init__(self):\n        super().__init__()\n"
        (tmp_path / "blind.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        run = trained(tmp_path / "runs", env_id="blind:Blind")
        data = run_document(RunData.of(run, "blind:Blind"), 1)
        says = "A picture is missing: blind:Blind takes no render_mode, so it draws nothing."
        assert data["missing"]["episodes"] == [says]
        assert "frames" not in data["episodes"][0]

    def test_an_unfinished_run(self, tmp_path):
        run = trained(tmp_path)
        run.write_config({**run.read_config(), "total_timesteps": 10_000})
        text = visible(write_report(run, episodes=1).read_text(encoding="utf-8"))
        assert f"Unfinished: 2,600 of 10,000 steps. Continue with: rsa2c resume {run.path.name}" in text

    def test_a_run_that_has_only_begun(self, tmp_path):
        run = trained(tmp_path)
        for path in (run.state_path, run.model_path, run.evaluations_path, run.metrics_path, run.attributions_path):
            path.unlink()
        text = visible(write_report(run).read_text(encoding="utf-8"))
        assert "The run has no checkpoint yet" in text and "has not been evaluated yet" in text

    def test_a_run_of_a_newer_version(self, tmp_path):
        run = trained(tmp_path)
        content = run.state_path.read_bytes()
        written = rb"\"version\":%d" % VERSION
        assert written in content
        run.state_path.write_bytes(content.replace(written, rb"\"version\":9"))
        text = visible(write_report(run).read_text(encoding="utf-8"))
        assert "its format version is 9" in text and "pip install -U rsa2c" in text
        assert "environment steps" in text

    def test_a_baseline(self, tmp_path):
        run = trained(tmp_path)
        run.state_path.unlink()
        run.write_config({**run.read_config(), "algorithm": "sac"})
        assert "This run is a baseline" in visible(write_report(run).read_text(encoding="utf-8"))

    def test_damaged_files_leave_the_rest(self, tmp_path):
        run = trained(tmp_path)
        run.evaluations_path.write_bytes(b"no")
        run.attributions_path.write_bytes(b"no")
        data = run_document(RunData.of(run), 1)
        assert "evaluations.npz is damaged" in data["missing"]["result"][0]
        assert "attributions.npz is damaged" in data["missing"]["attention"][0]
        assert data["model"] and data["episodes"]

    def test_names_with_markup_are_text(self, tmp_path):
        evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
        run = trained(tmp_path)
        kept = load_agent(run).snapshot()
        task = replace(kept.task, feature_names=(evil, "sin & <b>", "x"))
        replace(kept, task=task).save(run.state_path, checkpoint=True)
        run.write_config({**run.read_config(), "algorithm": evil, "preset": evil})
        text = write_report(run, episodes=1).read_text(encoding="utf-8")
        assert text.count("<script") == 2 and "<img src=x" not in text
        assert document(text)["features"][0] == evil
        assert evil in visible(text)

    def test_bad_input(self, tmp_path, run):
        with pytest.raises(NotFoundError, match="does not exist"):
            write_report(tmp_path / "nothing")
        with pytest.raises(ConfigError, match="episodes must be at least 1"):
            write_report(run, episodes=0)
        with pytest.raises(NotFoundError, match="holds no run folders"):
            write_comparison(tmp_path)
        (tmp_path / "config.yaml").write_text("[1]")
        with pytest.raises(FileFormatError, match="no usable 'environment'"):
            write_report(tmp_path)


class TestComparison:
    def test_groups_seeds_and_names_what_is_left_out(self, tmp_path, capsys):
        for seed in (0, 1):
            run = trained(tmp_path, seed=seed)
            run.write_returns(np.array([0.0, 0.1]), np.full((2, 5), -100.0 - seed), np.full((2, 5), 200))
        trained(tmp_path, "advanced-ac")
        broken = Run(tmp_path / "broken")
        broken.path.mkdir()
        broken.config_path.write_text("[]")
        assert main(["report", str(tmp_path)]) == 0
        path = Path(capsys.readouterr().out.strip())
        assert path == tmp_path / "report.html"
        data = document(path.read_text(encoding="utf-8"))
        by_name = {group["name"]: group for group in data["groups"]}
        assert set(by_name) == {"rsa2c-kme", "advanced-ac"}
        assert by_name["rsa2c-kme"]["runs"] == 2 and data["noises"] == [0.0, 0.1]
        assert by_name["rsa2c-kme"]["cells"][0] == {"mean": -100.5, "std": 0.5, "runs": 2}
        assert by_name["advanced-ac"]["cells"][1] is None
        assert len(data["missing"]) == 1 and "broken is left out" in data["missing"][0]
        curve = next(c for c in data["charts"]["Pendulum-v1"] if c["name"] == "rsa2c-kme, 2 runs")
        assert all(low <= y <= high for low, y, high in zip(curve["low"], curve["y"], curve["high"], strict=True))


def test_command_line_writes_where_it_is_told(run, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["report", str(run.path), "--out", str(out), "--episodes", "1"]) == 0
    assert capsys.readouterr().out.strip() == str(out) and out.stat().st_size > 50_000

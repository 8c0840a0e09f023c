"""The report: what its page computes against the library, what it says when things are missing, names as text.

The page's own behaviour in a browser is in test_report_browser.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from rsa2c.cli import main
from rsa2c.envs.single import make_single
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError
from rsa2c.evaluation import evaluate
from rsa2c.report import embedded as embedding
from rsa2c.report import write_comparison, write_report
from rsa2c.report.embedded import Embedded
from rsa2c.report.encoding import to_json
from rsa2c.report.gather import run_document
from rsa2c.report.page import FOLDER, bundled
from rsa2c.report.result import rerun_command
from rsa2c.report.scene import scene
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.training import load_agent, train_run

TINY = {
    "n_envs": 4, "horizon": 50, "capacity": 24, "initial_centres": 12, "evaluation_episodes": 2,
}  # fmt: skip
GUIDED = {
    "attribution_centres": 20, "attribution_states": 8, "attribution_background": 8, "attribution_warmup": 1
}  # fmt: skip
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node, which runs the page's JavaScript, is not installed")


def trained(folder, algorithm="rsa2c-kme", env_id="Pendulum-v1", **fields):
    own = {**TINY, **(GUIDED if algorithm.startswith("rsa2c") else {}), **fields}
    return train_run(env_id, algorithm, total_timesteps=2600, out=folder, track=False, **own)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(run):
    return write_report(run, episodes=3).read_text(encoding="utf-8")


def document(text):
    """The JSON document embedded in a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def visible(text):
    """The words of a page, scripts and styles left out."""
    words, inside = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            inside.append(tag)

        def handle_endtag(self, tag):
            while inside and inside.pop() != tag:
                pass

        def handle_data(self, data):
            if not {"script", "style"} & set(inside):
                words.append(data)

    Reader().feed(text)
    return re.sub(r"\s+", " ", " ".join(words))


def javascript(tmp_path, **given):
    source = tmp_path / "input.json"
    source.write_text(to_json(given), encoding="utf-8")
    script = Path(__file__).parent / "report_states.mjs"
    done = subprocess.run([NODE, script, str(FOLDER / "js"), source], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def relative(found, expected):
    """Largest difference, relative to the largest value of each output (the last axis)."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    axes = tuple(range(expected.ndim - 1))
    return (np.abs(found - expected).max(axis=axes) / np.abs(expected).max(axis=axes)).max()


class TestJavaScript:
    @needs_node
    @pytest.mark.parametrize("fields", [{}, {"kernel": "laplace", "squash": "clip"}, {"distractors": 4}])
    def test_agrees_with_python(self, tmp_path, fields):
        agent = load_agent(trained(tmp_path, **fields))
        page = Embedded(agent)
        rng = np.random.default_rng(0)
        d, m = len(agent.feature_names), len(agent.action_names)
        # far outside too, where the metric clips
        states = np.vstack([agent.background[:10], rng.normal(0, 3, (10, d)), rng.normal(0, 100, (2, d))])
        found = javascript(tmp_path, model=page.document(), states=states)
        assert relative(found["action"], agent.policy.bounds.action(agent.policy_mean(states))) < 1e-11
        for name, function in page.functions.items():
            expected = agent.explain(states, of=name, background=page.background, nodes=page.nodes[name])
            values = np.array([one["values"] for one in found["functions"][name]]).reshape(expected.values.shape)
            assert relative(values, expected.values) < 1e-10
            assert relative([one["prediction"] for one in found["functions"][name]], function(states)) < 1e-10
            assert relative([one["base"] for one in found["functions"][name]], expected.base_values) < 1e-10
        for state, nearest, one in zip(states, found["nearest"], found["prototypes"], strict=True):
            expected = agent.prototypes(state, 3)
            assert nearest == pytest.approx(page.agent.familiarity(state[None])[0], rel=1e-9, abs=1e-300)
            if np.abs(expected.shares).max() > 1e-12:  # where all shares vanish their order is rounding
                assert one["numbers"] == expected.numbers.tolist()
                assert relative(np.array(one["shares"]), expected.shares) < 1e-10
                assert np.allclose(one["states"], expected.states, rtol=1e-14)
                assert np.allclose(one["others"], expected.others + expected.offset, rtol=1e-8, atol=1e-9)
        assert np.shape(found["action"]) == (len(states), m)

    @needs_node
    def test_thinned_background_and_inexact_quadrature_agree_too(self, tmp_path, monkeypatch):
        monkeypatch.setattr(embedding, "LIVE_WORK", 24 * 11 * 2 * 20)
        agent = load_agent(trained(tmp_path, distractors=8))
        page = Embedded(agent)
        assert len(page.background) < len(agent.background)
        states = agent.background[:5]
        found = javascript(tmp_path, model=page.document(), states=states)
        expected = page.explain("action", states).values
        values = np.array([one["values"] for one in found["functions"]["action"]]).reshape(expected.shape)
        assert relative(values, expected) < 1e-10
        exact = agent.explain(states, of="action", background=page.background, nodes="exact").values
        assert relative(values, exact) < 1e-8
        assert found["functions"]["action"][0]["values"] != found["functions"]["action"][1]["values"]

    @needs_node
    @pytest.mark.parametrize("count", [1, 2, 7, 12, 53])
    def test_quadrature(self, tmp_path, count):
        nodes, weights = np.polynomial.legendre.leggauss(count)
        found = javascript(tmp_path, rule=count)["rule"]
        assert np.allclose(found, [nodes / 2 + 0.5, weights / 2], rtol=0, atol=4e-15)

    @needs_node
    @pytest.mark.parametrize("env_id", ["Ant-v5", "Hopper-v5", "HalfCheetah-v5"])
    def test_robots_stand_where_mujoco_puts_them(self, tmp_path, env_id):
        pytest.importorskip("mujoco")
        import mujoco

        spec = scene(env_id)
        env = make_single(env_id).unwrapped
        rng, expected, states = np.random.default_rng(0), [], []
        for _ in range(4):
            state = env.reset(seed=int(rng.integers(100)))[0].copy()
            count = spec["observed"]
            state[:count] += rng.normal(0, 0.4, count)
            qpos = env.init_qpos.copy()
            qpos[spec["skipped"] :] = state[:count]
            env.data.qpos[:] = qpos
            mujoco.mj_kinematics(env.model, env.data)
            geoms = [g for g in range(env.model.ngeom) if env.model.geom_type[g] != 0]
            axis = env.data.geom_xmat[geoms].reshape(-1, 3, 3)[:, :, 2]
            long = np.where(env.model.geom_type[geoms] == 3, env.model.geom_size[geoms, 1], 0.0)[:, None]
            middle = env.data.geom_xpos[geoms]
            expected.append(np.stack([middle - long * axis, middle + long * axis], axis=1))
            states.append(state)
        env.close()
        found = javascript(tmp_path, scene=spec, states=np.array(states))["segments"]
        assert np.allclose(found, expected, rtol=0, atol=1e-12)

    @needs_node
    def test_csv_quotes_what_needs_it(self, tmp_path):
        table = {"names": ["a", 'b"', "c,d"], "rows": [[1.5, None, "x\ny"], ["<b>", 0, "plain"]]}
        assert javascript(tmp_path, table=table)["csv"] == 'a,"b""","c,d"\n1.5,,"x\ny"\n<b>,0,plain\n'


class TestPage:
    def test_has_every_section_and_no_outside_reference(self, page):
        text = visible(page)
        for heading in ("Result", "What it looks at", "Ask the policy", "An episode", "Trust", "Run it again"):
            assert heading in text
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
        assert set(data["result"]["operations"]) == {"collect", "admit", "value", "attribute", "advantage", "actor"}

    def test_episodes_are_those_of_the_evaluation(self, run, page):
        agent = load_agent(run)
        returns = evaluate(agent, "Pendulum-v1", episodes=3).returns
        shown = document(page)["episodes"]
        assert [one["label"] for one in shown] == ["worst", "median", "best"]
        assert [one["return"] for one in shown] == pytest.approx(sorted(returns), rel=1e-12)
        assert all(one["length"] == 200 and one["ended"] == "truncated" for one in shown)

    def test_is_the_same_when_written_again(self, run, page, tmp_path):
        assert write_report(run, tmp_path / "again.html", episodes=3).read_text(encoding="utf-8") == page

    def test_rerun_command_names_only_what_the_preset_has_otherwise(self, run):
        command = rerun_command(run.read_config())
        start = "rsa2c train Pendulum-v1 --algorithm rsa2c-kme --seed 0 --total-timesteps 600"
        assert command.startswith(start)
        flags = {flag.split()[0].replace("-", "_") for flag in command.removeprefix(start).split(" --")[1:]}
        assert {"n_envs", "initial_centres"} <= flags <= {*TINY, *GUIDED}

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

    @pytest.mark.parametrize("module", ["report", "comparison"])
    def test_bundle_imports_nothing(self, module):
        script = bundled(module)
        assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
        assert "const dom_module" in script
        assert script.index("const dom_module") < script.index("const lines_module")


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
        assert rb"\"version\":3" in content
        run.state_path.write_bytes(content.replace(rb"\"version\":3", rb"\"version\":9"))
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

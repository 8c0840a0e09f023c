"""The page's JavaScript, run by node, against the library."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from report_pages import trained
from rsa2c.envs.single import make_single
from rsa2c.report import embedded as embedding
from rsa2c.report.embedded import Embedded
from rsa2c.report.encoding import to_json
from rsa2c.report.page import FOLDER
from rsa2c.report.scene import scene
from rsa2c.runs.training import load_agent

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node, which runs the page's JavaScript, is not installed")


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


@needs_node
@pytest.mark.parametrize(
    "fields", [{}, {"kernel": "laplace", "squash": "clip"}, {"distractors": 4}, {"scaling": "following"}]
)
def test_agrees_with_python(tmp_path, fields):
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
    np.testing.assert_allclose(found["nearest"], agent.familiarity(states), rtol=1e-9, atol=1e-300)
    kernel = agent.policy_mean.kernel(agent.policy_mean.coordinates(states), agent.policy_mean.centres)
    for row, one in zip(kernel, found["similar"], strict=True):
        assert np.allclose(one["similarity"], np.sort(row)[::-1][:3], rtol=1e-9, atol=1e-300)
        assert np.allclose(row[one["numbers"]], one["similarity"], rtol=1e-9, atol=1e-300)
        assert np.allclose(one["states"], agent.policy_mean.remembered_states[one["numbers"]], rtol=1e-9, atol=1e-9)
        assert np.allclose(one["actions"], agent.predict(np.array(one["states"]))[0], rtol=1e-6, atol=1e-6)
    assert np.shape(found["action"]) == (len(states), m)


@needs_node
@pytest.mark.parametrize("squash", ["tanh", "clip"])
def test_contributions_to_an_action_add_up_to_the_action(tmp_path, squash):
    agent = load_agent(trained(tmp_path, squash=squash))
    page, bounds = Embedded(agent), agent.policy.bounds
    states = np.vstack([agent.background[:10], np.random.default_rng(0).normal(0, 3, (10, 3))])
    shown = javascript(tmp_path, model=page.document(), states=states)["shown"]["action"]
    base, end = (np.array([one[key] for one in shown]) for key in ("base", "prediction"))
    values = np.array([one["values"] for one in shown]).reshape(len(states), 3, 1)
    rounding = 1e-15 * np.abs(agent.policy_mean.coefficients).sum()
    assert np.allclose(base + values.sum(axis=1), end, rtol=0, atol=rounding)
    assert relative(end, bounds.action(agent.policy_mean(states))) < 1e-11
    raw = agent.explain(states, of="action", background=page.background, nodes=page.nodes["action"])
    u0, u = raw.base_values, agent.policy_mean(states)
    assert np.allclose(base, bounds.action(u0), rtol=1e-11)
    slope = (bounds.action(u) - bounds.action(u0)) / (u - u0)
    assert relative(values, raw.values * slope[:, None, :]) < 1e-9
    assert relative(page.in_units("action", raw), raw.values * slope[:, None, :]) < 1e-9


@needs_node
def test_thinned_background_and_inexact_quadrature_agree_too(tmp_path, monkeypatch):
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
def test_quadrature(tmp_path, count):
    nodes, weights = np.polynomial.legendre.leggauss(count)
    found = javascript(tmp_path, rule=count)["rule"]
    assert np.allclose(found, [nodes / 2 + 0.5, weights / 2], rtol=0, atol=4e-15)


@needs_node
@pytest.mark.parametrize("env_id", ["Ant-v5", "Hopper-v5", "HalfCheetah-v5"])
def test_robots_stand_where_mujoco_puts_them(tmp_path, env_id):
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
def test_csv_quotes_what_needs_it(tmp_path):
    table = {"names": ["a", 'b"', "c,d"], "rows": [[1.5, None, "x\ny"], ["<b>", 0, "plain"]]}
    assert javascript(tmp_path, table=table)["csv"] == 'a,"b""","c,d"\n1.5,,"x\ny"\n<b>,0,plain\n'


@needs_node
@pytest.mark.parametrize(("half", "scale"), [(50, "linear"), (25, "sqrt"), (8, "log")])
def test_the_axis_of_steps_gives_learning_its_width(tmp_path, half, scale):
    """Of 1 to 100 steps, half of the rise is made at step `half`: each scale has its middle near one of these."""
    steps = list(range(1, 101))
    curve = {"x": steps, "y": [0.0 if step < half else 1.0 for step in steps]}
    assert javascript(tmp_path, curves=[curve])["scale"] == scale

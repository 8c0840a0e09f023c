"""Exported controllers do what `agent.predict` does: compiled C, ONNX in onnxruntime, the NumPy file."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiled import GCC, NO_GCC, STRICT, batched
from controllers import made, observations
from rsa2c import load
from rsa2c.algorithm.state import Kept
from rsa2c.cli import main
from rsa2c.errors import ConfigError, DataError
from strangers import DATA

ALL = ("value", "attribution", "familiarity")
KINDS = [(kernel, squash) for kernel in ("rbf", "laplace") for squash in ("tanh", "clip", "none")]
KNEES = (None, 2.0)
gcc = pytest.mark.skipif(GCC is None, reason=NO_GCC)


def double(agent, states):
    """`predict` before it rounds to float32."""
    return agent.policy.bounds.action(agent.policy_mean(states))


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def session(path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@gcc
@pytest.mark.parametrize("kernel, squash", KINDS)
@pytest.mark.parametrize("knee, flag", [(None, "-O2"), (None, "-O0"), (2.0, "-O2")])
def test_c_is_predict(kernel, squash, knee, flag, tmp_path):
    agent = made(kernel, squash, knee=knee)
    states = observations(agent)
    agent.export(tmp_path / "controller.h")
    actions = batched(tmp_path / "controller.h", (), np.float64, flag)("act", states, 3)
    np.testing.assert_allclose(actions, double(agent, states), rtol=0, atol=1e-12)
    np.testing.assert_array_almost_equal_nulp(actions.astype(np.float32), agent.predict(states)[0], 1)


@gcc
@pytest.mark.parametrize("kernel", ["rbf", "laplace"])
@pytest.mark.parametrize("d, m, knee", [(1, 1, 0.5), (5, 3, None), (12, 2, 2.0)])
def test_c_value_familiarity_and_attributions_are_the_librarys(kernel, d, m, knee, tmp_path):
    agent = made(kernel, d=d, m=m, knee=knee)
    states = observations(agent)
    agent.export(tmp_path / "controller.h", include=ALL, background=20)
    call = batched(tmp_path / "controller.h", ALL)
    np.testing.assert_allclose(call("act", states, m), double(agent, states), rtol=0, atol=1e-12)
    np.testing.assert_allclose(call("value", states), agent.value(states)[:, 0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(call("familiarity", states), agent.familiarity(states), rtol=1e-9, atol=1e-15)
    few, against = states[:50], agent.background[:20]
    for name, of, outputs in (("attribute", "action", m), ("attribute_value", "value", 1)):
        values = call(name, few, outputs, d)
        expected = agent.explain(few, of=of, background=against, nodes="exact").values.transpose(0, 2, 1)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@gcc
def test_attributions_and_base_add_up_to_the_mean(tmp_path):
    agent = made()
    states = observations(agent, 20)
    agent.export(tmp_path / "controller.h", include=("attribution",))
    values = batched(tmp_path / "controller.h", ("attribution",))("attribute", states, 3, 5)
    text = (tmp_path / "controller.h").read_text()
    base = np.array([float(x) for x in re.search(r"policy_base\[3\] = \{([^}]*)\}", text)[1].split(",")])
    np.testing.assert_allclose(values.sum(axis=2) + base, agent.policy_mean(states), atol=1e-12)


@gcc
@pytest.mark.parametrize("kernel, squash", KINDS)
def test_single_precision_is_as_close_as_the_header_says(kernel, squash, tmp_path):
    agent = made(kernel, squash)
    exported = agent.export(tmp_path / "controller.h", precision="float32")
    assert 0 < exported.error < 1e-3
    assert f"by up to\n * {exported.error:.1e}," in (tmp_path / "controller.h").read_text()
    call = batched(tmp_path / "controller.h", (), np.float32, "-Wdouble-promotion")
    visited = agent.background
    measured = np.abs(call("act", visited, 3) - double(agent, visited)).max()
    assert exported.error / 3 < measured < 3 * exported.error  # expf differs between libraries


def spoilt():
    """Zeros, with each feature in turn not finite."""
    return np.concatenate([np.where(np.eye(5) == 1, bad, 0.0) for bad in (np.nan, np.inf, -np.inf)])


@gcc
@pytest.mark.parametrize("kernel, squash", KINDS)
@pytest.mark.parametrize("knee", KNEES)
def test_a_bad_observation_gives_no_action(kernel, squash, knee, tmp_path):
    agent, states = made(kernel, squash, knee=knee), spoilt()
    for precision, dtype in (("float64", np.float64), ("float32", np.float32)):
        agent.export(tmp_path / "controller.h", include=ALL, precision=precision)
        call = batched(tmp_path / "controller.h", ALL, dtype)
        assert np.isnan(call("act", states, 3)).all()
        assert np.isnan(call("value", states)).all()
        assert np.isnan(call("attribute", states, 3, 5)).any(axis=2).all()
        assert (call("familiarity", states) == 0).all()
    with pytest.raises(DataError, match="finite"):
        agent.predict(states)


@gcc
def test_the_header_is_cplusplus_too(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no g++: apt-get install g++")
    made().export(tmp_path / "controller.h", include=ALL)
    (tmp_path / "main.cpp").write_text('#include "controller.h"\nint main() { return RSA2C_ACTIONS - 3; }\n')
    subprocess.run(["g++", "-Wall", "-Wextra", "-Werror", "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_the_header_counts_its_tables(tmp_path):
    """By hand: q (d + m) numbers of the expansion, 3 d for the inputs, m offsets, 2 m for the range."""
    agent = made(q=40, d=5, m=3)
    for precision, size in (("float64", 8), ("float32", 4)):
        exported = agent.export(tmp_path / "controller.h", precision=precision)
        assert exported.bytes == size * (40 * (5 + 3) + 3 * 5 + 3 + 2 * 3)
        text = (tmp_path / "controller.h").read_text()
        assert f"{exported.bytes:,} bytes of constant tables" in text
        assert "40 exponentials and 320 multiplications" in text


@gcc
def test_the_counted_tables_are_what_the_compiler_stores(tmp_path):
    """Constants that the header's functions use end up in read-only data, and little else does."""
    exported = made(q=64).export(tmp_path / "controller.h")
    (tmp_path / "main.c").write_text('#include "controller.h"\nvoid act(double *s, double *a) { rsa2c_act(s, a); }\n')
    subprocess.run([GCC, *STRICT, "-Os", "-c", "main.c"], cwd=tmp_path, check=True)
    listed = subprocess.run(["size", "-A", "main.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    stored = sum(int(line.split()[1]) for line in listed.splitlines() if line.startswith(".rodata"))
    assert exported.bytes <= stored <= exported.bytes + 128


@gcc
@pytest.mark.parametrize("name", ["*/ int broken = ;/*", "a\\", "line\nbreak", "??/", '""" \\u0041 {{ 7 }}', "\ud800"])
def test_names_cannot_write_code(name, tmp_path):
    agent = made(d=2, m=1)
    agent.task = replace(agent.task, env_id=name, feature_names=(name, "x"), action_names=(name,))
    agent.export(tmp_path / "controller.h")
    states = observations(agent, 3)
    np.testing.assert_allclose(batched(tmp_path / "controller.h")("act", states, 1), double(agent, states), atol=1e-12)
    agent.export(tmp_path / "controller.py")
    np.testing.assert_allclose(loaded(tmp_path / "controller.py").act(states), double(agent, states), atol=1e-12)
    pytest.importorskip("onnx", reason="pip install onnx")
    agent.export(tmp_path / "controller.onnx")
    assert len(session(tmp_path / "controller.onnx").get_modelmeta().custom_metadata_map["features"].split("\n")) == 2


@pytest.mark.parametrize("kernel, squash", KINDS)
@pytest.mark.parametrize("knee", KNEES)
def test_onnx_is_predict(kernel, squash, knee, tmp_path):
    agent = made(kernel, squash, knee=knee)
    states = observations(agent).astype(np.float32)
    agent.export(tmp_path / "controller.onnx", include=("value", "familiarity"))
    network = session(tmp_path / "controller.onnx")
    action, value, familiarity = network.run(None, {"observation": states})
    np.testing.assert_allclose(action, agent.predict(states)[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(value, agent.value(states)[:, 0], rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(familiarity, agent.familiarity(states), atol=1e-6)
    one = network.run(["action"], {"observation": states[:1]})[0]
    np.testing.assert_allclose(one[0], agent.predict(states[0])[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel, squash", KINDS)
@pytest.mark.parametrize("knee", KNEES)
def test_onnx_has_no_action_for_a_bad_observation(kernel, squash, knee, tmp_path):
    agent, states = made(kernel, squash, knee=knee), spoilt().astype(np.float32)
    agent.export(tmp_path / "controller.onnx")
    network = session(tmp_path / "controller.onnx")
    assert np.isnan(network.run(None, {"observation": states})[0]).all()
    assert np.isnan([network.run(None, {"observation": state[None]})[0] for state in states]).all()


def test_onnx_names_what_it_takes(tmp_path):
    agent = made()
    agent.export(tmp_path / "controller.onnx")
    described = session(tmp_path / "controller.onnx").get_modelmeta().custom_metadata_map
    assert tuple(described["features"].split("\n")) == agent.feature_names
    assert tuple(described["actions"].split("\n")) == agent.action_names


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"rsa2c\[export\]"):
        made().export(tmp_path / "controller.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kernel, squash", KINDS)
@pytest.mark.parametrize("knee", KNEES)
def test_the_numpy_file_is_predict(kernel, squash, knee, tmp_path):
    agent = made(kernel, squash, knee=knee)
    states = observations(agent)
    agent.export(tmp_path / "controller.py", include=("value", "familiarity"))
    module = loaded(tmp_path / "controller.py")
    np.testing.assert_allclose(module.act(states), double(agent, states), rtol=0, atol=1e-12)
    np.testing.assert_allclose(module.act(states[0]), double(agent, states[0]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(module.value(states), agent.value(states)[:, 0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(module.familiarity(states), agent.familiarity(states), rtol=1e-9, atol=1e-15)
    assert np.mean(module.familiarity(agent.background) > module.FAMILIAR) == pytest.approx(0.99, abs=0.02)
    for wrong in (np.full(5, np.nan), np.zeros(4), np.zeros((5, 1))):
        with pytest.raises(ValueError, match="5 finite features"):
            module.act(wrong)


def test_the_numpy_file_needs_numpy_alone_and_is_short(tmp_path):
    made().export(tmp_path / "controller.py")
    assert len((tmp_path / "controller.py").read_text().splitlines()) <= 45
    code = "import sys, controller; controller.act([0.0] * 5); assert 'rsa2c' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_what_is_exported_is_the_policy_that_acts(tmp_path):
    """Not the last one, where an earlier one was kept as the best."""
    agent, best = made(seed=0), made(seed=1).state
    kept = Kept(best.policy, best.value, best.advantage, best.background, 1, 100, 0.0, 12)
    agent.state = replace(agent.state, kept=kept)
    agent.export(tmp_path / "controller.py", include=("value", "familiarity"))
    module, states = loaded(tmp_path / "controller.py"), observations(agent, 50)
    np.testing.assert_allclose(module.act(states), double(agent, states), atol=1e-12)
    np.testing.assert_allclose(module.value(states), agent.value(states)[:, 0], atol=1e-11)
    assert np.mean(agent.familiarity(agent.background) > module.FAMILIAR) == pytest.approx(0.99, abs=0.02)


@pytest.mark.parametrize("options, match", [
    ({"path": "controller.txt"}, "must end in .h, .onnx, .py"),
    ({"path": "x", "to": "onx"}, "Did you mean 'onnx'"),
    ({"include": ("values",)}, "Did you mean 'value'"),
    ({"precision": "float16"}, "float64 or float32, got 'float16'"),
    ({"path": "x.py", "precision": "float32"}, "for C only"),
    ({"path": "x.onnx", "include": ("attribution",)}, "for C only"),
    ({"background": 4}, "no effect without attributions"),
    ({"background": 65, "include": ("attribution",)}, "between 1 and 64"),
])  # fmt: skip
def test_refusals_name_the_rule(options, match, tmp_path):
    with pytest.raises(ConfigError, match=match):
        made().export(tmp_path / options.pop("path", "controller.h"), **options)
    assert not list(tmp_path.iterdir())


def test_an_agent_without_a_critic_has_no_value_to_export(tmp_path):
    with pytest.raises(ConfigError, match="without a Value Critic"):
        made(value=False).export(tmp_path / "controller.h", include=("value",))


@gcc
@pytest.mark.parametrize("source, written", [
    ("run-v1", "run-v1/controller.h"),
    ("run-v1/model.safetensors", "run-v1/controller-model.h"),
    ("zoo:Pendulum-v1", "controller-Pendulum-v1.h"),
])  # fmt: skip
def test_the_command_exports_runs_models_and_the_zoo(source, written, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DATA, "run-v1")
    agent = load(source)
    assert main(["export", source, "--to", "c", "--include", "value", "familiarity"]) == 0
    header = Path(written).absolute()
    told = capsys.readouterr().out
    assert written in told and "bytes" in told
    states = agent.background
    actions = batched(header, ("value", "familiarity"))("act", states, len(agent.action_names))
    np.testing.assert_allclose(actions, double(agent, states), rtol=0, atol=1e-12)


def test_the_command_writes_where_it_is_told(tmp_path, capsys):
    model, out = DATA / "model.safetensors", tmp_path / "pendulum.py"
    assert main(["export", str(model), "--to", "numpy", "--out", str(out)]) == 0
    assert loaded(out).act(np.zeros(3)).shape == (1,)
    assert main(["export", str(tmp_path / "nothing"), "--to", "c"]) == 2
    assert "does not exist" in capsys.readouterr().err

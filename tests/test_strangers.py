"""Files from strangers run nothing, take no more memory than their size allows, and fail with our own errors alone."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strangers
from rsa2c.algorithm.snapshot import Snapshot, pack
from rsa2c.config import Config, preset_names
from rsa2c.envs import make_env
from rsa2c.errors import DataError, EnvError, FileFormatError, NotFoundError, RSA2CError
from rsa2c.files import read_yaml, tensor_bytes
from rsa2c.runs.baseline_training import check_architecture
from rsa2c.runs.folder import Run
from rsa2c.runs.sweep import Grid
from strangers import DATA, TARGETS, corpus, mutated, read, watched

SOURCE = Path(strangers.__file__).parent.parent / "src" / "rsa2c"
DETERMINISTIC = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("target", TARGETS)
def test_the_valid_file_is_read(tmp_path, target):
    assert read(target, TARGETS[target].valid, tmp_path) is None


@settings(DETERMINISTIC, max_examples=80)
@given(rng=st.randoms(use_true_random=False), times=st.integers(1, 3))
@pytest.mark.parametrize("target", ["model", "state", "explanation", "evaluations", "attributions", "metrics"])
def test_mutated_files_meet_our_own_errors_alone(tmp_path, target, rng, times):
    content = TARGETS[target].valid
    for _ in range(times):
        content = mutated(target, content, rng)
    read(target, content, tmp_path)


@settings(DETERMINISTIC, max_examples=40)
@given(rng=st.randoms(use_true_random=False))
@pytest.mark.parametrize("target", ["config", "sweep"])
def test_mutated_yaml_meets_our_own_errors_alone(tmp_path, target, rng):
    read(target, mutated(target, TARGETS[target].valid, rng), tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_is_survived(tmp_path, target):
    for _, content in corpus(target):
        read(target, content, tmp_path)


def test_mutations_reach_beyond_the_first_check(tmp_path):
    """A mutator whose files all fail at the door would prove nothing."""
    messages = set()
    for seed in range(300):
        error = read("model", mutated("model", TARGETS["model"].valid, random.Random(seed)), tmp_path)
        messages.add(re.sub(r"\d+", "#", str(error).replace(str(tmp_path), ""))[:120])
    assert "None" in messages and len(messages) > 30
    assert any("does not fit together" in message for message in messages)


def test_the_guard_sees_execution_and_memory(tmp_path, monkeypatch):
    def with_reader(reader):
        monkeypatch.setitem(TARGETS, "bad", strangers.Target("bad", b"", reader))
        monkeypatch.setattr(strangers, "_warm", {"bad"})

    with_reader(lambda path: exec("1"))
    with pytest.raises(strangers.Violation, match="caused"):
        read("bad", b"", tmp_path)
    with_reader(lambda path: np.ones(10**6))
    with pytest.raises(strangers.Violation, match="bytes were taken"):
        read("bad", b"x", tmp_path)


# One by one


@pytest.mark.parametrize("tag", [
    "!!python/object/apply:pathlib.Path.touch [{path}]", "!!python/object/new:os.system [touch {path}]",
    "!!python/name:os.system", "!!python/module:os",
])  # fmt: skip
@pytest.mark.parametrize("target", ["config", "sweep"])
def test_yaml_tags_run_nothing(tmp_path, target, tag):
    made = tmp_path / "made"
    content = TARGETS[target].valid + b"last: " + tag.format(path=made).encode()
    assert "constructor" in str(read(target, content, tmp_path))
    assert not made.exists()


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("target", ["config", "sweep"])
def test_alias_bombs_are_refused_before_they_grow(tmp_path, target, merge):
    bomb = "\n".join(strangers._bomb(40, merge)).encode()
    assert "values with its aliases expanded" in str(read(target, TARGETS[target].valid + bomb, tmp_path))


def test_yaml_that_holds_itself_and_yaml_that_is_too_large(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: &a [*a]")
    with pytest.raises(FileFormatError, match="aliases expanded"):
        read_yaml(path)
    path.write_text("#" * 2**18 + "\n")
    with pytest.raises(FileFormatError, match="bytes"):
        read_yaml(path)


def test_aliases_that_stay_small_are_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: &a {x: 1}\nb: {<<: *a, y: 2}\n")
    assert read_yaml(path) == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}


def test_a_compressed_explanation_is_refused(tmp_path):
    """A megabyte of zeros takes a kilobyte of a compressed file."""
    with np.load(DATA / "explanation.npz") as arrays:
        np.savez_compressed(tmp_path / "bomb.npz", **{**arrays, "values": np.zeros((10**5, 1, 1))})
    content = (tmp_path / "bomb.npz").read_bytes()
    assert "is compressed, or larger than the file" in str(read("explanation", content, tmp_path))


def test_a_sweep_of_too_many_runs_is_refused(tmp_path):
    many = b"seeds: 999\nnoise: [" + b"0.1, " * 100 + b"]"
    for text, says in ((b"seeds: 99999999999", "between 1 and 10,000"), (many, "runs; at most 10,000 are allowed")):
        assert says in str(read("sweep", b"environments: Pendulum-v1\n" + text, tmp_path))


@pytest.mark.parametrize(("name", "value"), [
    ("metric/std", 0.0), ("policy/sigma", 0.0), ("metric/mean", np.nan), ("actor/states", np.inf),
    ("bounds/low", np.nan), ("bounds/low", 1e9), ("value/weights", -1.0), ("background", np.nan),
])  # fmt: skip
def test_tensors_that_no_agent_has_are_refused(tmp_path, name, value):
    tensors, metadata = pack(Snapshot.load(DATA / "model.safetensors"), checkpoint=False)
    tensors[name] = np.array(tensors[name])
    tensors[name].flat[0] = value
    assert "does not fit together" in str(read("model", tensor_bytes(tensors, metadata), tmp_path))


@pytest.mark.parametrize(("key", "value"), [
    ("clip", -1.0), ("epoch", -1), ("epoch", 1.5), ("feature_names", "abc"), ("action_names", [1]),
    ("episode_limit", "x"), ("config", {"n_envs": "auto"}), ("config", {"length_scale": "auto"}), ("config", []),
])  # fmt: skip
def test_metadata_that_no_agent_has_is_refused(tmp_path, key, value):
    tensors, metadata = pack(Snapshot.load(DATA / "model.safetensors"), checkpoint=False)
    metadata[key] = {**metadata["config"], **value} if isinstance(value, dict) else value
    assert "does not fit together" in str(read("model", tensor_bytes(tensors, metadata), tmp_path))


def test_a_baselines_layers_must_be_those_of_its_parameters():
    shapes = {(400, 3), (300, 400), (300,), (1, 300)}
    check_architecture({"net_arch": [400, 300], "log_std_init": -3}, shapes)
    check_architecture({"net_arch": {"pi": [400, 300], "qf": [400]}, "activation_fn": "ReLU"}, shapes)
    layers = ({"net_arch": [400, 10**9]}, {"net_arch": [300, 400]}, {"net_arch": ["x"]})
    for bad in (*layers, {"n_critics": 10**9}, {"activation_fn": "Module"}):
        with pytest.raises(ValueError, match=r"units|no run of rsa2c"):
            check_architecture(bad, shapes)


# Names


@pytest.mark.parametrize("run_id", ["../x", "/etc", "a\0b", "a" * 201, "a" * 100_000, "a/../b", "~", "-x", "a\nb"])
def test_run_ids_that_are_no_plain_names_are_refused(tmp_path, run_id):
    with pytest.raises(DataError, match="is refused"):
        Run.refuse_existing(tmp_path, run_id)


@pytest.mark.parametrize("name", ["a\0b", "a" * 100_000, "../../etc/passwd"])
def test_runs_that_cannot_be_are_not_found(name):
    with pytest.raises(NotFoundError):
        Run.open(name)


@pytest.mark.parametrize("name", [
    "", "../x", "../../etc/passwd", "/etc/passwd", "a\0b", "x" * 100_000, ":x-v0", ".x:y-v0", "antigravity:x-v0", "a b",
    "Pendulum-v1/..", "Pendulum-v" + "9" * 30, "config.yaml",
])  # fmt: skip
def test_environment_ids_are_looked_up_and_never_imported_or_opened(name):
    """`module:id` would import in Gymnasium; here only what is registered exists."""
    make_env("Pendulum-v1")
    with watched() as events, pytest.raises(EnvError, match="no environment"):
        make_env(name, backend="gymnasium")
    assert not events and "antigravity" not in sys.modules
    assert preset_names(name) == ["default"]


def test_a_path_for_an_environment_is_refused_when_a_run_is_used(tmp_path):
    from rsa2c.runs.training import resume_run

    run = Run.create(tmp_path, "a", Config.of(n_envs=1, horizon=1), {
        "environment": "../../x", "algorithm": "rsa2c-kme", "preset": "default", "total_timesteps": 1
    })  # fmt: skip
    with pytest.raises(EnvError, match=r"no environment '../../x'"):
        resume_run(run.path)
    with pytest.raises(RSA2CError):
        Grid.of({"environments": ["../../x"], "presets": ["../default"]})


# No pickle, no eval


FORBIDDEN = re.compile(
    r"\b(pickle|cloudpickle|marshal|shelve|joblib|dill)\b|torch\.load|allow_pickle=True|np\.load\b|yaml\.(unsafe_|full_)?load\b"
    r"|Unsafe|FullLoader|(?<![\w.])(eval|exec|__import__)\("
)


MESSAGES = ("workers/serving.py", "workers/remote.py")
"""What a training says to its own workers goes through pipes and Ray, never a file that a stranger could send."""


def test_no_source_file_pickles_or_evaluates():
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).as_posix() not in MESSAGES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert not found


@pytest.mark.parametrize("line", ["import pickle", "x = eval(y)", "yaml.load(f)", "np.load(f)", "torch.load(f)"])
def test_the_search_would_find_it(line):
    assert FORBIDDEN.search(line)
    assert not FORBIDDEN.search("yaml.safe_load(text); run.executor(x); nothing is pickled; model.evaluate(1)")


PICKLE_FREE = """
import _pickle, pickle, sys

def refused(original):
    def call(*arguments, **options):
        caller = sys._getframe(1).f_code.co_filename
        if "numba" not in caller.split("/"):  # its own cache of compiled code
            raise SystemExit(f"{caller} unpickles")
        return original(*arguments, **options)
    return call

import multiprocessing.reduction, numba, rsa2c.runs.training  # they make classes of Unpickler
for module in (pickle, _pickle):
    for name in ("load", "loads", "Unpickler"):
        setattr(module, name, refused(getattr(module, name)))

from rsa2c import RSA2C, evaluate
from rsa2c.attribution import Explanation

run = rsa2c.runs.training.resume_run(sys.argv[1], 520, track=False)
agent = RSA2C.load(run.model_path)
states = agent.background[:2]
agent.explain(states, interactions=True), agent.explain(states, method="cme"), agent.certify(states, 0.1)
evaluate(agent, "Pendulum-v1", episodes=1)
Explanation.load(run.path / "explanation.npz")
run.read_config(), run.read_metrics(), run.read_evaluations(), run.read_attributions()
print("done", agent.epoch)
if "check" in sys.argv:
    pickle.loads(b"N.")
"""


def test_nothing_is_unpickled_when_a_run_is_loaded_explained_resumed_and_read(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(DATA, folder)
    command = [sys.executable, "-c", PICKLE_FREE, str(folder), "check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == "done 8", done.stderr
    assert "<string> unpickles" in done.stderr, "the last line of the script, which shows that the hook works"


def test_the_data_are_small():
    for folder, most in ((DATA.parent, 120_000), (strangers.CORPUS, 200_000)):
        assert 0 < sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < most

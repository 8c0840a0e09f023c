"""Same seed, same bytes: in every process, however many threads the machine offers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from rsa2c import RSA2C
threads, path = int(sys.argv[1]), sys.argv[2]
agent = RSA2C(
    "Pendulum-v1", seed=3, threads=threads, n_envs=8, horizon=100, capacity=120, initial_centres=100, distractors=3,
    attribution_every=1, attribution_warmup=1, attribution_centres=60, replacement_every=1,
)
agent.learn(agent.num_timesteps + 4 * 800)
assert agent.kernel_weights.std() > 0, "guidance is not at work"
agent.save(path)
"""
EXPLAIN = """
import sys
import numba
from rsa2c import RSA2C
from rsa2c.algorithm.threads import limited_threads
agent = RSA2C.load(sys.argv[1])
agent.config = agent.config.updated(threads=int(sys.argv[2]))
with limited_threads(agent.config.threads):
    assert numba.get_num_threads() == int(sys.argv[2])
agent.explain(agent.background[:40], of="action", interactions=True).save(sys.argv[3])
"""


def run(script, offered, *arguments):
    offers = {key: str(offered) for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", script, *map(str, arguments)], check=True, env={**os.environ, **offers})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("first") / "m.safetensors"
    run(SCRIPT, 1, 1, path)
    return path


def test_one_thread_gives_the_same_bytes_whatever_is_offered(model, tmp_path):
    run(SCRIPT, 2, 1, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()


def test_two_threads_give_the_same_bytes_again(tmp_path):
    for name in ("a", "b"):
        run(SCRIPT, 2, 2, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_shapley_values_have_the_same_bytes_on_one_and_two_threads(model, tmp_path):
    for threads in (1, 2):
        run(EXPLAIN, 2, model, threads, tmp_path / f"{threads}.npz")
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()

"""One training over several workers: the same bytes however its environments are spread, and whoever is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rsa2c
from rsa2c.algorithm.batch import joined
from rsa2c.algorithm.rollout import collect
from rsa2c.algorithm.samples import Samples, blocks_of, steps_around
from rsa2c.algorithm.snapshot import pack
from rsa2c.algorithm.sums import Largest, Moments, TreeSum
from rsa2c.errors import ConfigError, EnvError, Notice
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF, Laplace
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.kernel.rowwise import rowwise
from rsa2c.report import result
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.training import resume_run, train_run
from rsa2c.sb3.tensorboard import epoch_scalars
from rsa2c.workers import remote, serving
from rsa2c.workers.remote import RemoteWorkers, dealt
from rsa2c.workers.serving import Server
from rsa2c.workers.software import software
from rsa2c.workers.transport import Lost, WorkerError

SMALL: dict[str, Any] = {
    "n_envs": 5, "horizon": 1000, "capacity": 40, "initial_centres": 20, "seed": 3,
    "attribution_every": 1, "attribution_warmup": 1, "replacement_every": 1,
}  # fmt: skip

PLAIN = {name: value for name, value in SMALL.items() if "attribution" not in name}


def content(agent: rsa2c.RSA2C) -> dict[str, bytes]:
    """Everything a checkpoint holds."""
    arrays, metadata = pack(agent.snapshot(), checkpoint=True)
    return {**{name: array.tobytes() for name, array in arrays.items()}, "metadata": repr(metadata).encode()}


class InProcess:
    """Workers in this process, which `fate` may let die: it is called with (worker hired as number k, request)."""

    def __init__(self, fate=lambda hired, number: "answers") -> None:
        self.fate, self.hired = fate, 0

    def hire(self, contents: bytes, again: bool) -> Worker:
        self.hired += 1
        return Worker(contents, self.hired - 1, self.fate)

    def ship(self, asked: bytes) -> bytes:
        return asked

    def ready(self, handles: Sequence[Worker], timeout: float) -> list[Worker]:
        ready = [handle for handle in handles if handle.answer != "late"]
        time.sleep(0.0 if ready else 0.1)
        return ready

    state = "a test's worker needs luck"

    def close(self) -> None:
        pass


class Worker:
    def __init__(self, contents: bytes, hired: int, fate) -> None:
        self.server, self.hired, self.fate, self.number = Server(contents), hired, fate, 0
        self.answer: bytes | str = b""

    def send(self, asked: bytes) -> None:
        self.answer = self.fate(self.hired, self.number)
        self.number += 1
        if self.answer == "answers":
            self.answer = self.server.answer(asked)

    def receive(self) -> bytes:
        if self.answer == "dies":
            raise Lost("its process died (signal SIGKILL).")
        return self.answer

    def end(self) -> None:
        self.server = None


def trained(
    workers: int = 1, epochs: int = 3, fate=None, env: str = "Pendulum-v1", base: Any = SMALL, **fields: Any
) -> rsa2c.RSA2C:
    """An agent after a few epochs, whose workers are in this process."""
    agent = rsa2c.RSA2C(env, **{**base, **fields})
    if workers > 1:
        transport = InProcess(fate) if fate else InProcess()
        agent.close()
        agent._workers = RemoteWorkers(lambda: transport, agent.source, agent.config, agent.task, workers)
    for _ in range(epochs):
        agent.run_epoch()
    return agent


@pytest.fixture(scope="module")
def alone() -> dict[str, bytes]:
    return content(trained())


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_the_model_does_not_depend_on_how_environments_are_spread(alone, workers):
    assert content(trained(workers)) == alone


@pytest.mark.parametrize("fields", [
    {"base": PLAIN, "env": "rsa2c/LQR-v0", "preset": "paper", "horizon": 400},
    {"base": PLAIN, "env": "Pendulum-v1", "preset": "paper", "horizon": 400, "n_envs": 12, "newcomers": "printed"},
    {"base": PLAIN, "env": "Pendulum-v1", "preset": "paper", "horizon": 400, "n_envs": 12, "value_fit": "mc"},
    {"env": "InvertedPendulum-v5", "backend": "gymnasium", "horizon": 500, "noise_variance": 0.01, "n_envs": 4},
    {"kernel": "laplace", "distractors": 2, "restart_p": 0.01, "diagnostics": True, "guide": "value+advantage"},
    {"distractors": 5, "distractor_kind": "twin", "restart_p": 0.01, "importance": "correlation"},
    {"distractors": 2, "distractor_kind": "drift", "guidance": "printed", "reproject": True},
    {"base": PLAIN, "algorithm": "rkhs-ac", "precision": "float64"},
    {"kl_largest": 0.05, "keep": "best", "value_damping": 0.5, "batch_doubling": 4000},
])  # fmt: skip
def test_the_same_with_other_rules(fields, monkeypatch):
    monkeypatch.setattr("rsa2c.algorithm.keeping.STEPS_BETWEEN_TRIALS", 6000)
    assert content(trained(2, 2, **fields)) == content(trained(1, 2, **fields))


@pytest.mark.parametrize("when", range(0, 24, 5))
def test_a_worker_that_dies_is_replaced_and_nothing_changes(alone, when):
    """Whichever of its requests the first worker dies at, the epoch is redone from the same seeds."""
    agent = trained(2, fate=lambda hired, number: "dies" if hired == 0 and number == when else "answers")
    assert content(agent) == alone
    assert agent.workers.traffic.replaced == 1


def test_a_straggler_is_replaced_after_the_limit(alone, monkeypatch):
    monkeypatch.setattr(remote, "STRAGGLER_SECONDS", 1.0)
    agent = trained(2, fate=lambda hired, number: "late" if hired == 1 and number == 4 else "answers")
    assert content(agent) == alone and agent.workers.traffic.replaced >= 1


def test_a_share_that_kills_every_worker_ends_the_training():
    with pytest.raises(WorkerError, match=r"environments 0 to 2 of Pendulum-v1 was lost 6 times.*SIG") as caught:
        trained(2, 1, fate=lambda hired, number: "dies" if hired != 1 else "answers")
    assert isinstance(caught.value.__cause__, Lost)


def test_workers_that_do_not_start_are_waited_for_and_then_named(monkeypatch):
    monkeypatch.setattr(remote, "TELL_SECONDS", 0.1)
    monkeypatch.setattr(remote, "START_SECONDS", 1.0)
    told = pytest.warns(Notice, match=r"1 of 2 workers of Pendulum-v1 have started.*a test's worker needs luck")
    with told, pytest.raises(WorkerError, match=r"only 1 of 2 workers of Pendulum-v1.*after 1 s: a test's worker"):
        trained(2, 0, fate=lambda hired, number: "late" if hired == 1 else "answers")


def test_where_all_are_silent_they_are_replaced_too(alone, monkeypatch):
    monkeypatch.setattr(remote, "SILENCE_SECONDS", 1.0)
    agent = trained(2, fate=lambda hired, number: "late" if hired < 2 and number == 4 else "answers")
    assert content(agent) == alone and agent.workers.traffic.replaced == 2


@pytest.mark.parametrize(("name", "other"), [("numpy", "1.0"), ("Python", "3.0.1"), ("rsa2c", "9.9"), ("mujoco", None)])
def test_a_worker_with_other_software_is_refused_by_both_versions(name, other, monkeypatch):
    there = {key: value for key, value in {**software(), name: other}.items() if value is not None}
    monkeypatch.setattr(serving, "software", lambda: there)
    both = re.escape(f"{name} {other or '(none)'} there and {software()[name]} here.")
    with pytest.raises(ConfigError, match=rf"environments 0 to 2 of Pendulum-v1 has other software.*{both}"):
        trained(2, 0)


def test_a_worker_that_replaces_another_is_compared_too(monkeypatch):
    asked = iter([*[software()] * 2, {**software(), "scipy": "0.1"}])
    monkeypatch.setattr(serving, "software", lambda: next(asked))
    with pytest.raises(ConfigError, match=r"scipy 0\.1 there and"):
        trained(2, 1, fate=lambda hired, number: "dies" if hired == 0 and number == 3 else "answers")


def test_a_worker_on_another_kind_of_processor_is_mentioned(monkeypatch):
    monkeypatch.setattr(serving, "processor", lambda: "Z80")
    with pytest.warns(Notice, match=r"runs on a processor of another kind \(Z80 there"):
        trained(2, 0)


class Faulty(gym.Env):
    """Fails in its seventh thousand of steps."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == 7000:
            raise ZeroDivisionError("a division in the plant")
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), 0.0, False, False, {}


def test_an_error_of_an_environment_is_the_drivers_and_names_the_share():
    agent = rsa2c.RSA2C(Faulty, "advanced-ac", n_envs=2, horizon=1000, workers=2, capacity=20)
    try:
        agent.config = agent.config.updated(horizon=8000)
        failed = r"a division in the plant.*the worker of environments [01] to [01] of .*Faulty"
        with pytest.raises(EnvError, match=failed) as caught:
            agent.run_epoch()
        assert 'raise ZeroDivisionError("a division in the plant")' in caught.value.__cause__.__notes__[0]
    finally:
        agent.close()


def test_processes_give_the_same_model_and_one_may_be_killed(alone):
    agent = rsa2c.RSA2C("Pendulum-v1", **SMALL, workers=2)
    members = agent.workers._members
    try:
        agent.run_epoch()
        os.kill(members[1].handle.process.pid, signal.SIGKILL)
        agent.run_epoch()
        agent.run_epoch()
        assert content(agent) == alone
        spread = agent.record.spread
        assert spread.workers == 2 and 0.0 <= spread.idle < 1.0 and spread.bytes > 10_000
        assert agent.workers.traffic.replaced == 1
        scalars = epoch_scalars(agent, 2.0, 1000)
        shown = [scalars[f"time/{name}"] for name in ("workers", "bytes_per_epoch", "idle_share", "fps")]
        assert shown == [2.0, spread.bytes, spread.idle, 500.0]
    finally:
        processes = [member.handle.process for member in members]
        agent.close()
    assert all(process.poll() is not None for process in processes)


def test_bytes_of_an_epoch_do_not_grow_with_the_batch():
    """Beyond the states that are drawn (candidates and the like), longer rollouts send nothing more."""
    fields = {"base": PLAIN, "guidance": "none", "initial_centres": 40, "admission_candidates": 500}
    sizes = {}
    for horizon in (1000, 4000):
        agent = trained(2, 2, env="InvertedPendulum-v5", n_envs=2, horizon=horizon, **fields)
        sizes[horizon] = agent.record.spread.bytes
    assert sizes[4000] == pytest.approx(sizes[1000], rel=0.1)


def test_shares_are_whole_blocks_and_too_many_workers_are_refused():
    spans = dealt(n_envs=24, horizon=200, workers=3)
    assert [(span.first, span.count) for span in spans] == [(0, 10), (10, 10), (20, 4)]
    assert [span.first_block for span in spans] == [0, 2, 4]
    with pytest.raises(ConfigError, match=r"workers is 8.*24 environments of 200 steps make 5 blocks.*n_envs to at"):
        dealt(24, 200, 8)
    for workers in (0, -1, True, 1.5):
        with pytest.raises(ConfigError, match="workers must be a whole number >= 1"):
            rsa2c.RSA2C("Pendulum-v1", workers=workers)
    with pytest.raises(ConfigError, match="cluster must be None"):
        rsa2c.RSA2C("Pendulum-v1", cluster=6379)
    vector = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 2)
    with pytest.raises(ConfigError, match="an environment that workers can make for themselves"):
        rsa2c.RSA2C(vector, workers=2, horizon=1000)
    vector.close()


class AfterEachStep:
    def on_step(self) -> bool:
        return True


def test_callbacks_after_each_step_need_the_environments_here():
    with pytest.raises(ConfigError, match="workers=1"):
        agent = trained(2, 0)
        agent.learn(1, callback=AfterEachStep())


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_a_sum_has_one_order_however_it_is_split(count):
    """Numbers whose sum depends on the order, split at every place."""
    numbers = np.random.default_rng(count).standard_normal(count) * 10.0 ** np.arange(count)

    def summed(parts):
        total = TreeSum()
        for part in parts:
            own = TreeSum()
            for i in part:
                own.add(0, int(i), numbers[i])
            for (level, number), value in own.nodes.items():
                total.add(level, number, value)
        return total.total()

    expected = summed([range(count)])
    assert expected == pytest.approx(numbers.sum())
    for cut in range(1, count):
        assert summed([range(cut), range(cut, count)]) == expected
        assert summed([range(cut, count), range(cut)]) == expected
    assert summed([[i] for i in range(count)]) == expected


def test_joined_moments_are_those_of_the_whole():
    sample = np.random.default_rng(0).standard_normal((50, 3)) + 100.0
    whole = Moments.of(sample[:7]) + (Moments.of(sample[7:30]) + Moments.of(sample[30:]))
    assert whole.count == 50
    np.testing.assert_allclose(whole.mean, sample.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(whole.variance, sample.var(axis=0), rtol=1e-12)
    assert (Largest(1.0) + Largest(3.0) + Largest(2.0)).value == 3.0


@pytest.mark.parametrize("per_block", [1, 2, 3, 5])
def test_blocks_of_a_batch_join_to_the_batch(per_block):
    env = rsa2c.make_env("Pendulum-v1", 5)

    def act(x):
        return (np.zeros((5, 1)),) * 3

    batch = collect(env, act, lambda x: x, 230, 0, np.random.default_rng(0), restart_p=0.02)
    parts = blocks_of(batch, per_block)
    assert len(parts) == -(-5 // per_block) and sum(part.batch.n for part in parts) == batch.n
    again = joined(part.batch for part in parts)
    for name in batch.ROWS:
        np.testing.assert_array_equal(getattr(again, name), getattr(batch, name))


@pytest.mark.parametrize(("lengths", "first"), [
    ([3, 7, 2], 3),  # twelve steps: episodes end after 3 and 10, and 3 is nearer to 6
    ([5, 2, 3], 5),
    ([2, 2, 2, 2], 4),
    ([9], 4),  # one episode is cut in its middle
    ([1, 8], 1),
    ([8, 1], 8),
])  # fmt: skip
def test_halves_are_cut_between_episodes(lengths, first):
    ends = np.zeros(sum(lengths), bool)
    ends[np.cumsum(lengths) - 1] = True

    class Episodes(Samples):
        def take(self, function, positions, *arguments):
            return steps_around(ends, positions)

    everything = np.arange(len(ends))
    around = steps_around(ends, everything)
    assert around.sum(axis=1).tolist() == np.repeat(lengths, lengths).tolist()
    samples = Episodes(None, [[len(ends)]], len(ends) + len(lengths), [])
    assert samples.first_half(everything).tolist() == (everything < first).tolist()


@pytest.mark.parametrize("kernel", [RBF, Laplace])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rows_value_does_not_depend_on_the_rows_beside_it(kernel, dtype):
    rng = np.random.default_rng(0)
    for d, q, m in ((3, 84, 1), (11, 131, 3), (24, 200, 4)):
        metric = Metric(np.zeros(d), np.ones(d), 1000.0, np.ones(d), 2.0)
        dictionary = Dictionary(kernel(2.0 * d, metric), rng.standard_normal((q, d)), np.ones(q))
        function = RKHSFunction(dictionary, rng.standard_normal((q, m)), tuple(f"u{i}" for i in range(m)))
        raw = rng.standard_normal((24, d))
        values = rowwise(function, dtype)
        whole = values(metric(raw))
        np.testing.assert_allclose(whole, function(raw), rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-4)
        for n in (1, 2, 3, 4, 5, 7, 8, 12):
            for a in range(0, 24 - n + 1, n):
                np.testing.assert_array_equal(values(metric(raw[a : a + n])), whole[a : a + n])


def test_a_run_may_change_its_workers_and_says_what_they_did(tmp_path, capsys):
    """A run begun by two processes and resumed by this one alone ends with the model of one that never stopped."""
    fields = {**SMALL, "out": tmp_path, "track": False, "epochs_between_evaluations": 100, "evaluation_episodes": 2}
    whole = train_run("Pendulum-v1", total_timesteps=30_000, **fields)
    parts = train_run("Pendulum-v1", total_timesteps=8_000, suffix="-spread", workers=2, display=True, **fields)
    rows = parts.read_metrics()
    assert {row["workers"] for row in rows} == {"2"} and all(int(row["bytes"]) > 10_000 for row in rows)
    assert "2 workers, " in capsys.readouterr().err
    spread = result.spread(result.metric_curves(RunData.of(parts)))
    assert spread["workers"] == 2 and 0 <= spread["idle"] < 1 and spread["rate"] > 0
    resume_run(parts.path, 30_000)
    assert parts.model_path.read_bytes() == whole.model_path.read_bytes()
    assert [row["workers"] for row in parts.read_metrics()][-1] == "1"
    assert result.spread(result.metric_curves(RunData.of(whole))) is None
    with pytest.raises(ConfigError, match="sac trains in this process alone"):
        train_run("Pendulum-v1", "sac", out=tmp_path, workers=2)


KILLED = """
import sys
from rsa2c.runs import checkpointer, training
checkpointer.CHECKPOINT_INTERVAL = 0.0
training.train_run("Pendulum-v1", total_timesteps=10**9, out=sys.argv[1], workers=2, **{fields})
"""


def test_a_driver_that_is_killed_leaves_no_workers_and_is_resumed_to_the_same_model(tmp_path):
    fields = {**SMALL, "track": False, "epochs_between_evaluations": 100, "evaluation_episodes": 2}
    code = KILLED.format(fields=fields)
    driver = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    until = time.monotonic() + 300
    while not (states := list(tmp_path.glob("*/state.safetensors"))):
        assert driver.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    workers = [int(pid) for pid in Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()]
    assert len(workers) == 2
    driver.kill()
    driver.wait()
    while any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_text() for pid in workers):
        assert time.monotonic() < until
        time.sleep(0.1)
    steps = int(Run(states[0].parent).read_metrics()[-1]["timesteps"]) + 10_000
    resumed = resume_run(states[0].parent, steps)
    whole = train_run("Pendulum-v1", total_timesteps=steps, out=tmp_path / "whole", **fields)
    assert resumed.model_path.read_bytes() == whole.model_path.read_bytes()


@pytest.mark.slow
def test_actors_of_a_ray_cluster_give_the_same_model_and_a_node_may_be_lost(alone, monkeypatch):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    try:
        agent = rsa2c.RSA2C("Pendulum-v1", **SMALL, workers=2, cluster=cluster.address)
        agent.run_epoch()
        cluster.remove_node(node, allow_graceful=False)
        began = time.monotonic()
        agent.run_epoch()
        agent.run_epoch()
        assert content(agent) == alone and time.monotonic() - began < 300
        assert agent.workers.traffic.replaced >= 1
        with pytest.raises(ConfigError, match=f"at {cluster.address} already, and to one at a time.*asks for local"):
            rsa2c.RSA2C("Pendulum-v1", **SMALL, workers=1, cluster="local")
        monkeypatch.setattr(remote, "START_SECONDS", 30.0)
        enough = f"only 0 of 1 workers of Pendulum-v1 .* the Ray cluster at {cluster.address} has 1, 0 of them free"
        with pytest.raises(WorkerError, match=enough):
            rsa2c.RSA2C("Pendulum-v1", **SMALL, workers=1, cluster=cluster.address)
        agent.close()
        assert not ray.is_initialized()
    finally:
        ray.shutdown()
        cluster.shutdown()

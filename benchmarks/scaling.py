"""One training over several workers: speed, bytes, equal models, lost nodes, and a model of its cost.

    python benchmarks/scaling.py                    everything, on cores 0 and 1 (about an hour; nothing else may run)
    python benchmarks/scaling.py --quick --cores 1  the same in small, to see that it works: no figure means anything
    python benchmarks/scaling.py --only kills       some parts of: speed, bytes, models, kills; only speed needs quiet

A node is a Ray node of one CPU whose processes are bound to one core; the driver is on the first node's core. Every
model is compared by a hash of all that a checkpoint holds. The cost model has what a step, a remembered state, a
request and a byte cost, from one worker with two sizes of dictionaries; it predicts a third size, and two workers.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rsa2c
from _provenance import RESULTS, header
from rsa2c.algorithm.epoch import BACKGROUND_STATES
from rsa2c.algorithm.guidance import SAMPLES
from rsa2c.algorithm.projection import REPROJECTION_STATES
from rsa2c.algorithm.samples import environments_per_block, raw_states
from rsa2c.algorithm.snapshot import pack
from rsa2c.algorithm.workers import Traffic

TITLES = {"speed": "Speed", "bytes": "Bytes", "models": "Models", "kills": "Lost nodes"}
PARTS = tuple(TITLES)
FRAGMENTS = RESULTS / "scaling"
CURVE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
PAYLOAD = 16_000_000
"""Bytes that are sent and received to measure what a byte costs."""


@dataclass(frozen=True)
class Run:
    """What an epoch of a training with one worker took, on average."""

    states: int
    """Remembered states q."""
    step_seconds: float
    """Of the worker, per environment step."""
    driver_seconds: float
    requests: float
    each: tuple[float, float]
    """Bytes sent to each worker and received from each, with the policy and for sums."""
    drawn: float
    """Bytes of states that were drawn, from all workers together."""
    request_seconds: float
    byte_seconds: tuple[float, float]
    """Per byte sent and received."""


@dataclass(frozen=True)
class Cost:
    """What an epoch costs with q remembered states of d features: a worker's step_seconds + pair_seconds q (q + d) for
    each step, the driver's driver_seconds + square_seconds q^2, and requests and bytes as they were measured."""

    features: int
    steps: int
    run: Run
    """With the larger dictionary."""
    step_seconds: float
    pair_seconds: float
    driver_seconds: float
    square_seconds: float

    @classmethod
    def fitted(cls, features: int, steps: int, small: Run, large: Run) -> Cost:
        """From two trainings with one worker, whose dictionaries differ."""
        pairs = [run.states * (run.states + features) for run in (small, large)]
        pair = max(0.0, (large.step_seconds - small.step_seconds) / (pairs[1] - pairs[0]))
        square = (large.driver_seconds - small.driver_seconds) / (large.states**2 - small.states**2)
        square = max(0.0, square)
        step, driver = large.step_seconds - pair * pairs[1], large.driver_seconds - square * large.states**2
        return cls(features, steps, large, step, pair, driver, square)

    @property
    def exchange(self) -> float:
        """Seconds in which the driver exchanges what it exchanges with every worker."""
        return sum(size * seconds for size, seconds in zip(self.run.each, self.run.byte_seconds, strict=True))

    def alone(self, states: int) -> float:
        """The driver's own seconds in an epoch: its work, its requests, and the states it draws."""
        driver = self.driver_seconds + self.square_seconds * states**2
        return driver + self.run.requests * self.run.request_seconds + self.run.drawn * self.run.byte_seconds[1]

    def epoch(self, workers: int, steps: int | None = None, states: int | None = None) -> float:
        """Seconds of an epoch of `steps` steps with so many workers and remembered states."""
        steps, states = self.steps if steps is None else steps, self.run.states if states is None else states
        step = self.step_seconds + self.pair_seconds * states * (states + self.features)
        # Sums and the policy have matrices of q x q
        travel = workers * self.exchange * (states / self.run.states) ** 2
        return self.alone(states) + steps * step / workers + travel


class Ledger:
    """Bytes of an agent's requests: those that every worker exchanges, and those of states that are drawn."""

    def __init__(self, agent: rsa2c.RSA2C) -> None:
        self.drawn, workers = 0, agent.workers
        plain: Any = workers.ask_each

        def ask_each(method: str, arguments: Any) -> list[Any]:
            before = workers.traffic
            answers = plain(method, arguments)
            spent = workers.traffic - before
            self.drawn += spent.sent + spent.received
            return answers

        workers.ask_each = ask_each  # type: ignore[method-assign]


def digest(agent: rsa2c.RSA2C) -> str:
    """A hash of everything that a checkpoint holds."""
    arrays, metadata = pack(agent.snapshot(), checkpoint=True)
    found = hashlib.sha256(repr(sorted(metadata.items())).encode())
    for name in sorted(arrays):
        found.update(name.encode() + arrays[name].tobytes())
    return found.hexdigest()[:16]


def bind(pid: int, core: int) -> None:
    """Keep a process and its threads on one core; what they start later is kept there too."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            os.sched_setaffinity(int(task.name), {core})


class Nodes:
    """A Ray cluster of single-core nodes on this machine."""

    def __init__(self, cores: list[int]) -> None:
        from ray.cluster_utils import Cluster

        self.cores = cores
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        self._bind(self.cluster.head_node, cores[0])
        self.others = [self.add(core) for core in cores[1:]]

    def add(self, core: int) -> Any:
        node = self.cluster.add_node(num_cpus=1)
        self._bind(node, core)
        return node

    @staticmethod
    def _bind(node: Any, core: int) -> None:
        for processes in node.all_processes.values():
            for each in processes:
                bind(each.process.pid, core)

    def lose(self) -> None:
        """Kill the last node at once, with its worker."""
        self.cluster.remove_node(self.others.pop(), allow_graceful=False)

    @property
    def address(self) -> str:
        return self.cluster.address

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()


@contextmanager
def nodes(cores: list[int]) -> Iterator[Nodes]:
    """A cluster with a node on each of these cores; the driver shares the first."""
    before = os.sched_getaffinity(0)
    bind(os.getpid(), cores[0])
    made = Nodes(cores)
    try:
        yield made
    finally:
        made.close()
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):
                os.sched_setaffinity(int(task.name), before)


class Benchmark:
    """The measurements, with one set of sizes."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.env, self.cores, self.epochs, self.skip = arguments.env, arguments.cores, arguments.epochs, arguments.skip
        self.kills = arguments.kills
        self.settings: dict[str, Any] = {"seed": 0, "n_envs": arguments.n_envs, "horizon": arguments.horizon}
        self.settings |= {"capacity": arguments.capacity, "batch_doubling": None}

    def agent(self, **more: Any) -> rsa2c.RSA2C:
        return rsa2c.RSA2C(self.env, **{**self.settings, **more})

    def timed(self, agent: rsa2c.RSA2C) -> tuple[float, Traffic, int]:
        """Seconds, traffic and bytes of drawn states of the epochs after those in which dictionaries fill and code is
        compiled."""
        for _ in range(self.skip):
            agent.run_epoch()
        ledger, before, began = Ledger(agent), agent.workers.traffic, time.perf_counter()
        for _ in range(self.epochs):
            agent.run_epoch()
        return time.perf_counter() - began, agent.workers.traffic - before, ledger.drawn

    @property
    def sizes(self) -> str:
        """The training that is measured, in words."""
        n_envs, horizon, capacity = (self.settings[name] for name in ("n_envs", "horizon", "capacity"))
        return f"{self.env}, {n_envs} environments of {horizon:,} steps, {capacity} states."

    def speed(self) -> list[str]:
        """Steps per second with one node and with all, and what the cost model predicts from one."""
        capacity, last = self.settings["capacity"], len(self.cores)
        runs: dict[tuple[int, int], float] = {}
        costs: dict[int, Run] = {}
        models = {}
        for count, states in ((1, capacity // 2), (1, capacity), (1, 3 * capacity // 4), (last, capacity)):
            with nodes(self.cores[:count]) as cluster:
                agent = self.agent(workers=count, cluster=cluster.address, capacity=states)
                seconds, traffic, drawn = self.timed(agent)
                runs[count, states] = self.epochs * agent.sizes.epoch_steps / seconds
                models[count, states] = digest(agent)
                if count == 1:
                    costs[states] = self.run(agent, seconds, traffic, drawn)
                features, steps = len(agent.feature_names), agent.sizes.epoch_steps
                blocks = -(-agent.n_envs // environments_per_block(agent.n_envs, agent.sizes.horizon))
                agent.close()
        cost = Cost.fitted(features, steps, costs[capacity // 2], costs[capacity])
        lines = ["| nodes | remembered states | steps a second | predicted | error |", "|---|---|---|---|---|"]
        for (count, states), measured in runs.items():
            predicted = steps / cost.epoch(count, states=states)
            use = "" if (count, states) not in ((1, capacity // 2), (1, capacity)) else " (the model was fitted to it)"
            error = predicted / measured - 1
            lines.append(f"| {count} | {states} | {measured:,.0f} | {predicted:,.0f} | {error:+.1%}{use} |")
        faster = runs[last, capacity] / runs[1, capacity]
        same = "equal" if models[1, capacity] == models[last, capacity] else "DIFFERENT"
        lines += ["", f"{last} nodes are {faster:.2f} times as fast as one. Their models are {same}.", ""]
        return [*lines, *curve(cost, blocks)]

    def run(self, agent: rsa2c.RSA2C, seconds: float, traffic: Traffic, drawn: int) -> Run:
        """What an epoch with one worker took, and what requests and bytes cost there."""
        epochs, workers = self.epochs, agent.workers
        empty, none = b"", np.empty(0, dtype=np.int64)

        def asked(payload: bytes, times: int = 10) -> float:
            began = time.perf_counter()
            for _ in range(times):
                workers.ask_each("take", [(raw_states, none, (payload,))])
            return (time.perf_counter() - began) / times

        asked(empty, 1)
        request = asked(empty)
        send = max(0.0, asked(bytes(PAYLOAD), 3) - request) / PAYLOAD
        before, began = workers.traffic, time.perf_counter()
        workers.ask("batches")
        receive = max(0.0, time.perf_counter() - began - request) / (workers.traffic - before).received
        each = traffic.sent / epochs, (traffic.received - drawn) / epochs
        return Run(agent.sizes.capacity, traffic.busy / (epochs * agent.sizes.epoch_steps),
                   (seconds - traffic.waited) / epochs, traffic.requests / epochs, each, drawn / epochs, request,
                   (send, receive))  # fmt: skip

    def bytes(self) -> list[str]:
        """Bytes of an epoch for batches of growing size, once dictionaries are full."""
        lines = [
            "| steps of a batch | MB for each worker (policy, sums) | MB of drawn states: least | mean | most |",
            "|---|---|---|---|---|",
        ]
        for factor in (1, 2, 4, 8):
            agent = self.agent(workers=2, horizon=factor * self.settings["horizon"])
            for _ in range(self.skip):
                agent.run_epoch()
            ledger, each, drawn = Ledger(agent), [], []
            for _ in range(self.epochs):
                ledger.drawn = 0
                total = agent.run_epoch().spread.bytes
                each.append((total - ledger.drawn) / 2e6)
                drawn.append(ledger.drawn / 1e6)
            least, mean, most = min(drawn), sum(drawn) / len(drawn), max(drawn)
            lines.append(f"| {agent.sizes.epoch_steps:,} | {sum(each) / len(each):.2f} | {least:.2f} | {mean:.2f} | "
                         f"{most:.2f} |")  # fmt: skip
            agent.close()
        capacity = self.settings["capacity"]
        reason = (
            "Drawn states do not depend on the number of workers: 4,000 candidates for dictionaries and "
            f"{BACKGROUND_STATES} states of a background in each epoch, {REPROJECTION_STATES * capacity:,} at most "
            f"where a dictionary is re-projected, and {SAMPLES:,} at most where features are attributed. A batch with "
            "fewer steps than that sends all it has; beyond, bytes do not grow with it."
        )
        return [*lines, "", reason]

    def model(self, **spread: Any) -> str:
        agent = self.agent(**spread)
        for _ in range(self.skip):
            agent.run_epoch()
        found = digest(agent)
        agent.close()
        return found

    def models(self) -> list[str]:
        """The model of one process, of two, and of two nodes."""
        found = {"one process": self.model(), "two processes": self.model(workers=2)}
        if len(self.cores) > 1:
            with nodes(self.cores) as cluster:
                found["nodes"] = self.model(workers=len(self.cores), cluster=cluster.address)
        verdict = "All are equal." if len(set(found.values())) == 1 else "THEY DIFFER."
        return ["| spread | model |", "|---|---|", *(f"| {name} | {x} |" for name, x in found.items()), "", verdict]

    def killed(self) -> list[str]:
        """Trainings in which a node is killed, each at another moment."""
        expected = self.model()
        rng, equal, replaced = random.Random(0), 0, 0
        for _ in range(self.kills):
            with nodes([self.cores[0], self.cores[-1]]) as cluster:
                agent = self.agent(workers=2, cluster=cluster.address)
                before = agent.workers.traffic
                agent.run_epoch()
                in_epoch = (agent.workers.traffic - before).requests
                _lose_at(agent, rng.randrange(in_epoch * (self.skip - 2)), rng.random(), cluster)
                for _ in range(self.skip - 1):
                    agent.run_epoch()
                equal += digest(agent) == expected
                replaced += agent.workers.traffic.replaced
                agent.close()
        return [f"{equal} of {self.kills} trainings in which a node was killed ended with the model of one process "
                f"({replaced} workers were replaced)."]  # fmt: skip


def curve(cost: Cost, blocks: int) -> list[str]:
    """What the model says of many workers, where each brings as many steps as one did here. A batch has so many
    blocks, and no more workers than that."""
    run, send, receive = cost.run, *(seconds * 1e9 for seconds in cost.run.byte_seconds)
    lines = [
        f"With q remembered states of d = {cost.features} features a step of the worker takes "
        f"{cost.step_seconds * 1e6:.0f} us + {cost.pair_seconds * 1e12:.1f} ps q (q + d), which is "
        f"{run.step_seconds * 1e6:.0f} us with {run.states}, and an epoch of the driver "
        f"{cost.driver_seconds * 1e3:.0f} ms + {cost.square_seconds * 1e9:.1f} ns q², which is "
        f"{run.driver_seconds * 1e3:.0f} ms. Each of {run.requests:.0f} requests takes "
        f"{run.request_seconds * 1e3:.2f} ms. {run.each[0] / 1e6:.2f} MB are sent to each "
        f"worker and {run.each[1] / 1e6:.2f} MB received from each, at "
        f"{send:.2f} and {receive:.2f} ns a byte, and {run.drawn / 1e6:.2f} MB of drawn states from all together.",
        "",
        "| workers | steps a second, the same batch | efficiency | steps a second, a batch for each | efficiency |",
        "|---|---|---|---|---|",
    ]
    one = cost.steps / cost.epoch(1)
    for count in CURVE:
        same, own = cost.steps / cost.epoch(count), count * cost.steps / cost.epoch(count, count * cost.steps)
        shown = f"{same:,.0f} | {same / one / count:.0%}" if count <= blocks else "- | -"
        lines.append(f"| {count:,} | {shown} | {own:,.0f} | {own / one / count:.0%} |")
    limit = cost.steps / cost.exchange if cost.exchange else float("inf")
    half = (cost.epoch(1) - cost.exchange) / cost.exchange if cost.exchange else float("inf")
    return [
        *lines,
        "",
        f"The same batch has {blocks} blocks, and a worker takes whole blocks. With a batch for each worker the driver "
        f"stops it: it exchanges {sum(run.each) / 1e6:.1f} MB with every worker, which takes {cost.exchange * 1e3:.1f} "
        f"ms, and so reaches at most {limit:,.0f} steps a second. Half of that is reached with {half:,.0f} workers. "
        f"With the same batch the driver's own {cost.alone(run.states) * 1e3:.0f} ms stop it earlier.",
    ]


def _lose_at(agent: rsa2c.RSA2C, request: int, delay: float, cluster: Nodes) -> None:
    """Kill a node so many requests from now, up to a second after the request has begun."""
    workers: Any = agent.workers
    plain, left = workers._answers, itertools.count(request, -1)

    def answers(requests: Any) -> Any:
        if next(left) == 0:
            threading.Timer(delay, cluster.lose).start()
        return plain(requests)

    workers._answers = answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Ant-v5")
    parser.add_argument("--n-envs", type=int, default=16)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--capacity", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=10, help="epochs that are timed")
    parser.add_argument("--skip", type=int, default=10, help="epochs before them, and of a model that is compared")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cores", type=lambda text: [int(x) for x in text.split(",")], default=[0, 1])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true", help="small sizes; prints, and writes no file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.n_envs, arguments.capacity, arguments.epochs, arguments.skip, arguments.kills = 2, 64, 2, 3, 1
    benchmark = Benchmark(arguments)
    measures = {"speed": benchmark.speed, "bytes": benchmark.bytes, "models": benchmark.models,
                "kills": benchmark.killed}  # fmt: skip
    for part in PARTS:
        if part in arguments.only:
            lines = measures[part]()
            print("\n".join(["", f"## {TITLES[part]}", "", *lines]), flush=True)
            if not arguments.quick:
                keep(part, benchmark.sizes, lines)
    if not arguments.quick:
        print(page())


def keep(part: str, sizes: str, lines: list[str]) -> None:
    """A part of the page, in a file of its own: parts need not be measured together."""
    FRAGMENTS.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"## {TITLES[part]}", "", header("ray"), f"{sizes}", "", *lines, ""])
    (FRAGMENTS / f"{part}.md").write_text(text, encoding="utf-8")


def page() -> Path:
    """Write results/scaling.md from the parts that were measured."""
    found = [path.read_text("utf-8") for part in PARTS if (path := FRAGMENTS / f"{part}.md").exists()]
    text = "\n".join(["# One training over several nodes", "", *found])
    path = RESULTS / "scaling.md"
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    main()

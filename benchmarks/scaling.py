"""One training over several workers: speed, bytes, equal models, lost nodes, and a model of its cost.

    python benchmarks/scaling.py                    everything, on cores 0 and 1 (about an hour; nothing else may run)
    python benchmarks/scaling.py --quick --cores 1  the same in small, to see that it works: no figure means anything
    python benchmarks/scaling.py --only kills       some parts of: speed, bytes, models, kills; only speed needs quiet

A node is a Ray node of one CPU whose processes are bound to one core; the driver is on the first node's core. Every
model is compared by a hash of all that a checkpoint holds. The cost model takes what one worker costs (seconds per
step, the driver's seconds per epoch, seconds per request and per byte) and predicts the run with two from it.
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
from rsa2c.algorithm.samples import raw_states
from rsa2c.algorithm.snapshot import pack
from rsa2c.algorithm.workers import Traffic

TITLES = {"speed": "Speed", "bytes": "Bytes", "models": "Models", "kills": "Lost nodes"}
PARTS = tuple(TITLES)
FRAGMENTS = RESULTS / "scaling"
CURVE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
PAYLOAD = 16_000_000
"""Bytes that are sent and received to measure what a byte costs."""


@dataclass(frozen=True)
class Cost:
    """What an epoch with one worker consists of."""

    steps: int
    step_seconds: float
    """Seconds of a worker per environment step, everything it does for it included."""
    driver_seconds: float
    """Seconds of the driver in an epoch, in which workers wait."""
    requests: float
    request_seconds: float
    sent: float
    """Bytes of an epoch, to each worker."""
    received: float
    """Bytes of an epoch, from each worker."""
    send_seconds: float
    """Per byte."""
    receive_seconds: float

    def epoch(self, workers: int, steps: int | None = None) -> float:
        """Seconds of an epoch of `steps` steps with so many workers: only bytes and the driver do not shrink."""
        steps = self.steps if steps is None else steps
        travel = workers * (self.sent * self.send_seconds + self.received * self.receive_seconds)
        return self.driver_seconds + steps * self.step_seconds / workers + self.requests * self.request_seconds + travel


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

    def timed(self, agent: rsa2c.RSA2C) -> tuple[float, Traffic]:
        """Seconds and traffic of the epochs after those in which dictionaries fill and code is compiled."""
        for _ in range(self.skip):
            agent.run_epoch()
        before, began = agent.workers.traffic, time.perf_counter()
        for _ in range(self.epochs):
            agent.run_epoch()
        return time.perf_counter() - began, agent.workers.traffic - before

    @property
    def sizes(self) -> str:
        """The training that is measured, in words."""
        n_envs, horizon, capacity = (self.settings[name] for name in ("n_envs", "horizon", "capacity"))
        return f"{self.env}, {n_envs} environments of {horizon:,} steps, {capacity} states."

    def speed(self) -> list[str]:
        """Steps per second with one node and with all, and what the cost model predicts from one."""
        seconds, models, costs = {}, {}, {}
        for count in (1, len(self.cores)):
            with nodes(self.cores[:count]) as cluster:
                agent = self.agent(workers=count, cluster=cluster.address)
                seconds[count], traffic = self.timed(agent)
                models[f"{count} nodes"] = digest(agent)
                costs[count] = self.cost(agent, seconds[count], traffic, count)
                agent.close()
        steps, one, last = costs[1].steps, costs[1], len(self.cores)
        lines = ["| nodes | steps a second | predicted from one node | error |", "|---|---|---|---|"]
        for count, spent in seconds.items():
            measured, predicted = self.epochs * steps / spent, steps / one.epoch(count)
            error = predicted / measured - 1
            lines.append(f"| {count} | {measured:,.0f} | {predicted:,.0f} | {error:+.1%} |")
        lines += ["", f"{last} nodes are {seconds[1] / seconds[last]:.2f} times as fast as one.", ""]
        same = "equal" if len(set(models.values())) == 1 else "DIFFERENT"
        return [*lines, *self.curve(one), "", f"The models of these trainings are {same}."]

    def cost(self, agent: rsa2c.RSA2C, seconds: float, traffic: Traffic, count: int) -> Cost:
        steps, epochs, workers = agent.sizes.epoch_steps, self.epochs, agent.workers
        empty, none = b"", np.empty(0, dtype=np.int64)

        def asked(payload: bytes, times: int = 10) -> float:
            began = time.perf_counter()
            for _ in range(times):
                workers.ask_each("take", [(raw_states, none, (payload,))] * count)
            return (time.perf_counter() - began) / times

        asked(empty, 1)
        request = asked(empty)
        send = max(0.0, asked(bytes(PAYLOAD), 3) - request) / (PAYLOAD * count)
        before, began = workers.traffic, time.perf_counter()
        workers.ask("batches")
        back = (workers.traffic - before).received
        receive = max(0.0, time.perf_counter() - began - request) / back
        driver, per_worker = (seconds - traffic.waited) / epochs, epochs * count
        return Cost(steps, traffic.busy / (epochs * steps), driver, traffic.requests / epochs, request,
                    traffic.sent / per_worker, traffic.received / per_worker, send, receive)  # fmt: skip

    def curve(self, cost: Cost) -> list[str]:
        """What the model says of many workers, where each brings as many steps as one did here."""
        lines = [
            f"One worker: {cost.step_seconds * 1e6:.0f} us a step; driver {cost.driver_seconds * 1e3:.0f} ms an epoch; "
            f"{cost.requests:.0f} requests an epoch, {cost.request_seconds * 1e3:.2f} ms each; "
            f"{cost.sent / 1e6:.2f} MB sent to and {cost.received / 1e6:.2f} MB received from each worker in an epoch, "
            f"{cost.send_seconds * 1e9:.2f} and {cost.receive_seconds * 1e9:.2f} ns a byte.",
            "",
            "| workers | steps a second, the same batch | efficiency | steps a second, a batch for each | efficiency |",
            "|---|---|---|---|---|",
        ]
        alone = cost.steps / cost.epoch(1)
        rates = {}
        for count in CURVE:
            same, own = cost.steps / cost.epoch(count), count * cost.steps / cost.epoch(count, count * cost.steps)
            rates[count] = own
            lines.append(f"| {count:,} | {same:,.0f} | {same / alone / count:.0%} | {own:,.0f} | "
                         f"{own / alone / count:.0%} |")  # fmt: skip
        byte = cost.sent * cost.send_seconds + cost.received * cost.receive_seconds
        limit = cost.steps / byte if byte else float("inf")
        half = (cost.epoch(1) - byte) / byte if byte else float("inf")
        lines += [
            "",
            "With a batch for each worker the driver stops it: it exchanges "
            f"{(cost.sent + cost.received) / 1e6:.1f} MB with every worker, which takes {byte * 1e3:.1f} ms, and so "
            f"reaches at most {limit:,.0f} steps a second. "
            f"Half of that is reached with {half:,.0f} workers. With the same batch the driver's own "
            f"{cost.driver_seconds * 1e3:.0f} ms stop it earlier.",
        ]
        return lines

    def bytes(self) -> list[str]:
        """Bytes of an epoch for batches of growing size."""
        lines = ["| steps of a batch | MB an epoch, two workers: least | mean | most |", "|---|---|---|---|"]
        for factor in (1, 2, 4, 8):
            agent = self.agent(workers=2, horizon=factor * self.settings["horizon"])
            sizes = [agent.run_epoch().spread.bytes / 1e6 for _ in range(self.epochs)]
            least, mean, most = min(sizes), sum(sizes) / len(sizes), max(sizes)
            lines.append(f"| {agent.sizes.epoch_steps:,} | {least:.2f} | {mean:.2f} | {most:.2f} |")
            agent.close()
        reason = "The most is in epochs with attributions, which are fitted to 20,000 states at most."
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

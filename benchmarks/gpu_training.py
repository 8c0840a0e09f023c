"""Trains on a GPU and says after how many seconds a policy reached given returns in Gymnasium's own environment.

    python benchmarks/gpu_training.py measure --plan "Ant-v5:0-4:300,45;Hopper-v5:0-2:30" [--until 570] [--set kl=.05]
    python benchmarks/gpu_training.py measure --plan "Ant-v5:0:300;Ant-v5:1:300" --together
    python benchmarks/gpu_training.py page

`measure` needs the GPU. It trains what --plan names, one environment after the other: ENV:SEEDS:SECONDS, where the last
of the seconds serve all further seeds. They count without compilation. A training that would not fit into --until
seconds of this process is not begun, and one under way ends in time. `page` writes results/gpu.md from the JSON files
in --folder; `measure` writes one of them for each environment, anew at every trial, so that a process that is killed
leaves what it had found. `--device jax-cpu` tries it without a GPU.

Every few seconds the policy is tried by other processes: ten episodes without noise, with MuJoCo's own solver. Each
entry of the plan is a process of its own. Its first training compiles: everything, or where an earlier entry or process
(with --cache) was about the same environment, what JAX does not find on disk. So "Ant-v5:0:60;Ant-v5:1:60" measures
both. With --together the entries train at the same time and share the card: what they reach, a training that has it for
itself reaches sooner.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numba.core.event import install_timer

from _gpu_page import GOALS, write_page
from _provenance import RESULTS, header
from rsa2c import RSA2C, Policy, evaluate, load
from rsa2c.algorithm.threads import limited_threads

SPAWN = multiprocessing.get_context("spawn")
EPISODES, SEED = 10, 20_000
FINAL_EPISODES = 50
JUDGING = 20.0
"""Seconds left for the last trials after the last training."""
COMPILING = 90.0
"""Seconds that the first training in an environment may take longer than it was given."""
METRICS_EVERY = 10
"""Epochs between the rows of metrics that a measurement holds: how noise, steps and fits went."""
SHORTEST = 10.0
"""Seconds below which a training is not worth beginning."""


class Compiling:
    """Adds up the time in which JAX and Numba trace, compile or load programs, each moment once."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        from jax import monitoring

        monitoring.register_event_time_span_listener(self._of_jax)
        try:
            with install_timer("numba:compiler_lock", self._of_numba):
                yield
        finally:
            monitoring.unregister_event_time_span_listener(self._of_jax)

    def _of_jax(self, event: str, start_time: float, end_time: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            self.spans.append((start_time, end_time))

    def _of_numba(self, seconds: float) -> None:
        now = time.time()
        self.spans.append((now - seconds, now))

    @property
    def seconds(self) -> float:
        total, reached = 0.0, -np.inf
        for start, end in sorted(self.spans):
            total += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        return total


@dataclass(frozen=True)
class Found:
    """A policy of a training under way, and when it was what had been learned, or kept."""

    which: str
    """"curve" for the last policy, "kept" for the best."""
    seconds: float
    compiling: float
    steps: int
    path: Path
    episodes: int


@dataclass(frozen=True)
class Trial:
    """A policy that other processes are trying."""

    found: Found
    returns: list[Future[list[float]]]

    def result(self) -> dict[str, float] | None:
        """Its mean and worst return and when it was found; None until they are known."""
        if not all(future.done() and future.exception() is None for future in self.returns):
            return None
        each = [one for future in self.returns for one in future.result()]
        return {"seconds": self.found.seconds, "compiling": self.found.compiling, "steps": self.found.steps,
                "mean": float(np.mean(each)), "worst": min(each), "episodes": len(each)}  # fmt: skip


@dataclass
class Training:
    """A training, and the trials of its policies."""

    seed: int
    start: str
    given: float
    trials: list[Trial] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def known(self) -> dict[str, Any]:
        """What is known of it now."""
        done = {which: [found for each in self.trials if each.found.which == which and (found := each.result())]
                for which in ("curve", "kept")}  # fmt: skip
        return {"seed": self.seed, "start": self.start, "given": self.given, **self.facts, **done}


@dataclass(frozen=True)
class Plan:
    """Trainings in one environment, one after the other in a process of their own: seeds, and seconds for each."""

    env: str
    seeds: list[int]
    seconds: list[float]

    @classmethod
    def of(cls, text: str) -> Plan:
        env, seeds, seconds = text.strip().split(":")
        if env not in GOALS:
            raise SystemExit(f"--plan: {env} is unknown; known are {', '.join(GOALS)}.")
        first, _, last = seeds.partition("-")
        numbers = list(range(int(first), int(last) + 1) if last else map(int, seeds.split(",")))
        given = [float(each) for each in seconds.split(",")]
        return cls(env, numbers, (given + [given[-1]] * len(numbers))[: len(numbers)])


@dataclass(frozen=True)
class Kind:
    """A kind of agents: how one of them trains, and how their policies are read from files."""

    train: Callable[[Rules, int, float, Connection], None]
    """Trains with a seed for some seconds without compilation, and hands out what it finds."""
    load: Callable[[Path], Policy]
    packages: tuple[str, ...] = ()
    """Packages that it needs besides JAX and MuJoCo."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of each environment that are its own."""


@dataclass(frozen=True)
class Rules:
    """What the trainings of a process have in common."""

    kind: Kind
    env: str
    algorithm: str
    device: str
    settings: dict[str, Any]
    between: float
    compiling: float
    deadline: float
    """In seconds of `time.time`."""
    folder: Path
    """Where policies are until they have been tried."""
    cache: Path
    """Where JAX keeps what it compiles."""


def train(plan: Plan, rules: Rules, start: str, to: Connection) -> None:
    """The trainings of a plan, in a process of their own: what is found goes to the process that has them tried."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(rules.cache)  # read when JAX is imported, which nothing has done yet
    for seed, given in zip(plan.seeds, plan.seconds, strict=True):
        left = rules.deadline - time.time()
        if left < min(given, SHORTEST) + (rules.compiling if start == "cold" else 0.0):
            print(f"{plan.env} seed {seed} is not begun: {left:.0f} s are left", flush=True)
            break
        to.send(Training(seed, start, given))
        rules.kind.train(rules, seed, given, to)
        start = "compiled"
    to.close()


def trained(rules: Rules, seed: int, given: float, to: Connection) -> None:
    """One training of `given` seconds without compilation, or until the deadline."""
    compiling, phases, durations = Compiling(), dict[str, float](), list[float]()
    began, saving, next_trial = time.perf_counter(), 0.0, 0.0
    with compiling.listening():
        agent = RSA2C(rules.env, rules.algorithm, device=rules.device, seed=seed, **rules.settings)
        facts = {"construction": time.perf_counter() - began, "device": device_name(rules.device), "phases": phases,
                 "durations": durations}  # fmt: skip
        kept_steps, timed = -1, 0
        while True:
            before, compiled = time.perf_counter(), compiling.seconds
            with limited_threads(agent.config.threads):  # as `learn` does
                record = agent.run_epoch()
            durations.append(round(time.perf_counter() - before, 4))
            if compiling.seconds == compiled:  # an epoch's phases have JAX's compilation in them
                timed += 1
                for name, spent in record.seconds.items():
                    phases[name] = phases.get(name, 0.0) + spent
            over = time.perf_counter() - began - saving - compiling.seconds >= given or time.time() >= rules.deadline
            if over:
                agent.conclude()
            now, compiled = time.perf_counter() - began - saving, compiling.seconds
            if over or now - compiled >= next_trial:
                next_trial = now - compiled + rules.between
                found = saved(rules, agent, seed, now, compiled, kept_steps, over)
                kept_steps = found[-1].steps if len(found) > 1 else kept_steps
                metrics = [row for row in agent.history if row["epoch"] % METRICS_EVERY == 0]
                to.send((found, {**facts, "epochs": agent.epoch, "states": agent.dictionary_sizes, "timed": timed,
                         "metrics": metrics}))  # fmt: skip
                saving = time.perf_counter() - began - now
            if over:
                break
    agent.close()


OWN = Kind(trained, load)


def saved(
    rules: Rules, agent: RSA2C, seed: int, now: float, compiled: float, kept_steps: int, over: bool
) -> list[Found]:
    """The last policy in a file, and the one kept where it is another than before, or this is the end."""
    kept, snapshot, episodes = agent.state.kept, agent.snapshot(), FINAL_EPISODES if over else EPISODES
    name = f"{rules.env.replace('/', '-')}-{seed}-{agent.epoch}-{time.time_ns()}"
    found = [Found("curve", now, compiled, agent.num_timesteps, rules.folder / f"{name}-last.safetensors", episodes)]
    replace(snapshot, state=replace(agent.state, kept=None)).save(found[0].path)
    if kept is not None and (over or kept.steps != kept_steps):
        found.append(Found("kept", now, compiled, kept.steps, rules.folder / f"{name}-kept.safetensors", episodes))
        snapshot.save(found[1].path)
    return found


class Measurement:
    """The trainings in one environment, and the file that has what is known of them."""

    def __init__(self, env: str, options: argparse.Namespace, kind: Kind) -> None:
        self.env, self.kind, self.trainings = env, kind, list[Training]()
        self.path: Path = options.folder / f"{'-'.join([env.replace('/', '-'), *options.name])}.json"
        self.head = {"env": env, "algorithm": options.algorithm, "settings": _settings(options, kind, env),
                     "sharing": len(options.plan.split(";")) if options.together else 1,
                     "header": header("jax", "mujoco-mjx", *kind.packages)}  # fmt: skip
        self._writing = Lock()

    def write(self) -> None:
        """Write what is known, in one step: a process that is killed leaves a whole file."""
        with self._writing:
            found = {**self.head, "seeds": [each.known() for each in sorted(self.trainings, key=lambda one: one.seed)]}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_suffix(".new")
            beside.write_text(json.dumps(found, indent=1), encoding="utf-8")
            beside.replace(self.path)

    def follow(self, messages: Connection, pool: ProcessPoolExecutor) -> None:
        """Have the policies that a training process finds tried, until it ends."""
        training: Training | None = None
        while True:
            try:
                message = messages.recv()
            except EOFError:
                return
            if isinstance(message, Training):
                training = message
                self.trainings.append(training)
                continue
            assert training is not None, "a training says that it begins"
            found, training.facts = message
            for each in found:
                seeds = range(SEED, SEED + each.episodes, EPISODES)
                futures = [pool.submit(tried, self.kind.load, each.path, self.env, first) for first in seeds]
                training.trials.append(Trial(each, futures))
            self.write()

    def finish(self, deadline: float) -> None:
        """Wait for the trials under way, until the deadline at most, and write what is known; nothing if none began."""
        if not self.trainings:
            return
        futures = [each for one in self.trainings for trial in one.trials for each in trial.returns]
        wait(futures, max(0.0, deadline - time.time()))
        self.write()
        failed = [error for each in futures if each.done() and not each.cancelled() and (error := each.exception())]
        if failed:
            print(f"{self.env}: {len(failed)} trials failed, the first with {failed[0]!r}", flush=True)
        for each in self.trainings:
            found = each.known()
            for which in ("curve", "kept"):
                for trial in found[which][-1:]:
                    print(f"{self.env} seed {each.seed}, {each.start}, {which}: {_told(trial)}", flush=True)


def tried(read: Callable[[Path], Policy], policy: Path, env: str, seed: int) -> list[float]:
    """Returns of a policy in a few episodes of Gymnasium's environment."""
    return [float(each) for each in evaluate(read(policy), env, episodes=EPISODES, seed=seed).returns]


def measure(options: argparse.Namespace, kind: Kind) -> None:
    """Train what is planned, as far as it fits."""
    deadline, plans = time.time() + options.until, list(map(Plan.of, options.plan.split(";")))
    measured = {plan.env: Measurement(plan.env, options, kind) for plan in plans}
    with tempfile.TemporaryDirectory() as folder, judges() as pool:
        caches = options.cache or Path(folder) / "caches"

        def follow(plan: Plan) -> None:
            cache = caches / plan.env.replace("/", "-")
            start = "cached" if cache.is_dir() and any(cache.iterdir()) else "cold"
            rules = Rules(kind, plan.env, options.algorithm, options.device, measured[plan.env].head["settings"],
                          options.between, options.compiling, deadline - JUDGING, Path(folder), cache)  # fmt: skip
            here, there = SPAWN.Pipe(duplex=False)
            process = SPAWN.Process(target=train, args=(plan, rules, start, there))
            process.start()
            there.close()
            measured[plan.env].follow(here, pool)
            process.join()

        with ThreadPoolExecutor(len(plans) if options.together else 1) as side_by_side:
            list(side_by_side.map(follow, plans))
        for one in measured.values():
            one.finish(deadline)
        pool.shutdown(wait=False, cancel_futures=True)


def judges() -> ProcessPoolExecutor:
    """Processes beside the training's that try policies meanwhile."""
    return ProcessPoolExecutor(max(1, len(os.sched_getaffinity(0)) - 3), SPAWN)


def _settings(options: argparse.Namespace, kind: Kind, env: str) -> dict[str, Any]:
    given = {name: _value(text) for name, text in (each.split("=", 1) for each in options.set)}
    return {**kind.settings.get(env, {}), **given}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def device_name(name: str) -> str:
    from rsa2c.gpu.device import found

    return str(found(name).device_kind)


def _told(trial: dict[str, float]) -> str:
    return (f"{trial['seconds']:.1f} s, of which compiling {trial['compiling']:.1f}, {trial['steps']:,} steps, "
            f"{trial['mean']:.0f}, worst of {trial['episodes']} {trial['worst']:.0f}")  # fmt: skip


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What a measurement may be told."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", default="Ant-v5:0-4:300,45", help="ENV:SEEDS:SECONDS[;...]")
    parser.add_argument("--together", action="store_true", help="all entries of the plan at the same time")
    parser.add_argument("--until", type=float, default=np.inf, help="seconds of this process, everything included")
    parser.add_argument("--compiling", type=float, default=COMPILING, help="seconds that compilation may take")
    parser.add_argument("--cache", type=Path, help="folder for compiled programs that outlasts this process")
    parser.add_argument("--name", nargs="*", default=[], help="further parts of the files' names")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--between", type=float, default=3.0, help="seconds of training between trials")
    parser.add_argument("--set", nargs="*", default=[], help="further settings, name=value")
    parser.add_argument("--folder", type=Path, default=RESULTS / "gpu")
    return parser


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("step", choices=("measure", "page"))
    parser.add_argument("--algorithm", default="rsa2c-kme")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.md", help="where the page is written")
    options = parser.parse_args()
    measure(options, OWN) if options.step == "measure" else write_page(options.folder, options.out)


if __name__ == "__main__":
    main()

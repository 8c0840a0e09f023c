"""Kills runs with kill -9 again and again: does every killed and resumed run end with the bytes of an undisturbed one?

A real training process (forked from one that has everything imported and compiled) is killed by SIGKILL. Half of the
kills come at a random moment, half at a random disk operation: before it, after it, or in the middle of a write. The
run is then resumed, and possibly killed again, until it finishes. Its files are compared with those of an undisturbed
run.

    python benchmarks/kills.py [--count 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import collections
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from faults import Disk
from reliability import record
from rsa2c.algorithm import keeping
from rsa2c.errors import RSA2CError
from rsa2c.runs import training
from rsa2c.runs.folder import Run

EPOCHS, N_ENVS, HORIZON = 12, 4, 100
FIELDS: dict[str, Any] = {
    "n_envs": N_ENVS,
    "horizon": HORIZON,
    "keep": "best",
    "capacity": 64,
    "initial_centres": 32,
    "attribution_every": 2,
    "attribution_warmup": 1,
    "attribution_centres": 40,
    "evaluation_episodes": 2,
    "epochs_between_evaluations": 3,
}
CHECKPOINT_SECONDS = 0.05
"""Short enough that most epochs, but not all, end with a checkpoint."""
TRIAL_STEPS = 1_000
"""Training steps between trials of the policy, so that a run has some, and a policy that is kept."""
MOST_KILLS = 4
"""Most kills of one run; after that it is allowed to finish."""


def train_or_resume(out: Path) -> None:
    """Start a run, or resume the one in the folder, as a user would."""
    training.CHECKPOINT_INTERVAL, keeping.STEPS_BETWEEN_TRIALS = CHECKPOINT_SECONDS, TRIAL_STEPS
    begun = list(out.glob("*/config.yaml"))
    if not begun:
        training.train_run(
            "Pendulum-v1", "rsa2c-kme", total_timesteps=EPOCHS * N_ENVS * HORIZON, out=out, track=False, **FIELDS
        )
    elif not training.is_finished(run := Run(begun[0].parent)):
        training.resume_run(run.path, track=False)


def forked(work: Callable[[], None]) -> int:
    """Start a process that does some work; its id. It ends with exit code 0, or with 1 and a traceback."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def files_of(run: Run) -> dict[str, Any]:
    """What must be equal: the bytes of the files, and the metrics without their timings."""
    paths = (run.model_path, run.state_path, run.evaluations_path, run.attributions_path)
    rows = [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in run.read_metrics()]
    return {**{path.name: path.read_bytes() for path in paths}, run.metrics_path.name: rows}


@dataclass
class Count:
    """Counts of kills and their outcomes."""

    wanted: int
    moments: int = 0
    calls: collections.Counter[str] = field(default_factory=collections.Counter)
    stages: collections.Counter[str] = field(default_factory=collections.Counter)
    runs: int = 0
    losses: list[str] = field(default_factory=list)

    def left(self) -> list[str]:
        """The kinds of kills of which more are needed."""
        done = {"moment": self.moments, "call": self.calls.total()}
        return [sort for sort, number in done.items() if number < self.wanted]


def stage(out: Path) -> str:
    """How far a killed run had got."""
    if not list(out.glob("*/config.yaml")):
        return "before the run had begun"
    return "after its first checkpoint" if list(out.glob("*/state.safetensors")) else "before its first checkpoint"


def ended(pid: int) -> int:
    """Wait for a process; its exit code, -9 if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at_a_moment(out: Path, duration: float, count: Count, rng: np.random.Generator) -> int:
    """Train or resume, and kill the process at a random moment unless it has finished; the exit code."""
    pid = forked(lambda: train_or_resume(out))
    time.sleep(rng.uniform(0.0, duration))
    os.kill(pid, signal.SIGKILL)
    code = ended(pid)
    count.moments += code == -signal.SIGKILL
    return code


def killed_at_a_call(out: Path, calls: int, count: Count, rng: np.random.Generator) -> int:
    """Train or resume, and let the process kill itself at a random disk call, if it gets that far; the exit code."""
    at, late = int(rng.integers(calls)), bool(rng.random() < 0.3)
    reading, writing = os.pipe()

    def strike() -> None:
        os.write(writing, disk.calls[-1][0].encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        with disk.watched():
            train_or_resume(out)

    disk = Disk(out, at, strike, late=late)
    pid = forked(work)
    os.close(writing)
    with open(reading) as pipe:
        call = pipe.read()
    if call:
        count.calls[f"{'after' if late else 'inside' if call == 'write' else 'before'} {call}"] += 1
    return ended(pid)


def one_run(out: Path, whole: dict[str, Any], duration: float, calls: int, count: Count,
            rng: np.random.Generator) -> None:  # fmt: skip
    """Kill a run a few times, let it finish, compare."""
    code = -signal.SIGKILL
    for _ in range(MOST_KILLS):
        if code != -signal.SIGKILL or not (left := count.left()):
            break
        if rng.choice(left) == "moment":
            code = killed_at_a_moment(out, duration, count, rng)
        else:
            code = killed_at_a_call(out, calls, count, rng)
        count.stages[stage(out)] += code == -signal.SIGKILL
    if code <= 0:
        code = ended(forked(lambda: train_or_resume(out)))
    count.runs += 1
    try:
        differing = [name for name, content in files_of(Run(next(out.iterdir()))).items() if content != whole[name]]
    except (RSA2CError, OSError, StopIteration) as error:
        differing = [repr(error)]
    if code or differing:
        count.losses.append(f"run {count.runs}: exit code {code}, differing: {', '.join(differing)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="kills of each kind: at random moments, at disk calls")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments and calls")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def fresh(name: str) -> Path:
            (place / name).mkdir()
            return place / name

        first = fresh("undisturbed")
        ended(forked(lambda: train_or_resume(first)))
        whole = files_of(Run(next(first.iterdir())))
        with Disk(fresh("warm")).watched() as disk:  # compiles in the process that all others are forked from
            train_or_resume(disk.folder)
        timed = fresh("timed")
        began = time.perf_counter()
        ended(forked(lambda: train_or_resume(timed)))
        duration = time.perf_counter() - began
        count = Count(options.count)
        while count.left():
            one_run(fresh(str(count.runs)), whole, duration, len(disk.calls), count, rng)
            done = f"{count.moments} kills at random moments, {count.calls.total()} at random calls"
            print(f"{done}, {count.runs} runs, {len(count.losses)} lost", flush=True)
    rows = [["kills at a random moment", count.moments], ["kills at a random disk call", count.calls.total()]]
    rows += [[f"- {name}", times] for name, times in sorted(count.calls.items())]
    rows += [[f"runs killed {name}", times] for name, times in sorted(count.stages.items())]
    rows += [["runs in total", count.runs], ["runs lost, or different in any byte", len(count.losses)]]
    notes = [
        f"An undisturbed run has {EPOCHS} epochs, takes {duration:.1f} s and makes {len(disk.calls)} calls that "
        "create, write, sync or rename a file.",
        "We compare model.safetensors, state.safetensors, evaluations.npz and attributions.npz byte for byte, and "
        "metrics.csv without its timing columns.",
        "SAC and PPO are not included: a stopped baseline starts over, and says so.",
        *count.losses,
    ]
    times = count.moments + count.calls.total()
    print(record("kills", f"kill -9, {times} times", ["what", "times"], rows, notes))
    if count.losses:
        sys.exit(1)


if __name__ == "__main__":
    main()

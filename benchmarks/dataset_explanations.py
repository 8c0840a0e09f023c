"""Explains a file of Pendulum states in constant memory, killed and continued: same bytes, memory, states per second.

    python benchmarks/dataset_explanations.py [--states 1000000] [--kills 2] [--folder FOLDER]

Makes an NPZ file of states and starts `rsa2c explain zoo:Pendulum-v1 --dataset FILE` on it. The process is killed by
SIGKILL at even shares of the work and started again, until it finishes. An undisturbed run of the same command follows,
and one on a hundredth of the states, to compare the memory. Folders are compared byte by byte, and some rows with
`agent.explain`. Writes results/dataset-explanations.md. For ten million states, in 1.5 GB of disk:

    python benchmarks/dataset_explanations.py --states 10000000
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
from numpy.lib import format as npy

import rsa2c
from _provenance import write
from rsa2c.attribution import ExplainedDataset

AGENT, OF = "zoo:Pendulum-v1", "action"
BLOCK = 100_000
COMPARED, FEWEST = 2_000, 100_000
POLL_S = 0.05


@dataclass
class Process:
    """One process that explained: where its first chunk ended and where it ended itself, and what that took."""

    began: int
    ended: int
    seconds: float
    """Of the whole process, with the start of Python and the check of the file."""
    rate: float
    """States per second after the first chunk."""
    cpu_rate: float
    """States per second of processor time after the first chunk."""
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the files go, and stay; a temporary one unless given")
    arguments = parser.parse_args()
    if arguments.states < FEWEST * (arguments.kills + 1):
        parser.error(f"--states must be at least {FEWEST:,} for each process, so that it has chunks to be killed in")
    folder = Path(tempfile.mkdtemp()) if arguments.folder is None else arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        measure(folder, arguments.states, arguments.kills)
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)


def measure(folder: Path, states: int, kills: int) -> None:
    for name in ("killed", "undisturbed", "few"):
        shutil.rmtree(folder / name, ignore_errors=True)
    many, few = made(folder / "many.npz", states), made(folder / "few.npz", states // 100)
    goals = [states * (k + 1) // (kills + 1) for k in range(kills)]
    killed = [explained(many, folder / "killed", goal) for goal in goals]
    killed.append(explained(many, folder / "killed", None))
    undisturbed = explained(many, folder / "undisturbed", None)
    small = explained(few, folder / "few", None)
    same_bytes(folder / "killed", folder / "undisturbed")
    same_values(folder / "killed", states)
    body = page(states, many, folder / "killed", killed, undisturbed, small)
    print(body)
    print(write("dataset-explanations", "Explanations of a file", body))


def made(path: Path, states: int) -> Path:
    """An NPZ file of states all over Pendulum's range, written block by block."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as archive, archive.open("observations.npy", "w", force_zip64=True) as file:
        npy.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (states, 3)})
        for start in range(0, states, BLOCK):
            count = min(BLOCK, states - start)
            angle, speed = rng.uniform(-np.pi, np.pi, count), rng.uniform(-8, 8, count)
            file.write(np.column_stack([np.cos(angle), np.sin(angle), speed]).tobytes())
    print(f"{path.name}: {states:,} states, {path.stat().st_size / 1e6:,.0f} MB", flush=True)
    return path


def explained(file: Path, out: Path, goal: int | None) -> Process:
    """Run the command until it has explained `goal` states, then kill it; without a goal, to its end."""
    command = [sys.executable, "-m", "rsa2c.cli", "explain", AGENT, "--of", OF]
    began, first, peak, started = done(out), None, 0.0, time.perf_counter()
    last = began, started, 0.0
    process = subprocess.Popen([*command, "--dataset", str(file), "--out", str(out)], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        rows, cpu, memory = done(out), cpu_s(process.pid), peak_mb(process.pid)
        if cpu:
            peak, last = max(peak, memory), (max(rows, last[0]), time.perf_counter(), cpu)
        if first is None and rows > began:
            first = last
        if goal is not None and rows >= goal:
            os.kill(process.pid, signal.SIGKILL)
        time.sleep(POLL_S)
    if process.returncode != (0 if goal is None else -signal.SIGKILL):
        sys.exit(f"the command ended with {process.returncode}: {' '.join(command)}")
    total = len(ExplainedDataset.open(out)) if goal is None else done(out)
    (_, second, cpu), (rows, begun, before) = last, first or (began, started, 0.0)
    print(f"{out.name}: {began:,} to {total:,}{'' if goal is None else ', killed'}, {peak:,.0f} MB", flush=True)
    rate, cpu_rate = ((total - rows) / max(spent, 1e-9) for spent in (second - begun, cpu - before))
    return Process(rows, total, time.perf_counter() - started, rate, cpu_rate, peak)


def done(out: Path) -> int:
    """States that are safe in an unfinished folder."""
    try:
        return json.loads((out / "progress.json").read_text(encoding="utf-8"))["rows"]
    except FileNotFoundError:
        return 0


def peak_mb(pid: int) -> float:
    """The most memory a process has had."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return max((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), default=0.0)


def cpu_s(pid: int) -> float:
    """The processor time of a process and its threads; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return 0.0 if fields[0] == "Z" else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def same_bytes(one: Path, other: Path) -> None:
    names = [sorted(path.name for path in folder.iterdir()) for folder in (one, other)]
    if names[0] != names[1]:
        sys.exit(f"the folders hold different files: {names}")
    for name in names[0]:
        if subprocess.run(["cmp", one / name, other / name]).returncode:
            sys.exit(f"{name} of the killed run differs from that of the undisturbed one")


def same_values(out: Path, states: int) -> None:
    """Rows at the beginning, in the middle and at the end are those of `agent.explain`."""
    agent, told = rsa2c.load(AGENT), ExplainedDataset.open(out).load()
    for start in (0, states // 2, max(0, states - COMPARED)):
        rows = np.array(told.data[start : start + COMPARED])
        if not np.array_equal(told.values[start : start + COMPARED], agent.explain(rows, of=OF).values):
            sys.exit(f"the values from row {start} on are not those of agent.explain")


def page(states: int, file: Path, out: Path, killed: list[Process], undisturbed: Process, small: Process) -> str:
    told = ExplainedDataset.open(out)
    size = sum(path.stat().st_size for path in out.iterdir())
    processes = {f"killed and continued, process {k + 1}": each for k, each in enumerate(killed)}
    rows = [
        f"| {name} | {each.began:,} | {each.ended:,} | {each.seconds:,.0f} | {each.rate:,.0f} | {each.cpu_rate:,.0f} | "
        f"{each.peak_mb:,.0f} |"
        for name, each in (processes | {"undisturbed": undisturbed}).items()
    ]
    input_mb, result_mb = (size / 1e6 for size in (file.stat().st_size, size))
    return f"""{states:,} states of Pendulum-v1 in an NPZ file of {input_mb:,.0f} MB, explained on the processor by
`rsa2c explain {AGENT} --of {OF} --dataset FILE`, in chunks of {told.asked["chunk"]:,} states. The result has
{result_mb:,.0f} MB. Game: {told.game}. Threads: {numba.config.NUMBA_NUM_THREADS}.

`from` is the end of a process's first chunk. Rates are measured from there on: of elapsed time, in which other work may
have shared the processor, and of processor time. `seconds` are of the whole process.

| run | from | to | seconds | states/s | states per processor second | peak MB |
|---|---|---|---|---|---|---|
{chr(10).join(rows)}
| a hundredth of the states | | {small.ended:,} | {small.seconds:,.0f} | | | {small.peak_mb:,.0f} |

- The run that was killed {len(killed) - 1} times has the bytes of the undisturbed one in every file.
- {COMPARED:,} rows at the beginning, in the middle and at the end have the values of `agent.explain`, bit by bit.
- A process that finishes reads 1,000 rows, evenly spread over the mapped arrays of the result, for the fidelity
  figures. The pages around them count as its memory: at most 64 KiB for a row of an array, however long the file is.
- The largest efficiency residual of all states is {told.largest_residual:.1e}."""


if __name__ == "__main__":
    main()

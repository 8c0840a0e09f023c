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
    """One process that explained: where it began and ended, how long it took, how much memory it had at most."""

    began: int
    ended: int
    seconds: float
    """From the first chunk to the end: without the start of Python and the check of the file."""
    total_s: float
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
    same_values(many, folder / "killed", states)
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
    command = [
        sys.executable,
        "-m",
        "rsa2c.cli",
        "explain",
        AGENT,
        "--of",
        OF,
        "--dataset",
        str(file),
        "--out",
        str(out),
    ]
    began, rows, first, peak, started = done(out), done(out), None, 0.0, time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak, rows = max(peak, peak_mb(process.pid)), max(rows, done(out))
        if first is None and rows > began:
            first = time.perf_counter(), rows
        if goal is not None and rows >= goal:
            os.kill(process.pid, signal.SIGKILL)
        time.sleep(POLL_S)
    ended = time.perf_counter()
    if process.returncode != (0 if goal is None else -signal.SIGKILL):
        sys.exit(f"the command ended with {process.returncode}: {' '.join(command)}")
    rows = len(ExplainedDataset.open(out)) if goal is None else done(out)
    moment, at = first or (started, began)
    print(f"{out.name}: {began:,} to {rows:,}{'' if goal is None else ', killed'}, {peak:,.0f} MB", flush=True)
    return Process(at, rows, ended - moment, ended - started, peak)


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


def same_bytes(one: Path, other: Path) -> None:
    names = [sorted(path.name for path in folder.iterdir()) for folder in (one, other)]
    if names[0] != names[1]:
        sys.exit(f"the folders hold different files: {names}")
    for name in names[0]:
        if subprocess.run(["cmp", one / name, other / name]).returncode:
            sys.exit(f"{name} of the killed run differs from that of the undisturbed one")


def same_values(file: Path, out: Path, states: int) -> None:
    """Rows at the beginning, in the middle and at the end are those of `agent.explain`."""
    agent, told = rsa2c.load(AGENT), ExplainedDataset.open(out).load()
    for start in (0, states // 2, max(0, states - COMPARED)):
        rows = np.array(told.data[start : start + COMPARED])
        if not np.array_equal(told.values[start : start + COMPARED], agent.explain(rows, of=OF).values):
            sys.exit(f"the values from row {start} on are not those of agent.explain")


def page(states: int, file: Path, out: Path, killed: list[Process], undisturbed: Process, small: Process) -> str:
    told = ExplainedDataset.open(out)
    size = sum(path.stat().st_size for path in out.iterdir())
    rows = [
        f"| {name} | {each.began:,} | {each.ended:,} | {each.total_s:,.0f} | "
        f"{(each.ended - each.began) / each.seconds:,.0f} | {each.peak_mb:,.0f} |"
        for name, each in [
            *((f"killed and continued, process {k + 1}", each) for k, each in enumerate(killed)),
            ("undisturbed", undisturbed),
            ("a hundredth of the states", small),
        ]
    ]
    return "\n".join(
        [
            f"{states:,} states of Pendulum-v1 in an NPZ file of {file.stat().st_size / 1e6:,.0f} MB, explained by "
            f"`rsa2c explain {AGENT} --of {OF} --dataset FILE` on the processor",
            f"({told.game}; {len(told.asked['dataset']['columns'])} column, chunks of {told.asked['chunk']:,} states). "
            f"The result has {size / 1e6:,.0f} MB.",
            "",
            "`from` and `to` count states, `from` after the first chunk of the process. `seconds` are of the whole "
            "process. Other work may have shared the machine: the memory and the bytes do not depend on it, the rate "
            "does.",
            "",
            "| run | from | to | seconds | states/s | peak MB |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            f"- The run that was killed {len(killed) - 1} times has the bytes of the undisturbed one in every file.",
            f"- {COMPARED:,} rows at the beginning, in the middle and at the end have the values of `agent.explain`, "
            "bit by bit.",
            f"- The largest efficiency residual of all states is {told.largest_residual:.1e}.",
        ]
    )


if __name__ == "__main__":
    main()

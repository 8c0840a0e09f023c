"""What a user reads when something goes wrong: triggers each fault through the command line and records the output.

python benchmarks/messages.py
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import yaml

import faults
import misbehaving
from reliability import record

FLAGS = [text for name, value in faults.SMALL.items() for text in (f"--{name.replace('_', '-')}", str(value))]
SMALL = [*FLAGS, "--no-report", "--no-track", "--quiet"]
FOREVER = ["--total-timesteps", "100000000"]
ENVIRONMENTS = {
    "raises in step": "Raises",
    "raises in reset": "RaisesInReset",
    "cannot be made": "RaisesWhenMade",
    "calls sys.exit": "Exits",
    "hangs (step_timeout 1)": "Hangs",
    "returns NaN": "NaN",
    "pays an infinite reward": "Infinite",
    "changes its observation's shape": "Misshapen",
    "returns four values": "Forgetful",
    "ends its process (os._exit(3))": "Dies",
}
NATIVE = (
    "import sys; from rsa2c.envs import watchdog; watchdog.NATIVE_SECONDS = 2.0\n"
    "from rsa2c.cli import main; sys.exit(main(sys.argv[1:]))"
)
WORKERS = (
    "import warnings; warnings.simplefilter('ignore')\n"
    "import gymnasium as gym, rsa2c\n"
    "worlds = gym.make_vec('{}-v0', num_envs=2, vectorization_mode='async')\n"
    "try: rsa2c.RSA2C(worlds, horizon=10, step_timeout=1.0).learn(10_000)\n"
    "except rsa2c.errors.EnvError as error: print(error)"
)


class Desk:
    """Runs commands in a separate folder and records their output, with the folder's path removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = misbehaving.registering(folder)
        self.rows: list[list[object]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, *(arguments if arguments[0] == "-c" else ("-m", "rsa2c.cli", *arguments))]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.variables, **pipes)  # type: ignore[call-overload]

    def end(self, fault: str, process: subprocess.Popen[str], lines: int = 12) -> None:
        said = process.communicate()[0].strip()
        said = re.sub(r'"/[^"]*/([^/"]+)"', r'"\1"', said.replace(str(self.folder), "."))
        said = "\n".join(said.splitlines()[:lines]) or "(nothing)"
        self.rows.append([fault, process.returncode, said])
        print(f"\n{fault}: exit code {process.returncode}\n{said}", flush=True)

    def run(self, fault: str, *arguments: str, lines: int = 12) -> None:
        self.end(fault, self.start(*arguments), lines)

    @contextmanager
    def mounted(self, name: str, options: str) -> Iterator[bool]:
        """Mount a small file system at `name`; False if mounting is not permitted."""
        (self.folder / name).mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder / name)]
        done = subprocess.run(mount, capture_output=True).returncode == 0
        try:
            yield done
        finally:
            if done:
                subprocess.run(["umount", str(self.folder / name)], check=True)


def storage(desk: Desk) -> list[str]:
    """Faults of the disk and the folder; the names of those that could not be tried."""
    missing = []
    with desk.mounted("small", "size=256k") as done:
        if done:
            desk.run("the disk is full", "train", "Pendulum-v1", "--out", "small", *SMALL, *FOREVER)
        else:
            missing.append("the disk is full")
    with desk.mounted("readonly", "ro") as done:
        if done:
            desk.run("the folder is read-only", "train", "Pendulum-v1", "--out", "readonly", *SMALL)
        else:
            missing.append("the folder is read-only")
    (desk.folder / "file").touch()
    desk.run("the folder is a file", "train", "Pendulum-v1", "--out", "file", *SMALL)
    first = desk.start("train", "Pendulum-v1", *SMALL, *FOREVER)
    run = desk.folder / "runs" / "Pendulum-v1__rsa2c-kme__default__n0__s0"
    while not (run / "metrics.csv").exists() and first.poll() is None:
        time.sleep(0.05)
    desk.run("another process is writing the run", "resume", f"runs/{run.name}", "--quiet")
    first.send_signal(signal.SIGTERM)
    desk.end("SIGTERM, SIGHUP or Ctrl-C", first)
    desk.run("the run already exists", "train", "Pendulum-v1", *SMALL)
    state = run / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    desk.run("the checkpoint was damaged from outside", "resume", f"runs/{run.name}", "--quiet")
    return missing


def environments(desk: Desk) -> None:
    """Environments that misbehave, in a single run and in a sweep."""
    told = ["--step-timeout", "1", *SMALL, *FOREVER]
    for fault, name in ENVIRONMENTS.items():
        desk.run(f"the environment {fault}", "train", f"{name}-v0", *told)
    desk.run("the environment hangs in native code", "-c", NATIVE, "train", "HangsNatively-v0", *told, lines=5)
    desk.run("the process of an environment dies (in Python)", "-c", WORKERS.format("Dies"))
    desk.run("the process of an environment hangs (in Python)", "-c", WORKERS.format("Hangs"))
    ids = ["Raises-v0", "Dies-v0", "Good-v0"]
    sweep = {"environments": ids, "total_timesteps": 200, "final_episodes": 2, **faults.SMALL}
    (desk.folder / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    desk.run("some runs of a sweep fail", "sweep", "sweep.yaml", "--workers", "1", lines=20)


def main() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder).resolve())
        missing = storage(desk)
        environments(desk)
    notes = [
        "If a message names a checkpoint, `rsa2c resume` continues training from there once the cause is removed.",
        "If an environment ends the process with os._exit, nothing is printed. The run can be resumed like a killed "
        "one, and a sweep lists it with the exit code, but without the step.",
        "Python cannot interrupt a hang in native code: the process ends with `faulthandler`'s traceback after twice "
        "step_timeout, but at least 600 s (2 s here).",
        *(f"Not tried, because mounting is not permitted on this machine: {fault}." for fault in missing),
    ]
    print(record("messages", "What a user reads", ["fault", "exit code", "printed"], desk.rows, notes))


if __name__ == "__main__":
    main()

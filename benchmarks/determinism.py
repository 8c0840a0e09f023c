"""Same seed, same bytes: repeats trainings in separate processes, with 1 and 2 threads.

    python benchmarks/determinism.py

`threads` is a setting of the run. OMP_NUM_THREADS in the environment is what the machine offers; it must not matter.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from reliability import record
from rsa2c.files import read_tensors

RUNS = {
    "Pendulum-v1": 20,
    "rsa2c/LQR-v0": 20,
    "BipedalWalker-v3": 10,
}
"""Epochs with the `default` preset of RSA2C-KME; guidance sets weights from the third attribution on."""
SCRIPT = """
import sys
from rsa2c import RSA2C
env, epochs, threads, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
agent = RSA2C(env, "rsa2c-kme", seed=0, threads=threads, attribution_every=2)
agent.learn(agent.num_timesteps + epochs * agent.sizes.epoch_steps)
agent.save(path)
agent.explain(agent.background[:20], interactions=env == "Pendulum-v1").save(path + ".npz")
"""


def trained(env: str, epochs: int, threads: int, offered: int, folder: Path, name: str) -> Path:
    """Train in a separate process; the path of the model."""
    path = folder / f"{name}.safetensors"
    offers = {key: str(offered) for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")}
    command = [sys.executable, "-c", SCRIPT, env, str(epochs), str(threads), str(path)]
    subprocess.run(command, check=True, env={**os.environ, **offers})
    return path


def difference(one: Path, other: Path) -> str:
    """Compare two trainings: by whole files, else by tensors, else by their largest relative difference."""
    if digest(one) == digest(other) and digest(Path(f"{one}.npz")) == digest(Path(f"{other}.npz")):
        return "equal bytes"
    (a, first), (b, second) = read_tensors(one), read_tensors(other)
    for metadata in (first, second):
        metadata["config"].pop("threads")
    if first != second or any(a[name].shape != b[name].shape for name in a):
        return "different dictionary or schedule"
    if all(np.array_equal(a[name], b[name]) for name in a):
        return "equal tensors"
    far = max(float(np.abs(a[name] - b[name]).max(initial=0)) / max(float(np.abs(a[name]).max(initial=0)), 1e-300)
              for name in a)  # fmt: skip
    return f"differ by {far:.0e} of the largest entry"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    rows = []
    for env, epochs in RUNS.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            first = trained(env, epochs, 1, 1, folder, "first")
            again = trained(env, epochs, 1, 1, folder, "again")
            offered = trained(env, epochs, 1, 2, folder, "offered")
            two = trained(env, epochs, 2, 2, folder, "two")
            twice = trained(env, epochs, 2, 2, folder, "twice")
            rows.append([
                env, epochs, difference(first, again), difference(first, offered), difference(two, twice),
                difference(trained(env, 1, 1, 1, folder, "one"), trained(env, 1, 2, 2, folder, "other")),
                difference(first, two),
            ])  # fmt: skip
            print(rows[-1], flush=True)
    columns = ["environment", "epochs", "threads=1, repeated", "threads=1 on a machine that offers 2",
               "threads=2, repeated", "threads=1 against threads=2, after one epoch", "after all epochs"]  # fmt: skip
    notes = [
        "Equal bytes refers to the model file and a file of Shapley values.",
        "Equal bytes are promised for equal threads (the first three comparisons). With a different number of threads, "
        "BLAS adds in a different order and training amplifies the last digit; the last two columns show by how much.",
    ]
    print(record("determinism", "Same seed, same bytes", columns, rows, notes))
    if any(cell != "equal bytes" for row in rows for cell in row[2:5]):
        raise SystemExit("a promise was broken")


if __name__ == "__main__":
    main()

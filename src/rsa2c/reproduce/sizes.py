"""Memory and time of an epoch against the size of the dictionaries: the paper's figure on computational cost."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from rsa2c.agent import RSA2C
from rsa2c.cost.profile import Profile, profile
from rsa2c.files import PathLike
from rsa2c.reproduce.tables import Table, number, slug

SIZES = {
    "Pendulum-v1": (32, 64, 128, 256, 384),
    "rsa2c/LQR-v0": (32, 64, 128),
    "BipedalWalker-v3": (128, 256, 512, 768, 1024),
    "Ant-v5": (128, 256, 512, 1024),
}
ALGORITHMS = ("rsa2c-kme", "rsa2c-cme")
SMALLEST_THRESHOLD = 1e-7
"""Admits states until a dictionary is full, whatever the preset's own threshold would say."""


def measure(environment: str, algorithm: str, size: int, epochs: int = 4) -> Profile:
    """An epoch's cost with both dictionaries filled to `size`."""
    agent = RSA2C(
        environment, algorithm, capacity=size, initial_centres=size, admission_threshold=SMALLEST_THRESHOLD,
        admission_threshold_final=None, admission_limit=size, attribution_every=1,
    )  # fmt: skip
    while agent.dictionary_size < size and agent.epoch < 5:
        agent.learn(agent.sizes.epoch_steps)
    return profile(agent, epochs)


def measured(environment: str, sizes: Sequence[int] | None = None) -> list[list[str]]:
    """Rows of the table: measured milliseconds and memory, counted operations, for each size and both games."""
    rows = []
    for algorithm in ALGORITHMS:
        for size in sizes or SIZES[environment]:
            found = measure(environment, algorithm, size)
            peak = max(found.phases, key=lambda phase: phase.peak_mb)
            rows.append([
                algorithm, str(max(found.actor_states, found.value_states)), number(found.milliseconds),
                number(1e3 * found.gflop), number(peak.peak_mb), peak.phase,
            ])  # fmt: skip
    return rows


def read_rows(environment: str, folder: PathLike) -> list[list[str]]:
    """The rows that were measured before into `folder`; none where there are none."""
    path = Path(folder) / f"{sizes_table(environment, []).name}.csv"
    return list(csv.reader(path.read_text("utf-8").splitlines()))[1:] if path.exists() else []


def sizes_table(environment: str, rows: list[list[str]]) -> Table:
    """The table of such rows."""
    notes = [
        "`default`, both dictionaries filled as far as visited states are independent, attribution in every epoch. The "
        "paper shows this as a figure without numbers. Memory grows with the dictionary and the batch, never with the "
        "history."
    ]
    title = f"{environment}: cost against the size of the dictionaries"
    return Table(f"sizes_{slug(environment)}", title, COLUMNS, rows, notes)


COLUMNS = ["variant", "states", "ms an epoch", "MFLOP an epoch", "peak memory of arrays (MB)", "in the phase"]

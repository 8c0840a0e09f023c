"""Memory and time of an epoch against the size of the dictionaries: the paper's figure on computational cost."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rsa2c.agent import RSA2C
from rsa2c.cost.profile import Profile, profile
from rsa2c.errors import FileFormatError
from rsa2c.files import PathLike
from rsa2c.reproduce.cells import Table
from rsa2c.reproduce.selection import slug

SIZES = {
    "Pendulum-v1": (32, 64, 128, 256, 384),
    "rsa2c/LQR-v0": (32, 64, 128),
    "BipedalWalker-v3": (128, 256, 512, 768, 1024),
    "Ant-v5": (128, 256, 512, 1024),
}
ALGORITHMS = ("rsa2c-kme", "rsa2c-cme")
SMALLEST_THRESHOLD = 1e-7
"""Admits states until a dictionary is full, whatever the preset's own threshold is."""


def measure(environment: str, algorithm: str, size: int, epochs: int = 4) -> Profile:
    """An epoch's cost with both dictionaries filled to `size`."""
    agent = RSA2C(
        environment, algorithm, capacity=size, initial_centres=size, admission_threshold=SMALLEST_THRESHOLD,
        admission_threshold_final=None, admission_limit=size, attribution_every=1,
    )  # fmt: skip
    with closing(agent):
        while agent.dictionary_size < size and agent.epoch < 5:
            agent.learn(agent.sizes.epoch_steps)
        return profile(agent, epochs)


def measured(environment: str, sizes: Sequence[int] | None = None) -> list[list[Any]]:
    """Rows of the table: measured milliseconds and memory, counted operations, for each size and both games."""
    rows: list[list[Any]] = []
    for algorithm in ALGORITHMS:
        for size in sizes or SIZES[environment]:
            found = measure(environment, algorithm, size)
            peak = max(found.phases, key=lambda phase: phase.peak_mb)
            states = max(found.actor_states, found.value_states)
            rows.append([algorithm, states, found.milliseconds, 1e3 * found.gflop, peak.peak_mb, peak.phase])
    return rows


def read_rows(environment: str, folder: PathLike) -> list[list[Any]]:
    """The rows measured earlier, from the file in `folder`; empty if there are none."""
    path = Path(folder) / f"{sizes_table(environment, []).name}.csv"
    if not path.exists():
        return []
    try:
        texts = list(csv.reader(path.read_text("utf-8").splitlines()))[1:]
        return [
            [variant, int(states), *(float(text.replace(",", "")) for text in (ms, mflop, memory)), phase]
            for variant, states, ms, mflop, memory, phase in texts
        ]
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged ({error}). Delete it to measure again.") from error


def sizes_table(environment: str, rows: list[list[Any]]) -> Table:
    """The table of these rows."""
    notes = [
        "`default` as it was when this was measured (delete the table's file to measure again), both dictionaries "
        "filled as far as visited states are independent, attribution in every epoch. The paper shows this as a figure "
        "without numbers. Memory grows with the dictionary and the batch, never with the history."
    ]
    title = f"{environment}: cost against the size of the dictionaries"
    return Table(f"sizes_{slug(environment)}", title, COLUMNS, rows, notes)


COLUMNS = ["variant", "states", "ms per epoch", "MFLOP per epoch", "peak memory of arrays (MB)", "in phase"]

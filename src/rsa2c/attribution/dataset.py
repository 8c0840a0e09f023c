"""`explain_dataset`: explanations of a file of states that may be larger than memory.

The file is read twice. First it is surveyed: rows that are not finite are refused before anything is computed, a
checksum says which states they are, and some of them choose the number of quadrature nodes. Then its states are
explained in chunks, each of which is on disk before the next begins. A run that was killed continues after the last
such chunk and ends with the bytes of one that was not.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from rsa2c.attribution.explained import FINISHED, PROGRESS, Document, ExplainedDataset, Progress, check_same, tidy
from rsa2c.attribution.explaining import KernelFunction, Prepared
from rsa2c.attribution.game import spread
from rsa2c.attribution.inputs import Groups, named_features
from rsa2c.attribution.playing import CHOICE_STATES
from rsa2c.attribution.progress import duration
from rsa2c.datasets import Dataset, open_dataset
from rsa2c.errors import ConfigError, DataError, RunExistsError
from rsa2c.files import PathLike, StorageError, holding

Array = NDArray[np.float64]
CHUNK_BYTES = {"cpu": 2**22, "cuda": 2**29}
"""Memory for a chunk of states and its explanations: on a processor a few seconds of work."""
FEWEST_STATES = 256
SURVEY_NUMBERS = 2**20
"""Numbers of a block of the survey."""
PLAIN_SECONDS = 10.0
"""Between two lines of progress, where they do not go to a terminal."""
MOST_ROWS = 5
"""Rows that are not finite, named in the error."""


def explain_dataset(
    function: KernelFunction,
    dataset: PathLike,
    background: ArrayLike,
    out: PathLike,
    *,
    method: str = "kme",
    feature_names: Sequence[str] | None = None,
    outputs: Sequence[str | int] | None = None,
    groups: Groups | None = None,
    interactions: bool = False,
    columns: Sequence[str] | None = None,
    entries: Sequence[str] = (),
    chunk: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> ExplainedDataset:
    """Explain every state of a file into the folder `out`, in constant memory; call it again to continue.

    `dataset` is an NPZ or NPY file, a Parquet file or a Minari dataset (`rsa2c.datasets.open_dataset`, which also
    describes `columns` and `entries`). Options are those of `explain`. The number of quadrature nodes is chosen once,
    among 2,048 states that are evenly spread over the file. `chunk` states are explained at a time; unless given, as
    many as a few megabytes hold. A finished folder is returned as it is; one that was begun with another dataset,
    function or settings is an error. `progress` shows the states done and the time left; None shows it at a terminal.
    """
    if options.get("rng") is not None:
        raise ConfigError("a dataset is explained with the same draws for every chunk: leave out rng.")
    if chunk is not None and chunk < 1:
        raise ConfigError(f"chunk must be at least 1, got {chunk}.")
    names = named_features(feature_names, function.kernel.dimension)
    prepared = Prepared.of(function, background, method, names, outputs, groups, interactions, options)
    file, folder = open_dataset(dataset, names, columns, entries), Path(out)
    _check_folder(folder)
    states = chunk or _chunk(prepared)
    show = _Line(file.rows, sys.stderr.isatty() if progress is None else progress)
    checksum, sample = _survey(file)
    asked = _asked(prepared, file, checksum, states)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} could not be made: {error.strerror or error}. Choose another folder.") from error
    # With one thread for BLAS, and Numba's sums in a fixed order, equal input gives equal bytes on any number of cores
    with holding(folder, "the folder of explanations"), threadpool_limits(1, user_api="blas"):
        if not (folder / FINISHED).exists():
            _explain(prepared, file, folder, asked, sample, show)
        done = ExplainedDataset.open(folder)
        check_same(folder, done.asked, asked)
        tidy(folder)
        return done


def _explain(prepared: Prepared, file: Dataset, folder: Path, asked: Document, sample: Array, show: _Line) -> None:
    """Explain what is not yet explained, and finish the folder."""
    if (folder / PROGRESS).exists():
        done = Progress.read(folder)
        check_same(folder, done.asked, asked)
        prepared = prepared.with_nodes(done.nodes)
    else:
        prepared = prepared.with_nodes(prepared.choose_nodes(sample))
        done = Progress(asked, prepared.nodes)
        done.write(folder)
    show.begin(done.rows)
    try:
        for block in file.blocks(asked["chunk"], done.rows):
            done.add(folder, prepared(block, False))
            show(done.rows)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted: {done.rows:,} of {file.rows:,} states are explained in {folder}. Run the same again to "
            "continue."
        ) from None
    done.finish(folder)


def _survey(file: Dataset) -> tuple[str, Array]:
    """The checksum of all states, and those of them that choose the number of nodes."""
    d = len(file.features)
    digest, wanted, sample = hashlib.sha256(), spread(file.rows, CHOICE_STATES), []
    bad, row = 0, 0
    found: list[tuple[int, Array]] = []
    for block in file.blocks(max(1, SURVEY_NUMBERS // d)):
        digest.update(block.data)
        sample.append(block[wanted[(row <= wanted) & (wanted < row + len(block))] - row])
        if not np.isfinite(block).all():
            rows = np.flatnonzero(~np.isfinite(block).all(axis=1))
            bad += len(rows)
            found += [(row + i, block[i]) for i in rows[: MOST_ROWS - len(found)]]
        row += len(block)
    if bad:
        which = "; ".join(
            f"row {i}: {', '.join(f'{file.features[j]} {x[j]}' for j in np.flatnonzero(~np.isfinite(x)))}"
            for i, x in found
        )
        raise DataError(
            f"the states of {file.path} must be finite, but {bad:,} of {file.rows:,} rows, counted from 0, are not. "
            f"{which}{'; ...' if bad > len(found) else ''}. Drop or fill these rows first."
        )
    return digest.hexdigest(), np.concatenate(sample)


def _asked(prepared: Prepared, file: Dataset, checksum: str, chunk: int) -> Document:
    """Everything that the values depend on, as JSON knows it."""
    function, digest = prepared.function, hashlib.sha256()
    offset = np.zeros(0) if function.offset is None else function.offset
    coordinates = function.coordinates(prepared.background)
    kernel = (function.kernel.scales, np.array([function.kernel.code]))
    for array in (function.centres, function.coefficients, offset, *kernel, prepared.background, coordinates):
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes() + repr(np.shape(array)).encode())
    document = {
        "dataset": {"rows": file.rows, "columns": file.columns, "sha256": checksum},
        "function": digest.hexdigest(),
        "method": prepared.method,
        "features": prepared.feature_names,
        "outputs": prepared.output_names,
        "players": None if prepared.players is None else [player.tolist() for player in prepared.players],
        "interactions": prepared.interactions,
        **asdict(prepared.settings),
        "chunk": chunk,
    }
    return json.loads(json.dumps(document, default=lambda number: number.item()))


def _chunk(prepared: Prepared) -> int:
    """States of a chunk: as many as its arrays have memory for."""
    d, p, m = prepared.background.shape[1], len(prepared.feature_names), len(prepared.output_names)
    numbers = 4 * (d + p * m + m) + (4 * p * p * m if prepared.interactions else 0)
    size = CHUNK_BYTES[getattr(prepared.settings, "device", "cpu")] // (8 * numbers)
    return max(FEWEST_STATES, size // FEWEST_STATES * FEWEST_STATES)


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise RunExistsError(f"{folder} is a file; the explanations of a dataset are a folder. Choose another name.")
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")} if folder.exists() else set()
    if names and not names & {FINISHED, PROGRESS}:
        raise RunExistsError(
            f"{folder} exists and holds something else ({', '.join(sorted(names)[:3])}). Choose another folder with "
            "--out, or out=."
        )


class _Line:
    """States explained, their rate and the time left: one line that is rewritten, or a new line now and then."""

    def __init__(self, rows: int, shown: bool) -> None:
        self.rows, self.shown, self.terminal = rows, shown, sys.stderr.isatty()
        self.first, self.started, self.printed = 0, 0.0, 0.0
        if shown:
            print(f"{rows:,} states: checking the file", file=sys.stderr)

    def begin(self, row: int) -> None:
        """Explaining begins at this row."""
        self.first, self.started = row, time.perf_counter()
        self.printed = self.started
        if self.shown and row:
            print(f"continues after {row:,} of {self.rows:,} states", file=sys.stderr)

    def __call__(self, row: int) -> None:
        now = time.perf_counter()
        ended = row == self.rows
        if not self.shown or not (self.terminal or ended or now - self.printed > PLAIN_SECONDS):
            return
        self.printed = now
        rate = (row - self.first) / max(now - self.started, 1e-9)
        line = f"{row:,} of {self.rows:,} states, {rate:,.0f} states/s, {duration((self.rows - row) / rate)} left"
        start, end = ("\r", "\n" if ended else "  ") if self.terminal else ("", "\n")
        print(start + line, end=end, file=sys.stderr, flush=True)

"""`metrics.csv`: one row per epoch, appended during training."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rsa2c.errors import FileFormatError
from rsa2c.files import StorageError, read_bytes, whole_lines, write_atomically
from rsa2c.files.versions import FORMER_METRICS

NUMBERS = ("epoch", "timesteps", "seconds")
"""Columns that must hold finite numbers."""
Row = dict[str, str]


class MetricsFile:
    """The file at a path, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] | None = None

    def append(self, row: Mapping[str, Any]) -> None:
        """Append an epoch's row; the first row's keys are the columns."""
        try:
            with open(self.path, "a+", newline="", encoding="utf-8") as file:
                if self._columns is None:
                    file.seek(0)
                    self._columns = next(csv.reader(file), None)
                if self._columns is None:
                    self._columns = list(row)
                    csv.writer(file).writerow(self._columns)
                csv.DictWriter(file, self._columns, extrasaction="ignore").writerow(row)
        except OSError as error:
            what = f"{self.path} could not be written: {error.strerror or error}"
            raise StorageError(f"{what}. Free some space.") from error

    def read(self) -> list[Row]:
        """The rows; a last line torn off by a crash is left out."""
        if not self.path.exists():
            return []
        content = read_bytes(self.path)
        try:
            reader = csv.DictReader(io.StringIO(whole_lines(content).decode(), newline=""))
            reader.fieldnames = [FORMER_METRICS.get(name, name) for name in reader.fieldnames or ()]
            rows = list(reader)
            for row in rows:
                if None in row or None in row.values():
                    raise ValueError("a row does not have the columns of the first")
                if not all(math.isfinite(float(row[name])) for name in row.keys() & set(NUMBERS)):
                    raise ValueError(f"one of {', '.join(NUMBERS)} is not a number")
        except (ValueError, csv.Error) as error:
            raise FileFormatError(f"{self.path} is damaged ({error}). Restore it from a copy.") from error
        return rows

    def sync(self) -> None:
        """Bring appended rows to the disk, before the checkpoint that relies on them."""
        try:
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"{self.path} was not saved: {error.strerror or error}.") from error

    def rewrite(self, rows: Sequence[Row]) -> None:
        """Replace the file by one with these rows."""
        text = io.StringIO(newline="")
        if rows:
            writer = csv.DictWriter(text, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        write_atomically(self.path, text.getvalue().encode())
        self._columns = None

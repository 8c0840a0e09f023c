"""What every file of states has in common: which of its columns are read, and blocks of equal size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rsa2c.errors import DataError, FileFormatError, RSA2CError, did_you_mean

Array = NDArray[np.float64]
USUAL_NAMES = ("observations", "observation", "states", "state", "obs")
MOST_NAMED = 12
"""Names of a file's columns that an error lists."""


class Dataset:
    """States (rows, d) in a file, in the order of its rows.

    A subclass opens the file and finds `widths`, how many numbers each of its columns has in a row; it reads `pieces`
    of the columns chosen.
    """

    kind: ClassVar[str]
    """What the file is, for errors."""
    rows: int

    def __init__(
        self, path: Path, features: tuple[str, ...], columns: tuple[str, ...] | None, entries: tuple[str, ...]
    ) -> None:
        self.path, self.features = path, features
        with self.reading():
            self.stamp = self._stamp()
            widths = self.widths()
            self.columns = self._found(widths, columns, entries)
            self.chosen = {name: widths[name] for name in self.columns}
            self._check_width(self.chosen)
            self.rows = self.count()
        if self.rows == 0:
            raise DataError(f"{path} holds no states: {self._names(self.columns)} has no rows.")

    def widths(self) -> Mapping[str, int]:
        """The columns of numbers, and how many each has in a row."""
        raise NotImplementedError

    def count(self) -> int:
        """The number of rows of the columns chosen."""
        raise NotImplementedError

    def pieces(self, start: int, size: int) -> Iterator[NDArray]:
        """The rows from `start` on, in pieces (n, d) of at most `size` rows."""
        raise NotImplementedError

    def blocks(self, size: int, start: int = 0) -> Iterator[Array]:
        """The rows from `start` on, in blocks of exactly `size` rows but for the last."""
        block, filled, rows = np.empty((size, len(self.features))), 0, start
        with self.reading():
            for piece in self.pieces(start, size):
                rows += len(piece)
                while len(piece):
                    taken = min(size - filled, len(piece))
                    block[filled : filled + taken] = piece[:taken]
                    piece, filled = piece[taken:], filled + taken
                    if filled == size:
                        self._check_unchanged()
                        yield block
                        block, filled = np.empty_like(block), 0
            if rows != self.rows:
                raise ValueError(f"it has {rows} rows where it promised {self.rows}")
            self._check_unchanged()
        if filled:
            yield block[:filled]

    def _stamp(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_size, found.st_mtime_ns

    def _check_unchanged(self) -> None:
        if self._stamp() != self.stamp:
            raise DataError(f"{self.path} changed while it was read. Explain it when nobody writes to it any more.")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever a library says of a damaged file becomes an error that names the file."""
        try:
            yield
        except (RSA2CError, MemoryError):
            raise
        except Exception as error:
            raise FileFormatError(
                f"{self.path} could not be read as {self.kind}: {error}. Restore it from a copy, or write it again."
            ) from error

    def _found(
        self, widths: Mapping[str, int], columns: tuple[str, ...] | None, entries: tuple[str, ...]
    ) -> tuple[str, ...]:
        if columns is not None:
            self._check_names(widths, columns)
            return columns
        for names in (self.features, entries, *((name,) for name in USUAL_NAMES)):
            if names and all(name in widths for name in names):
                return names
        if len(widths) == 1:
            return tuple(widths)
        if not widths:
            raise DataError(f"{self.path} has no columns of numbers, so it holds no states.")
        missing = [name for name in self.features if name not in widths]
        raise DataError(
            f"{self.path} must have a column for every feature, or one called "
            f"{' or '.join(map(repr, USUAL_NAMES[:3]))}; missing are {self._names(missing)}. It has "
            f"{self._names(widths)}. Say which hold the states, in the order of the features: --columns, or columns=."
        )

    def _check_names(self, widths: Mapping[str, int], columns: Sequence[str]) -> None:
        for name in columns:
            if name not in widths:
                raise DataError(
                    f"{self.path} has no column of numbers {name!r}; it has {self._names(widths)}."
                    + did_you_mean(name, widths)
                )
            if list(columns).count(name) > 1:
                raise DataError(f"columns must differ, got {name!r} more than once.")

    def _check_width(self, widths: Mapping[str, int]) -> None:
        if sum(widths.values()) != len(self.features):
            received = ", ".join(f"{name} with {width}" for name, width in list(widths.items())[:MOST_NAMED])
            raise DataError(
                f"the states of {self.path} must have {len(self.features)} numbers in a row, one for each feature "
                f"({self._names(self.features)}), got {sum(widths.values())}: {received}. "
                "Choose other columns with --columns, or columns=."
            )

    @staticmethod
    def _names(names: Mapping[str, int] | Sequence[str]) -> str:
        listed = list(names)
        more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
        return ", ".join(listed[:MOST_NAMED]) + more

"""States in NumPy's files: the arrays of an NPZ file, compressed or not, or the one of an NPY file."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rsa2c.datasets.dataset import USUAL_NAMES, Dataset
from rsa2c.errors import DataError

LOCAL_HEADER, SKIPPED_BYTES = 30, 2**20


@dataclass(frozen=True)
class Member:
    """One array in a file: its type and shape, and where its numbers begin."""

    entry: zipfile.ZipInfo | None
    """Its entry in an NPZ file; None for an NPY file."""
    dtype: np.dtype
    shape: tuple[int, ...]
    fortran: bool
    header: int
    """Bytes before the numbers, counted from the start of the array's own file."""

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return math.prod(self.shape[1:])


class NumpyDataset(Dataset):
    """Arrays (rows, width) side by side. Those in Fortran's order are read column by column."""

    kind = "NumPy's NPZ or NPY"

    def widths(self) -> Mapping[str, int]:
        self.members = {}
        for entry in self._entries():
            with ExitStack() as stack:
                member = _member(entry, self._stream(entry, 0, stack))
            if member.dtype.kind in "iuf" and len(member.shape) in (1, 2):
                name = USUAL_NAMES[0] if entry is None else entry.filename.removesuffix(".npy")
                self.members[name] = member
        return {name: member.width for name, member in self.members.items()}

    def count(self) -> int:
        lengths = {name: self.members[name].shape[0] for name in self.columns}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} with {rows}" for name, rows in lengths.items())
            raise DataError(f"the columns of {self.path} must have equally many rows, got {listed}.")
        return next(iter(lengths.values()))

    def pieces(self, start: int, size: int) -> Iterator[NDArray]:
        with ExitStack() as stack:
            parts = [part for name in self.columns for part in self._parts(self.members[name], start, stack)]
            for row in range(start, self.rows, size):
                rows = min(size, self.rows - row)
                yield np.concatenate([_numbers(*part, rows) for part in parts], axis=1)
            for stream, _, _ in parts:
                stream.read(1)  # at its end, a stream of an NPZ file compares the checksum

    def _entries(self) -> list[zipfile.ZipInfo | None]:
        if not zipfile.is_zipfile(self.path):
            return [None]
        with zipfile.ZipFile(self.path) as archive:
            return [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]

    def _stream(self, entry: zipfile.ZipInfo | None, skipped: int, stack: ExitStack) -> IO[bytes]:
        """An array's own file without its first bytes. Where nothing is compressed they are not read either."""
        file = stack.enter_context(open(self.path, "rb"))  # noqa: SIM115
        if entry is None:
            file.seek(skipped)
        elif skipped and entry.compress_type == zipfile.ZIP_STORED:
            file.seek(entry.header_offset)
            name, extra = struct.unpack("<26x2H", file.read(LOCAL_HEADER))
            file.seek(name + extra + skipped, os.SEEK_CUR)
        else:
            archive = stack.enter_context(zipfile.ZipFile(file))
            stream = stack.enter_context(archive.open(entry))
            while skipped > 0 and (read := len(stream.read(min(skipped, SKIPPED_BYTES)))):
                skipped -= read
            return stream
        return file

    def _parts(self, member: Member, start: int, stack: ExitStack) -> list[tuple[IO[bytes], np.dtype, int]]:
        """Streams at row `start`, each with the numbers it has in a row: one stream, or one for each column."""
        size = member.dtype.itemsize
        if member.fortran:
            firsts, width = [i * member.shape[0] * size for i in range(member.width)], 1
        else:
            firsts, width = [0], member.width
        parts = []
        for first in firsts:
            skipped = first + start * width * size
            # Without rows to skip, the checksum of the array is compared; the header is read for it
            stream = self._stream(member.entry, member.header + skipped if skipped else 0, stack)
            if not skipped:
                stream.read(member.header)
            parts.append((stream, member.dtype, width))
        return parts


def _member(entry: zipfile.ZipInfo | None, stream: IO[bytes]) -> Member:
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    return Member(entry, dtype, shape, fortran and len(shape) > 1, stream.tell())


def _numbers(stream: IO[bytes], dtype: np.dtype, width: int, rows: int) -> NDArray:
    size = rows * width * dtype.itemsize
    content = stream.read(size)
    if len(content) < size:
        raise ValueError("an array ends before its last row")
    return np.frombuffer(content, dtype).reshape(rows, width)

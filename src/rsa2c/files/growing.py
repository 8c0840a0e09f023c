"""Arrays that grow on disk: NPY files whose final shape is known from the start, and whose rows come in steps.

The header says the final shape, so the finished file is an ordinary NPY file. Whoever appends knows how many rows are
safe; what a crash left beyond them is overwritten.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from rsa2c.errors import FileFormatError
from rsa2c.files.disk import StorageError


def append_rows(path: Path, rows: np.ndarray, start: int, total: int) -> None:
    """Write rows (n, ...) of float64 as numbers start, start + 1, ... of the array (total, ...), and flush them."""
    buffer = io.BytesIO()
    shape = (total, *rows.shape[1:])
    npy.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    header, content = buffer.getvalue(), np.ascontiguousarray(rows, dtype="<f8").tobytes()
    place = len(header) + start * math.prod(shape[1:]) * 8
    wrong = f"{path} does not hold the {start:,} rows that were written. Delete its folder and begin again."
    try:
        with open(path, "r+b" if start else "wb") as file:
            if start and (file.read(len(header)) != header or file.seek(0, os.SEEK_END) < place):
                raise FileFormatError(wrong)
            file.seek(place if start else 0)
            file.truncate()
            file.write(content if start else header + content)
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError as error:
        raise FileFormatError(wrong) from error
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. "
            "Free some space, or choose a folder you may write to."
        ) from error


def mapped(path: Path, shape: tuple[int | None, ...]) -> np.ndarray:
    """The finished array, mapped into memory and read where it is used; None is an axis of any length."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
        fits = len(array.shape) == len(shape) and all(
            n is None or n == m for n, m in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype != np.float64:
            raise ValueError(f"it holds {array.dtype} of the shape {array.shape}")
    except (OSError, ValueError, EOFError) as error:
        raise FileFormatError(f"{path} is damaged or missing: {error}. Restore it from a copy.") from error
    return array

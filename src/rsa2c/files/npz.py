"""Arrays as uncompressed NPZ files of plain numbers and text, read without trusting their headers."""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Mapping

import numpy as np

from rsa2c.errors import FileFormatError
from rsa2c.files.disk import PathLike, read_bytes, write_atomically
from rsa2c.files.tensors import check_shapes

_NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|](?:[biuf]\d{1,2}|U\d{1,4}))', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}, ?)*(?:\d{1,19})?)\), \} *\n"
)


def write_npz(path: PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as an uncompressed NPZ file; equal content gives equal bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def read_npz(
    path: PathLike, shapes: Mapping[str, str], optional: Mapping[str, str] | None = None, text: str | None = None
) -> dict[str, np.ndarray]:
    """The arrays of an NPZ file that `write_npz` wrote, named and shaped as `shapes` says (see `check_shapes`), and
    the optional ones that exist. All hold numbers, except that the one called `text` holds strings."""
    content = read_bytes(path)
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            there = {name.removesuffix(".npy") for name in archive.namelist()}
            wanted = {**shapes, **{name: axes for name, axes in (optional or {}).items() if name in there}}
            for name in wanted:
                member = archive.getinfo(f"{name}.npy")
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                    raise ValueError(f"{name} is compressed, or larger than the file")
                arrays[name] = _array(archive.read(member))
                if (arrays[name].dtype.kind == "U") != (name == text):
                    raise ValueError(f"{name} has entries of type {arrays[name].dtype}")
        check_shapes(arrays, wanted)
    except (zipfile.BadZipFile, LookupError, TypeError, ValueError, EOFError, OSError, RuntimeError) as error:
        raise FileFormatError(f"{path} is damaged or not ours: {error}. Restore it from a copy.") from error
    return arrays


def _array(content: bytes) -> np.ndarray:
    """An array in NPY format 1.0, exactly as NumPy writes one; a header that does not match the data is refused."""
    header = _NPY_HEADER.match(content, 10)
    if content[:8] != b"\x93NUMPY\x01\x00" or header is None:
        raise ValueError("an array's header is damaged, or it has a type that is not used here")
    dtype = np.dtype(header[1].decode())
    shape = tuple(map(int, header[3].replace(b",", b" ").split()))
    size = len(content) - header.end()
    if int.from_bytes(content[8:10], "little") != header.end() - 10 or math.prod(shape) * dtype.itemsize != size:
        raise ValueError("an array's header does not match its data")
    flat = np.frombuffer(content, dtype, offset=header.end()) if size else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if header[2] == b"True" else "C").copy()

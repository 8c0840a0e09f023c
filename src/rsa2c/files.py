"""Files that are whole or absent, and readers that trust nothing: atomic writes, safetensors, NPZ.

Nothing is pickled. Whatever is wrong with a file becomes an error that names it and the remedy, and no array
is allocated before its size has been checked against the file's.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from rsa2c.errors import DataError, FileFormatError, NotFoundError, RSA2CError

FORMAT = "rsa2c"
VERSION = 1
_METADATA_KEY = "rsa2c"

PathLike = str | os.PathLike[str]


class StorageError(RSA2CError, OSError):
    """The disk refused: full, read-only, or held by another process."""


class HeldError(StorageError):
    """A run that another process is writing."""


def write_atomically(path: PathLike, content: bytes) -> None:
    """Replace `path` by `content`: a reader, or a crash at any moment, finds the old file or the new one."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)
    except FileNotFoundError:
        raise StorageError(f"{path} could not be written: the folder {path.parent} does not exist. Make it.") from None
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. "
            "Free some space, or choose a folder you may write to."
        ) from error


def sync_folder(folder: Path) -> None:
    """Make new names in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: PathLike) -> bytes:
    """The file's content; a missing file's error names the nearest names beside it."""
    path = Path(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"{path} does not exist.{near(path)}") from None
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error


def near(path: Path) -> str:
    """" Did you mean ...?" from the names beside `path`, or the empty string when none is near."""
    names = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(str(path.parent / name) for name in close)}?" if close else ""


def write_tensors(path: PathLike, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write a model or checkpoint as safetensors; equal content gives equal bytes."""
    write_atomically(path, tensor_bytes(tensors, metadata))


def tensor_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> bytes:
    """The file `write_tensors` writes; `metadata["kind"]` says what it is, `"model"` or `"state"`.

    safetensors orders several metadata keys at random, so ours is one key that holds canonical JSON: sorted
    keys, no white space, no NaN.
    """
    if not isinstance(metadata.get("kind"), str):
        raise DataError(f"metadata must name a kind, 'model' or 'state', got {metadata.get('kind')!r}.")
    document = {**metadata, "format": FORMAT, "version": VERSION}
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"metadata must be JSON without NaN or infinity ({error}); use a tensor.") from error
    # safetensors reads raw memory: a view that is not contiguous would be saved scrambled.
    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    return safetensors.numpy.save(contiguous, {_METADATA_KEY: text})


def read_tensors(path: PathLike, kind: str | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Tensors and metadata of a file `write_tensors` wrote, of the given kind (or of any)."""
    content = read_bytes(path)

    def refusal(what: str, remedy: str = "Restore it from a copy, or train again") -> FileFormatError:
        return FileFormatError(f"{path} is not a usable {kind or 'rsa2c'} file: {what}. {remedy}.")

    try:
        # safetensors checks every offset, shape and size against the length of `content` first.
        tensors = {name: np.array(array) for name, array in safetensors.numpy.load(content).items()}
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except safetensors.SafetensorError as error:
        raise refusal(f"it is truncated, damaged or no safetensors file ({error})") from error
    except (KeyError, ValueError, TypeError, MemoryError, OverflowError, RecursionError) as error:
        raise refusal(f"its header is damaged ({type(error).__name__}: {error})") from error
    text = (header.get("__metadata__") or {}).get(_METADATA_KEY)
    if text is None:
        raise refusal("it carries no rsa2c metadata", "Give a safetensors file that rsa2c wrote")
    try:
        metadata = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise refusal(f"its metadata is not JSON ({error})") from error
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise refusal("its metadata names another format", "Give a safetensors file that rsa2c wrote")
    version = metadata.get("version")
    if type(version) is not int or version < 1:
        raise refusal(f"its format version is {version!r}")
    if version > VERSION:
        what = f"its format version is {version}, this rsa2c reads versions up to {VERSION}"
        raise refusal(what, "Upgrade with: pip install -U rsa2c")
    if kind is not None and metadata.get("kind") != kind:
        raise refusal(f"it is of kind {metadata.get('kind')!r}", f"Give a file of kind {kind!r}")
    return tensors, metadata


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def write_npz(path: PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as an uncompressed NPZ file; equal content gives equal bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def read_npz(path: PathLike, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The named arrays of an NPZ file that `write_npz` wrote, and the optional ones that are there."""
    content = read_bytes(path)
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            there = archive.namelist()
            for name in [*names, *(name for name in optional if f"{name}.npy" in there)]:
                member = archive.getinfo(f"{name}.npy")
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                    raise ValueError(f"{name} is compressed, or larger than the file")
                arrays[name] = _array(archive.read(member))
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError, RuntimeError) as error:
        raise FileFormatError(f"{path} is damaged or not ours: {error}. Restore it from a copy.") from error
    return arrays


def _array(content: bytes) -> np.ndarray:
    """An array in NPY format; pickled objects, and headers that promise more than there is, are refused."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise ValueError(f"NPY version {version} is not used here")
    shape, _, dtype = read_header[version](stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array's header does not match its data")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)

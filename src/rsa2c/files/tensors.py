"""Models and checkpoints as safetensors, with their metadata as one key of canonical JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from rsa2c.errors import DataError, FileFormatError
from rsa2c.files import versions
from rsa2c.files.compact import expanded
from rsa2c.files.disk import PathLike, read_bytes, write_atomically
from rsa2c.files.versions import FORMAT, Metadata, Tensors, Upgrade, pending

_METADATA_KEY = "rsa2c"


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
    document = {**metadata, "format": FORMAT, "version": versions.VERSION}
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"metadata must be JSON without NaN or infinity ({error}); use a tensor.") from error
    # safetensors reads raw memory: a view that is not contiguous would be saved scrambled.
    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    return safetensors.numpy.save(contiguous, {_METADATA_KEY: text})


def read_tensors(
    path: PathLike, kind: str | None = None, upgrades: Mapping[int, Upgrade] | None = None
) -> tuple[Tensors, Metadata]:
    """Tensors and metadata of a file `write_tensors` wrote, of the given kind (or of any), in our version.

    `upgrades` has the functions that turn tensors and metadata of version n into those of version n + 1.
    """
    content, refusal = read_bytes(path), _refusal(path, kind)
    try:
        # safetensors checks every offset, shape and size against the length of `content` first.
        tensors = {name: np.array(array) for name, array in safetensors.numpy.load(content).items()}
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")].decode())
    except _DAMAGE as error:
        raise _damaged(error, refusal) from error
    metadata = _metadata(header.get("__metadata__"), kind, refusal)
    steps = pending(metadata.get("version"), upgrades or {}, refusal)
    try:
        tensors, metadata = expanded(tensors, metadata)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise refusal(f"its tensors do not fit together ({type(error).__name__}: {error})") from error
    try:
        for upgrade in steps:
            tensors, metadata = upgrade(tensors, metadata)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise refusal(f"it cannot be upgraded to version {versions.VERSION} ({cause})") from error
    return tensors, {**metadata, "version": versions.VERSION}


def read_metadata(path: PathLike, kind: str | None = None) -> Metadata:
    """The metadata alone, from the file's header, as stored; sizes that it names are checked against the file's.

    Nothing is upgraded: only what means the same in all versions may be taken from it.
    """
    refusal = _refusal(path, kind)
    if not Path(path).is_file():
        read_bytes(path)  # says what is wrong with the path
    try:
        with safetensors.safe_open(path, framework="np") as file:
            header = file.metadata()
    except (*_DAMAGE, OSError) as error:
        raise _damaged(error, refusal) from error
    metadata = _metadata(header, kind, refusal)
    pending(metadata.get("version"), {}, refusal)
    return metadata


_DAMAGE = (
    safetensors.SafetensorError, KeyError, ValueError, TypeError, MemoryError, OverflowError, RecursionError
)  # fmt: skip


def _refusal(path: PathLike, kind: str | None) -> Callable[..., FileFormatError]:
    def refusal(what: str, remedy: str = "Restore it from a copy, or train again") -> FileFormatError:
        return FileFormatError(f"{path} is not a usable {kind or 'rsa2c'} file: {what}. {remedy}.")

    return refusal


def _damaged(error: Exception, refusal: Callable[..., FileFormatError]) -> FileFormatError:
    if isinstance(error, safetensors.SafetensorError):
        return refusal(f"it is truncated, damaged or not a safetensors file ({error})")
    return refusal(f"its header is damaged ({type(error).__name__}: {error})")


def _metadata(header: Any, kind: str | None, refusal: Callable[..., FileFormatError]) -> Metadata:
    """The JSON under our key of a safetensors header, checked for format and kind."""
    text = (header or {}).get(_METADATA_KEY)
    if text is None:
        raise refusal("it carries no rsa2c metadata", "Give a safetensors file that rsa2c wrote")
    try:
        metadata = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise refusal(f"its metadata is not JSON ({error})") from error
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise refusal("its metadata names another format", "Give a safetensors file that rsa2c wrote")
    if kind is not None and metadata.get("kind") != kind:
        raise refusal(f"it is of kind {metadata.get('kind')!r}", f"Give a file of kind {kind!r}")
    return metadata


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _whole(text: str) -> int:
    if len(text) > 19:
        raise ValueError(f"the number {text[:20]}... is too large")
    return int(text)


def check_shapes(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, str], **sizes: int) -> None:
    """Refuse arrays that do not fit together: "n d" names an array's axes, and axes with one name have one size."""
    known = {"1": 1, **sizes}
    for name, axes in shapes.items():
        shape, names = arrays[name].shape, axes.split()
        if len(shape) != len(names) or any(known.setdefault(a, n) != n for a, n in zip(names, shape, strict=True)):
            wanted = ", ".join(str(known.get(axis, axis)) for axis in names)
            raise ValueError(f"{name} must have the shape ({wanted}) to match the others, got {shape}")

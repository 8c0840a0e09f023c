"""Smaller files: tensors that are stored in single precision, and rows that two tensors share, stored once.

The metadata say what was done (`float32`, `rows`), and a reader undoes it before anything else: it sees float64 tensors
under their own names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rsa2c.files.versions import Metadata, Tensors

ROWS = "/rows"
"""After a tensor's name: the positions of its rows in the tensor it shares rows with, followed by its own rows."""


def compacted(
    tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any], rounded: Collection[str]
) -> tuple[Tensors, Metadata]:
    """The same in fewer bytes: the tensors named in `rounded` as float32, and rows that occur twice once.

    A tensor b that shares rows with an earlier tensor a is stored as the rows of its own and, as `b/rows`, positions in
    [a; own rows].
    """
    stored = {name: array.astype(np.float32) if name in rounded else array for name, array in tensors.items()}
    shared: dict[str, str] = {}
    for name in sorted(stored):
        for base in sorted(set(stored) - set(shared)):
            if base < name and (found := _shared_rows(stored[base], stored[name])) is not None:
                shared[name] = base
                stored[name], stored[name + ROWS] = found
                break
    return stored, {**metadata, "float32": sorted(rounded), "rows": shared}


def expanded(tensors: Tensors, metadata: Metadata) -> tuple[Tensors, Metadata]:
    """What `compacted` was given, up to rounding; anything else is returned unchanged."""
    if "float32" not in metadata:
        return tensors, metadata
    rest = {name: value for name, value in metadata.items() if name not in ("float32", "rows")}
    whole = dict(tensors)
    for name, base in metadata["rows"].items():
        rows, every = whole.pop(name + ROWS), np.concatenate([tensors[base], tensors[name]])
        # No more rows than the file has, so that nothing larger than the file is allocated
        usable = rows.dtype == np.int32 and rows.ndim == 1 and len(rows) <= len(every)
        if not usable or np.any((rows < 0) | (rows >= len(every))):
            raise ValueError(f"{name}{ROWS} is not a list of positions in {base}")
        whole[name] = every[rows]
    for name in metadata["float32"]:
        if whole[name].dtype != np.float32:
            raise ValueError(f"{name} has entries of type {whole[name].dtype}")
        whole[name] = whole[name].astype(np.float64)
    return whole, rest


def _shared_rows(base: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The rows that `other` does not share with `base`, and the positions of all its rows in [base; own rows].

    None where nothing is gained.
    """
    if base.ndim != 2 or other.ndim != 2 or base.shape[1] != other.shape[1] or base.dtype != other.dtype:
        return None
    places = {row.tobytes(): i for i, row in enumerate(base)}
    own = [row for row in other if row.tobytes() not in places]
    saves = len(own) * other.shape[1] * other.itemsize + 4 * len(other) < other.nbytes
    if not saves or len(other) > len(base) + len(own):
        return None
    new = iter(range(len(base), len(base) + len(own)))
    rows = [places[key] if (key := row.tobytes()) in places else next(new) for row in other]
    return np.array(own, dtype=other.dtype).reshape(-1, other.shape[1]), np.array(rows, dtype=np.int32)

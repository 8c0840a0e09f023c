"""Files of states, read in order and in constant memory: NPZ and NPY, Parquet, and Minari's HDF5.

What a file is, its first bytes say, not its name. The modules that read Parquet and HDF5 are imported where used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rsa2c.datasets.dataset import Dataset
from rsa2c.errors import DataError, FileFormatError, NotFoundError
from rsa2c.files import PathLike, StorageError, near

__all__ = ["Dataset", "open_dataset"]

HDF5, NPY, PARQUET, ZIP = b"\x89HDF\r\n\x1a\n", b"\x93NUMPY", b"PAR1", b"PK"
MINARI_FILES = ("main_data.hdf5", "data/main_data.hdf5")


def open_dataset(
    path: PathLike,
    features: Sequence[str],
    columns: Sequence[str] | None = None,
    entries: Sequence[str] = (),
) -> Dataset:
    """The states of a file: NPZ, NPY, Parquet, `main_data.hdf5` of Minari, or the folder of a Minari dataset.

    `columns` names the arrays or columns that hold the states, in the order of the features; several are put side by
    side. Unless given they are found by name: the features, then the `entries` of a Dict observation, then
    "observations" and the like.
    """
    file = _file(Path(path))
    try:
        with open(file, "rb") as stream:
            start = stream.read(8)
    except OSError as error:
        raise StorageError(f"{file} could not be read: {error.strerror or error}.") from error
    if not start:
        raise DataError(f"{file} is empty: it has no bytes. Write it again.")
    if start.startswith((ZIP, NPY)):
        from rsa2c.datasets.npz import NumpyDataset as Reader
    elif start.startswith(PARQUET):
        from rsa2c.datasets.parquet import ParquetDataset as Reader  # type: ignore[assignment]
    elif start == HDF5:
        from rsa2c.datasets.minari import MinariDataset as Reader  # type: ignore[assignment]
    else:
        raise FileFormatError(
            f"{file} is not a dataset: it must be an NPZ, NPY, Parquet or Minari (HDF5) file, but it begins with "
            f"{start!r}. Write the states with numpy.savez(file, observations=states)."
        )
    return Reader(file, tuple(features), None if columns is None else tuple(columns), tuple(entries))


def _file(path: Path) -> Path:
    """The file itself, or the one inside the folder of a Minari dataset."""
    if path.is_dir():
        inside = next((path / name for name in MINARI_FILES if (path / name).is_file()), None)
        if inside is None:
            raise FileFormatError(
                f"{path} is a folder without data/main_data.hdf5, so it is no Minari dataset in HDF5 format. "
                "Give an NPZ, Parquet or HDF5 file."
            )
        return inside
    if not path.exists():
        raise NotFoundError(f"dataset {path} does not exist.{near(path)}")
    return path

"""States in Minari's HDF5 layout: one group for each episode, `episode_0/observations` and so on.

An episode of T steps has T + 1 observations, and all of them are rows: first those of episode 0, then those of
episode 1. Observations that are a Dict are a group of arrays, one for each entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.datasets.dataset import USUAL_NAMES, Dataset
from rsa2c.errors import DataError, require

EPISODE = re.compile(r"episode_(\d+)")
OBSERVATIONS = USUAL_NAMES[0]


class MinariDataset(Dataset):
    """The observations of all episodes, in the order of the episodes' numbers."""

    kind = "Minari's HDF5"

    def widths(self) -> Mapping[str, int]:
        with self._opened() as file:
            numbers = [int(found[1]) for name in file if (found := EPISODE.fullmatch(name))]
            if not numbers:
                raise DataError(
                    f"{self.path} is HDF5 but not a Minari dataset: it must have groups episode_0, episode_1, ..., got "
                    f"{self._names(list(file)) or 'nothing'}. Convert it with Minari, or write the states as NPZ."
                )
            self.episodes = sorted(numbers)
            first = self._observations(file, self.episodes[0])
            return {name: int(np.prod(array.shape[1:])) for name, array in _leaves(first, ())}

    def count(self) -> int:
        with self._opened() as file:
            self.lengths = [self._length(file, number) for number in self.episodes]
        return sum(self.lengths)

    def pieces(self, start: int, size: int) -> Iterator[NDArray]:
        passed = 0
        with self._opened() as file:
            for number, length in zip(self.episodes, self.lengths, strict=True):
                if passed + length > start:
                    arrays = self._arrays(file, number)
                    for row in range(max(0, start - passed), length, size):
                        rows = slice(row, min(row + size, length))
                        yield np.concatenate([array[rows].reshape(rows.stop - row, -1) for array in arrays], axis=1)
                passed += length

    def _opened(self) -> Any:
        return require("h5py", "explain", "A Minari dataset").File(self.path, "r")

    def _observations(self, file: Any, number: int) -> Any:
        group = file[f"episode_{number}"]
        if OBSERVATIONS not in group:
            raise DataError(f"episode_{number} of {self.path} has no observations, got {self._names(list(group))}.")
        return group[OBSERVATIONS]

    def _arrays(self, file: Any, number: int) -> list[Any]:
        found = dict(_leaves(self._observations(file, number), ()))
        missing = [name for name in self.columns if name not in found]
        if missing:
            raise DataError(f"episode_{number} of {self.path} has no observations {', '.join(missing)}.")
        return [found[name] for name in self.columns]

    def _length(self, file: Any, number: int) -> int:
        """Rows of an episode, whose arrays must be as wide as those of the first and equally long."""
        arrays = dict(zip(self.columns, self._arrays(file, number), strict=True))
        for name, array in arrays.items():
            if int(np.prod(array.shape[1:])) != self.chosen[name]:
                raise DataError(
                    f"{name} of {self.path} must have {self.chosen[name]} numbers in a row in every episode, "
                    f"got the shape {array.shape} in episode_{number}."
                )
        lengths = {array.shape[0] for array in arrays.values()}
        if len(lengths) > 1:
            raise DataError(f"the observations of episode_{number} of {self.path} must be equally many, got {lengths}.")
        return lengths.pop()


def _leaves(found: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The arrays of numbers, by their keys joined with a slash; an array that is not in a group is `observations`."""
    if hasattr(found, "shape"):
        if found.dtype.kind in "iufb" and found.ndim > 0:
            yield "/".join(path) or OBSERVATIONS, found
        return
    for key in found:
        yield from _leaves(found[key], (*path, key))

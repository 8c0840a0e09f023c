"""States in a Parquet file: a column of numbers for each feature, or a column of lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.datasets.dataset import Dataset
from rsa2c.errors import DataError, require

BUFFER_BYTES = 2**20
"""Bytes of a column that are read at once: a group of rows may be larger than memory."""


class ParquetDataset(Dataset):
    """Columns of numbers or of lists of numbers, side by side. A missing entry is read as NaN."""

    kind = "Parquet"

    def widths(self) -> Mapping[str, int]:
        self.arrow = require("pyarrow", "explain", "A Parquet file")
        with self._opened() as file:
            schema = file.schema_arrow
            lists = {field.name for field in schema if self._is_list(field.type)}
            first = next(file.iter_batches(1, columns=sorted(lists)), None) if lists else None
            found = {}
            for field in schema:
                if self._is_number(field.type):
                    found[field.name] = 1
                elif field.name in lists and first is not None:
                    found[field.name] = len(first.column(field.name)[0].as_py() or ())
        repeated = [name for name in found if schema.names.count(name) > 1]
        return {name: width for name, width in found.items() if name not in repeated}

    def count(self) -> int:
        with self._opened() as file:
            return file.metadata.num_rows

    def pieces(self, start: int, size: int) -> Iterator[NDArray]:
        with self._opened() as file:
            groups: list[int] = []
            passed = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if groups or passed + rows > start:
                    groups.append(group)
                else:
                    passed += rows
            for batch in file.iter_batches(size, row_groups=groups, columns=list(self.columns)):
                inside = max(0, start - passed)
                if inside < len(batch):
                    row = passed + inside
                    yield np.concatenate([self._numbers(batch.column(n)[inside:], n, row) for n in self.columns], 1)
                passed += len(batch)

    def _opened(self) -> Any:
        parquet = require("pyarrow.parquet", "explain", "A Parquet file")
        return parquet.ParquetFile(self.path, buffer_size=BUFFER_BYTES, pre_buffer=False)

    def _is_number(self, kind: Any) -> bool:
        return self.arrow.types.is_floating(kind) or self.arrow.types.is_integer(kind)

    def _is_list(self, kind: Any) -> bool:
        types = self.arrow.types
        lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return lists and self._is_number(kind.value_type)

    def _numbers(self, column: Any, name: str, row: int) -> NDArray:
        """(n, width): the entries of a column, whose first is in this row of the file."""
        if not self._is_list(column.type):
            return column.to_numpy(zero_copy_only=False).reshape(-1, 1)
        compute = require("pyarrow.compute", "explain", "A Parquet file")
        lengths = compute.fill_null(compute.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        width = self.chosen[name]
        wrong = np.flatnonzero(lengths != width)
        if len(wrong):
            raise DataError(
                f"column {name} of {self.path} must have lists of equal length, {width} numbers as in row 0, "
                f"got {lengths[wrong[0]]} in row {row + wrong[0]}. Drop these rows first."
            )
        return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)

"""scikit-learn's preprocessing in front of a kernel model, read as a map from the columns of X to coordinates.

Scalers act feature by feature, so they do not change the game among features. A ColumnTransformer may reorder and
drop columns besides: its coordinates are put back into the order of X, and a dropped column has the coordinate zero in
states and centres alike, so that its factor is one. Whatever mixes features or makes new ones is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.errors import ConfigError, DataError

Array = NDArray[np.float64]
Transform = Callable[[Array], Array]
SCALERS = (
    "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "PowerTransformer", "QuantileTransformer",
    "SimpleImputer",
)  # fmt: skip
"""What maps each column of X to one column, by itself."""
REMEDY = f"Use one of {', '.join(SCALERS)} or 'passthrough', or explain the last step alone on transformed data."


@dataclass(frozen=True)
class Preprocessing:
    """The steps' transforms in turn; column j of their result is made from column `source[j]` of X's `width`.

    `width` is None, and `source` too, while no step has reordered or dropped columns.
    """

    transforms: tuple[Callable[[Array], Any], ...] = ()
    source: NDArray[np.intp] | None = None
    width: int | None = None

    def then(self, coordinates: Transform) -> Transform:
        """The map from X to the model's own coordinates, in the order of X's columns."""

        def composed(x: Array) -> Array:
            with warnings.catch_warnings():
                # A scaler that was fitted to a data frame warns that our arrays have no column names
                warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
                for transform in self.transforms:
                    x = np.asarray(transform(x), dtype=np.float64)
            return self.in_order(coordinates(x))

        return composed

    def in_order(self, columns: Array, absent: float = 0.0) -> Array:
        """(..., d): what belongs to the transformed columns, in the order of X's; `absent` for a dropped one."""
        if self.source is None or self.width is None:
            return columns
        ordered = np.full((*columns.shape[:-1], self.width), absent)
        ordered[..., self.source] = columns
        return ordered


def preprocessing(steps: list[tuple[str, Any]]) -> Preprocessing:
    """The steps of a Pipeline before its model."""
    found = Preprocessing()
    for name, step in steps:
        if type(step).__name__ == "ColumnTransformer":
            found = _columns(found, name, step)
        else:
            found = replace(found, transforms=(*found.transforms, *_scaling(f"pipeline step {name!r}", step)))
    return found


def _scaling(where: str, step: Any) -> tuple[Callable[[Array], Any], ...]:
    """The transforms of a scaler, of 'passthrough', or of a Pipeline of them."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return ()
    kind = type(step).__name__
    if kind == "FunctionTransformer" and step.func is None:
        return ()
    if kind == "Pipeline":
        return tuple(transform for _, inner in step.steps for transform in _scaling(where, inner))
    if kind not in SCALERS:
        raise ConfigError(
            f"{where} ({kind}) is not known to change each column by itself, so values might not belong to the "
            f"features of X. {REMEDY}"
        )
    taken = getattr(step, "n_features_in_", None)
    if taken is not None and (made := len(step.get_feature_names_out())) != taken:
        # an imputer that adds indicators, or drops a column without values
        raise ConfigError(f"{where} ({kind}) makes {made} columns of {taken}. {REMEDY}")
    return (step.transform,)


def _columns(before: Preprocessing, name: str, step: Any) -> Preprocessing:
    """A fitted ColumnTransformer of scalers, 'passthrough' and 'drop' after the steps `before` it."""
    if not hasattr(step, "transformers_"):
        raise DataError(f"pipeline step {name!r} (ColumnTransformer) is not fitted yet: call fit before explaining it.")
    blocks = []
    for part, transformer, _ in step.transformers_:
        numbers = np.asarray(step._transformer_to_input_indices[part], dtype=np.intp)
        if len(numbers) and not (isinstance(transformer, str) and transformer == "drop"):
            where = f"transformer {part!r} of pipeline step {name!r}"
            blocks.append((numbers, _scaling(where, transformer)))
    source = np.concatenate([numbers for numbers, _ in blocks]) if blocks else np.zeros(0, dtype=np.intp)
    repeated = [int(i) for i in np.flatnonzero(np.bincount(source, minlength=1) > 1)]
    if repeated:
        raise ConfigError(
            f"pipeline step {name!r} (ColumnTransformer) must use each column of X once, got column {repeated[0]} in "
            f"several transformers. {REMEDY}"
        )

    def transform(x: Array) -> Array:
        parts = []
        for numbers, scalers in blocks:
            part = x[:, numbers]
            for scale in scalers:
                part = np.asarray(scale(part), dtype=np.float64)
            parts.append(part)
        return np.concatenate(parts, axis=1)

    earlier = np.arange(step.n_features_in_) if before.source is None else before.source
    width = int(step.n_features_in_) if before.width is None else before.width
    return Preprocessing((*before.transforms, transform), earlier[source], width)

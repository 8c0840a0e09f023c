"""What every explainer returns: Shapley values with their base values, data, names, errors and game.

`Explanation` holds arrays and names and no computation beyond looking at them. It is saved as one `.npz` file with the
names in canonical JSON next to the arrays; nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from rsa2c.errors import DataError, FileFormatError, NotFoundError, did_you_mean, require
from rsa2c.files import read_npz, write_npz

if TYPE_CHECKING:
    import shap

Array = NDArray[np.float64]
FORMAT = "rsa2c-explanation-1"
REQUIRED = {"values": "T d m", "base_values": "T m", "data": "T d", "efficiency_residual": "T m"}
OPTIONAL = {"std_error": "T d m", "interactions": "T d d m"}
"""Arrays of a file and the names of their axes."""


@dataclass(frozen=True)
class Explanation:
    """Shapley values of T states, d features and m outputs.

    values (T, d, m) adds up, over features and with base_values (T, m), to the explained function;
    efficiency_residual (T, m) says how well: sum_i phi_i - (f(s) - base). It does not bound the error of single
    values, whose errors can cancel in the sum. data (T, d) are the states in their own units. std_error (T, d, m)
    is that of sampled values, and None where values are not sampled. interactions (T, d, d, m), when asked for,
    follow shap's convention: symmetric, rows adding up to the values. game says in words which game was played
    and how precisely: "exact" means up to rounding, "estimated error" is `choose_nodes`' estimate, relative to each
    output's largest value. For a game among groups of features, d counts groups and data holds each group's mean
    over its features.
    """

    values: Array
    base_values: Array
    data: Array
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    efficiency_residual: Array
    game: str
    std_error: Array | None = None
    interactions: Array | None = None

    def __post_init__(self) -> None:
        states, features, outputs = self.values.shape
        expected = {
            "base_values": (states, outputs),
            "data": (states, features),
            "efficiency_residual": (states, outputs),
            "std_error": (states, features, outputs),
            "interactions": (states, features, features, outputs),
        }
        for name, shape in expected.items():
            array = getattr(self, name)
            if array is not None and array.shape != shape:
                raise DataError(f"Explanation.{name} must have the shape {shape} to match values, got {array.shape}.")
        for name, count in (("feature_names", features), ("output_names", outputs)):
            if len(getattr(self, name)) != count:
                raise DataError(f"Explanation.{name} needs {count} names, got {len(getattr(self, name))}.")

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        states, features, _ = self.values.shape
        top = ", ".join(f"{name} {size:.3g}" for name, size in self.top(3))
        outputs = ", ".join(self.output_names)
        return f"Explanation({outputs}: {states} states, {features} features, most important {top}; {self.game})"

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, d, m), the shape of the values."""
        return self.values.shape

    @overload
    def __getitem__(self, key: int | np.integer | slice | list[int] | NDArray[Any]) -> Explanation: ...
    @overload
    def __getitem__(self, key: tuple[Any, ...] | EllipsisType) -> shap.Explanation: ...
    def __getitem__(self, key: Any) -> Any:
        """The explanation of some of the states; a single number gives an explanation of one state.

        An index of several axes, or with `...`, gives a `shap.Explanation` for shap's plots: [..., "torque"] all
        states and features, [0, :, "torque"] one state, [:, "angle"] one feature. Its axes are (T, d, m); a single
        output needs no index of its own.
        """
        if key is Ellipsis or isinstance(key, tuple):
            return self._in_shap(key if isinstance(key, tuple) else (key,))
        rows = [key] if isinstance(key, int | np.integer) else key
        arrays: dict[str, Any] = {name: getattr(self, name) for name in (*REQUIRED, *OPTIONAL)}
        picked: dict[str, Any] = {name: None if array is None else array[rows] for name, array in arrays.items()}
        return replace(self, **picked)

    def _in_shap(self, key: tuple[Any, ...]) -> shap.Explanation:
        at = next((i for i, part in enumerate(key) if part is Ellipsis), len(key))
        before, after = key[:at], key[at + 1 :]
        missing = 3 - len(before) - len(after)
        if missing < 0:
            raise DataError(f"an explanation has three axes (states, features, outputs), got an index of {len(key)}.")
        states, features, output = before + (slice(None),) * missing + after
        everything = isinstance(output, slice) and output == slice(None)
        if not (everything or isinstance(output, str | int | np.integer)):
            raise DataError(f"the third index must be one output, by name or number, or ':' for all, got {output!r}.")
        chosen = self.to_shap() if everything else self.to_shap(output)
        if isinstance(features, str) and features not in self.feature_names:
            raise DataError(
                f"Unknown feature {features!r}: this explanation has {', '.join(self.feature_names)}."
                + did_you_mean(features, self.feature_names)
            )
        return chosen[states, features]

    def __iter__(self) -> Iterator[Explanation]:
        return (self[t] for t in range(len(self)))

    def output(self, name: str | int) -> Explanation:
        """The explanation of one output, by name or number."""
        if isinstance(name, str):
            if name not in self.output_names:
                raise DataError(
                    f"Unknown output {name!r}: this explanation has {', '.join(self.output_names)}."
                    + did_you_mean(name, self.output_names)
                )
            name = self.output_names.index(name)
        if not -len(self.output_names) <= name < len(self.output_names):
            raise DataError(f"Output number {name} does not exist: there are {len(self.output_names)} outputs.")
        o = [name]
        return replace(
            self,
            values=self.values[..., o],
            base_values=self.base_values[..., o],
            efficiency_residual=self.efficiency_residual[..., o],
            std_error=None if self.std_error is None else self.std_error[..., o],
            interactions=None if self.interactions is None else self.interactions[..., o],
            output_names=(self.output_names[name],),
        )

    @classmethod
    def joined(cls, parts: Sequence[Explanation]) -> Explanation:
        """Explanations of the same states and features as one with all their outputs."""

        def together(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            return None if arrays[0] is None else np.concatenate(arrays, axis=-1)

        return replace(
            parts[0],
            **{name: together(name) for name in (*REQUIRED, *OPTIONAL) if name != "data"},
            output_names=tuple(name for part in parts for name in part.output_names),
            game="; ".join(dict.fromkeys(part.game for part in parts)),
        )

    @classmethod
    def summed(cls, parts: Sequence[Explanation]) -> Explanation:
        """The explanation of a sum of functions from those of its summands: Shapley values are linear.

        Standard errors add, which bounds that of the sum however the summands' samples depend on each other.
        """
        if len(parts) == 1:
            return parts[0]

        def total(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            return None if arrays[0] is None else np.sum(arrays, axis=0)

        games = "; ".join(dict.fromkeys(part.game for part in parts))
        return replace(
            parts[0],
            **{name: total(name) for name in (*REQUIRED, *OPTIONAL) if name != "data"},
            game=f"sum of {len(parts)} product kernels: {games}",
        )

    @property
    def importances(self) -> Array:
        """Mean absolute Shapley value of each feature, (d, m)."""
        return np.asarray(np.abs(self.values).mean(axis=0))

    def top(self, k: int, output: str | int | None = None) -> list[tuple[str, float]]:
        """The k features with the largest mean absolute value, largest first, averaged over outputs or for one."""
        if k < 1:
            raise DataError(f"top(k) needs k of at least 1, got {k}.")
        chosen = self if output is None else self.output(output)
        importance = chosen.importances.mean(axis=1)
        order = np.argsort(-importance, kind="stable")[:k]
        return [(self.feature_names[i], float(importance[i])) for i in order]

    def to_shap(self, output: str | int | None = None) -> shap.Explanation:
        """The same as a `shap.Explanation`, outputs last; a single output has no such axis, as shap's plots expect."""
        module = require("shap", "explain")
        chosen = self if output is None else self.output(output)
        values, base = chosen.values, chosen.base_values
        names: list[str] | str = list(chosen.output_names)
        if values.shape[2] == 1:
            values, base, names = values[..., 0], base[:, 0], chosen.output_names[0]
        return module.Explanation(
            values.copy(),
            base_values=base.copy(),
            data=self.data.copy(),
            feature_names=list(self.feature_names),
            output_names=names,
        )

    def save(self, path: str | Path) -> Path:
        """Write one `.npz` file, whole or not at all."""
        path = Path(path)
        if path.suffix != ".npz":
            path = path.with_name(path.name + ".npz")
        names = {
            "format": FORMAT,
            "feature_names": list(self.feature_names),
            "output_names": list(self.output_names),
            "game": self.game,
        }
        arrays = {n: getattr(self, n) for n in (*REQUIRED, *OPTIONAL) if getattr(self, n) is not None}
        text = json.dumps(names, sort_keys=True, ensure_ascii=False).encode()
        write_npz(path, {"metadata": np.frombuffer(text, np.uint8), **arrays})
        return path

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Read what `save` wrote; a damaged or foreign file is an error that names it."""
        path = Path(path)
        if not path.is_file():
            raise NotFoundError(f"No explanation at {path}: give the .npz file that Explanation.save wrote.")
        arrays = read_npz(path, {"metadata": "bytes", **REQUIRED}, OPTIONAL)
        try:
            document = json.loads(arrays.pop("metadata").tobytes().decode())
            if document["format"] != FORMAT:
                raise ValueError("it has another format")
            features, outputs, game = (document[key] for key in ("feature_names", "output_names", "game"))
            if not all(isinstance(name, str) for name in (game, *features, *outputs)):
                raise ValueError("a name is not a string")
            if any(array.dtype != np.float64 for array in arrays.values()):
                raise ValueError("its arrays are not in double precision")
            return cls(feature_names=tuple(features), output_names=tuple(outputs), game=game, **arrays)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise FileFormatError(
                f"{path} is not an explanation written by this version, or it is damaged ({error}). "
                "Write it again with Explanation.save."
            ) from error

"""What users pass to explainers, checked: every refusal names the thing, the rule, what was received and the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.errors import ConfigError, DataError, did_you_mean

Array = NDArray[np.float64]
Groups = Mapping[str, Sequence[str | int]]


def checked(what: str, array: ArrayLike, d: int) -> Array:
    """Finite float64 states (N, d) with N > 0, or an error that names `what`."""
    try:
        states = np.atleast_2d(np.asarray(array, dtype=np.float64))
    except (TypeError, ValueError) as error:
        received = f"{type(array).__name__} ({error})"
        remedy = "Give an array or a data frame of numbers."
        raise DataError(f"{what} must be numbers of the shape (N, {d}), got {received}. {remedy}") from error
    if states.size == 0:
        raise DataError(f"{what} must hold at least one state, got an array of shape {np.shape(array)}.")
    if states.ndim != 2 or states.shape[1] != d:
        raise DataError(f"{what} must have the shape (N, {d}), one column per feature, got {np.shape(array)}.")
    bad = np.argwhere(~np.isfinite(states))
    if len(bad):
        row, column = bad[0]
        named = f" ({array.columns[column]})" if hasattr(array, "columns") else ""
        raise DataError(
            f"{what} must be finite, got {states[row, column]} in row {row}, feature {column}{named} "
            f"({len(bad)} such entries). Drop or fill these rows first."
        )
    return states


def check_columns(what: str, table: Any, names: Sequence[str], whose: str) -> None:
    """Refuse a data frame whose columns are others than these, or in another order; an array has none to compare."""
    if not hasattr(table, "columns"):
        return
    columns = list(table.columns)
    if columns == list(names) or not all(isinstance(column, str) for column in columns):
        return
    missing, surplus = ([each for each in a if each not in b] for a, b in ((names, columns), (columns, names)))
    found = [f"without {', '.join(missing)}"] * bool(missing) + [f"with {', '.join(surplus)}"] * bool(surplus)
    got = " and ".join(found) or "in another order"
    raise DataError(
        f"{what} must have {whose} in the same order, {', '.join(names)}; got them {got}. Select them by name, or give "
        "an array."
    )


def named_features(names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    """The features' names, x0, x1, ... unless given."""
    if names is None:
        return tuple(f"x{i}" for i in range(d))
    if len(names) != d:
        raise DataError(f"feature_names must have one name for each of the {d} features, got {len(names)}.")
    if len(set(names)) != d:
        repeated = sorted({n for n in names if list(names).count(n) > 1})
        raise DataError(f"feature_names must differ, got {', '.join(repeated)} more than once.")
    return tuple(str(name) for name in names)


def named_players(
    groups: Groups | None, names: tuple[str, ...]
) -> tuple[list[NDArray[np.intp]] | None, tuple[str, ...]]:
    """Feature numbers of every player and the players' names; None if every feature is a player."""
    if not groups:
        return None, names
    players: dict[str, NDArray[np.intp]] = {}
    taken: dict[int, str] = {}
    for group, members in groups.items():
        numbers = [_number("feature", member, names) for member in members]
        if not numbers:
            raise DataError(f"group {group!r} must hold at least one feature, got none.")
        for i in numbers:
            if i in taken:
                raise DataError(f"feature {names[i]!r} may be in one group, once; got {taken[i]!r} and {group!r}.")
            taken[i] = group
        players[group] = np.array(numbers)
    for i, name in enumerate(names):
        if i not in taken:
            if name in players:
                raise DataError(f"group {name!r} has the name of a feature outside it: give the group another name.")
            players[name] = np.array([i])
    return list(players.values()), tuple(players)


def picked_outputs(outputs: Sequence[str | int] | None, names: tuple[str, ...]) -> list[int]:
    """Numbers of the outputs asked for, all of them unless given."""
    if outputs is None:
        return list(range(len(names)))
    return [_number("output", output, names) for output in outputs]


def _number(kind: str, name: str | int, names: tuple[str, ...]) -> int:
    if isinstance(name, str):
        if name not in names:
            raise DataError(f"unknown {kind} {name!r}; known are {', '.join(names)}.{did_you_mean(name, names)}")
        return names.index(name)
    if not 0 <= name < len(names):
        raise DataError(f"{kind} number {name} does not exist: numbers go from 0 to {len(names) - 1}.")
    return int(name)


def one_of(what: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a value that is not among the known names."""
    if value not in known:
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        raise ConfigError(f"{what} must be {' or '.join(map(repr, known))}, got {value!r}.{hint}")


def positive(what: str, value: float) -> None:
    """Refuse anything but a positive number."""
    if not (np.isfinite(value) and value > 0):
        raise ConfigError(f"{what} must be a positive number, got {value!r}.")

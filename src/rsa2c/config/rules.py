"""What a setting's annotation says: its type, and the bounds that stand beside it.

    gamma: Annotated[float, UNIT] = 0.99

`checked` reads such an annotation and either returns the value in the annotated type or says what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from rsa2c.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Bound:
    """A rule in words, and the test of a number."""

    rule: str
    holds: Callable[[float], bool]


POSITIVE = Bound("must be positive", lambda x: x > 0)
NOT_NEGATIVE = Bound("must not be negative", lambda x: x >= 0)
UNIT = Bound("must lie in [0, 1]", lambda x: 0 <= x <= 1)
BELOW_ONE = Bound("must be below 1", lambda x: x < 1)


def checked(name: str, value: Any, hint: Any) -> Any:
    """`value` in the type of the annotation `hint`, or an error that says what is allowed."""
    bounds: tuple[Bound, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        bounds = tuple(note for note in notes if isinstance(note, Bound))
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ConfigError(f"{name} must be a 64-bit number, got one of {value.bit_length()} bits.")
    allowed = alternatives(hint)
    literals = [choice for choice in allowed if isinstance(choice, str)]
    types = [kind for kind in allowed if isinstance(kind, type)]
    if isinstance(value, str):
        if value in literals:
            return value
        raise ConfigError(f"{name} must be {described(allowed)}, got {value!r}.{did_you_mean(value, literals)}")
    if value is None:
        if type(None) in types:
            return None
    elif bool in types:
        if isinstance(value, bool):
            return value
    elif float in types and not isinstance(value, bool) and hasattr(value, "__float__"):
        return _bounded(name, float(value), bounds)
    elif int in types and not isinstance(value, bool) and hasattr(value, "__index__"):
        return _bounded(name, value.__index__(), bounds)
    raise ConfigError(f"{name} must be {described(allowed)}, got {value!r}.")


def _bounded(name: str, value: Any, bounds: Sequence[Bound]) -> Any:
    if not math.isfinite(value):
        raise ConfigError(f"{name} must be finite, got {value}.")
    for bound in bounds:
        if not bound.holds(value):
            raise ConfigError(f"{name} {bound.rule}, got {value}.")
    return value


@cache
def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types and literal values that an annotation allows."""
    origin = get_origin(hint)
    if origin is Annotated:
        return alternatives(get_args(hint)[0])
    if origin is Literal:
        return get_args(hint)
    if origin is Union or origin is type(int | str):
        return tuple(choice for part in get_args(hint) for choice in alternatives(part))
    return (hint,)


def described(allowed: Sequence[Any]) -> str:
    """Types and literal values in words."""
    words = {int: "a whole number", float: "a number", bool: "true or false", type(None): "unset (null)"}
    return " or ".join(words.get(choice, repr(choice)) for choice in allowed)

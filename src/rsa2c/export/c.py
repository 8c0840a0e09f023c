"""A C99 header without dependencies but math.h: `rsa2c_act(observation, action)`, and on request more.

Every function repeats `Expansion` and `Controller` (`tables.py`) line by line, in the same order of summation.
"""

from __future__ import annotations

from numpy.typing import NDArray

from rsa2c.export.contents import Contents
from rsa2c.export.text import harmless, rendered

NUMBERS_IN_A_ROW = 4
LANGUAGE = {"float64": ("double", ""), "float32": ("float", "f")}
"""By precision: the type, and the suffix of literals and of functions in math.h."""


def render(contents: Contents) -> bytes:
    """The header."""
    controller = contents.controller
    real, f = LANGUAGE[contents.dtype.name]

    def literal(number: float) -> str:
        """A C literal that is read back as the same number."""
        return f"{contents.dtype.type(number)!s}{f}"

    def table(array: NDArray) -> str:
        """An initialiser: rows of a matrix in braces, vectors in lines of a few numbers."""
        if array.ndim == 2:
            return "{\n    " + ",\n    ".join("{" + ", ".join(map(literal, row)) + "}" for row in array) + "\n}"
        rows = [array[k : k + NUMBERS_IN_A_ROW] for k in range(0, len(array), NUMBERS_IN_A_ROW)]
        return "{" + ",\n    ".join(", ".join(map(literal, row)) for row in rows) + "}"

    tables = contents.tables()
    task = controller.task
    return rendered(
        "controller.h.j2",
        real=real,
        f=f,
        controller=controller,
        weight=contents.filter_weight,
        functions=contents.functions(),
        attributions=contents.attributions,
        include=contents.include,
        literal=literal,
        table=table,
        tables=tables,
        bytes=sum(tables.values()),
        error=contents.error(),
        environment=harmless(task.env_id),
        features=[harmless(name) for name in task.feature_names],
        actions=[harmless(name) for name in task.action_names],
    )

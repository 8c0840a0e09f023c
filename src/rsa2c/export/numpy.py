"""One Python file that needs NumPy alone; the tables are in it, byte for byte."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

from rsa2c.export.contents import Contents
from rsa2c.export.text import harmless, rendered


def render(contents: Contents) -> bytes:
    """The file."""
    controller = contents.controller
    task = controller.task

    def table(array: NDArray) -> str:
        encoded = b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()
        return f'table("{encoded}", {", ".join(map(str, array.shape))})'

    return rendered(
        "controller.py.j2",
        controller=controller,
        weight=contents.filter_weight,
        functions=contents.functions(),
        include=contents.include,
        table=table,
        environment=harmless(task.env_id),
        features=tuple(harmless(name) for name in task.feature_names),
        actions=tuple(harmless(name) for name in task.action_names),
    )

"""What whoever watches a rollout sees of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Step(NamedTuple):
    """What one step of all environments gave, arrays have a row for each."""

    actions: NDArray[Any]
    observations: NDArray[Any]
    rewards: NDArray[Any]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    infos: dict[str, Any]
    last: bool
    """Whether the rollout ends with it."""


Observe = Callable[[Step], None]
"""Called after each step; what it raises ends the rollout."""

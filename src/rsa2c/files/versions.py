"""Format versions: files say which one they have, older ones are upgraded as they are read, newer ones refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from rsa2c.errors import FileFormatError

Tensors = dict[str, np.ndarray]
Metadata = dict[str, Any]
Upgrade = TypeVar("Upgrade", bound=Callable[..., Any])

FORMAT = "rsa2c"
VERSION = 7
"""Version of the format of models, checkpoints and `config.yaml`."""
FORMER_METRICS = {"epsilon_PV": "span_distance_value", "epsilon_PA": "span_distance_actor"}
"""Metrics by the names they had in older runs: the paper has other quantities of these names."""


def pending(version: Any, upgrades: Mapping[int, Upgrade], refusal: Callable[..., FileFormatError]) -> list[Upgrade]:
    """The upgrades that a file of some version needs, in order; anything that is not a version, or is newer than ours,
    is refused."""
    if type(version) is not int or version < 1:
        raise refusal(f"its format version is {version!r}")
    if version > VERSION:
        what = f"its format version is {version}, this rsa2c reads versions up to {VERSION}"
        raise refusal(what, "Upgrade with: pip install -U rsa2c")
    return [upgrades[number] for number in range(version, VERSION) if number in upgrades]

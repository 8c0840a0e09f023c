"""Memory that one epoch frees stays with the process for the next."""

from __future__ import annotations

import ctypes
import sys

KEPT = 2**30
"""Bytes: larger arrays, and more than this of free memory, still go back to the system."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""


def keep_freed_memory() -> bool:
    """Let glibc keep what is freed, whether it does.

    Every epoch makes the same large arrays again, such as the features of its transitions. Usually those above 32 MB
    are given back when they are freed, and the system hands out and clears each page anew: for 19,200 transitions and
    1,024 centres that takes a tenth of an epoch's time. It concerns the whole process, so only trainings in a run
    folder ask for it. Other C libraries have no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and all(mallopt(each, KEPT) for each in (TRIM_THRESHOLD, MMAP_THRESHOLD))

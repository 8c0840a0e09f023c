"""Threads of BLAS and Numba: fixed while something is computed, so that equal seeds give equal bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba
from threadpoolctl import threadpool_limits


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let BLAS and Numba use `count` threads; afterwards they use as many as before."""
    before = numba.get_num_threads()
    with threadpool_limits(count):
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
        try:
            yield
        finally:
            numba.set_num_threads(before)

"""Signal handlers that are set temporarily."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def may_handle() -> bool:
    """Whether this thread may set handlers: in Python only the main thread may."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def handlers(handler: Any, *numbers: int) -> Iterator[None]:
    """Let `handler` take these signals, if handlers can be set; the old handlers are restored at the end."""
    if not may_handle():
        yield
        return
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, old in zip(numbers, before, strict=True):
            # None is a handler that was not set from Python and cannot be set back from there
            signal.signal(number, signal.SIG_DFL if old is None else old)

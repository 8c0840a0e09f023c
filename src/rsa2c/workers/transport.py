"""What a driver needs of workers, wherever they are: processes of this machine or actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rsa2c.errors import RSA2CError


class Lost(Exception):
    """A worker that will not answer any more, and why."""


class WorkerError(RSA2CError, RuntimeError):
    """Workers that do not start, or that were lost again and again."""


class Handle(Protocol):
    """One worker as its driver sees it."""

    def send(self, asked: Any) -> None: ...

    def receive(self) -> bytes:
        """The next answer; raises `Lost`."""

    def end(self) -> None:
        """Let it go, whatever it is doing."""


class Transport(Protocol):
    """Where workers are, and how requests reach them."""

    def hire(self, contents: bytes, again: bool) -> Handle:
        """A new worker, perhaps in the place of one that was lost."""

    def ship(self, asked: bytes) -> Any:
        """A request in the form in which it is sent, to one worker or to many."""

    def ready(self, handles: Sequence[Any], timeout: float) -> Sequence[Any]:
        """Those with an answer, or lost; none if nothing happens in time."""

    @property
    def state(self) -> str:
        """What workers need to start, what there is, and the remedy where that is too little."""

    def close(self) -> None: ...

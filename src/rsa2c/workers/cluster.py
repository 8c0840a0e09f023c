"""Workers as actors of a Ray cluster, and how a cluster is reached."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rsa2c.errors import ConfigError, require
from rsa2c.workers.serving import Server
from rsa2c.workers.transport import Lost, WorkerError

REACH_SECONDS = 5.0
"""How long a Ray address may take to answer."""
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a conversation with a Ray cluster begins (HTTP/2); the fourth byte of an answer is a 4 too."""


@dataclass
class Connection:
    """Ray, connected to a cluster. A process has one such connection, which ends with the last to hold it."""

    ray: Any
    address: str
    """As it was asked for."""
    ours: bool
    """Whether it was made here, and not by the caller's own `ray.init`."""
    holders: int = 1

    def release(self) -> None:
        """Disconnect, if nobody else here needs the connection and it was made here."""
        global _current
        self.holders -= 1
        if self.holders == 0 and _current is self:
            _current = None
            if self.ours:
                self.ray.shutdown()


_current: Connection | None = None


def connected(address: str | None, cpus: int | None, what: str) -> Connection:
    """A connection to the cluster at an address. Without an address, or with "local", it is a cluster of this machine
    alone, with so many CPUs."""
    global _current
    ray = require("ray", "cluster", what)
    if not ray.is_initialized():
        _check_reachable(address)
        _begin(ray, address, cpus)
        _current = Connection(ray, address or "local", True)
        return _current
    if _current is None:
        _current = Connection(ray, "", False, 0)
    if not _is_same(_current, address):
        raise ConfigError(
            f"this process is connected to the Ray cluster at {_current.address or _gcs_address(ray)} already, and to "
            f"one at a time; {what} asks for {address}. Close what uses the first (RSA2C.close(), ray.shutdown()), or "
            "use a process of its own."
        )
    _current.holders += 1
    return _current


def _begin(ray: Any, address: str | None, cpus: int | None) -> None:
    # Without an address Ray would join a cluster that happens to run on this machine
    where, local = address or "local", address in (None, "local")
    options = {} if str(address).startswith("ray://") else {"include_dashboard": False} if local else {}
    try:
        ray.init(address=where, num_cpus=cpus if local else None, log_to_driver=False, logging_level="error", **options)
    except ConnectionError as error:
        raise _unreachable(where, error) from error
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"the Ray cluster at {where} could not be joined: {error}") from error


def _is_same(current: Connection, address: str | None) -> bool:
    """Whether an address leads to the cluster that this process is connected to."""
    if address in (None, "auto", current.address):
        return True
    if address == "local" or "//" in str(address):
        return False
    host, _, port = str(address).rpartition(":")
    with suppress(OSError):
        return f"{socket.gethostbyname(host)}:{port}" == _gcs_address(current.ray)
    return False


def _gcs_address(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)


def _check_reachable(address: str | None) -> None:
    if address in (None, "auto", "local"):
        return
    parts = urlsplit(address if "//" in str(address) else f"//{address}")
    try:
        if parts.hostname is None or parts.port is None:
            raise ValueError("it must be HOST:PORT, ray://HOST:PORT, auto or local")
        with socket.create_connection((parts.hostname, parts.port), REACH_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                connection.sendall(_GREETING)
                if connection.recv(9)[3:4] != b"\4":
                    raise ValueError("what answers there is no Ray cluster")
    except (OSError, ValueError) as error:
        raise _unreachable(str(address), error) from error


def _unreachable(address: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"no Ray cluster answers at {address} ({error}). Start one with `ray start --head`, give its address, "
        "or leave --address out to use this machine alone."
    )


class ActorHandle:
    """An actor and its answers that were not fetched yet."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self.ray, self.actor = ray, actor
        self.answers: deque[Any] = deque()

    def send(self, asked: Any) -> None:
        self.answers.append(self.actor.answer.remote(asked))

    def receive(self) -> bytes:
        try:
            return self.ray.get(self.answers.popleft())
        except self.ray.exceptions.RayError as error:
            last = str(error).strip().splitlines()[-1].strip()
            raise Lost(f"Ray lost it ({type(error).__name__}: {last}).") from error

    def end(self) -> None:
        with suppress(ConnectionError, self.ray.exceptions.RayError):  # where the connection broke, it has ended
            self.ray.kill(self.actor)


class RayActors:
    """The transport to actors: Ray's object store."""

    def __init__(self, address: str, workers: int) -> None:
        self.address, self.connection = address, connected(address, workers, f"cluster={address!r}")
        self.ray = self.connection.ray

    def hire(self, contents: bytes, again: bool) -> ActorHandle:
        # Where a node was lost there may be no free CPU: its workers then share those of others
        free = not again or self.ray.available_resources().get("CPU", 0) >= 1
        actor = self.ray.remote(num_cpus=1 if free else 0, max_restarts=0)(Server)
        return ActorHandle(self.ray, actor.options(scheduling_strategy="SPREAD").remote(contents))

    def ship(self, asked: bytes) -> Any:
        return self.ray.put(asked)

    def ready(self, handles: Sequence[ActorHandle], timeout: float) -> list[ActorHandle]:
        by_answer = {handle.answers[0]: handle for handle in handles}
        try:
            done, _ = self.ray.wait(list(by_answer), num_returns=1, timeout=timeout)
        except (ConnectionError, self.ray.exceptions.RayError) as error:
            raise WorkerError(f"the connection to the Ray cluster at {self.address} broke: {error}") from error
        return [by_answer[each] for each in done]

    @property
    def state(self) -> str:
        all_of_them, free = (
            int(resources.get("CPU", 0)) for resources in (self.ray.cluster_resources(), self.ray.available_resources())
        )
        return (
            f"a worker takes one CPU, and the Ray cluster at {self.address} has {all_of_them}, {free} of them free: "
            "start more nodes, wait for those who use them, or ask for fewer workers"
        )

    def close(self) -> None:
        self.connection.release()

"""Workers as actors of a Ray cluster, and how a cluster is reached."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from rsa2c.errors import ConfigError, require
from rsa2c.workers.remote import Lost
from rsa2c.workers.serving import Server

REACH_SECONDS = 5.0
"""How long a Ray address may take to answer."""


def connected(address: str | None, cpus: int | None, what: str) -> tuple[Any, bool]:
    """Ray, connected to the cluster at an address, and whether this call connected it. Without an address, or with
    "local", it is a cluster of this machine alone, with so many CPUs."""
    ray = require("ray", "cluster", what)
    if ray.is_initialized():
        return ray, False
    _check_reachable(address)
    # Without an address Ray would join a cluster that happens to run on this machine
    where, local = address or "local", address in (None, "local")
    options = {} if str(address).startswith("ray://") else {"include_dashboard": False} if local else {}
    try:
        ray.init(address=where, num_cpus=cpus if local else None, log_to_driver=False, logging_level="error", **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable(str(address), error) from error
    return ray, True


def _check_reachable(address: str | None) -> None:
    if address in (None, "auto", "local"):
        return
    parts = urlsplit(address if "//" in str(address) else f"//{address}")
    try:
        if parts.hostname is None or parts.port is None:
            raise ValueError("it must be HOST:PORT, ray://HOST:PORT, auto or local")
        socket.create_connection((parts.hostname, parts.port), REACH_SECONDS).close()
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
            first = str(error).strip().splitlines()[0]
            raise Lost(f"Ray lost it ({type(error).__name__}: {first}).") from error

    def end(self) -> None:
        self.ray.kill(self.actor)


class RayActors:
    """The transport to actors: Ray's object store."""

    def __init__(self, address: str, workers: int) -> None:
        self.ray, self._started = connected(address, workers, f"cluster={address!r}")
        there = int(self.ray.cluster_resources().get("CPU", 0))
        if there < workers:
            self.close()
            raise ConfigError(
                f"workers is {workers}, but the Ray cluster at {address} has {there} CPUs, and a worker takes one. Ask "
                "for fewer workers, or start more nodes."
            )

    def hire(self, contents: bytes, again: bool) -> ActorHandle:
        # Where a node was lost there may be no free CPU: its workers then share those of others
        free = not again or self.ray.available_resources().get("CPU", 0) >= 1
        actor = self.ray.remote(num_cpus=1 if free else 0, max_restarts=0)(Server)
        return ActorHandle(self.ray, actor.options(scheduling_strategy="SPREAD").remote(contents))

    def ship(self, asked: bytes) -> Any:
        return self.ray.put(asked)

    def ready(self, handles: Sequence[ActorHandle], timeout: float) -> list[ActorHandle]:
        by_answer = {handle.answers[0]: handle for handle in handles}
        done, _ = self.ray.wait(list(by_answer), num_returns=1, timeout=timeout)
        return [by_answer[each] for each in done]

    def close(self) -> None:
        if self._started:
            self.ray.shutdown()
            self._started = False

"""Many independent calls, on worker processes or on a Ray cluster.

Both executors take a function that can be imported, its arguments, and a number of workers, and yield what happens:
which call began, which ended and with what. A call that fails, or whose process dies, ends with its error and
does not affect the others. The results of a call never depend on which worker made it or on how many ran in parallel.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from rsa2c.errors import ConfigError, described
from rsa2c.workers.cluster import connected

Executor = Literal["processes", "ray"]
NODE_LOSSES = 3
"""How often a call is made again on another node when Ray loses its node."""
REMINDER = 5.0
"""Seconds after which a worker is interrupted again: one that was just starting may have missed the first signal."""


@dataclass(frozen=True)
class Event:
    """Call number `index` began, or ended with a value or an error; None means that nothing happened for a while."""

    index: int | None = None
    ended: bool = False
    value: Any = None
    error: str | None = None


Events = Generator[Event, None, None]


def run_all(
    function: Callable[[Any], Any],
    arguments: Sequence[Any],
    executor: Executor = "processes",
    workers: int | None = None,
    address: str | None = None,
) -> Events:
    """Call `function` with each of `arguments`; events as they happen, at least one per second.

    Without `workers` there is one for each core (of this machine, or of the cluster). Closing the iterator, or an
    interruption, ends worker processes after they have saved what they hold; on Ray, calls that are under way are
    cancelled.
    """
    if workers is not None and workers < 1:
        raise ConfigError(f"workers must be at least 1, got {workers}.")
    if executor == "processes":
        if address is not None:
            raise ConfigError("an address is for the executor ray. Add: --executor ray")
        return _on_processes(function, arguments, workers or len(os.sched_getaffinity(0)))
    if executor == "ray":
        return _on_ray(function, arguments, workers, address)
    raise ConfigError(f"executor must be processes or ray, got {executor!r}.")


class _Worker:
    """A process that makes one call after another, and the number of its current call."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(function, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.index: int | None = None

    def begin(self, index: int, argument: Any) -> Event:
        self.index = index
        with contextlib.suppress(OSError):  # a worker that died in between is noticed when its answer is read
            self.connection.send(argument)
        return Event(index)

    def end(self) -> Event:
        index, self.index = self.index, None
        try:
            succeeded, value = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            return Event(index, True, error=f"its process died ({how}). Start the sweep again to continue it.")
        return Event(index, True, value) if succeeded else Event(index, True, error=value)

    def interrupt(self) -> None:
        """Stop the call as Ctrl-C does, which lets a training save."""
        if self.index is not None and self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGINT)

    def stop(self, patience: float) -> None:
        self.connection.close()
        if self.index is not None:
            while self.process.is_alive():
                self.process.join(REMINDER)
                self.interrupt()
        self.process.join(patience)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()


def _serve(function: Callable[[Any], Any], connection: Connection) -> None:
    """A worker's loop: calls until its master closes the connection or ends."""
    # A sweep in the background of a script ignores Ctrl-C, and its workers would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with_master, daemon=True).start()
    while True:
        try:
            argument = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            reply = (True, function(argument))
        except BaseException as error:
            reply = (False, described(error))
        try:
            connection.send(reply)
        except OSError:
            return
        except Exception as error:  # it cannot be pickled, so nothing was sent
            connection.send((False, described(error)))


def _end_with_master() -> None:
    """Stop this worker as SIGTERM does, which lets a training save, when its master dies."""
    master = multiprocessing.parent_process()
    if master is not None:
        wait([master.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _on_processes(function: Callable[[Any], Any], arguments: Sequence[Any], workers: int) -> Events:
    waiting = deque(range(len(arguments)))
    team = [_Worker(function) for _ in range(min(workers, len(arguments)))]
    try:
        while waiting or any(worker.index is not None for worker in team):
            for position, worker in enumerate(team):
                if worker.index is None and waiting:
                    if not worker.process.is_alive():
                        worker.stop(0.0)
                        worker = team[position] = _Worker(function)
                    yield worker.begin(index := waiting.popleft(), arguments[index])
            busy = {worker.connection: worker for worker in team if worker.index is not None}
            ready = wait(list(busy), timeout=1.0)
            if not ready:
                yield Event()
            for connection in ready:
                yield busy[connection].end()  # type: ignore[index]
    except (KeyboardInterrupt, GeneratorExit):
        for worker in team:
            worker.interrupt()
        raise
    finally:
        for worker in team:
            worker.stop(1.0)


def _on_ray(
    function: Callable[[Any], Any], arguments: Sequence[Any], workers: int | None, address: str | None
) -> Events:
    connection = connected(address, workers, "The executor ray")
    ray = connection.ray
    pending: dict[Any, int] = {}
    try:
        window = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        call = ray.remote(num_cpus=1, max_retries=NODE_LOSSES)(_answer)
        waiting = deque(range(len(arguments)))
        while waiting or pending:
            while waiting and len(pending) < window:
                index = waiting.popleft()
                pending[call.remote(function, arguments[index])] = index
                yield Event(index)
            done, _ = ray.wait(list(pending), num_returns=1, timeout=1.0)
            if not done:
                yield Event()
            for reference in done:
                index = pending.pop(reference)
                try:
                    succeeded, value = ray.get(reference)
                except ray.exceptions.RayError as error:
                    first = str(error).strip().splitlines()[0]
                    yield Event(index, True, error=f"Ray lost it ({type(error).__name__}: {first}).")
                else:
                    yield Event(index, True, value) if succeeded else Event(index, True, error=value)
    finally:
        for reference in pending:
            ray.cancel(reference)
        connection.release()


def _answer(function: Callable[[Any], Any], argument: Any) -> tuple[bool, Any]:
    """A call on a Ray node; a failure is returned as an answer, so that only a lost node is tried again."""
    try:
        return True, function(argument)
    except Exception as error:
        return False, described(error)

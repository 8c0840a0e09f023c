"""Workers as processes of this machine.

They are started as programs of their own, not as copies of this one: a script needs no `if __name__ == "__main__"`,
and a notebook works too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from rsa2c.workers.serving import Server
from rsa2c.workers.transport import Lost

_PROGRAM = "import sys; sys.path[:] = {path!r}; from rsa2c.workers.processes import serve; serve({number})"


class ProcessHandle:
    """A process and the connection to it."""

    def __init__(self, contents: bytes) -> None:
        self.connection, theirs = Pipe()
        program = _PROGRAM.format(path=sys.path, number=theirs.fileno())
        command = [sys.executable, "-c", program]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        # A process ends with its handle: an agent that nobody closed leaves none behind
        self.end = weakref.finalize(self, _end, self.process, self.connection)
        self.send(contents)

    def send(self, asked: bytes) -> None:
        with suppress(OSError):  # a process that died is noticed when its answer is read
            self.connection.send_bytes(asked)

    def receive(self) -> bytes:
        try:
            return self.connection.recv_bytes()
        except (EOFError, OSError) as error:
            code = self.process.wait()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise Lost(f"its process died ({how}).") from error


def _end(process: subprocess.Popen[bytes], connection: Any) -> None:
    process.kill()
    process.wait()
    connection.close()


class Processes:
    """The transport to processes: pipes."""

    def hire(self, contents: bytes, again: bool) -> ProcessHandle:
        return ProcessHandle(contents)

    def ship(self, asked: bytes) -> bytes:
        return asked

    def ready(self, handles: Sequence[ProcessHandle], timeout: float) -> list[ProcessHandle]:
        by_connection: dict[Any, ProcessHandle] = {handle.connection: handle for handle in handles}
        return [by_connection[each] for each in wait(list(by_connection), timeout)]

    @property
    def state(self) -> str:
        return "a worker is a process of this machine, which has no time to start it: end other programs"

    def close(self) -> None:
        """Nothing: every process was ended."""


def serve(number: int) -> None:
    """A worker's program: answers to requests on a connection until its driver closes it or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver too, which ends its workers
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    connection: Connection = Connection(number)
    try:
        server = Server(connection.recv_bytes())
        while True:
            connection.send_bytes(server.answer(connection.recv_bytes()))
    except (EOFError, OSError):
        return


def _end_with(driver: int) -> None:
    """End this process soon after its driver, even in the middle of a rollout: nothing in it is worth saving."""
    while os.getppid() == driver:
        time.sleep(1.0)
    os._exit(1)

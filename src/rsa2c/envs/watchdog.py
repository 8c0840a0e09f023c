"""Calls into environments: the one place where their failures become an `EnvError`, and a limit on their time.

    with watching("Pendulum-v1", vector, timeout) as watch:
        with watch(step):
            observations, ... = vector.step(actions)

A call that lasts longer than `timeout` seconds is ended by SIGALRM, wherever Python gets the word: in loops, asleep,
waiting for another process. There is no limit outside the main thread, where Python allows no handlers, nor while an
alarm of somebody else's is running. Native code that never comes back to the interpreter can only be ended with its
process: `native_limit` does that for trainings in a run folder, which lose nothing by it. Clocks go on while a process
is stopped (Ctrl-Z, SIGSTOP): stopped for longer than its limit, it is taken for hanging when it goes on.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState

from rsa2c.errors import EnvError, RSA2CError, described
from rsa2c.signals import handlers, may_handle

NATIVE_SECONDS = 600.0
"""The shortest time that `native_limit` allows between two calls: what a policy does in between counts too."""


class _TimeUp(BaseException):
    """The alarm went off; no `except Exception` of an environment's catches it."""


class Watch:
    """Made by `watching`. `who` is the number of the environment, where one is called at a time."""

    def __init__(self, name: str, vector: Any, timeout: float | None, kind: str) -> None:
        self.name, self.vector, self.timeout, self.kind = name, vector, timeout, kind
        self.step = 0
        self.who: int | None = None
        self._began: float | None = None  # when the present call began
        self._over = False

    def __call__(self, step: int) -> Watch:
        self.step = step
        return self

    def __enter__(self) -> None:
        self._began = time.monotonic()
        if (native := _native) is not None and self._began > native.renewal:
            native.renew()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._began = None
        # Interruptions, errors of ours and what a signal's handler raised say what they have to say themselves
        if isinstance(error, SystemExit) and _from_a_handler(error):
            return
        if isinstance(error, Exception | SystemExit | _TimeUp) and not isinstance(error, RSA2CError):
            raise EnvError(f"{self.name}: {self._explained(error)}") from error

    def shaped(self, observation: Any, shape: tuple[int, ...]) -> Any:
        """The observation, which must have that shape: assigned to an array's row, a single number would fill it."""
        if (found := np.shape(observation)) != shape:
            raise EnvError(f"{self.name}: {self._misshapen(self.who, found, shape)}")
        return observation

    def _misshapen(self, who: int | None, found: Any, shape: Any) -> str:
        return f"the observation at {self._where(who)} has the shape {found}, expected {shape}."

    def _where(self, who: int | None) -> str:
        when = "reset" if self.step == 0 else f"step {self.step}"
        return when if who is None else f"{when} of {self.kind} {who}"

    def _explained(self, error: BaseException) -> str:
        who = self.who if self.who is not None else _culprit(self.vector, error)
        if isinstance(self.vector, AsyncVectorEnv):
            dead = _dead(self.vector) if who is None and isinstance(error, EOFError | OSError) else None
            _dismiss(self.vector)
            if dead is not None:
                return f"the process of environment {dead[0]} died at {self._where(None)} (exit code {dead[1]})."
        if isinstance(error, _TimeUp):
            limit = f"longer than {self.timeout:g} s (step_timeout)"
            return f"{self._where(who)} took {limit} and was given up. It hangs, or it needs a longer step_timeout."
        if isinstance(self.vector, SyncVectorEnv) and (odd := _odd_observation(self.vector)) is not None:
            return self._misshapen(*odd)
        return f"{self._where(who)} failed in the environment's own code: {described(error)}"

    def _ring(self, number: int, frame: FrameType | None) -> None:
        """The alarm, which rings when a call that began as it was set would be late: late, or set it again."""
        if self._over or self.timeout is None:
            return
        left = self.timeout - (0.0 if self._began is None else time.monotonic() - self._began)
        signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3) if left > 0.0 else self.timeout)
        if left <= 0.0:
            raise _TimeUp

    @contextmanager
    def _limited(self) -> Iterator[None]:
        if self.timeout is None or not may_handle():
            yield
            return
        # A baseline is evaluated while it learns: one watch inside another's
        outer = getattr(signal.getsignal(signal.SIGALRM), "__self__", None)
        resumed = (outer.timeout or 0.0) if isinstance(outer, Watch) else 0.0
        if not resumed and signal.getitimer(signal.ITIMER_REAL)[0]:
            yield
            return
        try:
            with handlers(self._ring, signal.SIGALRM):
                signal.setitimer(signal.ITIMER_REAL, self.timeout)
                try:
                    yield
                finally:
                    self._over = True  # an alarm that is on its way sets no other
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, resumed)


class _Native:
    def __init__(self, timeout: float) -> None:
        self.seconds = max(2 * timeout, NATIVE_SECONDS)
        self.renewal = 0.0

    def renew(self) -> None:
        self.renewal = time.monotonic() + self.seconds / 2
        faulthandler.dump_traceback_later(1.5 * self.seconds, exit=True, file=sys.__stderr__)  # type: ignore[arg-type]


_native: _Native | None = None


@contextmanager
def native_limit(timeout: float | None) -> Iterator[None]:
    """End this process, with a traceback, where an environment's native code does not come back.

    That is after twice the timeout, or `NATIVE_SECONDS` if that is more; half as much again may pass.
    """
    global _native
    if timeout is None or sys.__stderr__ is None or _native is not None or not may_handle():
        yield
        return
    _native = _Native(timeout)
    try:
        yield
    finally:
        _native = None
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def watching(name: str, vector: Any, timeout: float | None, kind: str = "environment") -> Iterator[Watch]:
    """Watch calls into the environments of `vector` (or into several one by one: `watch.who = i` says which).

    `kind` is what such a number counts. Without a timeout nothing is too slow.
    """
    watch = Watch(name, vector, timeout, kind)
    with watch._limited():
        yield watch


def _dead(vector: AsyncVectorEnv[Any, Any]) -> tuple[int, int] | None:
    """Number and exit code of a worker that died; its pipe may tell a moment before the system does."""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        for i, process in enumerate(vector.processes):
            if process.exitcode is not None:
                return i, process.exitcode
    return None


def _dismiss(vector: AsyncVectorEnv[Any, Any]) -> None:
    """End all workers: one that hangs would be waited for for ever, others owe answers that nobody wants."""
    for process in vector.processes:
        process.kill()
    vector._state = AsyncState.DEFAULT  # else closing asks for those answers
    vector.close(terminate=True)


def _culprit(vector: Any, error: BaseException) -> int | None:
    """The environment that was called when the error was raised: what the loops of Gymnasium and SB3 were at."""
    if isinstance(vector, AsyncVectorEnv) and not isinstance(error, _TimeUp):
        return next((i for i, pipe in enumerate(vector.parent_pipes) if pipe is None), None)
    found, trace = None, error.__traceback__
    while trace is not None:
        local, inner = trace.tb_frame.f_locals, trace.tb_next
        called = inner is None or inner.tb_frame.f_code.co_name in ("step", "reset", "recv", "_save_obs")
        if local.get("self") is vector and called:
            found = local.get("i", local.get("env_idx"))
        trace = inner
    return found


def _odd_observation(vector: SyncVectorEnv[Any, Any]) -> tuple[int, Any, Any] | None:
    """The first environment whose observation does not fit beside the others, its shape and the space's."""
    wanted = vector.single_observation_space.shape
    for i, observation in enumerate(vector._env_obs):
        try:
            shape: Any = wanted if observation is None else np.shape(observation)
        except ValueError:
            shape = "of nothing, its rows are of different lengths,"
        if shape != wanted:
            return i, shape, wanted
    return None


def _from_a_handler(error: BaseException) -> bool:
    """Whether a signal's handler raised it, which Python runs wherever the program happens to be."""
    codes = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False

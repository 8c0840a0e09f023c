"""Calls into environments: the one place where their failures become an `EnvError` and their time is limited.

    with watching("Pendulum-v1", vector, timeout) as watch:
        with watch(step):
            observations, ... = vector.step(actions)

A call that takes longer than `timeout` seconds is ended by SIGALRM as soon as the interpreter runs: in a loop, asleep,
or waiting for another process. There is no limit outside the main thread, where Python allows no signal handlers, nor
while another alarm is running. Native code that never returns to the interpreter can only be ended together with its
process: `native_limit` does that for trainings in a run folder, which can be resumed without loss. Clocks keep running
while a process is stopped (Ctrl-Z, SIGSTOP), so a process that was stopped for longer than its limit counts as hanging.
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

CALLERS = ("gymnasium.vector", "gymnasium.wrappers", "gymnasium.core", "rsa2c.evaluation", "rsa2c.algorithm")
"""Modules that call `reset` and `step`: what they cannot use is not what Gymnasium asks of an environment."""
RESET = "reset(seed=..., options=...) must return an observation and a dictionary of infos"
STEP = "step(action) must return observation, reward, terminated, truncated and infos, the reward being a number"
NATIVE_SECONDS = 600.0
"""The shortest time that `native_limit` allows between two calls; the time of the policy in between counts too."""


class _TimeUp(BaseException):
    """The alarm went off. Not an `Exception`, so that no environment catches it."""


class Watch:
    """Made by `watching`. `who` is the number of the environment being called, if they are called one at a time."""

    def __init__(self, name: str, vector: Any, timeout: float | None, kind: str) -> None:
        self.name, self.vector, self.timeout, self.kind = name, vector, timeout, kind
        self.step = 0
        self.who: int | None = None
        self._began: float | None = None  # when the current call began
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
        # Interruptions, our own errors and those raised by a signal handler need no explanation
        if isinstance(error, SystemExit) and _from_a_handler(error):
            return
        if isinstance(error, Exception | SystemExit | _TimeUp) and not isinstance(error, RSA2CError):
            raise EnvError(f"{self.name}: {self._explained(error)}") from error

    def shaped(self, observation: Any, shape: tuple[int, ...]) -> Any:
        """The observation if it has that shape, else an error: a single number would silently fill an array's row."""
        if (found := np.shape(observation)) != shape:
            raise EnvError(f"{self.name}: {self._misshapen(self.who, found, shape)}")
        return observation

    def _misshapen(self, who: int | None, found: Any, shape: Any) -> str:
        rule = f" {RESET}." if found == () and self.step == 0 else ""  # only a part of the observation was taken
        return f"the observation at {self._where(who)} has the shape {found}, expected {shape}.{rule}"

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
            return f"{self._where(who)} took {limit} and was stopped. It hangs, or it needs a longer step_timeout."
        if isinstance(self.vector, SyncVectorEnv) and (odd := _odd_observation(self.vector)) is not None:
            return self._misshapen(*odd)
        if isinstance(error, TypeError | ValueError) and _raised_in(error).startswith(CALLERS):
            rule = RESET if self.step == 0 else STEP
            said = f"{type(error).__name__}: {str(error).rstrip('.')}"
            return f"{self._where(who)} does not follow Gymnasium's interface: {said}. {rule}."
        return f"{self._where(who)} failed in the environment's own code: {described(error)}"

    def ring(self, number: int, frame: FrameType | None) -> None:
        """Handle the alarm: stop a call that has used up its time, or set the alarm again for one that began later."""
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
        # A baseline is evaluated while it learns, so that one watch runs inside another
        outer = getattr(signal.getsignal(signal.SIGALRM), "__self__", None)
        resumed = (outer.timeout or 0.0) if isinstance(outer, Watch) else 0.0
        if not resumed and signal.getitimer(signal.ITIMER_REAL)[0]:
            yield
            return
        try:
            with handlers(self.ring, signal.SIGALRM):
                signal.setitimer(signal.ITIMER_REAL, self.timeout)
                try:
                    yield
                finally:
                    self._over = True  # an alarm that is already on its way must not set another
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
    """End this process with a traceback if an environment's native code does not return.

    It ends after twice the timeout, or after `NATIVE_SECONDS` if that is longer; it may take up to 50% more.
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
    """Watch calls into the environments of `vector`, or into one at a time if the caller sets `watch.who` to its index.

    `kind` is what that index counts, for messages. Without a timeout no call is too slow.
    """
    watch = Watch(name, vector, timeout, kind)
    with watch._limited():
        yield watch


def _dead(vector: AsyncVectorEnv[Any, Any]) -> tuple[int, int] | None:
    """Number and exit code of a worker that died. Its pipe may break a moment before its exit code is known."""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        for i, process in enumerate(vector.processes):
            if process.exitcode is not None:
                return i, process.exitcode
    return None


def _dismiss(vector: AsyncVectorEnv[Any, Any]) -> None:
    """Kill all workers: closing would wait forever for one that hangs, and for pending answers of the others."""
    for process in vector.processes:
        process.kill()
    vector._state = AsyncState.DEFAULT  # otherwise closing would ask for those answers
    vector.close(terminate=True)


def _culprit(vector: Any, error: BaseException) -> int | None:
    """The environment that was being called when the error was raised, from the loops of Gymnasium and SB3."""
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


def _raised_in(error: BaseException) -> str:
    """The module whose code raised the error; none where it comes from another process."""
    trace, name = error.__traceback__, ""
    while trace is not None:
        name, trace = str(trace.tb_frame.f_globals.get("__name__")), trace.tb_next
    return "" if name == "gymnasium.vector.async_vector_env" else name


def _odd_observation(vector: SyncVectorEnv[Any, Any]) -> tuple[int, Any, Any] | None:
    """The first environment whose observation has the wrong shape, with that shape and the expected one."""
    wanted = vector.single_observation_space.shape
    for i, observation in enumerate(vector._env_obs):
        try:
            shape: Any = wanted if observation is None else np.shape(observation)
        except ValueError:
            shape = "of a ragged list"
        if shape != wanted:
            return i, shape, wanted
    return None


def _from_a_handler(error: BaseException) -> bool:
    """Whether a signal handler raised it: Python runs handlers wherever the program happens to be."""
    codes = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False

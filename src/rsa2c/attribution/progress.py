"""A progress line for long jobs, and the estimate shown before them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Progress = Callable[[float], None]
LONG_JOB_S = 5.0


def silent(done: float) -> None:
    """Reports nothing."""


class ProgressLine:
    """Prints the estimate once and then the fraction done and the time left, rewriting one line of standard error."""

    def __init__(self, what: str, estimated_s: float) -> None:
        self.what, self.started, self.shown = what, time.perf_counter(), -1
        print(f"{what}: about {duration(estimated_s)}", file=sys.stderr)

    def __call__(self, done: float) -> None:
        percent = int(100 * done)
        if percent == self.shown:
            return
        self.shown = percent
        elapsed = time.perf_counter() - self.started
        left = elapsed * (1 - done) / max(done, 1e-9)
        end = "\n" if percent >= 100 else ""
        line = f"\r{self.what} [{'#' * (percent // 5):<20}] {percent:3d}% {duration(left)} left "
        print(line, end=end, file=sys.stderr, flush=True)


def reporter(show: bool | None, what: str, estimated_s: float) -> Progress:
    """A progress line if asked for; with None, if the job is long and standard error is a terminal."""
    if show is None:
        show = estimated_s > LONG_JOB_S and sys.stderr.isatty()
    return ProgressLine(what, estimated_s) if show else silent


def duration(seconds: float) -> str:
    """Seconds in words: 0.4 s, 35 s, 4 min, 2.5 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

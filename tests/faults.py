"""A disk that fails, or a process that dies, at a chosen call: what a training asks of the file system, one by one."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CALLS = ("mkdir", "open", "write", "fsync", "replace")
"""Kinds of calls; an open is one that may make a file."""
SMALL = {
    "n_envs": 2,
    "horizon": 10,
    "capacity": 12,
    "initial_centres": 8,
    "attribution_centres": 10,
    "attribution_states": 4,
    "attribution_background": 4,
    "evaluation_episodes": 1,
}
"""A training of epochs of 20 steps, so short that it can fail at every one of its calls."""


class Disk:
    """Counts the calls on files below a folder; at number `at`, from 0, `strike` is called in its place.

    A write is cut short first: half of it is taken, and what is struck is the attempt to write the rest. With
    `lasting` every later call is struck too, as on a disk that stays full; with `late` the call is made first.
    """

    def __init__(
        self,
        folder: Path,
        at: int | None = None,
        strike: Callable[[], None] = lambda: None,
        lasting: bool = False,
        late: bool = False,
    ) -> None:
        self.folder, self.at, self.strike, self.lasting, self.late = folder, at, strike, lasting, late
        self.calls: list[tuple[str, str]] = []

    def count(self, kind: str, path: Any) -> bool:
        """One more call, of a kind and on a file; whether it is to be struck."""
        self.calls.append((kind, Path(path).name))
        number = len(self.calls) - 1
        return self.at is not None and (number == self.at or (self.lasting and number > self.at))

    @contextmanager
    def watched(self) -> Iterator[Disk]:
        """Stand between the process and its disk; `fsync` is only counted, which saves its time."""
        really_open, really = builtins.open, {name: getattr(os, name) for name in ("open", "mkdir", "replace")}
        really_sync = os.fsync

        def struck(kind: str, path: Any, action: Callable[[], Any]) -> Any:
            if not self._is_ours(path) or not self.count(kind, path):
                return action()
            if self.late:
                action()
            self.strike()
            return action()

        def opened(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if not set(mode) & set("wax+") or not self._is_ours(file):
                return really_open(file, mode, *rest, **options)
            raw = struck("open", file, lambda: _File(file, mode, self))
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, **options)

        def low_open(path: Any, flags: int, *rest: Any, **options: Any) -> Any:
            if not flags & os.O_CREAT:
                return really["open"](path, flags, *rest, **options)
            return struck("open", path, lambda: really["open"](path, flags, *rest, **options))

        def mkdir(path: Any, *rest: Any, **options: Any) -> None:
            struck("mkdir", path, lambda: really["mkdir"](path, *rest, **options))

        def replace(source: Any, target: Any, **options: Any) -> None:
            struck("replace", target, lambda: really["replace"](source, target, **options))

        def fsync(descriptor: int) -> None:
            struck("fsync", self.folder / "any", lambda: None)

        builtins.open, os.open, os.mkdir, os.replace, os.fsync = opened, low_open, mkdir, replace, fsync  # type: ignore
        try:
            yield self
        finally:
            builtins.open, os.fsync = really_open, really_sync
            os.open, os.mkdir, os.replace = really.values()

    def _is_ours(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and Path(path).is_relative_to(self.folder)


class _File(io.FileIO):
    def __init__(self, path: Any, mode: str, disk: Disk) -> None:
        super().__init__(path, mode.replace("b", "").replace("t", ""))
        self.disk, self.short = disk, False

    def write(self, content: Any) -> int:
        if self.short:
            self.short = self.disk.lasting
            self.disk.strike()
        elif self.disk.count("write", self.name):
            self.short = True
            return super().write(bytes(content) if self.disk.late else bytes(content)[: len(content) // 2])
        return super().write(content)

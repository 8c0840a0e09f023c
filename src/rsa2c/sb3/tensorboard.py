"""TensorBoard events with Stable-Baselines3's key names, without torch or TensorFlow (extra `track`)."""

from __future__ import annotations

import importlib.util
import itertools
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from rsa2c.errors import require
from rsa2c.files import PathLike, StorageError

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C

_ROLLOUT = {"ep_rew_mean", "ep_len_mean"}
_NOT_SCALARS = {"epoch", "timesteps"}
_numbers = itertools.count()


class Tracker:
    """Writes one event file in a folder; a context manager.

    TensorBoard's own `EventFileWriter` writes in a thread, which prints a traceback when the disk is full; here an
    event is in the file as soon as it has been added.
    """

    def __init__(self, folder: PathLike, first_step: int = 0) -> None:
        records = require("tensorboard.summary.writer.record_writer", "track", "TensorBoard tracking")
        self._events = require("tensorboard.compat.proto.event_pb2", "track")
        self._summaries = require("tensorboard.compat.proto.summary_pb2", "track")
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers):06d}"
        self._path = Path(folder) / name
        with self._writing():
            self._file = open(self._path, "wb", buffering=0)  # noqa: SIM115
        self._records = records.RecordWriter(self._file)
        self._add(self._events.Event(file_version="brain.Event:2"))
        if first_step:
            # TensorBoard then discards what an interrupted run had written beyond this step.
            log = self._events.SessionLog(status=self._events.SessionLog.START)
            self._add(self._events.Event(session_log=log, step=first_step + 1))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write several scalars at one step; NaN (nothing to report) is left out."""
        value = self._summaries.Summary.Value
        items = [value(tag=tag, simple_value=float(x)) for tag, x in values.items() if not np.isnan(x)]
        self._add(self._events.Event(step=step, summary=self._summaries.Summary(value=items)))

    def _add(self, event: Any) -> None:
        event.wall_time = time.time()
        with self._writing():
            self._records.write(event.SerializeToString())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"{self._path} (for TensorBoard) could not be written: {error.strerror or error}. "
                "Free some space, or choose: --no-track"
            ) from error

    def __enter__(self) -> Tracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def tracker_in(folder: PathLike, first_step: int = 0, enabled: bool = True) -> AbstractContextManager[Tracker | None]:
    """A tracker if one is wanted and tensorboard is installed, else None."""
    if enabled and importlib.util.find_spec("tensorboard") is not None:
        return Tracker(folder, first_step)
    return nullcontext()


def epoch_scalars(agent: RSA2C, seconds: float, steps: int) -> dict[str, float]:
    """The agent's last epoch under SB3's names; `steps` were taken in `seconds` of training."""
    row = agent.history[-1]
    scalars = {
        "time/fps": steps / max(seconds, 1e-9),
        "time/time_elapsed": seconds,
        "time/total_timesteps": float(agent.num_timesteps),
        "time/iterations": float(agent.epoch),
    }
    for name, value in row.items():
        if name not in _NOT_SCALARS:
            scalars[f"{'rollout' if name in _ROLLOUT else 'train'}/{name}"] = value
    if agent.record is not None and agent.record.spread.bytes:
        spread = agent.record.spread
        scalars["time/workers"] = float(spread.workers)
        scalars["time/bytes_per_epoch"] = float(spread.bytes)
        scalars["time/idle_share"] = spread.idle
    if agent.attribution_log and agent.attribution_log[-1][0] == agent.epoch:
        _, phi, weights = agent.attribution_log[-1]
        for name, importance, weight in zip(agent.feature_names, phi, weights, strict=True):
            scalars[f"shap/importance/{name}"] = importance
            scalars[f"shap/weight/{name}"] = weight
    return scalars


def evaluation_scalars(returns: np.ndarray, lengths: np.ndarray) -> dict[str, float]:
    """An evaluation under SB3's names."""
    return {"eval/mean_reward": float(np.mean(returns)), "eval/mean_ep_length": float(np.mean(lengths))}

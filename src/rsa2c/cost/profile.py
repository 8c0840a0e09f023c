"""Where an epoch's time goes: real epochs of an agent in memory, and the operations and bytes that formulas give."""

from __future__ import annotations

import resource
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rsa2c.agent import RSA2C
from rsa2c.algorithm.epoch import PHASES
from rsa2c.algorithm.threads import limited_threads
from rsa2c.algorithm.work import Work
from rsa2c.cost.flops import flops
from rsa2c.cost.memory import peak_bytes
from rsa2c.errors import ConfigError

MEGABYTE = 1e6


@dataclass(frozen=True)
class PhaseProfile:
    """Means over the profiled epochs; the memory is that of an epoch before them, which is not timed."""

    phase: str
    milliseconds: float
    share: float
    gflop: float
    gflops: float
    """GFLOP per second; zero if nothing was computed."""
    peak_mb: float
    """Largest memory of arrays while the phase ran."""
    estimated_mb: float


@dataclass(frozen=True)
class Profile:
    """The phases in the order of an epoch, and the process as a whole."""

    epochs: int
    transitions: int
    actor_states: int
    value_states: int
    attributions: int
    milliseconds: float
    gflop: float
    process_mb: float
    """Largest memory of the process since it began."""
    phases: tuple[PhaseProfile, ...]


def profile(agent: RSA2C, epochs: int = 10) -> Profile:
    """Train `agent` for `epochs` more epochs, after two others: one that warms up, one that measures memory."""
    if epochs < 1:
        raise ConfigError(f"epochs must be positive, got {epochs}.")
    with limited_threads(agent.config.threads):
        agent.run_epoch()
        memory, first = _memory_of_an_epoch(agent)
        estimated = peak_bytes(agent.config, first)
        seconds, counts = dict.fromkeys(PHASES, 0.0), dict.fromkeys(PHASES, 0.0)
        attributions, steps = 0, agent.num_timesteps
        began = time.perf_counter()
        for _ in range(epochs):
            record = agent.run_epoch()
            for phase, count in flops(agent.config, record.work).items():
                counts[phase] += count / epochs
                seconds[phase] += record.seconds[phase] / epochs
            attributions += record.work.attribution is not None
        elapsed = (time.perf_counter() - began) / epochs
    rows = tuple(
        PhaseProfile(
            phase,
            1e3 * seconds[phase],
            seconds[phase] / sum(seconds.values()),
            counts[phase] / 1e9,
            counts[phase] / seconds[phase] / 1e9,
            memory[phase] / MEGABYTE,
            estimated[phase] / MEGABYTE,
        )
        for phase in PHASES
    )
    sizes = agent.dictionary_sizes
    total = sum(counts.values()) / 1e9
    return Profile(
        epochs, (agent.num_timesteps - steps) // epochs, sizes["actor"], sizes.get("value", 0), attributions,
        1e3 * elapsed, total, process_peak() / MEGABYTE, rows,
    )  # fmt: skip


def process_peak() -> int:
    """Largest resident memory of this process since it began, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _memory_of_an_epoch(agent: RSA2C) -> tuple[dict[str, int], Work]:
    """Largest memory of the epoch's arrays in each phase, with the dictionaries' matrices before it, and its sizes.

    Those stay until the epoch is complete, and an agent that was just loaded or warmed up made them untraced.
    """
    peaks: dict[str, int] = {}
    functions = [agent.policy_mean] + ([] if agent.acting.value is None else [agent.acting.value])
    dictionaries = {id(function.dictionary): function.dictionary for function in functions}
    matrices = [vars(own).get(name) for own in dictionaries.values() for name in ("gram", "cholesky")]
    held = sum(matrix.nbytes for matrix in matrices if matrix is not None)
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]

        @contextmanager
        def peak(phase: str) -> Iterator[None]:
            tracemalloc.reset_peak()
            yield
            peaks[phase] = held + tracemalloc.get_traced_memory()[1] - start

        return peaks, agent.run_epoch(around=peak).work
    finally:
        if not tracing:
            tracemalloc.stop()

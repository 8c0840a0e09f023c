"""Where an epoch's time goes: real epochs of an agent in memory, their sizes noted on the way, beside `cost.py`."""

from __future__ import annotations

import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rsa2c.agent import RSA2C
from rsa2c.algorithm import guidance
from rsa2c.cost.flops import PHASES, Attribution, Basis, Epoch, Growth, Reprojection, flops, held_out, peak_bytes
from rsa2c.errors import ConfigError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.rkhs import RKHSFunction

MEGABYTE = 1e6


@dataclass(frozen=True)
class PhaseProfile:
    """Means over the profiled epochs; the memory is that of an epoch before them, which is not timed."""

    phase: str
    milliseconds: float
    share: float
    gflop: float
    gflops: float
    """GFLOP a second; zero where nothing was computed."""
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
    """Train `agent` on for `epochs` epochs, and two before them: one that warms up, one that measures memory."""
    if epochs < 1:
        raise ConfigError(f"epochs must be positive, got {epochs}.")
    with agent._threads():
        agent.run_epoch()
        memory, first = _memory_of_an_epoch(agent)
        estimated = peak_bytes(agent.config, first)
        seconds, counts = dict.fromkeys(PHASES, 0.0), dict.fromkeys(PHASES, 0.0)
        attributions = 0
        began = time.perf_counter()
        for _ in range(epochs):
            before = dict(agent.seconds)
            with recorded(agent) as shape:
                agent.run_epoch()
            epoch = shape()
            for phase, count in flops(agent.config, epoch).items():
                counts[phase] += count / epochs
                seconds[phase] += (agent.seconds[phase] - before.get(phase, 0.0)) / epochs
            attributions += epoch.attribution is not None
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
        epochs, agent.sizes.epoch_steps, sizes["actor"], sizes["value"], attributions, 1e3 * elapsed, total,
        process_peak() / MEGABYTE, rows,
    )  # fmt: skip


def process_peak() -> int:
    """Largest resident memory of this process since it began, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _memory_of_an_epoch(agent: RSA2C) -> tuple[dict[str, int], Epoch]:
    """Largest memory of the epoch's arrays in each phase, with the dictionaries' matrices before it, and its sizes.

    Those stay until the epoch is whole, and an agent that was just loaded or warmed up has made them untraced.
    """
    peaks: dict[str, int] = {}
    dictionaries = {id(own): own for own in (agent.policy.mean.dictionary, agent._value.dictionary)}
    matrices = [vars(own).get(name) for own in dictionaries.values() for name in ("gram", "cholesky")]
    held = sum(matrix.nbytes for matrix in matrices if matrix is not None)
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        plain = agent._phase

        @contextmanager
        def phase(name: str) -> Iterator[None]:
            tracemalloc.reset_peak()
            with plain(name):
                yield
            peaks[name] = held + tracemalloc.get_traced_memory()[1] - start

        with _replaced(agent, "_phase", phase), recorded(agent) as shape:
            agent.run_epoch()
        return peaks, shape()
    finally:
        if not tracing:
            tracemalloc.stop()


@dataclass
class _Notes:
    transitions: int = 0
    points: int = 0
    policy: Basis | None = None
    actor: Basis | None = None
    value: Basis | None = None
    growths: list[Growth] = field(default_factory=list)
    attribution: Attribution | None = None
    reprojections: list[Reprojection] = field(default_factory=list)


@contextmanager
def recorded(agent: RSA2C) -> Iterator[Callable[[], Epoch]]:
    """Note the sizes of the epoch run inside; what it yields gives them afterwards."""
    notes = _Notes(policy=_basis(agent.policy.mean.dictionary))
    collect, grown, fit_value = agent._collect, agent._grown, agent._fit_value
    moved, fit_advantage, measure = agent._on_new_metric, agent._fit_advantage, guidance.measure

    def note_collect() -> Any:
        batch = collect()
        notes.transitions, notes.points = batch.n, len(batch.points)
        return batch

    def note_grown(function: RKHSFunction, candidates: Any, threshold: float) -> RKHSFunction:
        basis, config = _basis(function.dictionary), agent.config
        replacing = config.replacement != "none" and agent.epoch % config.replacement_every == 0
        result = grown(function, candidates, threshold)
        if basis.states < agent.sizes.capacity or replacing:
            stayed = _shared(function.dictionary, result.dictionary)
            admitted, removed = result.dictionary.size - stayed, basis.states - stayed
            notes.growths.append(Growth(basis, len(function.output_names), len(candidates), admitted, removed))
        return result

    def note_value(batch: Any) -> Any:
        if agent.config.baseline == "value":
            notes.value = _basis(agent._value.dictionary)
        return fit_value(batch)

    def note_measure(explained: guidance.Explained, *rest: Any) -> Any:
        fitted = agent.config.attribution_critic == "shadow"
        samples = len(explained.x) if fitted else 0
        pool = min(samples, guidance.CANDIDATES * agent.config.attribution_centres)
        k, outputs = explained.coefficients.shape
        notes.attribution = Attribution(k, explained.dictionary.centres.shape[1], outputs, samples, pool)
        return measure(explained, *rest)

    def note_moved(function: RKHSFunction, weights: Any, x: Any) -> RKHSFunction:
        result = moved(function, weights, x)
        kept = _shared(function.dictionary, result.dictionary)
        held = 0 if function is agent._value else held_out(agent.config, notes.transitions)
        outputs, q = len(function.output_names), function.dictionary.size
        notes.reprojections.append(Reprojection(q, kept, result.dictionary.size, len(x), outputs, held))
        return result

    def note_advantage(batch: Any, advantage: Any) -> Any:
        notes.actor = _basis(agent.policy.mean.dictionary)
        return fit_advantage(batch, advantage)

    def shape() -> Epoch:
        assert notes.policy is not None and notes.actor is not None, "the epoch was not finished"
        return Epoch(
            notes.transitions, notes.points, len(agent.feature_names), len(agent.action_names), notes.policy,
            notes.actor, notes.value, tuple(notes.growths), notes.attribution, tuple(notes.reprojections),
        )  # fmt: skip

    with ExitStack() as stack:
        for owner, name, note in (
            (agent, "_collect", note_collect),
            (agent, "_grown", note_grown),
            (agent, "_fit_value", note_value),
            (guidance, "measure", note_measure),
            (agent, "_on_new_metric", note_moved),
            (agent, "_fit_advantage", note_advantage),
        ):
            stack.enter_context(_replaced(owner, name, note))
        yield shape


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let `owner.name` be `value` for a while; an object's own attribute goes again, a module's is put back."""
    own, before = name in vars(owner), getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def _basis(dictionary: Dictionary) -> Basis:
    return Basis(dictionary.size, "gram" in vars(dictionary), "cholesky" in vars(dictionary))


def _shared(one: Dictionary, other: Dictionary) -> int:
    """Number of states the dictionaries have in common."""
    ours = {row.tobytes() for row in np.ascontiguousarray(one.centres)}
    return sum(row.tobytes() in ours for row in np.ascontiguousarray(other.centres))

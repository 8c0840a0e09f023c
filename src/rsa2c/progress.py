"""The live display of training: return, speed, dictionaries, top features and time left.

On a terminal a small panel is redrawn in place; elsewhere plain lines are printed, at most one every two
seconds, so that a log file stays readable.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rsa2c.statistics.words import attended, shown

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C

PLAIN_INTERVAL = 2.0
"""Seconds between two plain lines."""
_BLOCKS = "▁▂▃▄▅▆▇█"


@contextmanager
def progress(agent: RSA2C, goal: int, enabled: bool = True) -> Iterator[Callable[..., None]]:
    """Show an agent on its way to `goal` steps; call what is yielded after each epoch.

    `show(evaluation=x)` also shows x, the mean return of the last evaluation.
    """
    if not enabled:
        yield lambda **_: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain(_Meter(agent, goal))
        return
    from rich.live import Live

    meter = _Meter(agent, goal)
    with Live(console=console, refresh_per_second=8, transient=False) as live:

        def show(evaluation: float | None = None) -> None:
            meter.update(evaluation)
            live.update(_panel(meter))

        yield show


class _Meter:
    """The numbers on display."""

    def __init__(self, agent: RSA2C, goal: int) -> None:
        self.agent, self.goal = agent, goal
        self.began, self.first = time.perf_counter(), agent.num_timesteps
        self.evaluation: float | None = None
        self.rate = math.nan

    def update(self, evaluation: float | None) -> None:
        self.evaluation = self.evaluation if evaluation is None else evaluation
        elapsed = time.perf_counter() - self.began
        self.rate = (self.agent.num_timesteps - self.first) / max(elapsed, 1e-9)

    @property
    def steps(self) -> str:
        """Steps of the goal; those that the last epoch makes beyond it, because epochs are whole, stand apart."""
        done, goal = self.agent.num_timesteps, self.goal
        beyond = f" (+{done - goal:,} to the end of the epoch)" if done > goal else ""
        return f"{min(done, goal):,}/{goal:,} steps{beyond}"

    @property
    def left(self) -> float:
        return max(self.goal - self.agent.num_timesteps, 0) / max(self.rate, 1e-9)

    @property
    def row(self) -> dict[str, Any]:
        return self.agent.history[-1]

    @property
    def spread(self) -> str:
        """What the last epoch's workers did; nothing where this process works alone."""
        record = self.agent.record
        return str(record.spread) if record is not None and record.spread.bytes else ""

    @property
    def features(self) -> str | None:
        """The features with the largest kernel weights, if these differ."""
        return attended(self.agent.kernel_weights, self.agent.feature_names)


def _plain(meter: _Meter) -> Callable[..., None]:
    printed = 0.0

    def show(evaluation: float | None = None) -> None:
        nonlocal printed
        meter.update(evaluation)
        now = time.perf_counter()
        if now - printed < PLAIN_INTERVAL and meter.agent.num_timesteps < meter.goal:
            return
        printed = now
        print(_line(meter), file=sys.stderr, flush=True)

    return show


def _line(meter: _Meter) -> str:
    agent, row = meter.agent, meter.row
    parts = [
        f"epoch {agent.epoch}",
        meter.steps,
        f"return {_shown(row['ep_rew_mean'])}",
        f"{meter.rate:,.0f} steps/s",
        "states " + "+".join(str(size) for size in agent.dictionary_sizes.values()),
        f"left {clock(meter.left)}",
    ]
    if meter.spread:
        parts.insert(4, meter.spread)
    if meter.evaluation is not None:
        parts.insert(3, f"evaluation {shown(meter.evaluation)} over {agent.config.evaluation_episodes} episodes")
    return "  ".join([*parts, *([f"looks at {meter.features}"] if meter.features else [])])


def _shown(mean: float) -> str:
    return shown(mean) if math.isfinite(mean) else "- (no episode ended)"


def _panel(meter: _Meter) -> Any:
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    agent, row = meter.agent, meter.row
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(min_width=56)
    bar = ProgressBar(total=meter.goal, completed=min(agent.num_timesteps, meter.goal), width=48)
    grid.add_row("progress", bar)
    left = f"{clock(meter.left)} left"
    grid.add_row("steps", f"{meter.steps}   {meter.rate:,.0f} a second   {left}")
    if meter.spread:
        grid.add_row("workers", meter.spread)
    episodes = agent.config.evaluation_episodes
    evaluation = "" if meter.evaluation is None else f"   evaluation {shown(meter.evaluation)} over {episodes} episodes"
    curve = sparkline([past["ep_rew_mean"] for past in agent.history[-200:]])
    grid.add_row("return", f"{_shown(row['ep_rew_mean'])}{evaluation}   {curve}")
    sizes = ", ".join(f"{name} {size}" for name, size in agent.dictionary_sizes.items())
    grid.add_row("states", f"{sizes}   sigma {row['sigma']:.2f}   kl {row['kl']:.4f}")
    grid.add_row("looks at", meter.features or "all features alike")
    return Panel(grid, title=f"{agent.env_id} · {agent.algorithm} · epoch {agent.epoch}", expand=False)


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """A curve in block characters, the mean of each of `width` equal stretches."""
    finite = np.array([value for value in values if math.isfinite(value)])
    if len(finite) < 2:
        return ""
    means = np.array([part.mean() for part in np.array_split(finite, min(width, len(finite)))])
    span = np.ptp(means)
    levels = np.zeros(len(means)) if span == 0 else (means - means.min()) / span
    return "".join(_BLOCKS[round(level * (len(_BLOCKS) - 1))] for level in levels)


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

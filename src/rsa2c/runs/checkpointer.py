"""What training writes into its run folder as epochs pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rsa2c.agent import RSA2C
from rsa2c.algorithm.epoch import COMPILE, PHASES
from rsa2c.runs.evaluation import evaluate_agent, optimality_gap
from rsa2c.runs.folder import Run
from rsa2c.sb3.tensorboard import Tracker, epoch_scalars, evaluation_scalars

CHECKPOINT_INTERVAL = 5.0
"""Seconds of training between checkpoints (taken at the next epoch boundary)."""


class Checkpointer:
    """Writes the folder as epochs pass; `boundary` is the agent as it was after the last one."""

    def __init__(self, run: Run, agent: RSA2C, goal: int, show: Callable[..., None], tracker: Tracker | None) -> None:
        self.run, self.agent, self.goal, self.show, self.tracker = run, agent, goal, show, tracker
        self.boundary = agent.snapshot()
        rows = run.read_metrics()
        self.seconds = float(rows[-1].get("seconds", 0.0)) if rows else 0.0
        self.first_seconds, self.first_steps = self.seconds, agent.num_timesteps
        done = run.read_evaluations() if run.evaluations_path.exists() else None
        self.evaluations: list[tuple[int, np.ndarray, np.ndarray, float]] = []
        if done:
            gap = done.get("gap", np.full(len(done["timesteps"]), np.nan))
            self.evaluations = list(zip(done["timesteps"], done["results"], done["ep_lengths"], gap, strict=True))
        self.resumed = self.saved_at = time.perf_counter()

    def after_epoch(self, *_: Any) -> None:
        """Called by `learn` after every epoch."""
        now = time.perf_counter()
        self.seconds += now - self.resumed
        record = self.agent.record
        assert record is not None, "an epoch has just ended"
        times = {"seconds": self.seconds, **{f"seconds_{name}": record.seconds[name] for name in (*PHASES, COMPILE)}}
        spread = {"workers": record.spread.workers, "bytes": record.spread.bytes, "idle": round(record.spread.idle, 4)}
        self.run.append_metrics({**record.metrics, **{name: round(x, 5) for name, x in times.items()}, **spread})
        last = self.agent.num_timesteps >= self.goal
        due = self.agent.epoch % self.agent.config.epochs_between_evaluations == 0
        self.show(evaluation=self.evaluate() if due or last else None)
        self.boundary = self.agent.snapshot()
        if self.tracker is not None:
            steps, seconds = self.agent.num_timesteps - self.first_steps, self.seconds - self.first_seconds
            self.tracker.scalars(self.agent.num_timesteps, epoch_scalars(self.agent, seconds, steps))
        if now - self.saved_at > CHECKPOINT_INTERVAL:
            self.save()
        self.resumed = time.perf_counter()

    def evaluate(self) -> float:
        """Evaluate the agent now; the mean return."""
        result = evaluate_agent(self.agent)
        gap = optimality_gap(self.agent)
        self.evaluations.append((self.agent.num_timesteps, result.returns, result.lengths, gap))
        if self.tracker is not None:
            scalars = evaluation_scalars(result.returns, result.lengths)
            self.tracker.scalars(self.agent.num_timesteps, scalars)
        return result.mean

    def save(self) -> None:
        """Write the boundary; the checkpoint comes last, so that everything it relies on exists."""
        boundary, run = self.boundary, self.run
        if run.metrics_path.exists():
            run.metrics.sync()
        past = [row for row in self.evaluations if row[0] <= boundary.state.steps]
        if past:
            timesteps, results, lengths, gaps = zip(*past, strict=True)
            gap = None if np.all(np.isnan(gaps)) else np.array(gaps)
            run.write_evaluations(np.array(timesteps), np.stack(results), np.stack(lengths), gap)
        if boundary.attributions:
            epochs, phi, weights = zip(*boundary.attributions, strict=True)
            names = np.array(boundary.task.feature_names)
            run.write_attributions(np.array(epochs), names, np.stack(phi), np.stack(weights))
        boundary.save(run.model_path)
        boundary.save(run.state_path, checkpoint=True)
        self.saved_at = time.perf_counter()

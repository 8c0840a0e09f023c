"""The result of a run: curves from the run folder, score and robustness from new episodes."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from rsa2c.config import make_config
from rsa2c.evaluation import EvaluationResult
from rsa2c.runs.evaluation import evaluate_policy

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.runs.data import AgentData

NOISE_VARIANCES = (0.001, 0.01, 0.05)
NOISE_STEPS = 20_000
"""Environment steps spent on each variance, so that a page of long episodes does not take minutes."""
FEWEST_NOISY = 5
PHASE_PREFIX = "seconds_"
"""Columns of `metrics.csv` that hold the seconds of one phase."""


def evaluation_curve(data: AgentData) -> dict[str, Any] | None:
    """Mean and spread over episodes for every evaluation during training."""
    done = data.evaluations
    if done is None:
        return None
    results = done["results"]
    low, high = np.quantile(results, [0.1, 0.9], axis=1)
    return {
        "steps": done["timesteps"].tolist(),
        "mean": results.mean(axis=1).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "episodes": int(results.shape[1]),
    }


def metric_curves(data: AgentData) -> dict[str, list[float | None]]:
    """Columns of `metrics.csv` as numbers; anything that is not a finite number becomes None."""
    rows = data.metrics
    return {column: [_number(row[column]) for row in rows] for column in (rows[0] if rows else ())}


def phases(metrics: dict[str, list[float | None]]) -> dict[str, float]:
    """Total seconds of each phase, if the run recorded them."""
    return {
        column.removeprefix(PHASE_PREFIX): float(sum(x or 0.0 for x in values))
        for column, values in metrics.items()
        if column.startswith(PHASE_PREFIX)
    }


def spread(metrics: dict[str, list[float | None]]) -> dict[str, float] | None:
    """How the training was spread over workers, where it was: steps per second, bytes per epoch, share of idle time."""
    columns = [metrics.get(name, []) for name in ("workers", "bytes", "idle")]
    rows = [row for row in zip(*columns, strict=True) if row[1]]
    steps, seconds = metrics.get("timesteps", []), metrics.get("seconds", [])
    if not rows or not (seconds and seconds[-1] and steps and steps[-1]):
        return None
    workers, size, idle = (float(np.mean([x or 0.0 for x in column])) for column in zip(*rows, strict=True))
    return {"workers": workers, "rate": steps[-1] / seconds[-1], "bytes": size, "idle": idle}


def score(result: EvaluationResult) -> dict[str, Any]:
    """Summary statistics of an evaluation."""
    low, high = (bound if np.isfinite(bound) else None for bound in result.interval())
    return {
        "episodes": len(result.returns),
        "mean": result.mean,
        "std": result.std,
        "low": low,
        "high": high,
        "worst": float(result.returns.min()),
        "best": float(result.returns.max()),
        "length": float(result.lengths.mean()),
    }


def known_result(data: AgentData) -> EvaluationResult | None:
    """The run's final evaluation without noise, if it has one."""
    return None if data.clean_returns is None else EvaluationResult(*data.clean_returns)


def robustness(agent: RSA2C, clean: EvaluationResult, data: AgentData | None = None) -> list[dict[str, Any]]:
    """Scores under observation noise of increasing variance, in raw units: the same starts and as many for each.

    They are those of the final evaluation, if it has noise levels; otherwise new episodes, beside as many of the
    noise-free ones.
    """
    if data is not None and data.returns is not None and len(data.returns["noise_variance"]) > 1:
        rows = zip(*(data.returns[name] for name in ("noise_variance", "returns", "ep_lengths")), strict=True)
        return [{"variance": float(v), **score(EvaluationResult(r, n))} for v, r, n in rows]
    affordable = max(FEWEST_NOISY, int(NOISE_STEPS / clean.lengths.mean()))
    count = min(len(clean.returns), affordable)
    results = {0.0: EvaluationResult(clean.returns[:count], clean.lengths[:count])}
    results |= {variance: evaluate_policy(agent, count, variance) for variance in NOISE_VARIANCES}
    return [{"variance": variance, **score(one)} for variance, one in results.items()]


def rerun_command(document: dict[str, Any]) -> str:
    """The command that repeats the run, with a flag for each setting that differs from its preset."""
    environment, algorithm = document["environment"], document["algorithm"]
    preset, config = document.get("preset", "default"), document["config"]
    parts = [f"rsa2c train {environment} --algorithm {algorithm}", f"--seed {config.get('seed', 0)}"]
    if preset != "default":
        parts.append(f"--preset {preset}")
    parts.append(f"--total-timesteps {document['total_timesteps']}")
    if kwargs := document.get("env_kwargs"):
        parts.append("--env-kwargs " + " ".join(shlex.quote(f"{key}={json.dumps(x)}") for key, x in kwargs.items()))
    expected = make_config(environment, preset, algorithm).settings()
    for name, now in config.items():
        settled = expected.get(name) == "auto" or name in ("seed", "backend")
        if now != expected.get(name) and not settled:
            flag = name.replace("_", "-")
            parts.append(f"--{'' if now else 'no-'}{flag}" if isinstance(now, bool) else f"--{flag} {now}")
    return " ".join(parts)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if np.isfinite(value) else None

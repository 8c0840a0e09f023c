"""What a table of runs shows about each run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rsa2c.errors import FileFormatError
from rsa2c.runs.data import RunData


@dataclass(frozen=True)
class Return:
    """Mean and standard deviation of a run's return over the episodes of its final evaluation."""

    mean: float
    std: float
    episodes: int | None = None
    """None if the record does not say."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One finished run."""

    run: str
    environment: str
    algorithm: str
    preset: str
    noise: float
    """Variance of the observation noise in training."""
    distractors: int
    seed: int
    steps: int
    seconds: float
    commit: str
    processor: str
    """The processor that computed it; empty if the run did not note it."""
    versions: str
    """Versions of the libraries that computed it."""
    returns: dict[float, Return]
    """Return for each noise variance at evaluation."""

    @classmethod
    def of(cls, data: RunData) -> Summary:
        """The summary of a trained and evaluated run."""
        return cls(**summarised(data))


def summarised(data: RunData) -> dict[str, Any]:
    """The fields of a run's summary."""
    if data.returns is None:
        path = data.run.path
        raise FileFormatError(f"run {path} has no final evaluation. Make it with: rsa2c resume {path}")
    document, last = data.document, data.last_row
    return {
        "run": data.run.path.name,
        "environment": data.environment,
        "algorithm": data.algorithm,
        "preset": document["preset"],
        "noise": data.settings.get("noise_variance", 0.0),
        "distractors": data.settings.get("distractors", 0),
        "seed": data.settings.get("seed", 0),
        "steps": int(float(last["timesteps"])),
        "seconds": float(last["seconds"]),
        "commit": str(document.get("commit")),
        "processor": str(document.get("processor", "")),
        "versions": ", ".join(f"{name} {version}" for name, version in document.get("versions", {}).items()),
        "returns": {
            float(variance): Return(float(values.mean()), float(values.std()), len(values))
            for variance, values in zip(data.returns["noise_variance"], data.returns["returns"], strict=True)
        },
    }

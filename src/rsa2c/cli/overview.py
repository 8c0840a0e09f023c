"""`rsa2c list`."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rsa2c.baselines.settings import BASELINES
from rsa2c.cli.command import command, parse
from rsa2c.config import ALGORITHMS, preset_names
from rsa2c.envs.known import find, known_ids
from rsa2c.errors import RSA2CError

if TYPE_CHECKING:
    from rsa2c.runs.folder import Run

EXTRAS = {
    "envs": ("mujoco", "Box2D", "pygame"),
    "fast": ("envpool",),
    "explain": ("matplotlib", "shap", "sklearn", "pyarrow", "h5py"),
    "baselines": ("torch", "stable_baselines3"),
    "export": ("onnx",),
    "track": ("tensorboard",),
    "cluster": ("ray",),
    "gpu": ("cupy",),
    "watch": ("PIL", "imageio", "imageio_ffmpeg"),
    "tune": ("optuna",),
}


@command
def list_(arguments: list[str]) -> None:
    """Environments with presets, algorithms, installed extras, and the runs under ./runs."""
    parse(_NoOptions, arguments, list_)
    from rsa2c.runs.folder import find_runs

    print("environments with presets (any other Gymnasium id trains with automatic settings)")
    for env_id in _preset_environments():
        print(f"  {env_id:<20} {', '.join(preset_names(env_id))}")
    print("\nalgorithms\n  " + "\n  ".join([*ALGORITHMS, *BASELINES]))
    print("\nextras")
    for extra, modules in EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        print(f"  {extra:<12}" + (f"pip install 'rsa2c[{extra}]'" if missing else "installed"))
    runs = find_runs("runs")
    print("\nruns under ./runs" if runs else "\nno runs under ./runs")
    for run in runs:
        print(f"  {run.path}   {_status(run)}")


@dataclass
class _NoOptions:
    """No options."""


def _preset_environments() -> list[str]:
    return [env_id for env_id in known_ids() if (known := find(env_id)) is not None and known.presets]


def _status(run: Run) -> str:
    """Steps and score of a run in words; a run that cannot be read says why."""
    from rsa2c.runs.data import RunData
    from rsa2c.statistics.words import shown

    try:
        data = RunData.of(run)
        asked = "" if data.steps >= data.total_timesteps else f" of {data.total_timesteps:,}"
        words = f"{data.steps:,}{asked} steps"
        if (final := data.clean_returns) is not None:
            words += f", mean return {shown(final[0].mean())} over {len(final[0])} episodes"
        elif data.evaluations is not None:
            last = data.evaluations["results"][-1]
            words += f", last evaluation {shown(last.mean())} over {len(last)} episodes"
        return words
    except RSA2CError as error:
        return f"unreadable: {error}"
    except (KeyError, IndexError, TypeError, ValueError) as error:
        return f"unreadable: {type(error).__name__} {error}"

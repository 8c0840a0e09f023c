"""The run folder: everything a training run leaves behind, written atomically and never overwritten.

It holds `config.yaml` (what was asked for, versions, commit), `metrics.csv` (one row per epoch), `evaluations.npz`
(Stable-Baselines3's layout), `attributions.npz`, `returns.npz` (the final evaluation of a trained run),
`model.safetensors` and `state.safetensors` (the last boundary checkpoint). The checkpoint is written last, so
the other files have all of its epochs; what they have beyond it is dropped on resume. `baseline_training` says how the
folders of SAC and PPO differ. `RunData` in `data` reads a folder, each file once.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rsa2c.baselines.settings import BASELINES, BaselineConfig
from rsa2c.config import Config, upgraded_settings, without_shadows
from rsa2c.envs.modules import has_module
from rsa2c.errors import ConfigError, FileFormatError, NotFoundError, RunExistsError
from rsa2c.files import (
    PathLike,
    StorageError,
    holding,
    near,
    pending,
    read_npz,
    read_yaml,
    remove,
    versions,
    write_atomically,
    write_npz,
)
from rsa2c.runs.metrics import MetricsFile
from rsa2c.runs.names import check_run_id
from rsa2c.runs.provenance import provenance
from rsa2c.zoo import PREFIX, cards, is_zoo


def _from_version_1(document: dict[str, Any]) -> dict[str, Any]:
    """Version 1 wrote settings without an effect; those of baselines are the same in both."""
    if document["algorithm"] in BASELINES:
        return document
    return {**document, "config": upgraded_settings(document["config"])}


def _from_version_5(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "config": without_shadows(document["config"])}


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_version_1, 5: _from_version_5}
"""Functions that turn a `config.yaml` of format version n into one of version n + 1 (`algorithm.snapshot` has those of
models and checkpoints)."""
_EVALUATIONS = {"timesteps": "n", "results": "n episodes", "ep_lengths": "n episodes"}
_ATTRIBUTIONS = {"epoch": "n", "feature_names": "d", "phi": "n d", "weights": "n d"}
_RETURNS = {"noise_variance": "n", "returns": "n episodes", "ep_lengths": "n episodes"}


class Run:
    """One run folder. Training holds its lock (`with run.locked():`); reading needs none."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.yaml"
        self.metrics_path = self.path / "metrics.csv"
        self.evaluations_path = self.path / "evaluations.npz"
        self.attributions_path = self.path / "attributions.npz"
        self.returns_path = self.path / "returns.npz"
        self.model_path = self.path / "model.safetensors"
        self.state_path = self.path / "state.safetensors"
        self.metrics = MetricsFile(self.metrics_path)

    @property
    def env_option(self) -> str:
        """` --env module:Name`, which a command needs besides the run where a module has the environment: a run folder
        imports nothing."""
        with contextlib.suppress(FileFormatError, StorageError, NotFoundError, OSError):
            name = str(self.read_config().get("environment"))
            return f" --env {name}" if has_module(name) else ""
        return ""

    @classmethod
    def create(
        cls,
        out: PathLike,
        run_id: str,
        config: Config | BaselineConfig,
        extra: Mapping[str, Any],
        packages: Sequence[str] = (),
    ) -> Run:
        """A new folder `out/run_id`; `extra` names environment, algorithm, preset and total_timesteps, and
        `packages` further packages whose versions are noted.

        A folder without `config.yaml` is left over from a process that was killed at once, and is taken over.
        """
        run = cls.refuse_existing(out, run_id)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"run folder {run.path} could not be made: {error.strerror or error}. "
                "Choose another place with: --out FOLDER"
            ) from error
        with run.locked():
            cls.refuse_existing(out, run_id)
            run.write_config({**extra, **provenance(*packages), "config": config.settings()})
        return run

    @classmethod
    def refuse_existing(cls, out: PathLike, run_id: str) -> Run:
        """The folder of a new run; refused if it has a run already, or if the id is not a plain name."""
        check_run_id(run_id)
        run = cls(Path(out) / run_id)
        try:
            exists = run.config_path.exists()
        except OSError as error:
            raise StorageError(
                f"run folder {run.path} cannot be read: {error.strerror or error}. "
                "Choose another place with: --out FOLDER"
            ) from error
        if exists:
            raise RunExistsError(
                f"run {run.path} already exists and is never overwritten.\n"
                f"Continue it with:        rsa2c resume {run.path}{run.env_option}\n"
                "or write elsewhere with: --out OTHER_FOLDER"
            )
        return run

    @classmethod
    def open(cls, path: PathLike) -> Run:
        """An existing run, by its folder or by its id under `runs`."""
        for folder in (Path(path), Path("runs") / path):
            with contextlib.suppress(OSError):  # a name that is too long for any file
                if (folder / "config.yaml").is_file():
                    return cls(folder)
        if is_zoo(path):
            raise NotFoundError(
                f"{path} is an agent of the zoo, and this needs a run folder, with everything its training left. Train "
                f"one with: rsa2c train {str(path).removeprefix(PREFIX)}, or the zoo's agent further in Python: "
                f"rsa2c.load({str(path)!r}).learn(STEPS)"
            )
        path = Path(path)
        what = "has no config.yaml, so it is not a run folder." if os.path.isdir(path) else "does not exist."
        runs = {run.path.name: str(run.path) for run in find_runs("runs")}
        close = [runs[name] for name in difflib.get_close_matches(path.name, runs, n=3, cutoff=0.6)]
        if not close and str(path) in cards():
            close = [f"{PREFIX}{path}"]
        hint = f" Did you mean {' or '.join(close)}?" if close else near(path)
        raise NotFoundError(f"run {path} {what}{hint} `rsa2c list` shows the runs under ./runs.")

    @contextlib.contextmanager
    def locked(self) -> Iterator[Run]:
        """Hold the folder's lock; a second process is refused."""
        with holding(self.path, "run"):
            for leftover in self.path.glob(".*.tmp"):
                remove(leftover)
            yield self

    def write_config(self, document: Mapping[str, Any]) -> None:
        """Write `config.yaml`: our format version, then the keys in the order given."""
        document = {"format": versions.VERSION, **document}
        text = yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)
        write_atomically(self.config_path, text.encode())

    def read_config(self) -> dict[str, Any]:
        """The document of `config.yaml`; under `config` it has every field of `Config` (or `BaselineConfig`).

        One without a format version is of version 1.
        """
        document = read_yaml(self.config_path)

        def refusal(what: str, remedy: str = "Restore it from a copy") -> FileFormatError:
            return FileFormatError(f"{self.config_path} cannot be read: {what}. {remedy}.")

        if not isinstance(document, dict):
            raise refusal("it has no usable 'environment'")
        try:
            for upgrade in pending(document.get("format", 1), UPGRADES, refusal):
                document = upgrade(document)
        except (LookupError, TypeError, AttributeError, ConfigError) as error:
            raise refusal(f"it cannot be upgraded to version {versions.VERSION} ({error})") from error
        document = {"preset": "default", **document, "format": versions.VERSION}
        wanted = {"environment": str, "algorithm": str, "preset": str, "total_timesteps": int, "config": dict}
        for key, kind in wanted.items():
            if not isinstance(document.get(key), kind):
                raise refusal(f"it has no usable {key!r}")
        for key, kind in {"env_kwargs": dict, "env_is_id": bool, "feature_names": list}.items():
            if not isinstance(document.get(key, kind()), kind):
                raise refusal(f"it has no usable {key!r}")
        if document["total_timesteps"] <= 0:
            raise refusal("its 'total_timesteps' is not positive")
        if not all(isinstance(name, str) for name in document["config"]):
            raise refusal("a setting name is not a string")
        return document

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append an epoch's row to `metrics.csv`; the first row's keys are the columns."""
        self.metrics.append(row)

    def read_metrics(self) -> list[dict[str, str]]:
        """The rows of `metrics.csv`; a last line torn off by a crash is left out."""
        return self.metrics.read()

    def write_evaluations(
        self, timesteps: np.ndarray, results: np.ndarray, ep_lengths: np.ndarray, gap: np.ndarray | None = None
    ) -> None:
        """Write evaluations as Stable-Baselines3 does: a row per evaluation, a column per episode.

        `gap` (n,) is the excess over the optimal cost, on environments whose optimum is known.
        """
        arrays = dict(zip(_EVALUATIONS, (timesteps, results, ep_lengths), strict=True))
        write_npz(self.evaluations_path, arrays if gap is None else {**arrays, "gap": gap})

    def read_evaluations(self) -> dict[str, np.ndarray]:
        """`timesteps` (n,), `results` and `ep_lengths` (n, episodes), `gap` (n,) if it is known."""
        return read_npz(self.evaluations_path, _EVALUATIONS, optional={"gap": "n"})

    def write_attributions(
        self, epoch: np.ndarray, feature_names: np.ndarray, phi: np.ndarray, weights: np.ndarray
    ) -> None:
        """Write each attribution's epoch, importances phi and kernel weights (n, d)."""
        arrays = (epoch, np.asarray(feature_names, dtype=np.str_), phi, weights)
        write_npz(self.attributions_path, dict(zip(_ATTRIBUTIONS, arrays, strict=True)))

    def read_attributions(self) -> dict[str, np.ndarray]:
        """`epoch` (n,), `feature_names` (d,), `phi` and `weights` (n, d)."""
        return read_npz(self.attributions_path, _ATTRIBUTIONS, text="feature_names")

    def write_returns(
        self, noise_variance: np.ndarray, returns: np.ndarray, ep_lengths: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Write a run's final evaluation, a row per noise variance, a column per episode; what `read_returns` reads."""
        arrays = dict(zip(_RETURNS, (noise_variance, returns, ep_lengths), strict=True))
        write_npz(self.returns_path, arrays)
        return arrays

    def read_returns(self) -> dict[str, np.ndarray]:
        """`noise_variance` (n,), `returns` and `ep_lengths` (n, episodes)."""
        return read_npz(self.returns_path, _RETURNS)

    def rewind(self, epoch: int, timesteps: int) -> None:
        """Drop metrics, evaluations and attributions beyond a checkpoint, and the final evaluation: further training
        makes them again."""
        remove(self.returns_path)
        try:
            rows = [row for row in self.read_metrics() if int(row["epoch"]) <= epoch]
            if self.evaluations_path.exists():
                done = self.read_evaluations()
                mask = done["timesteps"] <= timesteps
                self.write_evaluations(**{key: array[mask] for key, array in done.items()})
            if self.attributions_path.exists():
                log = self.read_attributions()
                mask, names = log["epoch"] <= epoch, log["feature_names"]
                self.write_attributions(log["epoch"][mask], names, log["phi"][mask], log["weights"][mask])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FileFormatError(
                f"the files of {self.path} do not fit together ({type(error).__name__}: {error}). Restore them "
                "from a copy, or continue without history: delete all but config.yaml and state.safetensors."
            ) from error
        if self.metrics_path.exists():
            self.metrics.rewrite(rows)


def find_runs(root: PathLike) -> list[Run]:
    """Every run folder under `root`, sorted by path."""
    return [Run(path.parent) for path in sorted(Path(root).glob("**/config.yaml"))]

"""The run folder: everything a training run leaves, atomic and never overwritten.

It holds `config.yaml` (what was asked for, versions, commit), `metrics.csv` (one row an epoch), `evaluations.npz`
(Stable-Baselines3's layout), `attributions.npz`, `returns.npz` (the last evaluation, once trained),
`model.safetensors` and `state.safetensors` (the last boundary checkpoint). The checkpoint is written last, so the
other files hold its epochs whole; what they hold beyond it is dropped on resume. `baseline_runs` says how the folders
of SAC and PPO differ.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import io
import math
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata as package_metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from rsa2c import files
from rsa2c.baselines.settings import BASELINES
from rsa2c.config import Config, upgraded_settings
from rsa2c.errors import ConfigError, DataError, FileFormatError, NotFoundError, RunExistsError
from rsa2c.files import (
    PathLike,
    StorageError,
    holding,
    near,
    pending,
    read_bytes,
    read_npz,
    read_tensors,
    read_yaml,
    remove,
    write_atomically,
    write_npz,
    write_tensors,
)

if TYPE_CHECKING:
    from rsa2c.baselines.settings import BaselineConfig

__all__ = ["Run", "StorageError", "find_runs", "make_run_id", "provenance", "read_tensors", "write_tensors"]

def _from_version_1(document: dict[str, Any]) -> dict[str, Any]:
    """Version 1 wrote settings without an effect; those of baselines are the same in both."""
    if document.get("algorithm") in BASELINES:
        return document
    return {**document, "config": upgraded_settings(document["config"])}


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_version_1}
"""What makes a `config.yaml` of format version n one of version n + 1, where they differ (`files.UPGRADES`)."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,199}")
_SEED = re.compile(r"__s\d+(?=__|$)")
_EVALUATIONS = {"timesteps": "n", "results": "n episodes", "ep_lengths": "n episodes"}
_ATTRIBUTIONS = {"epoch": "n", "feature_names": "d", "phi": "n d", "weights": "n d"}
_NUMBERS = ("epoch", "timesteps", "seconds")
_RETURNS = {"noise_variance": "n", "returns": "n episodes", "ep_lengths": "n episodes"}


def make_run_id(env_id: str, algorithm: str, preset: str, config: Config | BaselineConfig) -> str:
    """`<env, / as ->__<algorithm>__<preset>__n<noise variance>__s<seed>`, with `__d<k>` for k distractors."""
    name = re.sub(r"[/:]", "-", env_id)
    run_id = f"{name}__{algorithm}__{preset}__n{word(config.noise_variance)}__s{config.seed}"
    return run_id + (f"__d{config.distractors}" if config.distractors else "")


def word(value: Any) -> str:
    """A setting in a run id or a column's name: a number as short as it can be told from all others."""
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def without_seed(run_id: str) -> str:
    """What runs that differ in nothing but their seed have in common."""
    return _SEED.sub("", run_id)


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
        self._columns: list[str] | None = None

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
        `packages` what computes beside the usual.

        A folder without `config.yaml` never began (its process was killed at once) and is taken over.
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
        """The folder a new run would take; refused where a run is there, or where the id is no plain name."""
        if not _RUN_ID.fullmatch(run_id) or ".." in run_id:
            raise DataError(
                f"run id {run_id!r} is refused: only letters, digits and ._+=- are allowed, at most 200, and no '..'."
            )
        run = cls(Path(out) / run_id)
        try:
            exists = run.config_path.exists()
        except OSError as error:
            raise StorageError(
                f"run folder {run.path} cannot be looked into: {error.strerror or error}. "
                "Choose another place with: --out FOLDER"
            ) from error
        if exists:
            raise RunExistsError(
                f"run {run.path} exists already and is never overwritten.\n"
                f"Continue it with:        rsa2c resume {run.path}\n"
                "or write elsewhere with: --out OTHER_FOLDER"
            )
        return run

    @classmethod
    def open(cls, path: PathLike) -> Run:
        """An existing run, by its folder or by its id under `runs`."""
        for folder in (Path(path), Path("runs") / path):
            with contextlib.suppress(OSError):  # a name that is too long is no file's
                if (folder / "config.yaml").is_file():
                    return cls(folder)
        path = Path(path)
        what = "has no config.yaml, so it is no run folder." if os.path.isdir(path) else "does not exist."
        runs = {run.path.name: str(run.path) for run in find_runs("runs")}
        close = [runs[name] for name in difflib.get_close_matches(path.name, runs, n=3, cutoff=0.6)]
        hint = f" Did you mean {' or '.join(close)}?" if close else near(path)
        raise NotFoundError(f"run {path} {what}{hint} `rsa2c list` shows the runs under ./runs.")

    @contextlib.contextmanager
    def locked(self) -> Iterator[Run]:
        """Hold the folder; a second process is refused."""
        with holding(self.path, "run"):
            for leftover in self.path.glob(".*.tmp"):
                remove(leftover)
            yield self

    def write_config(self, document: Mapping[str, Any]) -> None:
        """Write `config.yaml`: our format version, then the keys in the order given."""
        document = {"format": files.VERSION, **document}
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
            raise refusal(f"it cannot be brought to version {files.VERSION} ({error})") from error
        document = {"preset": "default", **document, "format": files.VERSION}
        wanted = {"environment": str, "algorithm": str, "preset": str, "total_timesteps": int, "config": dict}
        for key, kind in wanted.items():
            if not isinstance(document.get(key), kind):
                raise refusal(f"it has no usable {key!r}")
        if document["total_timesteps"] <= 0:
            raise refusal("its 'total_timesteps' is not positive")
        if not all(isinstance(name, str) for name in document["config"]):
            raise refusal("a field's name is none")
        return document

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add an epoch's row to `metrics.csv`; the first row's keys are the columns."""
        try:
            with open(self.metrics_path, "a+", newline="", encoding="utf-8") as file:
                if self._columns is None:
                    file.seek(0)
                    self._columns = next(csv.reader(file), None)
                if self._columns is None:
                    self._columns = list(row)
                    csv.writer(file).writerow(self._columns)
                csv.DictWriter(file, self._columns, extrasaction="ignore").writerow(row)
        except OSError as error:
            what = f"{self.metrics_path} could not be written: {error.strerror or error}"
            raise StorageError(f"{what}. Free some space.") from error

    def read_metrics(self) -> list[dict[str, str]]:
        """The rows of `metrics.csv`; a last line torn off by a crash is left out."""
        if not self.metrics_path.exists():
            return []
        content = read_bytes(self.metrics_path)
        try:
            whole = content[: content.rfind(b"\n") + 1].decode()
            rows = list(csv.DictReader(io.StringIO(whole, newline="")))
            for row in rows:
                if None in row or None in row.values():
                    raise ValueError("a row has other columns than the first")
                if not all(math.isfinite(float(row[name])) for name in row.keys() & _NUMBERS):
                    raise ValueError(f"one of {', '.join(_NUMBERS)} is no number")
        except (ValueError, csv.Error) as error:
            what = f"{self.metrics_path} is damaged ({error})"
            raise FileFormatError(f"{what}. Restore it from a copy.") from error
        return rows

    def sync_metrics(self) -> None:
        """Bring appended rows to the disk, before a checkpoint that counts on them."""
        try:
            with open(self.metrics_path, "rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"{self.metrics_path} was not saved: {error.strerror or error}.") from error

    def write_evaluations(
        self, timesteps: np.ndarray, results: np.ndarray, ep_lengths: np.ndarray, gap: np.ndarray | None = None
    ) -> None:
        """Write evaluations as Stable-Baselines3 does: a row an evaluation, a column an episode.

        `gap` (n,) is the excess over the optimal cost, on environments whose optimum is known.
        """
        arrays = dict(zip(_EVALUATIONS, (timesteps, results, ep_lengths), strict=True))
        write_npz(self.evaluations_path, arrays if gap is None else {**arrays, "gap": gap})

    def read_evaluations(self) -> dict[str, np.ndarray]:
        """`timesteps` (n,), `results` and `ep_lengths` (n, episodes), `gap` (n,) where it is known."""
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

    def write_returns(self, noise_variance: np.ndarray, returns: np.ndarray, ep_lengths: np.ndarray) -> None:
        """Write a run's last evaluation: a row a noise variance, a column an episode."""
        write_npz(self.returns_path, dict(zip(_RETURNS, (noise_variance, returns, ep_lengths), strict=True)))

    def read_returns(self) -> dict[str, np.ndarray]:
        """`noise_variance` (n,), `returns` and `ep_lengths` (n, episodes)."""
        return read_npz(self.returns_path, _RETURNS)

    def rewind(self, epoch: int, timesteps: int) -> None:
        """Drop metrics, evaluations and attributions beyond a checkpoint, and the last evaluation: they will be made
        again."""
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
                "from a copy, or go on without history: delete all but config.yaml and state.safetensors."
            ) from error
        if self.metrics_path.exists():
            text = io.StringIO(newline="")
            if rows:
                writer = csv.DictWriter(text, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
            write_atomically(self.metrics_path, text.getvalue().encode())
            self._columns = None


def find_runs(root: PathLike) -> list[Run]:
    """Every run folder under `root`, by name."""
    return [Run(path.parent) for path in sorted(Path(root).glob("**/config.yaml"))]


@cache
def provenance(*packages: str) -> dict[str, Any]:
    """Versions of what computes (and of `packages`), the processor, and the commit when the package runs from its own
    git checkout."""
    versions: dict[str, str] = {}
    for name in ("rsa2c", "numpy", "scipy", "numba", "gymnasium", "envpool", "mujoco", "box2d", *packages):
        with contextlib.suppress(package_metadata.PackageNotFoundError):
            versions[name] = package_metadata.version(name)
    return {"versions": versions, "processor": cpu(), "commit": _commit()}


def cpu() -> str:
    """The processor's model name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str | None:
    package = Path(__file__).resolve().parent.parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        # A virtual environment may lie inside somebody else's repository: only our own layout counts.
        if Path(git("rev-parse", "--show-toplevel")) / "src" / "rsa2c" != package:
            return None
        modified = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("-modified" if modified else "")
    except (OSError, subprocess.SubprocessError):
        return None

"""An agent as tensors and JSON, and back.

A `model` holds what `predict`, `explain` and further training need; a `state`, the checkpoint of a run folder,
holds the training's history too. Neither holds a clock, a path or a host, so equal agents give equal bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import ActionBounds, GaussianPolicy
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.following import Scale
from rsa2c.algorithm.state import Kept, TrainingState
from rsa2c.algorithm.task import Task, count, names_of
from rsa2c.algorithm.upgrades import UPGRADES
from rsa2c.algorithm.weights import Importances
from rsa2c.config import Config
from rsa2c.errors import FileFormatError, RSA2CError
from rsa2c.files import check_shapes, read_tensors, write_tensors
from rsa2c.files.versions import FORMER_METRICS
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction

Tensors = dict[str, NDArray[Any]]
Metadata = dict[str, Any]

ACTING_SHAPES = {
    "actor/states": "q d",
    "actor/errors": "q",
    "actor/coefficients": "q m",
    "actor/weights": "d",
    "metric/mean": "d",
    "metric/std": "d",
    "policy/sigma": "m",
    "advantage/coefficients": "q m",
    "background": "b d",
}
"""Tensors of what acts and is explained, and the names of their axes: d features, m actions."""
VALUE_SHAPES = {
    "value/states": "p d",
    "value/errors": "p",
    "value/coefficients": "p 1",
    "value/weights": "d",
    "value/offset": "1",
}
"""Those of the Value Critic, if there is one."""
AVERAGES = {"agreed": "s d", "alone": "s d", "explained": "s", "moved": "d"}
"""Fields of `Importances`, and the names of their axes."""
TRAINING_SHAPES = {
    **dict.fromkeys(("scale/mean", "scale/variance"), "d"),
    **dict.fromkeys(("bounds/low", "bounds/high"), "m"),
    **{f"importances/{name}": axes for name, axes in AVERAGES.items()},
}
"""What a model has besides."""
KEPT = "kept/"
"""Prefix of the tensors of the policy that is kept, where that is not the last one."""
CARRIED = "environments/"
"""Prefix of what environments carry over from one epoch to the next, where they do, in order."""
LOG_SHAPES = {"attributions/epoch": "n", "attributions/phi": "n d", "attributions/weights": "n d"}
"""What a checkpoint has besides, with its history."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything a file holds of an agent at the end of an epoch."""

    task: Task
    preset: str
    config: Config
    state: TrainingState
    history: tuple[dict[str, float], ...] = ()
    """A row of metrics for each epoch."""
    attributions: tuple[tuple[int, NDArray, NDArray], ...] = ()
    """Epoch, mean absolute attribution (d,) and kernel weights (d,) of each attribution."""

    def save(self, path: str | PathLike[str], checkpoint: bool = False) -> None:
        """Write it as a model, or as a checkpoint with the history."""
        write_tensors(path, *pack(self, checkpoint))

    @classmethod
    def load(cls, path: str | PathLike[str], kind: str | None = None) -> Snapshot:
        """What a file holds; content that does not fit together is an error that names the file."""
        tensors, metadata = read_tensors(path, kind, UPGRADES)
        try:
            return unpack(tensors, metadata)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RSA2CError) as error:
            raise FileFormatError(
                f"{path} is an rsa2c file whose content does not fit together ({type(error).__name__}: {error}). "
                "Restore it from a copy, or train again."
            ) from error


def pack(snapshot: Snapshot, checkpoint: bool) -> tuple[Tensors, Metadata]:
    """Tensors and JSON-able metadata of a snapshot."""
    state, task = snapshot.state, snapshot.task
    tensors: Tensors = {
        **_acting_tensors(state),
        "bounds/low": state.policy.bounds.low,
        "bounds/high": state.policy.bounds.high,
        "scale/mean": state.scale.mean,
        "scale/variance": state.scale.variance,
        **{f"importances/{name}": getattr(state.importances, name) for name in AVERAGES},
    }
    metadata: Metadata = {
        "kind": "state" if checkpoint else "model",
        "config": snapshot.config.settings(),
        **task.metadata(),
        "preset": snapshot.preset,
        "epoch": state.epoch,
        "num_timesteps": state.steps,
        "warmup_steps": state.warmup_steps,
        "importance_updates": state.importances.updates,
        "clip": state.policy.mean.kernel.metric.clip,
        "knee": state.policy.mean.kernel.metric.knee,
    }
    if (kept := state.kept) is not None:
        tensors |= {KEPT + name: tensor for name, tensor in _acting_tensors(kept).items()}
        metadata["kept"] = {
            "epoch": kept.epoch,
            "num_timesteps": kept.steps,
            "score": kept.score,
            "episodes": kept.episodes,
        }
    tensors |= {f"{CARRIED}{k:03}": np.asarray(array) for k, array in enumerate(state.environments)}
    if checkpoint:
        columns = list(snapshot.history[0]) if snapshot.history else []
        metadata["history"] = columns
        tensors["history"] = np.array([[row[column] for column in columns] for row in snapshot.history])
        log, d = snapshot.attributions, len(task.feature_names)
        tensors["attributions/epoch"] = np.array([epoch for epoch, _, _ in log], dtype=np.int64)
        tensors["attributions/phi"] = np.array([phi for _, phi, _ in log]).reshape(len(log), d)
        tensors["attributions/weights"] = np.array([weights for _, _, weights in log]).reshape(len(log), d)
    return tensors, metadata


def _acting_tensors(acting: TrainingState | Kept) -> Tensors:
    mean, value = acting.policy.mean, acting.value
    tensors = {
        **_packed("actor", mean),
        "advantage/coefficients": acting.advantage.coefficients,
        "metric/mean": mean.kernel.metric.mean,
        "metric/std": mean.kernel.metric.std,
        "policy/sigma": acting.policy.sigma,
        "background": acting.background,
    }
    return tensors if value is None else {**tensors, **_packed("value", value), "value/offset": value.offset}


def _packed(name: str, function: RKHSFunction) -> Tensors:
    return {
        f"{name}/states": function.remembered_states,
        f"{name}/errors": function.dictionary.errors,
        f"{name}/coefficients": function.coefficients,
        f"{name}/weights": function.kernel.weights,
    }


def unpack(tensors: Tensors, metadata: Metadata) -> Snapshot:
    """What `pack` was given; anything that does not fit together is an error."""
    task = Task.of(metadata)
    config = Config.of(metadata["config"])
    Sizes.of(config)  # a trained agent has no "auto" left
    checkpoint = metadata["kind"] == "state"
    d, m = len(task.feature_names), len(task.action_names)
    acting = {**ACTING_SHAPES, **(VALUE_SHAPES if config.has_value else {})}
    _check(tensors, {**acting, **TRAINING_SHAPES, **(LOG_SHAPES if checkpoint else {})}, d, m)
    if metadata.get("kept") is not None:
        _check(tensors, {KEPT + name: axes for name, axes in acting.items()}, d, m)
    history: tuple[dict[str, float], ...] = ()
    log: tuple[tuple[int, NDArray, NDArray], ...] = ()
    if checkpoint:
        columns = [FORMER_METRICS.get(name, name) for name in names_of(metadata, "history")]
        history = tuple(dict(zip(columns, map(float, row), strict=True)) for row in tensors["history"])
        rows = zip(*(tensors[name] for name in LOG_SHAPES), strict=True)
        log = tuple((int(epoch), phi, weights) for epoch, phi, weights in rows)
    state = _state(tensors, metadata, config, task)
    return Snapshot(task, str(metadata["preset"]), config, state, history, log)


def _state(tensors: Tensors, metadata: Metadata, config: Config, task: Task) -> TrainingState:
    bounds = ActionBounds(tensors["bounds/low"], tensors["bounds/high"], config.squash)
    if not np.all(bounds.low <= bounds.high):
        raise ValueError("bounds/low exceeds bounds/high")
    kept, tails = None, {"clip": float(metadata["clip"]), "knee": metadata["knee"]}
    if (about := metadata.get("kept")) is not None:
        own = {name.removeprefix(KEPT): tensor for name, tensor in tensors.items() if name.startswith(KEPT)}
        kept = Kept(
            **_acting(own, tails, bounds, config, task),
            epoch=count(about["epoch"], "epoch"),
            steps=count(about["num_timesteps"], "num_timesteps"),
            score=float(about["score"]),
            episodes=count(about["episodes"], "episodes"),
        )
    updates = count(metadata["importance_updates"], "importance_updates")
    return TrainingState(
        **_acting(tensors, tails, bounds, config, task),
        importances=Importances(**{name: tensors[f"importances/{name}"] for name in AVERAGES}, updates=updates),
        scale=Scale(tensors["scale/mean"], tensors["scale/variance"]),
        epoch=count(metadata["epoch"], "epoch"),
        steps=count(metadata["num_timesteps"], "num_timesteps"),
        warmup_steps=count(metadata["warmup_steps"], "warmup_steps"),
        kept=kept,
        environments=_carried(tensors, Sizes.of(config).n_envs),
    )


def _carried(tensors: Tensors, n: int) -> tuple[NDArray[Any], ...]:
    """What environments carry over; the engine that goes on with it checks the rest."""
    names = sorted(name for name in tensors if name.startswith(CARRIED))
    for name in names:
        if tensors[name].shape[:1] != (n,) or not np.all(np.isfinite(tensors[name])):
            raise ValueError(f"{name} is not finite, or not of {n} environments")
    return tuple(tensors[name] for name in names)


def _acting(tensors: Tensors, tails: Metadata, bounds: ActionBounds, config: Config, task: Task) -> dict[str, Any]:
    """Policy, value, advantage and background, as fields of `TrainingState` and `Kept`."""
    sigma = tensors["policy/sigma"]
    if not np.all(sigma > 0):
        raise ValueError("policy/sigma is not positive")

    def function(name: str, outputs: tuple[str, ...]) -> RKHSFunction:
        weights = tensors[f"{name}/weights"]
        metric = Metric(tensors["metric/mean"], tensors["metric/std"], weights=weights, **tails)
        kernel = kernel_from_name(config.kernel, float(config.length_scale), metric)
        dictionary = Dictionary(kernel, tensors[f"{name}/states"], tensors[f"{name}/errors"])
        return RKHSFunction(dictionary, tensors[f"{name}/coefficients"], outputs)

    mean, value = function("actor", task.action_names), None
    if config.has_value:
        value = replace(function("value", ("value",)), offset=tensors["value/offset"])
    return {
        "policy": GaussianPolicy(mean, sigma, bounds),
        "value": value,
        "advantage": replace(mean, coefficients=tensors["advantage/coefficients"]),
        "background": tensors["background"],
    }


def _check(tensors: Tensors, shapes: dict[str, str], d: int, m: int) -> None:
    check_shapes(tensors, shapes, d=d, m=m)
    for name in shapes:
        array = tensors[name]
        if array.dtype != (np.int64 if name == "attributions/epoch" else np.float64):
            raise ValueError(f"{name} has entries of type {array.dtype}")
        # Actions may have no bounds.
        if np.any(np.isnan(array) if name.startswith("bounds/") else ~np.isfinite(array)):
            raise ValueError(f"{name} is not finite")

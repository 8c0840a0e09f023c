"""An agent as tensors and JSON, and back.

A `model` holds what `predict`, `explain` and further training need; a `state`, the checkpoint of a run folder,
holds the training's history too. Neither holds a clock, a path or a host, so equal agents give equal bytes.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import ActionBounds, GaussianPolicy
from rsa2c.algorithm.guidance import Importances
from rsa2c.algorithm.schedules import Sizes
from rsa2c.config import Config
from rsa2c.errors import FileFormatError, RSA2CError
from rsa2c.files import check_shapes, read_tensors, write_tensors
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.rkhs import Normaliser, RKHSFunction

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.envs import EnvLike

Tensors = dict[str, NDArray[Any]]

SHAPES = {
    **{f"actor/{name}": axes for name, axes in (("centres", "q d"), ("errors", "q"), ("coefficients", "q m"))},
    **{f"value/{name}": axes for name, axes in (("centres", "p d"), ("errors", "p"), ("coefficients", "p 1"))},
    **dict.fromkeys(("actor/weights", "value/weights", "normaliser/mean", "normaliser/std"), "d"),
    **dict.fromkeys(("bounds/low", "bounds/high"), "m"),
    "advantage/coefficients": "q m",
    "value/offset": "1",
    "background": "b d",
    "importances/moments": "s d",
    "importances/null": "s",
}
"""A model's tensors and the names of their axes: d features, m actions."""
LOG = {"attributions/epoch": "n", "attributions/phi": "n d", "attributions/weights": "n d"}
"""What a checkpoint has beside them and its history."""


def save(agent: RSA2C, path: str | PathLike[str], checkpoint: bool = False) -> None:
    """Write the agent as a model, or as a checkpoint with its history."""
    tensors, metadata = agent.state(checkpoint)
    write_tensors(path, tensors, metadata)


def load(path: str | PathLike[str], env: EnvLike | None = None, kind: str | None = None) -> RSA2C:
    """The agent in a file; whatever does not fit together in it is an error that names the file."""
    from rsa2c.agent import RSA2C

    tensors, metadata = read_tensors(path, kind)
    try:
        return RSA2C.from_state(tensors, metadata, env)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RSA2CError) as error:
        raise FileFormatError(
            f"{path} is an rsa2c file whose content does not fit together ({type(error).__name__}: {error}). "
            "Restore it from a copy, or train again."
        ) from error


def pack(agent: RSA2C, checkpoint: bool) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and JSON-able metadata of an agent."""
    policy, value = agent.policy, agent._value
    normaliser = policy.mean.normaliser
    tensors: Tensors = {
        "actor/coefficients": policy.mean.coefficients,
        "advantage/coefficients": agent._advantage,
        "value/coefficients": value.coefficients,
        "value/offset": value.offset,
        "normaliser/mean": normaliser.mean,
        "normaliser/std": normaliser.std,
        "bounds/low": policy.bounds.low,
        "bounds/high": policy.bounds.high,
        "background": agent.background,
        "importances/moments": agent.importances.moments,
        "importances/null": agent.importances.null,
    }
    for name, function in (("actor", policy.mean), ("value", value)):
        tensors[f"{name}/centres"] = function.centres
        tensors[f"{name}/errors"] = function.dictionary.errors
        tensors[f"{name}/weights"] = function.kernel.weights
    metadata: dict[str, Any] = {
        "kind": "state" if checkpoint else "model",
        "config": asdict(agent.config),
        "env_id": agent.env_id,
        "env_is_id": isinstance(agent.env_source, str),
        "episode_limit": agent.episode_limit,
        "preset": agent.preset,
        "feature_names": list(agent.feature_names),
        "action_names": list(agent.action_names),
        "epoch": agent.epoch,
        "num_timesteps": agent.num_timesteps,
        "importance_updates": agent.importances.updates,
        "sigma": policy.sigma,
        "clip": normaliser.clip,
    }
    if checkpoint:
        columns = list(agent.history[0]) if agent.history else []
        metadata["history"] = columns
        tensors["history"] = np.array([[row[column] for column in columns] for row in agent.history])
        log = agent.attribution_log
        d = len(agent.feature_names)
        tensors["attributions/epoch"] = np.array([epoch for epoch, _, _ in log], dtype=np.int64)
        tensors["attributions/phi"] = np.array([phi for _, phi, _ in log]).reshape(len(log), d)
        tensors["attributions/weights"] = np.array([weights for _, _, weights in log]).reshape(len(log), d)
    return tensors, metadata


def unpack(agent: RSA2C, tensors: Tensors, metadata: dict[str, Any], env: EnvLike | None) -> None:
    """Fill an agent made by `RSA2C.__new__` from what `pack` gave."""
    agent.feature_names, agent.action_names = _names(metadata, "feature_names"), _names(metadata, "action_names")
    checkpoint = metadata["kind"] == "state"
    shapes = {**SHAPES, **LOG} if checkpoint else SHAPES
    _check(tensors, shapes, len(agent.feature_names), len(agent.action_names))
    agent.config = config = Config().updated(**metadata["config"])
    Sizes.of(config)  # a trained agent has no "auto" left
    agent.env_id, agent.preset = str(metadata["env_id"]), str(metadata["preset"])
    agent.env_source = env if env is not None else (agent.env_id if metadata["env_is_id"] else None)
    limit = metadata.get("episode_limit")  # the first files of version 1 have none
    agent.episode_limit = None if limit is None else _count(limit, "episode_limit")
    agent.epoch, agent.num_timesteps = (_count(metadata[name], name) for name in ("epoch", "num_timesteps"))
    clip, sigma = float(metadata["clip"]), float(metadata["sigma"])
    normaliser = Normaliser(tensors["normaliser/mean"], tensors["normaliser/std"], clip)
    bounds = ActionBounds(tensors["bounds/low"], tensors["bounds/high"], config.squash)
    if not (min(clip, sigma) > 0 and np.all(normaliser.std > 0) and np.all(bounds.low <= bounds.high)):
        raise ValueError("clip, sigma or normaliser/std is not positive, or bounds/low exceeds bounds/high")

    def function(name: str, outputs: tuple[str, ...]) -> RKHSFunction:
        kernel = kernel_from_name(config.kernel, float(config.length_scale), tensors[f"{name}/weights"])
        dictionary = Dictionary(kernel, tensors[f"{name}/centres"], tensors[f"{name}/errors"])
        return RKHSFunction(dictionary, tensors[f"{name}/coefficients"], normaliser, outputs)

    agent.policy = GaussianPolicy(function("actor", agent.action_names), sigma, bounds)
    agent._value = replace(function("value", ("value",)), offset=tensors["value/offset"])
    agent._advantage = tensors["advantage/coefficients"]
    agent.background = tensors["background"]
    updates = _count(metadata["importance_updates"], "importance_updates")
    agent.importances = Importances(tensors["importances/moments"], tensors["importances/null"], updates)
    columns = _names(metadata, "history") if checkpoint else ()
    rows = tensors["history"] if checkpoint else ()
    agent.history = [dict(zip(columns, map(float, row), strict=True)) for row in rows]
    log = (tensors[name] for name in LOG) if checkpoint else ((), (), ())
    agent.attribution_log = [(int(epoch), phi, weights) for epoch, phi, weights in zip(*log, strict=True)]


def _check(tensors: Tensors, shapes: dict[str, str], d: int, m: int) -> None:
    check_shapes(tensors, shapes, d=d, m=m)
    for name in shapes:
        array = tensors[name]
        if array.dtype != (np.int64 if name == "attributions/epoch" else np.float64):
            raise ValueError(f"{name} has entries of type {array.dtype}")
        # Actions may have no bounds.
        if np.any(np.isnan(array) if name.startswith("bounds/") else ~np.isfinite(array)):
            raise ValueError(f"{name} is not finite")


def _names(metadata: dict[str, Any], key: str) -> tuple[str, ...]:
    names = metadata[key]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} is no list of names")
    return tuple(names)


def _count(value: Any, name: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be a whole number that is not negative, got {value!r}")
    return value

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

from rsa2c.actor import ActionBounds, GaussianPolicy
from rsa2c.attribution.guidance import Importances
from rsa2c.config import Config
from rsa2c.dictionary import Dictionary
from rsa2c.errors import FileFormatError, RSA2CError
from rsa2c.files import read_tensors, write_tensors
from rsa2c.kernels import kernel_from_name
from rsa2c.rkhs import Normaliser, RKHSFunction

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.envs import EnvLike

Tensors = dict[str, NDArray[Any]]


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
    config = Config().updated(**metadata["config"])
    agent.config = config
    agent.env_id, agent.preset = str(metadata["env_id"]), str(metadata["preset"])
    agent.env_source = env if env is not None else (agent.env_id if metadata["env_is_id"] else None)
    agent.feature_names = tuple(metadata["feature_names"])
    agent.action_names = tuple(metadata["action_names"])
    agent.episode_limit = metadata["episode_limit"]
    agent.epoch, agent.num_timesteps = int(metadata["epoch"]), int(metadata["num_timesteps"])
    normaliser = Normaliser(tensors["normaliser/mean"], tensors["normaliser/std"], float(metadata["clip"]))
    bounds = ActionBounds(tensors["bounds/low"], tensors["bounds/high"], config.squash)

    def function(name: str, outputs: tuple[str, ...]) -> RKHSFunction:
        kernel = kernel_from_name(config.kernel, float(config.length_scale), tensors[f"{name}/weights"])
        centres, errors = tensors[f"{name}/centres"], tensors[f"{name}/errors"]
        if centres.shape != (len(errors), kernel.dimension):
            raise ValueError(f"{name}/centres has the shape {centres.shape}")
        return RKHSFunction(Dictionary(kernel, centres, errors), tensors[f"{name}/coefficients"], normaliser, outputs)

    d, m = len(agent.feature_names), len(agent.action_names)
    for name, shape in (("normaliser/mean", (d,)), ("normaliser/std", (d,)), ("bounds/low", (m,)),
                        ("bounds/high", (m,)), ("actor/weights", (d,)), ("value/weights", (d,)),
                        ("value/offset", (1,))):  # fmt: skip
        if tensors[name].shape != shape:
            raise ValueError(f"{name} must have the shape {shape}, got {tensors[name].shape}")
    for name, array in tensors.items():
        if not name.startswith(("bounds/", "history")) and not np.all(np.isfinite(array)):
            raise ValueError(f"{name} is not finite")
    agent.policy = GaussianPolicy(function("actor", agent.action_names), float(metadata["sigma"]), bounds)
    agent._value = replace(function("value", ("value",)), offset=tensors["value/offset"])
    agent._advantage = tensors["advantage/coefficients"]
    if agent._advantage.shape != agent.policy.mean.coefficients.shape:
        raise ValueError(f"advantage/coefficients has the shape {agent._advantage.shape}")
    agent.background = tensors["background"]
    agent.importances = Importances(
        tensors["importances/moments"], tensors["importances/null"], int(metadata["importance_updates"])
    )
    columns = metadata.get("history", [])
    agent.history = [dict(zip(columns, map(float, row), strict=True)) for row in tensors.get("history", ())]
    agent.attribution_log = [
        (int(epoch), phi, weights)
        for epoch, phi, weights in zip(
            tensors.get("attributions/epoch", ()),
            tensors.get("attributions/phi", ()),
            tensors.get("attributions/weights", ()),
            strict=True,
        )
    ]

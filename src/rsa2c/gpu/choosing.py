"""Whether a training is on a device; JAX is imported only then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsa2c.algorithm.workers import Workers
from rsa2c.config import Config
from rsa2c.envs import EnvLike, Source
from rsa2c.errors import ConfigError, require


def source_of(env: EnvLike, env_kwargs: Mapping[str, Any] | None = None) -> Source:
    """`Source.of`, for environments with the functional interface of Brax and MuJoCo Playground too."""
    if not all(hasattr(env, name) for name in ("reset", "step", "observation_size", "action_size")):
        return Source.of(env, env_kwargs)
    require("jax", "gpu", f"{type(env).__name__}, which has a functional interface,")
    from rsa2c.gpu.single import SingleFactory

    return Source.of(SingleFactory(env), env_kwargs)


def on_device(source: Source, config: Config, workers: int, cluster: str | None) -> Workers:
    """The environments of a training on the device that its configuration names."""
    if (workers, cluster) != (1, None):
        raise ConfigError(f"device={config.device!r} trains on one device: leave out workers and cluster.")
    require("jax", "gpu", f"device={config.device!r}")
    from rsa2c.gpu.workers import DeviceWorkers

    return DeviceWorkers.of(source, config)

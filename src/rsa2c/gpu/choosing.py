"""Whether a training is on a device; JAX is imported only then."""

from __future__ import annotations

from rsa2c.algorithm.workers import Workers
from rsa2c.config import Config
from rsa2c.envs import Source
from rsa2c.errors import ConfigError, require

PACKAGES = ("jax", "jaxlib", "mujoco-mjx", "cupy-cuda13x")
"""Those that compute on a device, besides the ones that compute everywhere."""


def on_device(source: Source, config: Config, workers: int, cluster: str | None) -> Workers:
    """The environments of a training on the device that its configuration names."""
    if (workers, cluster) != (1, None):
        raise ConfigError(f"device={config.device!r} trains on one device: leave out workers and cluster.")
    require("jax", "gpu", f"device={config.device!r}")
    from rsa2c.gpu.workers import DeviceWorkers

    return DeviceWorkers.of(source, config)

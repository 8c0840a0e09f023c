"""The device that JAX computes on, in single precision for physics and in double precision for fits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rsa2c.errors import ConfigError, require

PLATFORMS = {"cuda": "cuda", "jax-cpu": "cpu"}
"""JAX's name of each device that `Config.device` may be, the processor without JAX aside."""


def found(device: str) -> Any:
    """JAX's device of that name; programs it compiles are kept in the user's cache folder."""
    jax: Any = require("jax", "gpu", f"device={device!r}")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(base / "rsa2c" / "jax"))
    try:
        return jax.devices(PLATFORMS[device])[0]
    except RuntimeError as error:
        raise ConfigError(
            f"device={device!r} needs an NVIDIA GPU, and JAX found none ({error}). Use device='cpu', or check "
            "nvidia-smi and the CUDA version of JAX: pip install 'rsa2c[gpu]'"
        ) from error


@contextmanager
def computing(device: Any, double: bool) -> Iterator[None]:
    """What is traced, compiled and computed inside is on the device, in double precision or in single."""
    import jax

    with jax.default_device(device), jax.enable_x64(double):
        yield

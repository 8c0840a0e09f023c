"""Metrics, kernels and dictionaries as arrays of fixed shapes: JAX's twins of `kernel/`.

A dictionary of q states is padded to its capacity, so that one compiled program serves it while it grows: `mask` is one
at its states, and features of padding are zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rsa2c.errors import ConfigError
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF, ProductKernel
from rsa2c.kernel.metric import Metric

Array = Any


class Coordinates(NamedTuple):
    """A metric, and the kernel's inverse length scales (d,) on it."""

    mean: Array
    std: Array
    clip: Array
    knee: Array
    """Infinite without one."""
    scales: Array

    @classmethod
    def of(cls, kernel: ProductKernel) -> Coordinates:
        """Those of a kernel."""
        if not isinstance(kernel, RBF):
            raise ConfigError(f"kernel={kernel.name!r} is not computed on a GPU. Use kernel='rbf', or device='cpu'.")
        return cls.on(kernel.metric)._replace(scales=kernel.scales)

    @classmethod
    def on(cls, metric: Metric) -> Coordinates:
        """The metric's own, not scaled."""
        knee = np.inf if metric.knee is None else metric.knee
        return cls(metric.mean, metric.std, np.float64(metric.clip), np.float64(knee), np.ones_like(metric.mean))


class Centres(NamedTuple):
    """The states of a padded dictionary, scaled, (capacity, d), and its mask (capacity,)."""

    scaled: Array
    mask: Array

    @classmethod
    def of(cls, dictionary: Dictionary, capacity: int) -> Centres:
        """Those of a dictionary."""
        scaled = padded(dictionary.centres * dictionary.kernel.scales, capacity)
        return cls(scaled, padded(np.ones(dictionary.size), capacity))


def padded(rows: NDArray, count: int) -> NDArray:
    """With rows of zeros up to `count`."""
    return np.concatenate([rows, np.zeros((count - len(rows), *rows.shape[1:]), rows.dtype)])


def measured(observations: Array, metric: Coordinates) -> Array:
    """`Metric.__call__`, times the kernel's scales, in the precision of the observations."""
    mean, std, clip, knee, scales = (jnp.asarray(each, observations.dtype) for each in metric)
    z = jnp.clip((observations - mean) / std, -clip, clip)
    bent = jnp.where(jnp.isfinite(knee), knee, 1.0)
    return jnp.where(jnp.isfinite(knee), bent * jnp.arcsinh(z / bent), z) * scales


def features(x: Array, centres: Centres) -> Array:
    """(..., capacity): the RBF kernel of scaled coordinates x (..., d) with the centres."""
    scaled, mask = (jnp.asarray(each, x.dtype) for each in centres)
    exponent = jnp.matmul(x, scaled.T, precision="highest")
    exponent -= 0.5 * jnp.sum(scaled**2, axis=-1) + 0.5 * jnp.sum(x**2, axis=-1, keepdims=True)
    return jnp.exp(jnp.minimum(exponent, 0.0)) * mask


def gram(centres: Centres) -> Array:
    """K_DD, zero in rows and columns of padding."""
    return features(centres.scaled, centres) * centres.mask[:, None]


def filled(matrix: Array, mask: Array) -> Array:
    """A matrix that is zero at padding with ones there on its diagonal, so that systems with it have a solution."""
    return matrix + jnp.diag(1.0 - mask)

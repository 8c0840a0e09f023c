"""Product kernels with feature weights.

k(x, y) = prod_i k_i(x_i, y_i). With u_i = scale_i |x_i - y_i| and scale_i = sqrt(w_i) / l, a subclass
writes its factor as a function of u; this base class owns shapes, batching and reweighting. The product
form is what makes exact Shapley values possible (`attribution/kme.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rsa2c.errors import ConfigError, DataError, did_you_mean

Features = Callable[[NDArray], NDArray]


@dataclass(frozen=True, eq=False)
class ProductKernel:
    """A stationary product kernel of one length scale and d feature weights."""

    length_scale: float
    weights: NDArray[np.float64]
    name: ClassVar[str]
    factor_operations: ClassVar[int]
    """Floating-point operations of one factor k_i."""

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        if weights.ndim != 1 or not np.all(np.isfinite(weights)) or not np.all(weights > 0):
            raise DataError(f"kernel weights must be a vector of positive numbers, got {self.weights!r}.")
        if not (np.isfinite(self.length_scale) and self.length_scale > 0):
            raise DataError(f"the kernel's length_scale must be positive, got {self.length_scale}.")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return len(self.weights)

    @property
    def scales(self) -> NDArray[np.float64]:
        """(d,): inverse length scale of each feature, sqrt(w_i) / l."""
        return np.sqrt(self.weights) / self.length_scale

    def __call__(self, x: NDArray, y: NDArray) -> NDArray:
        """(N, q): k(x_n, y_j), in the precision of x."""
        return self.bind(y, x.dtype)(x)

    def bind(self, y: NDArray, dtype: np.dtype | type = np.float64) -> Features:
        """The map x -> k(x, y) with everything that depends on y alone computed once."""
        raise NotImplementedError

    def factors(self, x: NDArray, y: NDArray) -> NDArray:
        """(N, q, d): k_i(x_ni, y_ji), whose product over i is the kernel."""
        raise NotImplementedError

    def gradient(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        """(N, m, d): derivative of sum_j k(x, y_j) c_j with respect to x."""
        raise NotImplementedError

    @staticmethod
    def operations(n: int, q: int, d: int) -> int:
        """Floating-point operations of k(x, y) for n states and q centres of d features."""
        raise NotImplementedError

    def reweighted(self, weights: NDArray) -> ProductKernel:
        """The same kernel with other feature weights."""
        return replace(self, weights=weights)


@dataclass(frozen=True, eq=False)
class RBF(ProductKernel):
    """k_i(x_i, y_i) = exp(-w_i (x_i - y_i)^2 / (2 l^2))."""

    name: ClassVar[str] = "rbf"
    factor_operations: ClassVar[int] = 5

    @staticmethod
    def operations(n: int, q: int, d: int) -> int:
        return n * q * (2 * d + 3) + (3 * d + 1) * (n + q)

    def bind(self, y: NDArray, dtype: np.dtype | type = np.float64) -> Features:
        scales = self.scales.astype(dtype)
        scaled = y.astype(dtype) * scales
        transposed = np.ascontiguousarray(scaled.T)
        offsets = -0.5 * np.einsum("ij,ij->i", scaled, scaled)

        def features(x: NDArray) -> NDArray:
            z = x * scales
            exponent = z @ transposed
            exponent += offsets
            exponent -= (0.5 * np.einsum("ij,ij->i", z, z))[:, None]
            np.minimum(exponent, 0, out=exponent)  # rounding may leave a distance just under zero
            return np.exp(exponent, out=exponent)

        return features

    def factors(self, x: NDArray, y: NDArray) -> NDArray:
        return np.exp(-0.5 * ((x[:, None] - y[None]) * self.scales) ** 2)

    def gradient(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        gram = self(x, y)
        pull = np.einsum("nj,jm,ji->nmi", gram, coefficients, y, optimize=True)
        return (pull - (gram @ coefficients)[:, :, None] * x[:, None, :]) * self.scales**2


@dataclass(frozen=True, eq=False)
class Laplace(ProductKernel):
    """k_i(x_i, y_i) = exp(-sqrt(w_i) |x_i - y_i| / l)."""

    name: ClassVar[str] = "laplace"
    factor_operations: ClassVar[int] = 4

    @staticmethod
    def operations(n: int, q: int, d: int) -> int:
        return n * q * (3 * d + 1) + (n + q) * d

    def bind(self, y: NDArray, dtype: np.dtype | type = np.float64) -> Features:
        scales = self.scales.astype(dtype)
        scaled = np.ascontiguousarray((y.astype(dtype) * scales).T)

        def features(x: NDArray) -> NDArray:
            exponent = np.zeros((len(x), scaled.shape[1]), dtype=dtype)
            for column, centres in zip((x * scales).T, scaled, strict=True):
                exponent -= np.abs(column[:, None] - centres)
            return np.exp(exponent, out=exponent)

        return features

    def factors(self, x: NDArray, y: NDArray) -> NDArray:
        return np.exp(-np.abs(x[:, None] - y[None]) * self.scales)

    def gradient(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        gram = self(x, y)
        gradient = np.empty((len(x), coefficients.shape[1], x.shape[1]))
        for i, scale in enumerate(self.scales):
            gradient[:, :, i] = -scale * (gram * np.sign(x[:, None, i] - y[None, :, i])) @ coefficients
        return gradient


KERNELS: dict[str, type[ProductKernel]] = {kernel.name: kernel for kernel in (RBF, Laplace)}


def kernel_from_name(name: str, length_scale: float, weights: NDArray) -> ProductKernel:
    """The kernel called `name`, as files and configurations spell it."""
    if name not in KERNELS:
        raise ConfigError(f"kernel {name!r} is unknown; known are {', '.join(KERNELS)}.{did_you_mean(name, KERNELS)}")
    return KERNELS[name](length_scale, weights)

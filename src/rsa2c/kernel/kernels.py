"""Product kernels with feature weights.

    k(x, y) = prod_i k_i(x_i, y_i),    log k_i = L(u_i),    u_i = (x_i - y_i) sqrt(w_i) / l

A kernel owns a `Metric`: the map from raw observations to coordinates x, and the weights w. It takes coordinates, so
that those of a batch or a dictionary are computed once.

A kernel is one formula: L and its derivative L', both functions of the scaled difference u, with L(0) = 0. The base
class owns shapes, batching, gradients and the metric. A subclass overrides a general method where its formula allows
a faster one, and adds what else is known about it: its spectral density, and the bounds that certificates are made of.
The product form is what makes exact Shapley values possible (`attribution/kme.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc

from rsa2c.errors import ConfigError, DataError, did_you_mean
from rsa2c.kernel.metric import Metric

Array = NDArray[np.float64]
Features = Callable[[NDArray], NDArray]


@dataclass(frozen=True, eq=False, init=False)
class ProductKernel:
    """A stationary product kernel of one length scale l on the coordinates of a metric.

    Feature weights (d,) in place of a metric take observations as they are: `Metric.weighted`.
    """

    length_scale: float
    metric: Metric
    name: ClassVar[str]
    """Its name in files and configurations."""
    code: ClassVar[int]
    """Identifies the formula in compiled code (`attribution/factors.py`)."""
    taylor_constant: ClassVar[float | None] = None
    """C in |f(x + D) - f(x) - f'(x) D| <= C |f|_H |D|^2 with D in scaled units; None if k is not smooth enough."""
    expansion_orders: ClassVar[tuple[int, ...]] = ()
    """Orders to which k(., x + D) can be expanded in derivatives of k(., x), with `curvature` and `remainder`."""
    factor_operations: ClassVar[int]
    """Floating-point operations of one factor k_i."""

    def __init__(self, length_scale: float, metric: Metric | ArrayLike) -> None:
        if not (np.isfinite(length_scale) and length_scale > 0):
            raise DataError(f"the kernel's length_scale must be positive, got {length_scale}.")
        object.__setattr__(self, "length_scale", length_scale)
        object.__setattr__(self, "metric", metric if isinstance(metric, Metric) else Metric.weighted(metric))

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self.metric.dimension

    @property
    def weights(self) -> Array:
        """(d,): the metric's feature weights w."""
        return self.metric.weights

    @cached_property
    def scales(self) -> Array:
        """(d,): inverse length scale of each feature, sqrt(w_i) / l."""
        return np.sqrt(self.weights) / self.length_scale

    def log_factor(self, u: NDArray) -> NDArray:
        """L(u), elementwise: the logarithm of one feature's factor at the scaled difference u."""
        raise NotImplementedError

    def log_slope(self, u: NDArray) -> NDArray:
        """L'(u), elementwise."""
        raise NotImplementedError

    def frequencies(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws of omega with E cos(omega u) = exp L(u): the frequencies of random Fourier features."""
        raise NotImplementedError

    def exponents_near(self, exponent: Array, l2: Array, l1: Array) -> tuple[Array, Array]:
        """Smallest and largest -log k(x + D, y) where -log k(x, y) = exponent and the scaled D has |D|_2 <= l2 and
        |D|_1 <= l1."""
        raise NotImplementedError

    def curvature(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        """(m, d, d): the matrix M of the expansion's second order (`remainder`) of sum_j k(., y_j) c_j at x (d,)."""
        raise NotImplementedError

    def remainder(self, t: ArrayLike, order: int) -> Array:
        """r in f(x + D) = e^{-t^2/2} (f + g.D + D^T M D / 2 + ...) +- r R for terms up to `order`, t = |D|, where g
        is the gradient in scaled units and R^2 is what those terms leave of |f|_H^2."""
        raise NotImplementedError

    def __call__(self, x: NDArray, y: NDArray) -> NDArray:
        """(N, q): k(x_n, y_j), in the precision of x."""
        return self.bind(y, x.dtype)(x)

    def bind(self, y: NDArray, dtype: np.dtype | type = np.float64) -> Features:
        """The map x -> k(x, y) with everything that depends on y alone computed once."""
        scales = self.scales.astype(dtype)
        scaled = np.ascontiguousarray((y.astype(dtype) * scales).T)

        def features(x: NDArray) -> NDArray:
            exponent = np.zeros((len(x), scaled.shape[1]), dtype=dtype)
            for column, centres in zip((x * scales).T, scaled, strict=True):
                exponent += self.log_factor(column[:, None] - centres)
            return np.exp(exponent, out=exponent)

        return features

    def factors(self, x: NDArray, y: NDArray) -> NDArray:
        """(N, q, d): k_i(x_ni, y_ji), whose product over i is the kernel."""
        return np.exp(self.log_factor((x[:, None] - y[None]) * self.scales))

    def gradient(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        """(N, m, d): derivative of f(x) = sum_j k(x, y_j) c_j,

        df/dx_i = (sqrt(w_i) / l) sum_j k(x, y_j) L'(u_ji) c_j.
        """
        gram = self(x, y)
        gradient = np.empty((len(x), coefficients.shape[1], x.shape[1]))
        for i, scale in enumerate(self.scales):
            slope = self.log_slope((x[:, None, i] - y[None, :, i]) * scale)
            gradient[:, :, i] = (scale * (gram * slope)) @ coefficients
        return gradient

    def pull(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        """(N, d): derivative of f_n(x) = sum_j k(x, y_j) c_nj at x_n; each state has its own coefficients, c (N, q)."""
        weighted = self(x, y) * coefficients
        gradient = np.empty(x.shape)
        for i, scale in enumerate(self.scales):
            slope = self.log_slope((x[:, None, i] - y[None, :, i]) * scale)
            gradient[:, i] = scale * np.einsum("nj,nj->n", weighted, slope)
        return gradient

    @staticmethod
    def operations(n: int, q: int, d: int) -> int:
        """Floating-point operations of k(x, y) for n states and q centres of d features."""
        raise NotImplementedError

    def equals(self, other: ProductKernel) -> bool:
        """Whether both are the same formula with the same length scale on the same metric."""
        same = type(self) is type(other) and self.length_scale == other.length_scale
        return self is other or (same and self.metric.equals(other.metric))

    def on(self, metric: Metric) -> ProductKernel:
        """The same kernel on another metric."""
        return replace(self, metric=metric)


@dataclass(frozen=True, eq=False, init=False)
class RBF(ProductKernel):
    """k_i(x_i, y_i) = exp(-w_i (x_i - y_i)^2 / (2 l^2)): L(u) = -u^2 / 2."""

    name: ClassVar[str] = "rbf"
    code: ClassVar[int] = 0
    taylor_constant: ClassVar[float | None] = np.sqrt(3.0) / 2  # half the root of k's fourth derivative at 0
    expansion_orders: ClassVar[tuple[int, ...]] = (1, 2)
    factor_operations: ClassVar[int] = 5

    @staticmethod
    def operations(n: int, q: int, d: int) -> int:
        return n * q * (2 * d + 3) + (3 * d + 1) * (n + q)

    def log_factor(self, u: NDArray) -> NDArray:
        return -0.5 * u * u

    def log_slope(self, u: NDArray) -> NDArray:
        return -u

    def frequencies(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.normal(size=shape)

    def exponents_near(self, exponent: Array, l2: Array, l1: Array) -> tuple[Array, Array]:
        """-log k is half the squared distance: the triangle inequality of |.|_2."""
        apart = np.sqrt(2.0 * exponent)
        return np.maximum(apart - l2, 0.0) ** 2 / 2, (apart + l2) ** 2 / 2

    def bind(self, y: NDArray, dtype: np.dtype | type = np.float64) -> Features:
        """By one matrix product: -|x - y|^2 / 2 = x.y - |x|^2 / 2 - |y|^2 / 2 in scaled units."""
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

    def gradient(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        """By two matrix products, since L' is linear: sum_j k_j c_j y_j - x sum_j k_j c_j, scaled."""
        gram = self(x, y)
        pull = np.einsum("nj,jm,ji->nmi", gram, coefficients, y, optimize=True)
        return (pull - (gram @ coefficients)[:, :, None] * x[:, None, :]) * self.scales**2

    def pull(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        """By one matrix product, as `gradient`."""
        weighted = self(x, y) * coefficients
        return (weighted @ y - weighted.sum(axis=1, keepdims=True) * x) * self.scales**2

    def curvature(self, x: NDArray, y: NDArray, coefficients: NDArray) -> NDArray:
        """M = sum_j k(x, y_j) c_j u_j u_j^T with u_j = (y_j - x) sqrt(w) / l: the scaled Hessian plus f I."""
        u = y * self.scales - x * self.scales
        weighted = self(x[None], y)[0][:, None] * coefficients
        return np.stack([(u * column[:, None]).T @ u for column in weighted.T])

    def remainder(self, t: ArrayLike, order: int) -> Array:
        """r^2 = 1 - e^{-t^2} sum_{k <= order} t^2k / k!, a regularised gamma function, so that nothing cancels.

        k(., x) and its derivatives (scaled, with e^{t^2/2} taken out) are orthogonal in the RKHS.
        """
        return np.sqrt(gammainc(order + 1, np.asarray(t) ** 2))


@dataclass(frozen=True, eq=False, init=False)
class Laplace(ProductKernel):
    """k_i(x_i, y_i) = exp(-sqrt(w_i) |x_i - y_i| / l): L(u) = -|u|."""

    name: ClassVar[str] = "laplace"
    code: ClassVar[int] = 1
    factor_operations: ClassVar[int] = 4

    @staticmethod
    def operations(n: int, q: int, d: int) -> int:
        return n * q * (3 * d + 1) + (n + q) * d

    def log_factor(self, u: NDArray) -> NDArray:
        return -np.abs(u)

    def log_slope(self, u: NDArray) -> NDArray:
        return -np.sign(u)

    def frequencies(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.standard_cauchy(shape)

    def exponents_near(self, exponent: Array, l2: Array, l1: Array) -> tuple[Array, Array]:
        """-log k is the sum of absolute differences: the triangle inequality of |.|_1."""
        return np.maximum(exponent - l1, 0.0), exponent + l1

    def bind(self, y: NDArray, dtype: np.dtype | type = np.float64) -> Features:
        """As in the base class, but |u| is subtracted directly, which saves a pass over (N, q) for each feature."""
        scales = self.scales.astype(dtype)
        scaled = np.ascontiguousarray((y.astype(dtype) * scales).T)

        def features(x: NDArray) -> NDArray:
            exponent = np.zeros((len(x), scaled.shape[1]), dtype=dtype)
            for column, centres in zip((x * scales).T, scaled, strict=True):
                exponent -= np.abs(column[:, None] - centres)
            return np.exp(exponent, out=exponent)

        return features


KERNELS: dict[str, type[ProductKernel]] = {kernel.name: kernel for kernel in (RBF, Laplace)}


def kernel_from_name(name: str, length_scale: float, metric: Metric | ArrayLike) -> ProductKernel:
    """The kernel called `name` in files and configurations."""
    if name not in KERNELS:
        raise ConfigError(f"kernel {name!r} is unknown; known are {', '.join(KERNELS)}.{did_you_mean(name, KERNELS)}")
    return KERNELS[name](length_scale, metric)

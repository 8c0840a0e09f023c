"""Floating-point operations of code as it runs: an array that counts what is done with it, and a number that does.

`counted(...)` puts a NumPy in the library's modules whose arrays are `Counted`, lets compiled loops run in Python on
`Number`s, and replaces LAPACK by itself plus the operations of the textbook algorithm. The rules are those of
`rsa2c.cost.flops`: arithmetic and elementary functions count one each, comparisons, copies and conversions nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import scipy.linalg
from numba.core.dispatcher import Dispatcher
from scipy.linalg import blas, lapack

COMPILED = ("rsa2c.algorithm.", "rsa2c.kernel.")
"""Compiled functions of these modules are counted by their Python source."""
ARITHMETIC = {
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.square, np.power, np.sqrt, np.exp,
    np.tanh,
    np.arcsinh,
    np.cos,
}  # fmt: skip
MAKERS = {"asarray", "array", "ascontiguousarray", "empty", "empty_like", "zeros", "zeros_like", "ones", "eye", "full"}
TALLY = {"operations": 0}


def tally(count: float) -> None:
    TALLY["operations"] += int(count)


class Number:
    """A float that counts the operations done with it."""

    def __init__(self, value: float) -> None:
        self.value = float(value)

    def _with(self, other: Any, operation: Callable[[float, float], float]) -> Number:
        tally(1)
        return Number(operation(self.value, other.value if isinstance(other, Number) else float(other)))

    def __add__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other: Any) -> Number:
        return self._with(other, lambda a, b: a / b)

    __radd__, __rmul__ = __add__, __mul__

    def exp(self) -> Number:
        tally(1)
        return Number(math.exp(self.value))

    def sqrt(self) -> Number:
        tally(1)
        return Number(math.sqrt(self.value))

    def __neg__(self) -> Number:
        return Number(-self.value)

    def __abs__(self) -> Number:
        tally(1)
        return Number(abs(self.value))

    def __gt__(self, other: Any) -> bool:
        return self.value > float(other)

    def __float__(self) -> float:
        return self.value


def numbers(array: Any) -> np.ndarray:
    """The array with `Number`s in place of floats."""
    return np.vectorize(Number, otypes=[object])(np.asarray(array))


class Counted(np.ndarray):
    """An array that counts the arithmetic NumPy does with it."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = [_plain(array) for array in inputs]
        if out is not None:
            options["out"] = tuple(_plain(array) for array in out)
        result = getattr(ufunc, method)(*plain, **options)
        if ufunc is np.matmul:
            tally(_product(*plain, np.asarray(result)))
        elif ufunc in ARITHMETIC:
            tally(np.size(result) if method == "__call__" else np.size(plain[0]))
        if out is not None:
            return out[0]
        return _counted(result)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function is np.einsum:
            subscripts, *operands = arguments
            sizes = {
                letter: size
                for term, array in zip(subscripts.split("->")[0].split(","), operands, strict=True)
                for letter, size in zip(term, np.shape(array), strict=True)
            }
            tally(len(operands) * math.prod(sizes.values()))
            return _counted(np.einsum(subscripts, *map(_plain, operands)))
        if function is np.outer:
            tally(np.size(arguments[0]) * np.size(arguments[1]))
            return _counted(np.outer(*map(_plain, arguments)))
        if function is np.linalg.solve:
            matrix, right = map(_plain, arguments)
            tally(lu_operations(len(matrix)) + lu_solve_operations(len(matrix)) * (right.size // len(matrix)))
            return _counted(np.linalg.solve(matrix, right))
        if function is np.linalg.norm:
            tally(2 * np.size(arguments[0]))
            return np.linalg.norm(_plain(arguments[0]))
        if function is np.linalg.eigh:
            return tuple(map(_counted, np.linalg.eigh(*map(_plain, arguments))))
        return super().__array_function__(function, types, arguments, options)


def _plain(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, Counted) else array


def _counted(result: Any) -> Any:
    return result.view(Counted) if isinstance(result, np.ndarray) and result.dtype.kind == "f" else result


def _product(left: np.ndarray, right: np.ndarray, result: np.ndarray) -> int:
    """2 a b c, or one triangle where BLAS sees a matrix times itself."""
    inner = left.shape[-1]
    if left.ndim == 2 and left.shape == right.shape[::-1] and left.T.__array_interface__ == right.__array_interface__:
        return inner * len(result) * (len(result) + 1)
    return 2 * inner * result.size


class CountingNumpy(ModuleType):
    """NumPy, but arrays made by it count."""

    def __init__(self) -> None:
        super().__init__("numpy")

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name in MAKERS:
            return lambda *a, **o: _counted(found(*a, **o))
        return found


def _count(function: Callable[..., Any], *arguments: Any) -> int:
    before = TALLY["operations"]
    function(*arguments)
    count, TALLY["operations"] = TALLY["operations"] - before, before
    return count


def cholesky(a: np.ndarray) -> np.ndarray:
    """Lower factor, entry by entry."""
    n = len(a)
    lower = np.full((n, n), None, dtype=object)
    for j in range(n):
        for i in range(j, n):
            entry = a[i, j]
            for k in range(j):
                entry = entry - lower[i, k] * lower[j, k]
            lower[i, j] = entry.sqrt() if i == j else entry / lower[j, j]
    return lower


def pivoted(a: np.ndarray, rank: int) -> np.ndarray:
    """The first `rank` columns of the lower factor, with the residuals that choose pivots; the order needs no
    arithmetic."""
    n, residual = len(a), list(np.diag(a))
    lower = np.full((n, rank), None, dtype=object)
    for j in range(rank):
        lower[j, j] = residual[j].sqrt()
        for i in range(j + 1, n):
            entry = a[i, j]
            for k in range(j):
                entry = entry - lower[i, k] * lower[j, k]
            lower[i, j] = entry / lower[j, j]
            residual[i] = residual[i] - lower[i, j] * lower[i, j]
    return lower


def lower_product(lower: np.ndarray, right: np.ndarray) -> list[Number]:
    """A lower triangle times a vector."""
    result: list[Number] = []
    for i in range(len(right)):
        entry = lower[i, 0] * right[0]
        for k in range(1, i + 1):
            entry = entry + lower[i, k] * right[k]
        result.append(entry)
    return result


def forward(lower: np.ndarray, right: np.ndarray) -> list[Number]:
    """Solution of a lower triangular system."""
    solution: list[Number] = []
    for i, entry in enumerate(right):
        for k in range(i):
            entry = entry - lower[i, k] * solution[k]
        solution.append(entry / lower[i, i])
    return solution


def lu(a: np.ndarray) -> np.ndarray:
    """Elimination without pivoting, which needs no arithmetic."""
    a, n = a.copy(), len(a)
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
            for j in range(k + 1, n):
                a[i, j] = a[i, j] - a[i, k] * a[k, j]
    return a


def lu_solve(a: np.ndarray, right: np.ndarray) -> list[Number]:
    """Forward with a unit diagonal, then backward."""
    x = list(right)
    for i in range(len(x)):
        for k in range(i):
            x[i] = x[i] - a[i, k] * x[k]
    for i in range(len(x) - 1, -1, -1):
        for k in range(i + 1, len(x)):
            x[i] = x[i] - a[i, k] * x[k]
        x[i] = x[i] / a[i, i]
    return x


def triangular_inverse(lower: np.ndarray) -> np.ndarray:
    """Inverse of a lower triangle, column by column."""
    n = len(lower)
    inverse = np.full((n, n), None, dtype=object)
    for j in range(n):
        inverse[j, j] = Number(1.0) / lower[j, j]
        for i in range(j + 1, n):
            entry = lower[i, j] * inverse[j, j]
            for k in range(j + 1, i):
                entry = entry + lower[i, k] * inverse[k, j]
            inverse[i, j] = (-entry) / lower[i, i]
    return inverse


def _matrix(n: int) -> np.ndarray:
    return numbers(n * np.eye(n) + 1.0)


@cache
def cholesky_operations(n: int) -> int:
    return _count(cholesky, _matrix(n))


@cache
def triangular_operations(n: int) -> int:
    return _count(forward, _matrix(n), _matrix(n)[0])


@cache
def pivoted_operations(n: int, rank: int) -> int:
    return _count(pivoted, _matrix(n), rank)


@cache
def lower_product_operations(n: int) -> int:
    return _count(lower_product, _matrix(n), _matrix(n)[0])


@cache
def lu_operations(n: int) -> int:
    return _count(lu, _matrix(n))


@cache
def lu_solve_operations(n: int) -> int:
    return _count(lu_solve, _matrix(n), _matrix(n)[0])


@cache
def inverse_operations(n: int) -> int:
    return _count(triangular_inverse, _matrix(n))


def _lapack(
    function: Callable[..., Any], operations: Callable[..., int], of_result: Callable[..., int] = lambda *_: 0
) -> Callable[..., Any]:
    """The function itself on plain arrays, `operations` of its arguments and `of_result` added to the tally."""

    def run(*arguments: Any, **options: Any) -> Any:
        plain = [tuple(map(_plain, a)) if isinstance(a, tuple) else _plain(a) for a in arguments]
        tally(operations(*plain))
        result = function(*plain, **options)
        tally(of_result(*result) if isinstance(result, tuple) else 0)
        return tuple(map(_counted, result)) if isinstance(result, tuple) else _counted(result)

    return run


def _as_numbers(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return numbers(argument) if argument.dtype.kind == "f" else argument
    return Number(argument) if isinstance(argument, float) else argument


def _loops(function: Any) -> Callable[..., Any]:
    """A compiled function: run as it is on plain arrays, counted by its Python source on `Number`s."""

    def run(*arguments: Any) -> Any:
        plain = [_plain(argument) for argument in arguments]
        tally(_count(function.py_func, *map(_as_numbers, plain)))
        result = function(*plain)
        return tuple(map(_counted, result)) if isinstance(result, tuple) else _counted(result)

    return run


def _columns(right: np.ndarray) -> int:
    return right.size // len(right)


LAPACK: dict[Any, Callable[..., Any]] = {
    lapack.dpotrf: _lapack(lapack.dpotrf, lambda a: cholesky_operations(len(a))),
    lapack.dpstrf: _lapack(lapack.dpstrf, lambda a: 0, lambda c, order, rank, info: pivoted_operations(len(c), rank)),
    blas.dtrmm: _lapack(blas.dtrmm, lambda alpha, a, b: lower_product_operations(len(a)) * _columns(b)),
    lapack.dtrtri: _lapack(lapack.dtrtri, lambda a: inverse_operations(len(a))),
    scipy.linalg.solve_triangular: _lapack(
        scipy.linalg.solve_triangular, lambda a, b: triangular_operations(len(a)) * _columns(b)
    ),
    scipy.linalg.cho_factor: _lapack(scipy.linalg.cho_factor, lambda a: cholesky_operations(len(a))),
    scipy.linalg.cho_solve: _lapack(
        scipy.linalg.cho_solve, lambda f, b: 2 * triangular_operations(len(b)) * _columns(b)
    ),
    scipy.linalg.eigh: _lapack(scipy.linalg.eigh, lambda a: 9 * len(a) ** 3),
    scipy.linalg.lu_factor: _lapack(scipy.linalg.lu_factor, lambda a: lu_operations(len(a))),
    scipy.linalg.lu_solve: _lapack(scipy.linalg.lu_solve, lambda f, b: lu_solve_operations(len(b)) * _columns(b)),
}
"""Functions whose operations are those of the textbook's algorithm."""


@contextmanager
def counted(monkeypatch: Any) -> Iterator[dict[str, int]]:
    """Count inside; yields the tally. Whatever the library computes with is found, wherever it is imported."""
    numpy = CountingNumpy()
    with monkeypatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if not name.startswith("rsa2c."):
                continue
            for attribute, value in list(vars(module).items()):
                if value is np:
                    patch.setattr(module, attribute, numpy)
                elif isinstance(value, Dispatcher) and name.startswith(COMPILED):
                    patch.setattr(module, attribute, _loops(value))
                elif callable(value) and isinstance(value, Hashable) and value in LAPACK:
                    patch.setattr(module, attribute, LAPACK[value])
        TALLY["operations"] = 0
        yield TALLY

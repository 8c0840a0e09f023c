"""Exported headers compiled with gcc and called through ctypes."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NUMBERS = itertools.count()
GCC = shutil.which("gcc")
NO_GCC = "no gcc: the exported C is not tried. Install it with: apt-get install gcc libc6-dev"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror")
BATCH = """
#include "{header}"
typedef {real} real;
void batch_act(const real *s, real *out, int n) {{
    for (int i = 0; i < n; i++) rsa2c_act(s + i * RSA2C_FEATURES, out + i * RSA2C_ACTIONS);
}}
"""
OPTIONAL = {
    "value": "void batch_value(const real *s, real *out, int n) {"
    " for (int i = 0; i < n; i++) out[i] = rsa2c_value(s + i * RSA2C_FEATURES); }",
    "familiarity": "void batch_familiarity(const real *s, real *out, int n) {"
    " for (int i = 0; i < n; i++) out[i] = rsa2c_familiarity(s + i * RSA2C_FEATURES); }",
    "attribution": "void batch_attribute(const real *s, real *out, int n) { for (int i = 0; i < n; i++)"
    " rsa2c_attribute(s + i * RSA2C_FEATURES, out + i * RSA2C_ACTIONS * RSA2C_FEATURES); }",
    "value attribution": "void batch_attribute_value(const real *s, real *out, int n) { for (int i = 0; i < n; i++)"
    " rsa2c_attribute_value(s + i * RSA2C_FEATURES, out + i * RSA2C_FEATURES); }",
}


def library(source: Path, *flags: str, compiler: str | None = GCC) -> ctypes.CDLL:
    """A C file as a shared library."""
    made = source.with_name(f"{source.stem}{next(NUMBERS)}.so")  # a library of the same name would not be loaded again
    command = [str(compiler), *STRICT, "-O2", *flags, "-shared", "-fPIC", str(source), "-o", str(made), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return ctypes.CDLL(str(made))


def batched(header: Path, include: tuple[str, ...] = (), dtype: type = np.float64, *flags: str) -> Callable:
    """call(name, states (N, d), shape) runs `batch_<name>` of the header's functions for every state."""
    wanted = [*include, *(["value attribution"] if {"value", "attribution"} <= set(include) else [])]
    source = header.with_suffix(".c")
    real = "double" if dtype is np.float64 else "float"
    parts = [BATCH.format(header=header, real=real), *(OPTIONAL[part] for part in wanted)]
    source.write_text("\n".join(parts) + "\n")
    loaded = library(source, *flags)

    def call(name: str, states: NDArray, *shape: int) -> NDArray:
        states = np.ascontiguousarray(states, dtype=dtype)
        out = np.empty((len(states), *shape), dtype=dtype)
        getattr(loaded, f"batch_{name}")(states.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                                         ctypes.c_int(len(states)))  # fmt: skip
        return out

    return call

"""The GPU's kernels without a GPU: their CUDA source compiled as C++, and a stand-in for the part of CuPy they need.

Every thread of a block is a fibre of its own. A barrier, and both halves of a shuffle, switch to the next fibre, so all
threads of a block have reached a barrier before the first of them goes on.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("c++")
BEFORE = """
#include <cmath>
#include <ucontext.h>
#include <utility>
#include <vector>
#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
struct Index { int x, y; };
static Index threadIdx, blockIdx;
static int running, fibres;
static std::vector<ucontext_t> contexts;
static std::vector<char> finished;
static ucontext_t outside;
static double slots[1024];
alignas(16) unsigned char memory[1 << 20];
static void next_fibre() {
    const int from = running;
    for (int step = 1; step <= fibres; step++) {
        const int to = (from + step) % fibres;
        if (finished[to]) continue;
        running = to, threadIdx.x = to;
        if (to != from) swapcontext(&contexts[from], &contexts[to]);
        return;
    }
    setcontext(&outside);
}
static void __syncthreads() { next_fibre(); }
template <typename Number>
static Number __shfl_xor_sync(unsigned, Number value, int step) {
    const int self = running;
    slots[self] = value;
    next_fibre();
    const Number theirs = Number(slots[self ^ step]);
    next_fibre();
    return theirs;
}
static int min(int u, int v) { return u < v ? u : v; }
static long long min(long long u, long long v) { return u < v ? u : v; }
"""
AFTER = """
template <typename... Parameters, std::size_t... I>
void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<Parameters>*>(arguments[I])...);
}
template <typename... Parameters>
void call(void (*kernel)(Parameters...), void** arguments) {
    call(kernel, arguments, std::index_sequence_for<Parameters...>());
}
static void** given;
static void fibre() {
    call(KERNEL, given);
    finished[running] = 1;
    next_fibre();
}
extern "C" void launch(int width, int height, int threads, void** arguments) {
    given = arguments, fibres = threads;
    std::vector<std::vector<char>> stacks(threads, std::vector<char>(1 << 18));
    for (blockIdx.y = 0; blockIdx.y < height; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < width; blockIdx.x++) {
            contexts.assign(threads, ucontext_t()), finished.assign(threads, 0);
            for (int k = 0; k < threads; k++) {
                getcontext(&contexts[k]);
                contexts[k].uc_stack.ss_sp = stacks[k].data(), contexts[k].uc_stack.ss_size = stacks[k].size();
                makecontext(&contexts[k], fibre, 0);
            }
            running = threadIdx.x = 0;
            swapcontext(&outside, &contexts[0]);
        }
}
"""


class Device(np.ndarray):
    """An array "on the device"."""

    def get(self, out):
        out[...] = self


class Stream:
    """What is done in a stream is done at once."""

    def __init__(self, non_blocking=False):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def synchronize(self):
        pass


class Program:
    """CuPy's RawModule, compiled for the processor."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder, self.code = folder, code

    def get_function(self, name: str):
        number = len(list(self.folder.iterdir()))
        source, library = self.folder / f"{number}.cpp", self.folder / f"{number}.so"
        source.write_text(f"{BEFORE}{self.code}{AFTER.replace('KERNEL', name)}", encoding="utf-8")
        options = ["-std=c++17", "-O0", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
        subprocess.run([COMPILER, *options, "-o", str(library), str(source)], check=True)
        launch = ctypes.CDLL(str(library)).launch

        def kernel(grid, block, arguments, shared_mem=0):
            assert shared_mem <= 227 * 1024, "more shared memory than a block can have"
            kept = [_argument(argument) for argument in arguments]
            pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(value) for value in kept))
            launch(int(grid[0]), int(grid[1]) if len(grid) > 1 else 1, int(block[0]), pointers)

        return kernel


def _argument(argument):
    if isinstance(argument, np.ndarray):
        assert argument.flags.c_contiguous
        return ctypes.c_void_p(argument.ctypes.data)
    assert isinstance(argument, np.int32)
    return ctypes.c_int(int(argument))


def cupy_on_cpu(folder: Path) -> SimpleNamespace:
    """What `rsa2c.attribution.cuda` needs of CuPy."""

    def made(function):
        return lambda *args, **options: function(*args, **options).view(Device)

    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError)
    return SimpleNamespace(
        **{name: made(getattr(np, name)) for name in ("asarray", "ascontiguousarray", "concatenate", "empty", "zeros")},
        ones=made(np.ones),
        exp=np.exp,
        RawModule=lambda code, options: Program(folder, code),
        cuda=SimpleNamespace(runtime=runtime, Stream=Stream, get_current_stream=Stream),
    )

"""The product game on a GPU (CUDA, through CuPy): `shapley_product` for millions of states.

Two kernels, in `product_game.cu`. By quadrature, as on the CPU: neighbouring lanes share a state, each keeps the
factors of some players in registers, and the background's factors of one centre lie in shared memory. With few players
no quadrature is needed: the background's mean of prod_{i not in C} b_i does not depend on the state, so

    v(C) = sum_j eta_j prod_{i in C} a_i  mean_b prod_{i not in C} b_i

costs 2^players multiplications for a state and a centre, however large the background is.

Sums over centres are in float64 and have a fixed order: equal inputs give equal bytes on the same device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.game import Game
from rsa2c.attribution.progress import Progress, silent
from rsa2c.attribution.quadrature import quadrature
from rsa2c.errors import ConfigError, require
from rsa2c.kernel.kernels import RBF

Array = NDArray[np.float64]
THREADS = 128
FEW_PLAYERS = 6
"""Up to here the values of all coalitions are kept in registers."""
MOST_PLAYERS = 1024
COALITION_NUMBERS, FUNCTION_OUTPUTS = 32, 8
"""Coalitions times outputs, and outputs, that one thread accumulates."""
REGISTERS = {"float32": 230, "float64": 105}
"""Numbers that one thread may keep in registers."""
LANE_PLAYERS = {"float32": 14, "float64": 7}
STAGED, TILE_BYTES, CHUNK_BYTES = 4, 24_576, 2**28
WANTED_THREADS = 2**17
"""With fewer threads than this a GPU is not busy: the centres are split among more of them."""


@dataclass(frozen=True)
class Plan:
    """How a game by quadrature is laid out: `lanes` threads share a state, each with `count` of its players."""

    players: int
    count: int
    lanes: int
    vector: int
    passes: tuple[int, ...]
    """Numbers of nodes whose products are in registers together."""
    precision: str

    @classmethod
    def of(cls, players: int, nodes: int, precision: str) -> Plan:
        """The plan with the fewest lanes whose products fit into registers."""
        lanes = 1
        while lanes < 32 and players > lanes * LANE_PLAYERS[precision]:
            lanes *= 2
        count = -(-players // lanes)
        together = max(1, (REGISTERS[precision] // count - 3) // 2)
        passes = -(-nodes // together)
        sizes = tuple(nodes // passes + (k < nodes % passes) for k in range(passes))
        vector = next(v for v in ((4, 2, 1) if precision == "float32" else (2, 1)) if count % v == 0)
        return cls(players, count, lanes, vector, sizes, precision)

    @property
    def width(self) -> int:
        """Players with those that fill up the last lanes, whose factors are one."""
        return self.count * self.lanes

    def definitions(self) -> dict[str, Any]:
        """What `product_game.cu` needs defined for `product_values`, besides what all kernels need."""
        nodes, weights = quadrature(sum(self.passes))
        starts = np.cumsum([0, *self.passes])
        return {
            "REAL": "float" if self.precision == "float32" else "double",
            "STAGED": STAGED,
            "PLAYERS": self.count,
            "LANES_PER_STATE": self.lanes,
            "VECTOR": self.vector,
            "NODES": ", ".join(f"REAL({t!r})" for t in nodes.tolist()),
            "WEIGHTS": ", ".join(f"REAL({w!r})" for w in weights.tolist()),
            "PASSES": " ".join(f"PASS({start}, {n})" for start, n in zip(starts, self.passes, strict=False)),
        }

    def packed(self, xp: ModuleType, factors: Any) -> Any:
        """Factors (q, B, players) as (q, B, width) in the order (count / vector, lanes, vector)."""
        q, b, players = factors.shape
        table = xp.ones((q, b, self.width), dtype=self.precision)
        table[..., :players] = factors
        split = table.reshape(q, b, self.lanes, self.count // self.vector, self.vector)
        return xp.ascontiguousarray(split.transpose(0, 1, 3, 2, 4)).reshape(q, b, self.width)

    def unpacked(self, sums: Any) -> Any:
        """Sums (splits, m, count, T lanes) as values (T, players, m)."""
        splits, m, count, threads = sums.shape
        total = sums[0] if splits == 1 else sums.sum(axis=0)
        values = total.reshape(m, count, threads // self.lanes, self.lanes).transpose(2, 3, 1, 0)
        return values.reshape(threads // self.lanes, self.width, m)[:, : self.players]


def shapley_product_cuda(game: Game, nodes: int, precision: str, progress: Progress = silent) -> tuple[Array, Array]:
    """Shapley values (T, players, m), and their sums over players minus f at the states (T, m).

    Blocks of states take turns on two streams, so that a block's values are copied while the next one is computed.
    """
    cupy = device()
    if game.player_count > MOST_PLAYERS:
        raise ConfigError(
            f"device='cuda' takes at most {MOST_PLAYERS} players, got {game.player_count}. "
            "Put features into groups, or use device='cpu'."
        )
    few = game.player_count <= FEW_PLAYERS
    prepared = CoalitionValues(cupy, game) if few else QuadratureValues(cupy, game, nodes, precision)
    function, scales = FunctionValues(cupy, game), cupy.asarray(game.kernel.scales)
    states, m = len(game.states), game.outputs
    values, gaps = np.empty((states, game.player_count, m)), np.empty((states, m))
    size = max(THREADS, CHUNK_BYTES // (8 * prepared.numbers_per_state))
    cupy.cuda.get_current_stream().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]

    def begin(t: int) -> tuple[Any, ...]:
        with streams[t // size % 2] as stream:
            x = cupy.ascontiguousarray((cupy.asarray(game.states[t : t + size]) * scales).T)
            block = cupy.ascontiguousarray(prepared(x))
            return stream, t, block, block.sum(axis=1) - function(x)

    def finish(stream: Any, t: int, block: Any, gap: Any) -> None:
        with stream:
            block.get(out=values[t : t + size])
            gap.get(out=gaps[t : t + size])
        progress(min(1.0, (t + size) / states))

    begun = begin(0)
    for t in range(size, states, size):
        previous, begun = begun, begin(t)
        finish(*previous)
    finish(*begun)
    return values, gaps


def device() -> ModuleType:
    """CuPy, if it is installed and finds a GPU."""
    cupy = require("cupy", "gpu", "device='cuda'")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        count, reason = 0, f" ({error})"
    else:
        reason = ""
    if count == 0:
        raise ConfigError(
            f"device='cuda' needs an NVIDIA GPU with a driver, and CuPy found none{reason}. "
            "Use device='cpu', or install a driver for the CUDA version of the extra: pip install 'rsa2c[gpu]'."
        )
    return cupy


class QuadratureValues:
    """The values by quadrature of the states it is called with, (d, T)."""

    def __init__(self, cupy: ModuleType, game: Game, nodes: int, precision: str) -> None:
        self.cupy, self.plan = cupy, Plan.of(game.player_count, nodes, precision)
        self.centres = cupy.ascontiguousarray(cupy.asarray(game.centres * game.kernel.scales, dtype=precision))
        self.table = self.plan.packed(cupy, background_factors(cupy, game))
        self.coefficients = cupy.ascontiguousarray(cupy.asarray(game.coefficients / len(game.background)))
        self.first, self.feature = (cupy.asarray(a) for a in owners(game, self.plan.width))
        self.kernel = kernel_for(game, "VALUES", "product_values", self.plan.definitions())
        self.numbers_per_state = 2 * game.outputs * self.plan.width

    def __call__(self, x: Any) -> Any:
        plan, (q, d), m = self.plan, self.centres.shape, self.coefficients.shape[1]
        threads = x.shape[1] * plan.lanes
        per_split = -(-q // min(q, -(-WANTED_THREADS // threads)))
        splits = -(-q // per_split)
        sums = self.cupy.zeros((splits, m, plan.count, threads))
        row, staged = plan.width * self.table.itemsize, STAGED * plan.count * THREADS * self.table.itemsize
        rows = min(self.table.shape[1], max(1, TILE_BYTES // row))
        self.kernel.max_dynamic_shared_size_bytes = staged + rows * row
        sizes = (x.shape[1], d, q, self.table.shape[1], m, per_split, rows)
        arrays = (x.astype(plan.precision), self.centres, self.table, self.coefficients, sums, self.first, self.feature)
        grid = (-(-threads // THREADS), splits)
        self.kernel(grid, (THREADS,), (*arrays, *map(np.int32, sizes)), shared_mem=staged + rows * row)
        return plan.unpacked(sums)


class CoalitionValues:
    """The values of few players at the states it is called with, (d, T), from the values of all coalitions."""

    def __init__(self, cupy: ModuleType, game: Game) -> None:
        self.cupy, self.players, self.outputs = cupy, game.player_count, game.outputs
        self.together = max(1, COALITION_NUMBERS // 2**self.players)
        self.centres = cupy.ascontiguousarray(cupy.asarray(game.centres * game.kernel.scales))
        self.parts = coalition_parts(cupy, background_factors(cupy, game), game.coefficients, self.together)
        self.first, self.feature = (cupy.asarray(a) for a in owners(game, self.players))
        definitions = {"PLAYERS": self.players, "OUTPUTS": self.together}
        self.kernel = kernel_for(game, "COALITIONS", "coalition_values", definitions)
        self.numbers_per_state = self.outputs * self.players

    def __call__(self, x: Any) -> Any:
        (d, states), q = x.shape, len(self.centres)
        out = self.cupy.empty((states, self.players, self.outputs))
        grid = (-(-states // THREADS), len(self.parts))
        sizes = map(np.int32, (states, d, q, self.outputs))
        self.kernel(grid, (THREADS,), (x, self.centres, self.parts, out, self.first, self.feature, *sizes))
        return out


class FunctionValues:
    """f at the states it is called with, (d, T), in float64."""

    def __init__(self, cupy: ModuleType, game: Game) -> None:
        self.cupy, self.outputs = cupy, game.outputs
        self.centres = cupy.ascontiguousarray(cupy.asarray(game.centres * game.kernel.scales))
        self.coefficients = cupy.ascontiguousarray(cupy.asarray(game.coefficients, dtype=np.float64))
        self.together = min(FUNCTION_OUTPUTS, self.outputs)
        self.kernel = kernel_for(game, "FUNCTION", "function_values", {"OUTPUTS": self.together})

    def __call__(self, x: Any) -> Any:
        (d, states), q = x.shape, len(self.centres)
        out = self.cupy.empty((states, self.outputs))
        grid = (-(-states // THREADS), -(-self.outputs // self.together))
        sizes = map(np.int32, (states, d, q, self.outputs))
        self.kernel(grid, (THREADS,), (x, self.centres, self.coefficients, out, *sizes))
        return out


def kernel_for(game: Game, part: str, name: str, definitions: dict[str, Any]) -> Any:
    """A kernel of one part of `product_game.cu`, compiled for the game's formula and players."""
    common = {part: 1, "THREADS": THREADS, "RBF": int(game.kernel.code == RBF.code)}
    groups = {} if game.players is None else {"GROUPS": 1}
    return compiled(name, tuple((common | groups | definitions).items()))


def owners(game: Game, width: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Player p's features are feature[first[p] : first[p + 1]]; players beyond the game's have none."""
    players = game.players or [np.array([i]) for i in range(game.states.shape[1])]
    sizes = np.zeros(width + 1, dtype=np.int32)
    sizes[1 : len(players) + 1] = [len(features) for features in players]
    return np.cumsum(sizes, dtype=np.int32), np.concatenate(players).astype(np.int32)


def background_factors(xp: ModuleType, game: Game) -> Any:
    """(q, B, players): k_p(x^b, c_j), the product over the player's features."""
    b, c = (xp.asarray(a * game.kernel.scales) for a in (game.background, game.centres))
    players = game.players or [np.array([i]) for i in range(b.shape[1])]
    factors = xp.empty((len(c), len(b), len(players)))
    for number, features in enumerate(players):
        exponent: Any = 0.0
        for i in features.tolist():
            exponent = exponent + game.kernel.log_factor(b[None, :, i] - c[:, None, i])
        factors[..., number] = xp.exp(exponent)
    return factors


def coalition_parts(xp: ModuleType, factors: Any, coefficients: Array, together: int) -> Any:
    """(chunks of outputs, q, 2^players, together): coefficients times mean_b prod_{i not in C} b_i.

    Bit i of a coalition's number says whether player i is in it; missing outputs of the last chunk have zeros.
    """
    q, b, players = factors.shape
    products = xp.ones((q, b, 1))
    for i in range(players):
        products = xp.concatenate([products * factors[..., i : i + 1], products], axis=2)
    chunks = -(-coefficients.shape[1] // together)
    padded = xp.zeros((q, chunks * together))
    padded[:, : coefficients.shape[1]] = xp.asarray(coefficients)
    parts = products.mean(axis=1)[None, :, :, None] * padded.reshape(q, chunks, together).transpose(1, 0, 2)[:, :, None]
    return xp.ascontiguousarray(parts)


@lru_cache(maxsize=64)
def compiled(name: str, definitions: tuple[tuple[str, Any], ...]) -> Any:
    """A kernel of `product_game.cu`, compiled for these definitions; CuPy keeps it on disk too."""
    head = "".join(f"#define {key} {value}\n" for key, value in definitions)
    source = files("rsa2c.attribution").joinpath("product_game.cu").read_text(encoding="utf-8")
    module = require("cupy", "gpu", "device='cuda'").RawModule(code=head + source, options=("--std=c++17",))
    return module.get_function(name)

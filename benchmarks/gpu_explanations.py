"""Explains a million states on a GPU: seconds, arithmetic rate, and agreement with the processor's float64.

    python benchmarks/gpu_explanations.py [reference | measure | page]

Without a step, all three: `reference` computes values of a few states with the library on the processor and chooses the
numbers of nodes, `measure` needs the GPU, `page` writes results/gpu-explanations.md. The steps pass files in --folder,
so that each can run on another machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution import explain
from rsa2c.attribution.cuda import FEW_PLAYERS, CoalitionValues, Plan, QuadratureValues
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import choose_nodes
from rsa2c.attribution.models import Expansion
from rsa2c.attribution.playing import CHOICE_STATES
from rsa2c.attribution.settings import DEFAULT_TOLERANCE, FLOAT32_TOLERANCE
from rsa2c.kernel.kernels import RBF

Array = NDArray[np.float64]
PRECISIONS = ("float32", "float64")
MANY = 1_000_000
STATES = {"float32": MANY, "float64": 200_000}
BLOCK = 100_000
"""States whose values are on the device together."""


@dataclass(frozen=True)
class Problem:
    """A model's size; length scales are typical of trained agents (0.5 to 1 times sqrt(d))."""

    name: str
    d: int
    centres: int
    background: int
    outputs: int
    length: float
    compared: int  # states at which values are compared with the processor's
    bar_s: float
    bar_rate: float

    def made(self, states: int) -> tuple[Expansion, Array, Array]:
        """A random function of this size, a background and states, the first of them the same for any number."""
        rng = np.random.default_rng(self.d)
        draws = [rng.normal(size=(count, self.d)) for count in (self.centres, self.background)]
        coefficients = rng.normal(size=(self.centres, self.outputs))
        names = tuple(f"f{o}" for o in range(self.outputs))
        kernel = RBF(self.length, np.ones(self.d))
        function = Expansion(kernel, draws[0], coefficients, np.zeros(self.outputs), names)
        return function, draws[1], rng.normal(size=(states, self.d))


PROBLEMS = (
    Problem("Pendulum", 3, 131, 256, 1, 0.8, 256, 0.1, 0.45),
    Problem("BipedalWalker", 24, 1024, 128, 4, 3.0, 64, 4.0, 0.45),
    Problem("Ant", 105, 1024, 128, 8, 10.0, 16, 30.0, 0.35),
)


def reference(folder: Path) -> None:
    """Write values of the processor: exact ones, and with the nodes chosen for each precision."""
    for problem in PROBLEMS:
        function, background, states = problem.made(max(problem.compared, CHOICE_STATES))
        game = Game(states, background, function.centres, function.coefficients, function.kernel)
        states = states[: problem.compared]
        kept: dict[str, Any] = {"exact": explain(function, states, background, nodes="exact").values}
        for precision, tolerance in zip(PRECISIONS, (FLOAT32_TOLERANCE, DEFAULT_TOLERANCE), strict=True):
            started = time.process_time()
            nodes, _ = choose_nodes(game, tolerance)
            seconds = time.process_time() - started
            values = explain(function, states, background, nodes=nodes).values
            kept |= {precision: values, f"{precision}_nodes": nodes, f"{precision}_choice_s": seconds}
        np.savez(folder / f"{problem.name}.npz", **kept)
        print(problem.name, {key: value for key, value in kept.items() if np.ndim(value) == 0}, flush=True)


def measure(folder: Path) -> None:
    """Write figures.json."""
    import cupy

    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found = {name: installed(name) for name in ("numpy", "numba")}
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(map(' '.join, found.items()))}"
    figures: dict[str, Any] = {"card": card, "cupy": cupy.__version__, "machine": machine, "matrix": {}, "rows": []}
    for precision in PRECISIONS:
        size = 8192
        u = cupy.random.default_rng(0).standard_normal((size, size)).astype(precision)
        seconds = min(timed(cupy, lambda u=u: u @ u) for _ in range(5))
        figures["matrix"][precision] = 2 * size**3 / seconds / 1e12
    print(figures, flush=True)
    for problem in PROBLEMS:
        kept = np.load(folder / f"{problem.name}.npz")
        for precision in PRECISIONS:
            coalitions = problem.d <= FEW_PLAYERS and precision == "float64"
            row = one(cupy, problem, precision, coalitions, kept)
            figures["rows"].append(row)
            print(row, flush=True)
            (folder / "figures.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")


def one(cupy: Any, problem: Problem, precision: str, coalitions: bool, kept: Any) -> dict[str, Any]:
    """The figures of a problem in one precision, by quadrature or from all coalitions."""
    function, background, states = problem.made(MANY if coalitions else STATES[precision])
    nodes = int(kept[f"{precision}_nodes"])
    exact, same = kept["exact"], kept[precision]
    game = Game(states, background, function.centres, function.coefficients, function.kernel)
    kernel = CoalitionValues(cupy, game) if coalitions else QuadratureValues(cupy, game, nodes, precision)
    x = cupy.ascontiguousarray(cupy.asarray(states * function.kernel.scales).T)
    blocks = [cupy.ascontiguousarray(x[:, t : t + BLOCK]) for t in range(0, len(states), BLOCK)]
    values = kernel(blocks[0])[: problem.compared].get()
    row = {
        "problem": problem.name,
        "precision": precision,
        "coalitions": coalitions,
        "states": len(states),
        "nodes": nodes,
        "kernel_s": timed(cupy, lambda: [kernel(block) for block in blocks]),
        "flops": operations(problem, nodes, precision, coalitions) * len(states),
        "choice_s": 0.0 if problem.d <= FEW_PLAYERS else float(kept[f"{precision}_choice_s"]),
        "error": float(np.abs(values - exact).max() / np.abs(exact).max()),
        "error_same_nodes": float(np.abs(values - same).max() / np.abs(exact).max()),
    }
    if coalitions or problem.d > FEW_PLAYERS:
        options: dict[str, Any] = {"device": "cuda", "precision": precision, "nodes": nodes}
        explain(function, states[:BLOCK], background, **options)
        started = time.perf_counter()
        told = explain(function, states, background, **options)
        row["explain_s"] = time.perf_counter() - started
        row["residual"] = float(np.abs(told.efficiency_residual).max() / np.abs(exact).max())
    return row


def installed(package: str) -> str:
    """The version of a package, in words."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def timed(cupy: Any, work: Callable[[], Any]) -> float:
    """Seconds of device time."""
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    work()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop)) / 1e3


def operations(problem: Problem, nodes: int, precision: str, coalitions: bool) -> int:
    """Additions and multiplications for a state, a fused multiply-add being two; without exponentials and padding.

    By quadrature each player's change is one, its sum two, and each node six: z two, its products with those before and
    after one each, their sum two, one for the first node; three fewer a node for the first player of a lane.
    """
    d, pairs = problem.d, problem.centres * problem.background
    if coalitions:
        return problem.centres * (3 * d + 2**d * (1 + 2 * problem.outputs))
    lanes = Plan.of(d, nodes, precision).lanes
    return pairs * (d * (6 * nodes + 2) - lanes * (3 * nodes))


def page(folder: Path) -> None:
    """Write results/gpu-explanations.md from figures.json."""
    from _provenance import write

    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    by_name = {problem.name: problem for problem in PROBLEMS}
    sizes = ["| model | features | centres | background | outputs | length scale |", "|" + "---|" * 6]
    for p in PROBLEMS:
        sizes.append(f"| {p.name} | {p.d} | {p.centres:,} | {p.background} | {p.outputs} | {p.length:g} |")
    rows = [
        "| model | precision | nodes | states | kernel s | `explain` s | nodes chosen in s | TFLOP/s "
        "| of matrix rate | error | error, same nodes | residual |",
        "|" + "---|" * 12,
    ]
    verdicts = []
    for row in figures["rows"]:
        problem, matrix = by_name[row["problem"]], figures["matrix"][row["precision"]]
        rate = row["flops"] / row["kernel_s"] / 1e12
        whole = (f"{row['explain_s']:.3g}", f"{row['residual']:.1e}") if "explain_s" in row else ("", "")
        rows.append(
            f"| {problem.name} | {row['precision']} | {'all coalitions' if row['coalitions'] else row['nodes']} "
            f"| {row['states']:,} | {row['kernel_s']:.3g} | {whole[0]} | {row['choice_s']:.2g} "
            f"| {rate:.1f} | {rate / matrix:.0%} | {row['error']:.1e} | {row['error_same_nodes']:.1e} | {whole[1]} |"
        )
        verdicts += verdict(problem, row, rate / matrix)
    matrix = ", ".join(f"{rate:.1f} TFLOP/s in {precision}" for precision, rate in figures["matrix"].items())
    introduction = INTRODUCTION.format(**{**figures, "matrix": matrix})
    text = [introduction, "", *sizes, "", *rows, "", "The bars that were set beforehand:", "", *verdicts]
    print(write("gpu-explanations", "Explanations on a GPU", "\n".join(text)))


def verdict(problem: Problem, row: dict[str, Any], share: float) -> list[str]:
    """The bars that a row bears on, met or not."""

    def bar(what: str, limit: str, value: str, met: bool) -> str:
        return f"- {problem.name}, {what}: {limit}: {'met' if met else 'not met'} ({value})"

    found = []
    if row["states"] == MANY and "explain_s" in row:
        for what, key in (("kernel", "kernel_s"), ("whole `explain`", "explain_s")):
            limit = f"a million states in under {problem.bar_s:g} s"
            found.append(bar(what, limit, f"{row[key]:.3g} s", row[key] < problem.bar_s))
    if row["precision"] == "float32":
        limit = f"{problem.bar_rate:.0%} of the float32 matrix rate"
        found.append(bar("kernel by quadrature", limit, f"{share:.0%}", share >= problem.bar_rate))
    limit = {"float32": 1e-5, "float64": 1e-11}[row["precision"]]
    what = f"agreement in {row['precision']}" + (", all coalitions" if row["coalitions"] else "")
    found.append(bar(what, f"{limit:.0e}", f"{row['error_same_nodes']:.1e}", row["error_same_nodes"] < limit))
    return found


INTRODUCTION = """\
States explained on one {card} with CuPy {cupy} (step `measure`: {machine}; the lines above are of the steps `reference`
and `page`. Where Numba is not installed, stand-ins took its place: the step calls none of its compiled code.)

Matrix products of 8192 x 8192 run at {matrix} on the same card, in float64 on its tensor cores.

Functions are random, of the sizes of trained agents. `kernel` is the time of the GPU's kernels, with states and values
in its memory. `explain` is the whole call, from NumPy arrays to an `Explanation` in float64 with the function's values
and residuals; its programs are compiled beforehand. Operations are counted from the formula, a fused multiply-add as
two, without exponentials, padding and products between lanes. Errors are the largest differences to the processor's
values, relative to the largest value: `error` to exact ones, with ceil(d/2) nodes, `error, same nodes` to those with
equally many nodes. The numbers of nodes are those that the default tolerances of 1e-6 (float32) and 1e-9 (float64)
choose. They were chosen in the step `reference`, in the stated seconds of one core, and given to `explain` in the step
`measure`: left to itself, `explain` takes that much longer. `residual` is the largest violation of efficiency,
relative to the largest value.

Up to six players, `explain` uses the values of all coalitions and not quadrature, in float64 throughout: the background
enters only through means that are computed once for each centre, so its size does not matter. The rate by quadrature
is given as well."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = {"reference": reference, "measure": measure, "page": page}
    parser.add_argument("step", nargs="?", choices=tuple(steps))
    parser.add_argument("--folder", type=Path, default=Path("runs/gpu-explanations"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, step in steps.items():
        if options.step in (None, name):
            step(options.folder)


if __name__ == "__main__":
    main()

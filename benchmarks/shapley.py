"""Compares the explainers of rsa2c, shap and shapiq on one kernel model: time per state and error.

    python benchmarks/shapley.py [--quick] [--write]

All explainers use the same model (an `RKHSFunction` that they call or read), background and states. The error is the
largest absolute difference to the exact value, relative to the largest absolute value. The exact value comes from
Gauss-Legendre quadrature with ceil(d/2) nodes, which the tests check against 2^d enumeration. A second table gives the
error of the observational values against the analytic conditionals of a Gaussian. Needs the extra `explain`, and
`pip install shapiq`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
import shap
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.kernel_ridge import KernelRidge

from _provenance import write
from rsa2c.attribution import explain
from rsa2c.attribution.cme import cme_values
from rsa2c.attribution.game import Game
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.rkhs import RKHSFunction

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from oracles import gaussian_conditional_game, shapley_by_enumeration

Array = NDArray[np.float64]
EMBEDDINGS = ("intercept", "marginal", "paper")
BACKGROUNDS = (16, 32, 64, 128, 256, 512)
INTRODUCTION = """\
Interventional (KME) values. 'Times faster' compares with `shap.KernelExplainer` at its default settings. The error is
the largest difference to the exact value, relative to the largest value. Every explainer gets the same model (an
`RKHSFunction`), background and states. Times are per state, the shortest of several runs, with compiled code cached.
`shapiq.ProductKernelExplainer` is also exact, but for a different game: without a background, absent factors count as
one."""
CURVE = """\
Observational (CME) values of one RBF function of four correlated Gaussian features: root mean square error against the
analytic conditional Shapley values, relative to their root mean square. Ridge 1e-3, 20 states, 8 backgrounds per
size."""


@dataclass(frozen=True)
class Problem:
    """The size of a problem; length scales are typical of trained agents (0.5 to 1 times sqrt(d))."""

    d: int
    centres: int
    background: int
    length: float
    states: int
    peers: int  # states for the sampling explainers, which are slow


PROBLEMS = (
    Problem(3, 384, 256, 0.8, 256, 4),
    Problem(8, 384, 100, 2.0, 256, 4),
    Problem(24, 100, 100, 3.0, 256, 2),
    Problem(24, 1024, 100, 3.0, 256, 2),
    Problem(105, 1024, 128, 10.0, 24, 1),
)


def made(problem: Problem) -> tuple[RKHSFunction, Array, Array]:
    """A random function of the problem's size, with background and states."""
    rng = np.random.default_rng(problem.d)
    d, q = problem.d, problem.centres
    dictionary = Dictionary(RBF(problem.length, np.ones(d)), rng.normal(size=(q, d)), np.ones(q))
    function = RKHSFunction(dictionary, rng.normal(size=(q, 1)), ("f",))
    return function, rng.normal(size=(problem.background, d)), rng.normal(size=(problem.states, d))


def timed(work: Callable[[], Array], repeats: int) -> tuple[Array, float]:
    """The result and the shortest time of several repeats."""
    best, result = np.inf, np.empty(0)
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - started)
    return result, best


def compare(problem: Problem, repeats: int) -> list[str]:
    """Rows of the table for one problem size."""
    import shapiq  # no extra has it, and figures.py needs this module without it
    from shapiq.explainer.product_kernel.explainer import ProductKernelExplainer

    function, background, states = made(problem)
    few = states[: problem.peers]

    def f(x: Array) -> Array:
        return np.asarray(function(x)[:, 0])

    def ours(nodes: str | None, x: Array = states) -> Callable[[], Array]:
        return lambda: explain(function, x, background, nodes=nodes).values[..., 0]

    def kernel_shap() -> Array:
        return np.asarray(shap.KernelExplainer(f, background).shap_values(few, silent=True))

    def kernel_shap_of_sklearn() -> Array:
        model = KernelRidge(kernel="rbf", gamma=0.5 / problem.length**2)
        model.fit(function.centres, function.coefficients[:, 0])
        model.dual_coef_ = function.coefficients[:, 0]  # the same function, called as scikit-learn calls it
        return np.asarray(shap.KernelExplainer(model.predict, background).shap_values(few, silent=True))

    def by_permutation() -> Array:
        masker = shap.maskers.Independent(background, max_samples=len(background))
        evaluations = max(500, 2 * problem.d + 1)
        return np.asarray(shap.PermutationExplainer(f, masker, seed=0)(few, max_evals=evaluations, silent=True).values)

    def by_enumeration() -> Array:
        masker = shap.maskers.Independent(background, max_samples=len(background))
        return np.asarray(shap.ExactExplainer(f, masker)(few, silent=True).values)

    def kernel_shapiq() -> Array:
        explainer = shapiq.TabularExplainer(
            f, background, index="SV", max_order=1, sample_size=len(background), random_state=0
        )
        budget = min(2**problem.d, 2 * problem.d + 2048)
        return np.stack([explainer.explain(x, budget=budget).get_n_order_values(1) for x in few])

    def product_shapiq() -> Array:
        model = GaussianProcessRegressor(kernels.RBF(problem.length), alpha=1.0, optimizer=None)
        model.fit(function.centres, function.coefficients[:, 0])
        model.alpha_ = function.coefficients[:, 0]  # the same function, in the form shapiq reads
        explainer = ProductKernelExplainer(model)
        return np.stack([explainer.explain(x).get_n_order_values(1) for x in few])

    explain(function, states[:1], background)  # compile
    exact = ours("exact")()
    scale = np.abs(exact).max()
    reference = None
    rows = []

    def row(name: str, work: Callable[[], Array], count: int, times: int, comparable: bool = True) -> float:
        nonlocal reference
        values, seconds = timed(work, times)
        per_state = seconds / count
        reference = per_state if reference is None else reference
        error = f"{np.abs(values - exact[:count]).max() / scale:.1e}" if comparable else "different game"
        rows.append(
            f"| {problem.d} | {problem.centres} | {problem.background} | {name} | {1e3 * per_state:.3g} | "
            f"{reference / per_state:.3g} | {error} |"
        )
        print(rows[-1], flush=True)
        return per_state

    row("shap.KernelExplainer", kernel_shap, problem.peers, 3)
    row("shap.KernelExplainer of scikit-learn's KernelRidge", kernel_shap_of_sklearn, problem.peers, 1)
    row("shap.PermutationExplainer", by_permutation, problem.peers, 1)
    if problem.d <= 8:
        row("shap.ExactExplainer", by_enumeration, problem.peers, 1)
    row("shapiq.TabularExplainer, KernelSHAP", kernel_shapiq, problem.peers, 1)
    row("shapiq.ProductKernelExplainer", product_shapiq, problem.peers, 1, comparable=False)
    threads = numba.get_num_threads()
    for count in sorted({1, threads}):
        numba.set_num_threads(count)
        word = f"{count} thread" + "s" * (count > 1)
        row(f"ours, ceil(d/2) = {-(-problem.d // 2)} nodes, {word}", ours("exact"), len(states), repeats)
        row(f"ours, tolerance 1e-9, {word}", ours(None), len(states), repeats)
    row(f"ours, tolerance 1e-9, {word}, a single state", ours(None, states[:1]), 1, repeats)
    return rows


def conditional_errors(sizes: tuple[int, ...], repeats: int) -> np.ndarray:
    """(sizes, embeddings): RMS error of CME values against a Gaussian's analytic conditional Shapley values, relative
    to their RMS, by size of the background."""
    d, rng = 4, np.random.default_rng(3)
    mixing = rng.normal(size=(d, d))
    covariance = mixing @ mixing.T / d + 0.5 * np.eye(d)
    centre, scales = rng.normal(size=d), np.full(d, 0.7)
    states = rng.multivariate_normal(np.zeros(d), covariance, size=20)
    truth = []
    for state in states:
        game = gaussian_conditional_game(np.zeros(d), covariance, state, centre, scales)
        truth.append(shapley_by_enumeration(lambda c, game=game: np.array(game(c)), d))
    size_of_truth = np.sqrt(np.mean(np.square(truth)))
    errors = np.zeros((len(sizes), len(EMBEDDINGS)))
    for i, size in enumerate(sizes):
        backgrounds = [rng.multivariate_normal(np.zeros(d), covariance, size=size) for _ in range(repeats)]
        for j, embedding in enumerate(EMBEDDINGS):
            squares = []
            for b in backgrounds:
                values = cme_values(Game(states, b, centre[None], np.ones((1, 1)), RBF(1.0, scales**2)), embedding)[0]
                squares.append(np.mean((values[..., 0] - truth) ** 2))
            errors[i, j] = np.sqrt(np.mean(squares)) / size_of_truth
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes only, to check that everything runs")
    parser.add_argument("--write", action="store_true", help="write results/shapley.md")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module=r"(shap|shapiq|sklearn)\..*")
    problems = PROBLEMS[:2] if options.quick else PROBLEMS
    title = ["| d | centres | background | explainer | ms per state | times faster | error |", "|" + "---|" * 7]
    print("\n".join(title))
    rows = [line for problem in problems for line in compare(problem, 2 if options.quick else 6)]
    sizes, repeats = ((16, 64), 2) if options.quick else (BACKGROUNDS, 8)
    head = [f"| background | {' | '.join(EMBEDDINGS)} |", "|---|---|---|---|"]
    errors = conditional_errors(sizes, repeats)
    cells = [[str(size), *(f"{x:.3f}" for x in row)] for size, row in zip(sizes, errors, strict=True)]
    curve = [f"| {' | '.join(row)} |" for row in cells]
    print("\n".join(["", *head, *curve]))
    if options.write:
        body = "\n".join(
            [
                INTRODUCTION,
                "",
                *title,
                *rows,
                "",
                CURVE,
                "",
                *head,
                *curve,
            ]
        )
        print(write("shapley", "Exact Shapley values of kernel models", body, "shap", "shapiq"))


if __name__ == "__main__":
    main()

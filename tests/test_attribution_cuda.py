"""Explanations on a GPU: the kernels' source run on the processor, argument handling, and a GPU if there is one."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cuda_on_cpu import COMPILER, cupy_on_cpu
from oracles import interventional_game, product_kernel, shapley_by_enumeration
from rsa2c import KernelExplainer
from rsa2c.attribution import cuda, explain, explain_dataset
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import shapley_product
from rsa2c.attribution.models import Expansion
from rsa2c.errors import ConfigError, MissingExtraError
from rsa2c.kernel.kernels import kernel_from_name


def has_gpu():
    try:
        cuda.device()
    except (ConfigError, MissingExtraError) as error:
        return str(error)
    return None


NO_GPU = has_gpu()
GROUPS = {"g": ["x0", "x5", "x7"], "h": ["x8", "x9", "x10"]}


def problem(d, outputs=2, name="rbf", states=5, centres=4, background=6):
    rng = np.random.default_rng(d)
    kernel = kernel_from_name(name, 0.8 * np.sqrt(d), rng.uniform(0.2, 3.0, d))
    x, b, c = (rng.normal(size=(count, d)) for count in (states, background, centres))
    names = tuple(f"f{o}" for o in range(outputs))
    return Expansion(kernel, c, rng.normal(size=(centres, outputs)), rng.normal(size=outputs), names), x, b


@pytest.fixture
def device(request, monkeypatch, tmp_path):
    """The GPU, or the kernels compiled for the processor."""
    if request.param == "gpu":
        if NO_GPU is not None:
            pytest.skip(f"no GPU: {NO_GPU}")
        return
    if COMPILER is None:
        pytest.skip("no C++ compiler: apt-get install g++")
    monkeypatch.setitem(sys.modules, "cupy", cupy_on_cpu(tmp_path))
    cuda.compiled.cache_clear()
    yield
    cuda.compiled.cache_clear()


anywhere = pytest.mark.parametrize("device", ["source", pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)


@anywhere
@pytest.mark.parametrize(
    "d, nodes, sizes, precision, tolerance",
    [
        (3, "exact", {}, "float64", 1e-13),
        (3, "exact", {"outputs": 5, "name": "laplace"}, "float32", 1e-13),
        (6, "exact", {}, "float64", 1e-13),
        (9, "exact", {}, "float64", 1e-13),
        (9, 3, {"name": "laplace"}, "float32", 1e-5),
        (24, "exact", {"states": 70}, "float64", 1e-13),
        (24, 6, {"background": 400, "outputs": 9}, "float32", 1e-5),
        (105, "exact", {"states": 2, "centres": 2, "background": 3}, "float64", 1e-12),
        (105, 6, {}, "float32", 1e-5),
    ],
)
def test_values_are_those_of_the_processor(device, d, nodes, sizes, precision, tolerance):
    function, x, background = problem(d, **sizes)
    here = explain(function, x, background, nodes=nodes)
    there = explain(function, x, background, nodes=nodes, device="cuda", precision=precision)
    scale = np.abs(here.values).max()
    np.testing.assert_allclose(there.values, here.values, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(there.base_values, here.base_values, rtol=0, atol=1e-13)
    np.testing.assert_allclose(there.efficiency_residual, here.efficiency_residual, rtol=0, atol=d * tolerance * scale)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["gpu"], indirect=True)
@pytest.mark.parametrize("precision, tolerance", [("float32", 1e-5), ("float64", 1e-11)])
@pytest.mark.parametrize(
    "d, sizes",
    [
        (3, {"states": 5000, "centres": 131, "background": 256, "outputs": 1}),
        (24, {"states": 100, "centres": 1024, "background": 128, "outputs": 4}),
        (105, {"states": 20, "centres": 1024, "background": 128, "outputs": 8}),
    ],
)
def test_values_of_agents_sizes_are_those_of_the_processor(device, d, sizes, precision, tolerance):
    """Pendulum, BipedalWalker and Ant: the numbers of nodes that the precision chooses, against exact values."""
    function, x, background = problem(d, **sizes)
    exact = explain(function, x, background, nodes="exact")
    there = explain(function, x, background, device="cuda", precision=precision)
    nodes = explain(function, x, background, nodes=6, device="cuda", precision=precision)
    scale = np.abs(exact.values).max()
    np.testing.assert_allclose(there.values, exact.values, rtol=0, atol=max(tolerance, 1e-9) * scale)
    same = explain(function, x, background, nodes=6).values if d > cuda.FEW_PLAYERS else exact.values
    np.testing.assert_allclose(nodes.values, same, rtol=0, atol=tolerance * scale)


@anywhere
@pytest.mark.parametrize("d", [3, 9])
def test_a_file_is_explained_as_its_states_are(device, d, tmp_path):
    function, x, background = problem(d, states=20)
    np.savez(tmp_path / "a.npz", observations=x)
    for precision in ("float64", "float32"):
        options = {"device": "cuda", "precision": precision}
        done = explain_dataset(function, tmp_path / "a.npz", background, tmp_path / precision, chunk=8, **options)
        one = explain(function, x, background, **options)
        assert done.game == one.game
        np.testing.assert_array_equal(done.load().values, one.values)


@anywhere
@pytest.mark.parametrize("d, groups", [(5, None), (11, GROUPS)])
def test_values_are_those_of_enumeration(device, d, groups):
    function, x, background = problem(d, outputs=1, states=1)
    told = explain(function, x, background, nodes="exact", groups=groups, device="cuda")
    players = None
    if groups is not None:
        members = [[int(name[1:]) for name in group] for group in groups.values()]
        players = [*members, *([i] for i in range(d) if not any(i in group for group in members))]

    def f(z):
        return product_kernel("rbf", function.kernel.scales, z, function.centres) @ function.coefficients

    game = interventional_game(f, x[0], background, players)
    exact = shapley_by_enumeration(game, d if players is None else len(players))
    np.testing.assert_allclose(told.values[0], exact, rtol=0, atol=1e-13)


@anywhere
def test_nodes_are_chosen_by_the_precision(device):
    function, x, background = problem(24, outputs=1)
    double, single = (
        explain(function, x, background, device="cuda", precision=precision) for precision in ("float64", "float32")
    )
    assert "tolerance 1e-09), float64" in double.game
    assert "tolerance 1e-06), float32" in single.game
    np.testing.assert_allclose(single.values, double.values, rtol=0, atol=1e-5 * np.abs(double.values).max())


@anywhere
def test_blocks_of_states_and_explainer(device, monkeypatch):
    monkeypatch.setattr(cuda, "CHUNK_BYTES", 1)
    monkeypatch.setattr(cuda, "WANTED_THREADS", 1)  # so that one block goes through all centres
    function, x, background = problem(8, states=300, centres=cuda.STAGED + 2)
    done = []
    game = Game(x, background, function.centres, function.coefficients, function.kernel)
    values, gap = cuda.shapley_product_cuda(game, 4, "float64", done.append)
    assert done == [128 / 300, 256 / 300, 1.0]
    np.testing.assert_allclose(values, shapley_product(game, 4), rtol=0, atol=1e-14)
    np.testing.assert_allclose(gap, values.sum(axis=1) - game.function(x), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(KernelExplainer(function, background, device="cuda", nodes=4)(x).values, values)


@anywhere
@pytest.mark.parametrize("d", [3, 8])
def test_arrays_may_lie_in_memory_as_they_like(device, d):
    """Solutions of linear systems have their columns one after the other; kernels read rows."""
    function, x, background = problem(d, outputs=3)
    game = Game(x, background, function.centres, function.coefficients, function.kernel)
    other = Game(*map(np.asfortranarray, (x, background, function.centres, function.coefficients)), function.kernel)
    assert not other.coefficients.flags.c_contiguous
    for one, two in zip(*(cuda.shapley_product_cuda(each, 4, "float64") for each in (game, other)), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("players", [1, 7, 14, 15, 24, 56, 105, 112, 113, 448, 1024])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_plan_holds_every_player_and_node(players, precision):
    rng = np.random.default_rng(0)
    for nodes in (1, 4, 7, -(-players // 2)):
        plan = cuda.Plan.of(players, nodes, precision)
        assert sum(plan.passes) == nodes and plan.lanes <= 32 and plan.count % plan.vector == 0
        assert players <= plan.width < players + plan.lanes
    factors = rng.uniform(size=(2, 3, players)).astype(precision)
    packed = plan.packed(np, factors).reshape(2, 3, plan.count // plan.vector, plan.lanes, plan.vector)
    for i in range(players):
        lane, position = divmod(i, plan.count)
        vector, element = divmod(position, plan.vector)
        np.testing.assert_array_equal(packed[:, :, vector, lane, element], factors[..., i])


def test_without_cupy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    function, x, background = problem(3)
    with pytest.raises(MissingExtraError, match=r"device='cuda' needs 'cupy'.*rsa2c\[gpu\]"):
        explain(function, x, background, device="cuda")


def test_without_a_gpu_the_remedy_is_named(monkeypatch, tmp_path):
    def none():
        raise RuntimeError("cudaErrorNoDevice")

    fake = cupy_on_cpu(tmp_path)
    fake.cuda.runtime.getDeviceCount = none
    monkeypatch.setitem(sys.modules, "cupy", fake)
    function, x, background = problem(3)
    with pytest.raises(ConfigError, match=r"found none \(cudaErrorNoDevice\).*device='cpu'.*rsa2c\[gpu\]"):
        KernelExplainer(function, background)(x, device="cuda")


def test_what_the_gpu_does_not_do_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "cupy", cupy_on_cpu(tmp_path))
    function, x, background = problem(3)
    for options, message in (
        ({"device": "gpu"}, "device must be 'cpu' or 'cuda', got 'gpu'"),
        ({"device": "cuda", "precision": "float16"}, "precision must be 'float64' or 'float32', got 'float16'"),
        ({"precision": "float32"}, "precision='float32' needs device='cuda'"),
        ({"device": "cuda", "interactions": True}, "interactions are computed on the processor"),
        ({"device": "cuda", "method": "cme"}, "device is a setting of method='kme'"),
    ):
        with pytest.raises(ConfigError, match=message):
            explain(function, x, background, **options)
    wide, x, background = problem(1025, states=1, centres=1, background=1)
    with pytest.raises(ConfigError, match="at most 1024 players, got 1025"):
        explain(wide, x, background, nodes=1, device="cuda")

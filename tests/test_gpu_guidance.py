"""A guided training on an NVIDIA GPU, with the product game's kernels compiled for the processor and JAX on it too."""

from __future__ import annotations

import sys
from contextlib import closing

import numpy as np
import pytest

from cuda_on_cpu import COMPILER, cupy_on_cpu
from rsa2c import RSA2C
from rsa2c.algorithm.guidance import attribution_critics, measure, product_values
from rsa2c.attribution import cuda
from rsa2c.attribution.kme import shapley_product
from rsa2c.config import make_config
from rsa2c.errors import MissingExtraError

pytest.importorskip("jax", reason="training on a device needs JAX, which the extra gpu installs")

from rsa2c.gpu import device

SMALL = {"n_envs": 16, "horizon": 24, "capacity": 64, "initial_centres": 40, "value_damping": 0.3,
         "attribution_every": 1, "attribution_states": 8, "attribution_background": 8,
         "attribution_centres": 20}  # fmt: skip


@pytest.fixture
def kernels(monkeypatch, tmp_path):
    """The kernels, by quadrature however few the players are, as the robots' games are played."""
    if COMPILER is None:
        pytest.skip("no C++ compiler: apt-get install g++")
    monkeypatch.setitem(sys.modules, "cupy", cupy_on_cpu(tmp_path))
    monkeypatch.setattr(cuda, "FEW_PLAYERS", 2)
    cuda.compiled.cache_clear()
    yield
    cuda.compiled.cache_clear()


def test_importances_by_the_kernels_are_those_of_the_processor(kernels):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 9))
    targets = [np.sin(x[:, :1]) + 0.1 * rng.normal(size=(600, 1)), x[:, 1:3] * x[:, 3:4]]
    critics = attribution_critics(x, targets, np.arange(600) < 300, "rbf", 25, rng)
    rule = make_config("Pendulum-v1", algorithm="rsa2c-kme").guidance
    assert product_values("cpu") is product_values("jax-cpu") is shapley_product
    ours, twin = (measure(critics, rule, np.random.default_rng(1), product_values(each)) for each in ("cuda", "cpu"))
    for name in ("agreed", "alone", "explained", "logged"):
        np.testing.assert_allclose(getattr(ours, name), getattr(twin, name), rtol=1e-11, atol=1e-14)


def test_a_guided_training_is_the_same_with_the_kernels(kernels, monkeypatch):
    """Each epoch is guided, by games that are played on the card."""
    monkeypatch.setitem(device.PLATFORMS, "cuda", "cpu")
    played, logs = [], []
    play = cuda.QuadratureValues.__call__
    monkeypatch.setattr(cuda.QuadratureValues, "__call__", lambda *each: played.append(1) or play(*each))
    for name in ("cuda", "jax-cpu"):
        with closing(RSA2C("Pendulum-v1", "rsa2c-kme", device=name, **SMALL)) as agent:
            agent.learn(2 * 16 * 24)
            logs.append(agent.attribution_log)
    assert len(played) == 2 * len(logs[0]) > 0, "the critics of both halves, on the card alone"
    for ours, twin in zip(*logs, strict=True):
        assert ours[0] == twin[0]
        for one, other in zip(ours[1:], twin[1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_a_training_without_cupy_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setitem(device.PLATFORMS, "cuda", "cpu")
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingExtraError, match=r"device='cuda' needs 'cupy'.*rsa2c\[gpu\]"):
        RSA2C("Pendulum-v1", "rsa2c-kme", device="cuda", **SMALL)

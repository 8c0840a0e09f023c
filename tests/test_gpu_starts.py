"""Episodes on a device start where Gymnasium's do: each number of a start state has the same distribution."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from scipy.stats import ks_2samp

jax = pytest.importorskip("jax", reason="training on a device needs JAX, which the extra gpu installs")

from rsa2c.gpu.device import computing, found  # noqa: E402
from rsa2c.gpu.environments import environment  # noqa: E402

OURS, THEIRS = 10_000, 2_500
SMALLEST_P, MOST_ERRORS = 1e-3, 5.0
"""Of all numbers of a state together, and standard errors. Seeds are fixed, so nothing fails by chance."""


def same_distribution(ours, theirs):
    """Whether each column has the same mean, variance and, by Kolmogorov and Smirnov's test, the same distribution in
    both, and ours are as uncorrelated as independent numbers."""
    assert ours.shape[1] == theirs.shape[1] and (len(ours), len(theirs)) == (OURS, THEIRS)
    for power in (1, 2):
        one, other = (each if power == 1 else (each - each.mean(axis=0)) ** 2 for each in (ours, theirs))
        error = np.sqrt(one.var(axis=0) / OURS + other.var(axis=0) / THEIRS)
        if np.any(np.abs(one.mean(axis=0) - other.mean(axis=0)) > MOST_ERRORS * error):
            return False
    if np.abs(np.triu(np.corrcoef(ours.T), 1)).max() > MOST_ERRORS / np.sqrt(OURS):
        return False
    smallest = min(ks_2samp(one, other).pvalue for one, other in zip(ours.T, theirs.T, strict=True))
    return smallest > SMALLEST_P / ours.shape[1]


def starts(env_id, numbers):
    """`numbers` of start states, (OURS, k), in single precision as in a training."""
    with computing(found("jax-cpu"), double=False):
        env = environment(env_id)
        keys = jax.random.split(jax.random.PRNGKey(0), OURS)
        return np.asarray(jax.jit(jax.vmap(lambda key: numbers(env.reset(key))))(keys), np.float64)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "rsa2c/LQR-v0"])
def test_small_environments_start_where_gymnasiums_do(env_id):
    single = gymnasium.make(env_id)
    theirs = [(single.reset(seed=k), np.array(single.unwrapped.state))[1] for k in range(THEIRS)]
    assert same_distribution(starts(env_id, lambda state: state), np.array(theirs))


@pytest.mark.parametrize("name", ["Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d"])
def test_robots_start_where_gymnasiums_do(name):
    """Positions and velocities, from which everything else of a start follows (`tests/test_gpu.py`)."""
    pytest.importorskip("mujoco.mjx", reason="robots on a device need mujoco-mjx, which the extra gpu installs")
    single = gymnasium.make(f"{name}-v5")
    data = single.unwrapped.data
    theirs = [(single.reset(seed=k), np.concatenate([data.qpos, data.qvel]))[1] for k in range(THEIRS)]
    ours = starts(f"{name}-v5", lambda state: jax.numpy.concatenate([state["q"], state["v"]]))
    assert same_distribution(ours, np.array(theirs))


def test_other_distributions_are_told_apart():
    """A tenth wider, shifted by a twentieth of the width, of another shape, with two numbers that go together."""
    rng = np.random.default_rng(0)

    def uniform(count):
        return rng.uniform(-1, 1, (count, 3))

    theirs, normal = uniform(THEIRS), rng.normal(0, 3**-0.5, (OURS, 3))
    for wrong in (1.1 * uniform(OURS), 0.1 + uniform(OURS), normal, uniform(OURS)[:, [0, 1, 0]]):
        assert not same_distribution(wrong, theirs)
    assert same_distribution(uniform(OURS), theirs)

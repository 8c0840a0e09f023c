from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from probes import Broken, Counter, counters
from rsa2c.algorithm.batch import Batch
from rsa2c.algorithm.estimates import advantages, discounted_returns
from rsa2c.algorithm.rollout import collect
from rsa2c.envs import make_env
from rsa2c.envs.distractors import Noise
from rsa2c.envs.wrappers import VectorDisturbed
from rsa2c.errors import ConfigError, DataError, EnvError

MODES = list(AutoresetMode)


def identity(observations: np.ndarray) -> np.ndarray:
    return observations


def constant_policy(n: int, m: int = 1):
    """Mean 1, latent 2, 3, 4 ... over the steps, action 0.5."""
    step = iter(range(2, 10**6))

    def act(x):
        return np.ones((n, m)), np.full((n, m), float(next(step))), np.full((n, m), 0.5)

    return act


def noisy_policy(n: int, m: int, seed: int = 0):
    rng = np.random.default_rng(seed)

    def act(x):
        latent = rng.standard_normal((n, m))
        return np.zeros((n, m)), latent, np.tanh(latent)

    return act


def expected_counters(lengths, terminates, steps: int, reset_steps: bool) -> dict[str, list]:
    """One Counter stepped by hand: what `collect` must return of it."""
    out = {name: [] for name in ("points", "latents", "rewards", "terminated", "truncated", "cut", "returns")}
    env, t, total = Counter(lengths, terminates), 0, 0.0
    out["points"].append(env.reset(seed=0)[0])
    while t < steps:
        observation, reward, terminated, truncated, _ = env.step(np.full(1, 0.5, np.float32))
        total += reward
        over = terminated or truncated
        out["points"].append(observation)
        for name, value in (("latents", 2.0 + t), ("rewards", reward)):
            out[name].append(value)
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            out[name].append(flag)
        out["cut"].append(t == steps - 1 and not over)
        t += 1
        if over:
            out["returns"].append(total)
            total = 0.0
            t += reset_steps
            start, _ = env.reset()
            if t < steps:
                out["points"].append(start)
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 9, 23])
def test_every_autoreset_mode_gives_the_transitions_of_an_environment_stepped_by_hand(mode, steps):
    lengths, terminates = ((3, 5), (4, 2), (7, 1)), (True, False)
    env = counters(3, mode, lengths=lengths, terminates=terminates)
    batch = collect(env, constant_policy(3), identity, steps, 0, np.random.default_rng(0))
    parts = [expected_counters(own, terminates, steps, mode is AutoresetMode.NEXT_STEP) for own in lengths]
    expected = {name: np.array([value for part in parts for value in part[name]]) for name in parts[0]}
    np.testing.assert_array_equal(batch.points, expected["points"])
    np.testing.assert_array_equal(batch.latents[:, 0], expected["latents"])
    np.testing.assert_array_equal(batch.rewards, expected["rewards"])
    np.testing.assert_array_equal(batch.terminated, expected["terminated"])
    np.testing.assert_array_equal(batch.truncated, expected["truncated"])
    np.testing.assert_array_equal(batch.cut, expected["cut"])
    np.testing.assert_array_equal(batch.episode_returns, expected["returns"])
    assert (batch.means == 1.0).all() and batch.n == len(expected["rewards"])
    assert batch.episode_lengths.sum() + batch.cut.sum() <= batch.n
    check_layout(batch)
    if mode is not AutoresetMode.NEXT_STEP:
        assert batch.n == 3 * steps


def check_layout(batch: Batch) -> None:
    """What every batch of Counters satisfies: segments begin at step 0, go up by one, and end in an end."""
    assert len(batch.points) == batch.n + batch.ends.sum() and batch.ends[-1]
    np.testing.assert_array_equal(batch.segment, np.r_[0, np.cumsum(batch.ends)[:-1]])
    np.testing.assert_array_equal(batch.next_states[:, 0], batch.states[:, 0])  # same episode
    np.testing.assert_array_equal(batch.next_states[:, 1], batch.states[:, 1] + 1)
    np.testing.assert_array_equal(batch.rewards, 100 * batch.states[:, 0] + batch.next_states[:, 1])
    first = np.r_[True, batch.ends[:-1]]
    assert (batch.states[first, 1] == 0).all()
    assert not (batch.cut & (batch.terminated | batch.truncated)).any()


@pytest.mark.parametrize("mode", MODES)
def test_restarts_cut_and_begin_anew_in_every_mode(mode):
    env = counters(3, mode, lengths=((30,), (20,), (25,)))
    batch = collect(env, constant_policy(3), identity, 400, 0, np.random.default_rng(1), restart_p=0.1)
    check_layout(batch)
    own = batch.terminated | batch.truncated
    assert own.sum() == len(batch.episode_returns) > 3
    assert batch.cut.mean() == pytest.approx(0.1, abs=0.03)
    # geometric lengths: mean 1/p, were it not for episodes that end before
    assert 6 < batch.n / batch.ends.sum() < 12


def test_restarts_with_one_minus_gamma_visit_states_as_often_as_they_are_discounted():
    gamma, n = 0.9, 100
    env = counters(n, AutoresetMode.DISABLED, lengths=((10_000,),) * n)
    batch = collect(env, constant_policy(n), identity, 300, 0, np.random.default_rng(2), restart_p=1 - gamma)
    assert not (batch.terminated | batch.truncated).any()
    age = batch.states[:, 1].astype(int)  # a Counter's state counts the steps since its start
    settled = age.reshape(n, 300)[:, 50:].ravel()
    np.testing.assert_allclose(np.bincount(settled)[:8] / settled.size, (1 - gamma) * gamma ** np.arange(8), rtol=0.05)


def test_restarts_in_our_vectorised_pendulum_start_from_the_start_distribution():
    env = make_env("Pendulum-v1", 8)
    batch = collect(env, noisy_policy(8, 1), identity, 100, 3, np.random.default_rng(0), restart_p=0.05)
    assert batch.n == 800 and 20 < batch.cut.sum() - 8 < 65
    starts = batch.states[np.r_[True, batch.ends[:-1]]]
    assert np.abs(starts[:, 2]).max() <= 1.0  # speeds at the start are within +-1
    speeds = batch.next_states[:, 2] - batch.states[:, 2]
    assert np.abs(speeds).max() <= (15 + 3 * 2) * 0.05 + 1e-5  # no jump inside a segment


@pytest.mark.parametrize(("name", "backend"), [("BipedalWalker-v3", "envpool"), ("Ant-v5", "envpool")])
def test_restarts_and_ends_with_envpool(name, backend):
    pytest.importorskip("envpool")
    env = make_env(name, 3, backend=backend)
    m = env.single_action_space.shape[0]
    batches = [
        collect(env, noisy_policy(3, m), identity, 120, 5, np.random.default_rng(0), restart_p=p)
        for p in (0.0, 0.0, 0.03)
    ]
    plain, again, restarted = batches
    np.testing.assert_array_equal(plain.points, again.points)  # afresh from the seed
    assert plain.terminated.any() and plain.n < 3 * 120 and plain.cut.sum() <= 3
    assert restarted.cut.sum() > 3
    for batch in batches:
        first = np.r_[True, batch.ends[:-1]]
        jumps = np.abs(batch.next_states - batch.states).max(axis=1)
        height = 0 if name == "Ant-v5" else 4  # torso, first hip
        assert batch.states[first, height].std() < 0.2 and (jumps > 0).all()  # starts alike, no step repeated


def test_restarts_through_wrappers_keep_the_other_environments_observations():
    env = VectorDisturbed(counters(2, AutoresetMode.NEXT_STEP, lengths=((50,), (50,))), Noise(1))
    batch = collect(env, constant_policy(2), identity, 100, 0, np.random.default_rng(0), restart_p=0.2)
    assert len(np.unique(batch.points[:, 2])) == len(batch.points)
    check_layout(batch)


def test_a_partial_reset_may_return_anything_for_the_other_environments():
    class Careless(VectorWrapper):
        def reset(self, *, seed=None, options=None):
            mask = None if options is None else options["reset_mask"]
            observations, infos = self.env.reset(seed=seed, options=options)
            if mask is not None:
                observations[~mask] = np.nan
            return observations, infos

    env = Careless(counters(3, AutoresetMode.DISABLED))
    batch = collect(env, constant_policy(3), identity, 30, 0, np.random.default_rng(0))
    assert batch.n == 90
    check_layout(batch)


def test_restarts_where_single_environments_cannot_restart():
    class Stubborn(VectorEnv):
        def __init__(self):
            one = Counter()
            self.num_envs, self.metadata = 2, {"autoreset_mode": AutoresetMode.NEXT_STEP}
            self.single_observation_space, self.single_action_space = one.observation_space, one.action_space
            self.observation_space = batch_space(one.observation_space, 2)
            self.action_space = batch_space(one.action_space, 2)

    arguments = (constant_policy(2), identity, 10, 0, np.random.default_rng(0))
    with pytest.raises(EnvError, match=r"Stubborn.*NextStep cannot do\. Set restart_p=0"):
        collect(Stubborn(), *arguments, restart_p=0.1)
    for p in (1.0, -0.1, np.nan):
        with pytest.raises(ConfigError, match="restart_p"):
            collect(counters(2, AutoresetMode.DISABLED), *arguments, restart_p=p)
    silent = Stubborn()
    silent.metadata = {}
    with pytest.raises(EnvError, match=r"autoreset_mode.*got None"):
        collect(silent, *arguments)


def test_same_step_environment_without_final_observations_is_refused():
    class Lossy(VectorDisturbed):
        def step(self, actions):
            *rest, _ = super().step(actions)
            return *rest, {}

    env = Lossy(counters(2, AutoresetMode.SAME_STEP), Noise(1))
    with pytest.raises(EnvError, match=r"infos\['final_obs'\]"):
        collect(env, constant_policy(2), identity, 10, 0, np.random.default_rng(0))


def test_points_are_normalised_final_ones_too_and_rewards_stay_raw():
    def metric(raw):
        return (raw - 1.0) / 4.0

    seen = []

    def act(x):
        seen.append(x.copy())
        return np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((3, 1))

    for mode in MODES:
        raw = collect(counters(3, mode), constant_policy(3), identity, 17, 0, np.random.default_rng(0))
        seen.clear()
        batch = collect(counters(3, mode), act, metric, 17, 0, np.random.default_rng(0), dtype=np.float32)
        np.testing.assert_array_equal(batch.points, metric(raw.points))
        np.testing.assert_array_equal(batch.rewards, raw.rewards)
        assert batch.points.dtype == batch.means.dtype == seen[0].dtype == np.float32
        assert batch.rewards.dtype == np.float64
        np.testing.assert_array_equal(seen[1], metric(np.array([[0, 1.0]] * 3)))


def test_backends_agree_on_pendulum():
    runs = [
        collect(
            make_env("Pendulum-v1", 4, backend=backend, noise_variance=0.01, distractors=2),
            noisy_policy(4, 1),
            identity,
            250,
            9,
            np.random.default_rng(2),
            restart_p=0.004,
        )
        for backend in ("auto", "gymnasium")
    ]
    np.testing.assert_array_equal(runs[0].points, runs[1].points)
    np.testing.assert_allclose(runs[0].rewards, runs[1].rewards, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(runs[0].ends, runs[1].ends)
    assert runs[0].cut.sum() > 4 and runs[0].truncated.any()


def test_a_full_epoch_of_pendulum_has_every_transition():
    env = make_env("Pendulum-v1", 24)
    batch = collect(env, noisy_policy(24, 1), identity, 200, 0, np.random.default_rng(0))
    assert batch.n == 4800 and batch.truncated.sum() == 24 and not batch.cut.any()
    assert (batch.episode_lengths == 200).all()
    assert batch.episode_returns.sum() == pytest.approx(batch.rewards.sum())


@pytest.mark.parametrize(("what", "value"), [("observation", np.nan), ("observation", np.inf), ("reward", -np.inf)])
def test_numbers_that_are_not_finite_are_named(what, value):
    good = {1: 5}
    count = iter(range(100))
    env = make_env(lambda: Broken(what, value, good.get(next(count), 1000)), 3)
    where = "step 6 of environment 1" + (r", feature 1 \(x1\)" if what == "observation" else "")
    with pytest.raises(EnvError, match=f"Broken: the {what} is {value} at {where}"):
        collect(env, constant_policy(3), identity, 20, 0, np.random.default_rng(0))


def test_wrong_shapes_are_named():
    class Growing(VectorDisturbed):
        def step(self, actions):
            observations, *rest = super().step(actions)
            return np.concatenate([observations, observations], axis=1), *rest

    env = Growing(counters(2, AutoresetMode.DISABLED), Noise(1))
    with pytest.raises(EnvError, match=r"shape \(2, 6\) at step 1, expected \(2, 3\)"):
        collect(env, constant_policy(2), identity, 5, 0, np.random.default_rng(0))
    env = counters(2, AutoresetMode.DISABLED)
    with pytest.raises(DataError, match=r"actions of shape \(2, 3\) at step 0, expected \(2, 1\)"):
        collect(env, constant_policy(2, 3), identity, 5, 0, np.random.default_rng(0))
    with pytest.raises(DataError, match="diverged"):
        nothing = np.full((2, 1), np.nan)
        collect(env, lambda x: (nothing, nothing, nothing), identity, 5, 0, np.random.default_rng(0))
    with pytest.raises(ConfigError, match="steps"):
        collect(env, constant_policy(2), identity, 0, 0, np.random.default_rng(0))


def random_batch(rng: np.random.Generator, n: int = 300) -> Batch:
    """Rewards and ends of all three kinds, one of them at the end."""
    kind = rng.choice(4, n, p=[0.85, 0.05, 0.05, 0.05])
    kind[-1] = 3
    ends = kind > 0
    segment = np.cumsum(ends) - ends
    return Batch(
        points=np.zeros((n + ends.sum(), 2)),
        raw=np.zeros((n + ends.sum(), 2)),
        segment=segment,
        latents=np.zeros((n, 1)),
        means=np.zeros((n, 1)),
        rewards=rng.standard_normal(n),
        terminated=kind == 1,
        truncated=kind == 2,
        cut=kind == 3,
        episode_returns=np.zeros(0),
        episode_lengths=np.zeros(0, dtype=np.int64),
    )


def by_definition(batch: Batch, values: np.ndarray, gamma: float, lam: float) -> tuple:
    """Advantages and returns, each from its sum over the rest of the segment."""
    advantage, returns = np.zeros(batch.n), np.zeros(batch.n)
    delta = np.zeros(batch.n)
    for i in range(batch.n):
        after = 0.0 if batch.terminated[i] else values[i + batch.segment[i] + 1]
        delta[i] = batch.rewards[i] + gamma * after - values[i + batch.segment[i]]
    for i in range(batch.n):
        for j in range(i, batch.n):
            if batch.segment[j] != batch.segment[i]:
                break
            advantage[i] += (gamma * lam) ** (j - i) * delta[j]
            returns[i] += gamma ** (j - i) * batch.rewards[j]
            if batch.ends[j] and not batch.terminated[j]:
                returns[i] += gamma ** (j - i + 1) * values[j + batch.segment[j] + 1]
    return advantage, returns


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (0.9, 0.0), (1.0, 1.0), (0.5, 1.0)])
def test_advantages_and_returns_against_their_definitions(gamma, lam):
    rng = np.random.default_rng(0)
    for _ in range(3):
        batch = random_batch(rng)
        values = rng.standard_normal(len(batch.points))
        advantage, returns = by_definition(batch, values, gamma, lam)
        np.testing.assert_allclose(advantages(batch, values, gamma, lam), advantage, atol=1e-12)
        np.testing.assert_allclose(discounted_returns(batch, values, gamma), returns, atol=1e-12)
        without = by_definition(batch, 0.0 * values, gamma, lam)[1]
        np.testing.assert_allclose(discounted_returns(batch, None, gamma), without, atol=1e-12)
        if lam == 1.0:  # GAE(1) is the bootstrapped return minus the value
            here = values[np.arange(batch.n) + batch.segment]
            np.testing.assert_allclose(advantage, returns - here, atol=1e-10)


def test_values_of_the_wrong_length_are_refused():
    batch = random_batch(np.random.default_rng(0))
    for function in (lambda v: advantages(batch, v, 0.9, 0.9), lambda v: discounted_returns(batch, v, 0.9)):
        with pytest.raises(DataError, match="one entry for each"):
            function(np.zeros(batch.n))

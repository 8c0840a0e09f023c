"""Training on a device agrees with NumPy: each phase with its twin on the same batch, each environment step by step.

All of it runs on JAX's CPU backend, what computes on a GPU too where there is one; it is skipped where JAX is missing.
"""

from __future__ import annotations

import sys
from contextlib import closing
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from benchmark_runs import BENCHMARKS
from rsa2c import RSA2C
from rsa2c.algorithm import phases, plausible
from rsa2c.algorithm.admission import admit
from rsa2c.algorithm.fits import Fits
from rsa2c.algorithm.guidance import attribution_critics
from rsa2c.algorithm.influence import LAGS, influence, influence_sums
from rsa2c.algorithm.keeping import concluded, keep_best
from rsa2c.algorithm.robust import Smoothness
from rsa2c.algorithm.samples import Block, Samples, raw_states, states
from rsa2c.algorithm.shares import Rollout
from rsa2c.algorithm.state import KEEP, environment_seed, generator
from rsa2c.errors import ConfigError, EnvError
from rsa2c.kernel.algebra import NUMPY
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction

sys.path.append(str(BENCHMARKS))
jax = pytest.importorskip("jax", reason="training on a device needs JAX, which the extra gpu installs")

from gpu_simulation import differences  # noqa: E402
from integrator import Integrator  # noqa: E402
from rsa2c.gpu.algebra import DeviceAlgebra  # noqa: E402
from rsa2c.gpu.device import computing, found  # noqa: E402
from rsa2c.gpu.environments import environment  # noqa: E402
from rsa2c.gpu.rollout import Acting, begun, rollout  # noqa: E402
from rsa2c.gpu.workers import TRIAL_EPISODES  # noqa: E402

AGREES = {"rtol": 1e-9, "atol": 1e-9}
SMALL = {"n_envs": 16, "horizon": 24, "capacity": 64, "initial_centres": 40, "value_damping": 0.3}


@pytest.fixture(scope="module", params=["jax-cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda" and not any(each.platform == "gpu" for each in jax.devices()):
        pytest.skip("JAX finds no NVIDIA GPU")
    return request.param


@pytest.fixture(scope="module")
def agent(device):
    """A pendulum's agent after a few epochs; episodes end within some of its rollouts."""
    with closing(RSA2C("Pendulum-v1", "advanced-ac", device=device, **SMALL)) as agent:
        agent.learn(5 * 16 * 24)
        yield agent


class OneBlock(Samples):
    """A batch as the samples of one process."""

    def __init__(self, batch):
        self.block, self.points = Block(batch), len(batch.points)

    n = property(lambda self: self.block.batch.n)

    def reduce(self, function, *arguments):
        return function(self.block, *arguments)

    def take(self, function, positions, *arguments):
        return function(self.block, positions, *arguments)


@pytest.fixture
def rolled(agent):
    """A rollout of that agent, on the device and as NumPy's phases have it."""
    agent.workers.restore(agent.state.environments)
    on_device = phases.roll_out(agent.policy, agent.workers, 24, agent.config, np.random.default_rng(5))
    batch = on_device.gathered()
    assert on_device.n == batch.n == 16 * 24 and batch.truncated.any()
    assert batch.cut.sum() == 16 - batch.truncated.reshape(16, 24)[:, -1].sum()
    return on_device, OneBlock(batch)


def by_environment(grid):
    """A grid (steps, n) in the order of `Batch`."""
    return np.asarray(grid).T.ravel()


def agree(ours, twin, size=None):
    """Whether all numbers agree to 1e-9 of the largest, or of `size`: that of the numbers they are differences of."""
    return np.abs(ours - twin).max() <= 1e-9 * (np.abs(twin).max() if size is None else size)


def test_the_layouts_hold_the_same_transitions(agent, rolled):
    on_device, batch = rolled[0], rolled[1].block.batch
    grid = on_device.batch.grid
    for name in ("rewards", "terminated", "truncated"):
        assert np.array_equal(by_environment(getattr(grid, name)), getattr(batch, name))
    before, after = (np.asarray(each).swapaxes(0, 1).reshape(batch.n, -1) for each in (grid.states, grid.after))
    assert np.array_equal(batch.raw_states, before)
    assert np.array_equal(batch.raw[batch.state_index + 1], after)
    assert np.allclose(batch.means, agent.policy_mean(batch.raw_states), atol=1e-4)
    rows = np.array([5, 100, 7])
    for fetched in (on_device.take(raw_states, rows), on_device.raw_states(rows)):
        assert np.array_equal(fetched, np.asarray(grid.states).reshape(batch.n, -1)[rows])
    ours, twin = on_device.moments(), rolled[1].moments()
    assert agree(ours.mean, twin.mean) and agree(ours.variance, twin.variance)


def estimated(agent, on_device, host, epoch=1):
    """Value and advantages by both, compared."""
    batch, config = host.block.batch, agent.config
    fits, twins = agent.workers.fits, Fits()
    ours = fits.value(agent.state.value, on_device, config, epoch)
    twin = twins.value(agent.state.value, host, config, epoch)
    assert agree(ours(batch.raw), twin(batch.raw))
    first, second = fits.estimate(ours, on_device, config), twins.estimate(twin, host, config)
    values, size = host.block.values, abs(host.block.values).max()
    assert agree(by_environment(on_device.values.values), values[batch.state_index])
    assert agree(by_environment(on_device.values.following), values[batch.state_index + 1])
    for ranged, all_values in ((on_device.values.reached, values), (on_device.values.known, agent.value(batch.raw))):
        assert agree(np.asarray(ranged), np.array([all_values.min(), all_values.max()]))
    assert agree(by_environment(on_device.advantage), host.block.advantage, size)
    for name in ("mean", "spread"):
        assert agree(np.array(getattr(first, name)), np.array(getattr(second, name)), size)
    assert first.explained == pytest.approx(second.explained, abs=1e-9)
    return second


@pytest.mark.parametrize("epoch", [0, 3])
def test_value_and_advantages_agree(agent, rolled, epoch):
    """The first epoch has nothing to be damped towards."""
    estimated(agent, *rolled, epoch)


def test_implausible_values_are_fitted_again_alike(agent, rolled, monkeypatch):
    """With next to no room for values both raise the ridge, as often as the other."""
    before = estimated(agent, *rolled, epoch=0)
    monkeypatch.setattr(plausible, "SLACK", -0.45)
    assert estimated(agent, *rolled, epoch=0).explained < before.explained


def test_terminated_episodes_have_no_future(agent, rolled):
    """As above, in a batch where some truncated episodes count as terminated."""
    on_device, host = rolled
    ended = np.asarray(on_device.batch.grid.truncated)
    half = ended & (np.cumsum(ended.ravel()).reshape(ended.shape) % 2 == 0)
    grid = on_device.batch.grid._replace(terminated=half, truncated=ended & ~half)
    on_device.batch = replace(on_device.batch, grid=grid)
    over = by_environment(half)
    host.block.batch = replace(host.block.batch, terminated=over, truncated=host.block.batch.truncated & ~over)
    assert over.any() and host.block.batch.truncated.any()
    estimated(agent, on_device, host)


def test_noise_on_observations_is_what_policy_and_critics_see(agent):
    """Environments have levels of their own; what followed a step is what the next one saw, unless an episode ended."""
    clean, noisy = Rollout.drawn(np.random.default_rng(5), agent.policy, 24), np.zeros((16, 3))
    noisy[8:] = 0.2 * np.arange(1, 4)
    grids = []
    for plan in (clean, replace(clean, errors=noisy)):
        agent.workers.restore(agent.state.environments)
        grids.append(jax.tree.map(np.asarray, agent.workers.roll_out(plan).batch.grid))
    without, noised = grids
    assert np.array_equal(noised.states[:, :8], without.states[:, :8])
    assert np.array_equal(noised.rewards[:, :8], without.rewards[:, :8])
    radius = np.hypot(noised.states[:, 8:, 0], noised.states[:, 8:, 1])
    assert radius.std() > 0.1 and np.hypot(without.states[..., 0], without.states[..., 1]).std() < 1e-3
    added = noised.states[0, 8:] - without.states[0, 8:]
    assert np.all(added != 0) and np.all(np.abs(added) < 5 * noisy[8:])
    going = ~(noised.terminated | noised.truncated)[:-1]
    assert np.array_equal(noised.after[:-1][going], noised.states[1:][going])
    agent.workers.restore(agent.state.environments)


def test_the_penalty_agrees(agent, rolled):
    """M C against the formula, on the same perturbed states; and its natural gradient against a dense solution."""
    on_device, host = rolled
    estimate, mean = estimated(agent, on_device, host), agent.policy.mean
    penalty = Smoothness(0.3, np.array([0.1, 0.1, 0.5]), 7)
    fit = agent.workers.fits.advantage(agent.policy, on_device, estimate, agent.config, penalty)
    with computing(agent.workers.device, double=True):
        states = np.asarray(on_device.batch.grid.states, np.float64).reshape(-1, 3)
        errors = penalty.deviations * np.asarray(jax.random.normal(jax.random.PRNGKey(7), states.shape))
    features, metric = mean.dictionary.features(np.float64), mean.kernel.metric
    change = features(metric(states + errors)) - features(metric(states))
    wanted = 0.3 * change.T @ change @ mean.coefficients / len(states) / agent.policy.sigma**2
    assert agree(fit.penalty, wanted)
    ridge = agent.config.advantage.advantage_ridge * mean.dictionary.gram
    system = fit.second_moment / agent.policy.sigma[0] ** 2 + ridge
    assert np.allclose(system @ fit.damped_penalty, fit.penalty, atol=1e-9 * np.abs(fit.penalty).max())


@pytest.mark.parametrize("robust", ["noise", "smooth"])
def test_robust_training_on_a_device(device, robust):
    settings = {**SMALL, "robust": robust, "robust_ramp": 1000, "keep": "best"}
    with closing(RSA2C("Pendulum-v1", "advanced-ac", device=device, **settings)) as agent:
        agent.learn(4 * 16 * 24)
        assert np.isfinite(agent.policy_mean.coefficients).all() and agent.policy_mean.coefficients.any()


def test_the_advantage_fit_and_the_step_agree(agent, rolled):
    on_device, host = rolled
    estimate = estimated(agent, on_device, host)
    on_device.advantage = host.block.advantage.reshape(16, 24).T
    fit = agent.workers.fits.advantage(agent.policy, on_device, estimate, agent.config)
    wanted = Fits().advantage(agent.policy, host, estimate, agent.config)
    for name in ("second_moment", "gradient", "weights", "spread"):
        assert agree(getattr(fit, name), getattr(wanted, name)), name
    state = replace(agent.state, epoch=3, steps=5000)
    stepped, kl = phases.step_actor(agent.policy, fit, on_device, estimate, agent.config, state)
    other, expected = phases.step_actor(agent.policy, wanted, host, estimate, agent.config, state)
    assert kl == pytest.approx(expected, rel=1e-9)
    assert agree(stepped.sigma, other.sigma)


@pytest.mark.parametrize("guide", ["value", "value+advantage", "value+policy"])
def test_guidance_sees_transitions_with_their_values(agent, rolled, guide):
    on_device, host = rolled
    estimate = estimated(agent, on_device, host)
    rows = np.array([3, 200, 17])
    steps, who = np.divmod(rows, 16)
    (x, targets), (twin, wanted) = (
        fits.attributed(samples, positions, estimate, guide)
        for fits, samples, positions in ((agent.workers.fits, on_device, rows), (Fits(), host, who * 24 + steps))
    )
    assert agree(x, twin) and agree(x, on_device.take(states, rows))
    size = max(abs(host.block.values).max(), 1.0)
    assert len(targets) == len(wanted) == 1 + guide.count("+")
    assert all(agree(one, other, size) for one, other in zip(targets, wanted, strict=True))


@pytest.fixture(scope="module")
def algebra(device):
    return DeviceAlgebra(found(device), 64)


@pytest.fixture(scope="module")
def function():
    rng = np.random.default_rng(0)
    metric = Metric(rng.normal(size=5), rng.uniform(0.5, 2, 5), 10.0, rng.uniform(0.5, 2, 5), 2.0)
    dictionary = Dictionary.empty(RBF(2.0, metric)).grown(3 * rng.normal(size=(300, 5)), 1e-2, 40)
    return RKHSFunction(dictionary, rng.normal(size=(40, 2)), ("a", "b"), rng.normal(size=2))


def same(a: Dictionary, b: Dictionary) -> None:
    assert np.array_equal(a.states, b.states)
    assert np.allclose(a.errors, b.errors, **AGREES) and np.allclose(a.centres, b.centres, **AGREES)


@pytest.mark.parametrize(("threshold", "limit"), [(1e-2, 20), (0.5, 20), (1e-2, 0)])
def test_growth_agrees(algebra, function, threshold, limit):
    states = 3 * np.random.default_rng(1).normal(size=(200, 5))
    ours, twin = (each.grown(function.dictionary, states, threshold, limit) for each in (algebra, NUMPY))
    same(ours, twin)
    assert ours.size > 40 or threshold > 0.1 or limit == 0


def test_readmission_pruning_and_projection_agree(algebra, function):
    rng = np.random.default_rng(2)
    old, states = function.kernel.metric, 3 * rng.normal(size=(500, 5))
    metric = replace(old, std=old.std * 4.0, mean=old.mean + 0.3, knee=None)
    (ours, kept), (twin, expected) = (each.readmitted(function.dictionary, metric, 0.2) for each in (algebra, NUMPY))
    same(ours, twin)
    assert np.array_equal(kept, expected) and 5 < len(kept) < 40
    first, second = (each.pruned(function, states, 7) for each in (algebra, NUMPY))
    same(first.dictionary, second.dictionary)
    assert agree(first.coefficients, second.coefficients)
    assert np.allclose(first(states), second(states), **AGREES)
    start = function.coefficients[kept]
    found, wanted = (each.projected(function, twin, states, 1e-6, start) for each in (algebra, NUMPY))
    assert np.allclose(found(states), wanted(states), **AGREES)
    assert np.allclose(algebra.values(function, states), function(states), **AGREES)


def test_a_full_dictionary_admits_and_prunes_alike_on_the_same_batch(agent, rolled):
    """The same states come and go, and what is left of both functions agrees."""
    on_device, twin = rolled[0], copy(rolled[0])
    twin.algebra = NUMPY
    config = agent.config.updated(capacity=agent.state.policy.mean.dictionary.size, admission_threshold=1e-5)
    found, wanted = (
        admit(agent.state.policy.mean, agent.state.value, samples, config, 0, np.random.default_rng(6))
        for samples in (on_device, twin)
    )
    for ours, theirs, before in zip(found[:2], wanted[:2], (agent.state.policy.mean, agent.state.value), strict=True):
        same(ours.dictionary, theirs.dictionary)
        assert agree(ours.coefficients, theirs.coefficients)
        assert not np.array_equal(ours.dictionary.states, before.dictionary.states)
    for ours, theirs in zip(found[2], wanted[2], strict=True):
        assert (ours.admitted, ours.removed) == (theirs.admitted, theirs.removed) and ours.removed > 0


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_what_actions_move_agrees(agent, rolled, correlation):
    on_device, host = rolled
    config = agent.config.updated(noise_correlation=correlation)
    found = agent.workers.fits.influence(on_device, agent.policy, config)
    wanted = influence(influence_sums(host.block, agent.policy.sigma, correlation))
    assert agree(found, wanted) and np.abs(wanted).min() > 1e-3
    lengths = np.bincount(host.block.batch.segment)
    assert len(lengths) > 16, "episodes end within the rollout"
    for lag, sums in zip(LAGS, influence_sums(host.block, agent.policy.sigma, correlation), strict=True):
        assert sums[-1][-1, -1] == np.maximum(lengths - lag + 1 - (correlation > 0), 0).sum()


@pytest.mark.parametrize("centres", [30, 200])
def test_attribution_critics_agree(algebra, centres):
    """Of two halves of unequal size; also where they have more centres than the policy has room for states."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(700, 5)), rng.normal(size=(700, 3))
    first = np.arange(700) < 300
    found, wanted = (
        attribution_critics(x, [y[:, :1], y[:, 1:]], first, "rbf", centres, np.random.default_rng(4), each)
        for each in (algebra, NUMPY)
    )
    for ours, twin in zip(found, wanted, strict=True):
        same(ours.dictionary, twin.dictionary)
        assert agree(ours.coefficients, twin.coefficients) and agree(ours.explained, twin.explained)
        assert (ours.samples, ours.candidates) == (twin.samples, twin.candidates)
        assert ours.dictionary.size >= min(centres, algebra.capacity + 1)


def test_a_policy_acts_as_it_does_in_numpy(function):
    """Without noise the means of a rollout are the policy's own, to the precision of physics."""
    with closing(RSA2C("rsa2c/LQR-v0", "advanced-ac", n_envs=4, horizon=50, capacity=32)) as agent:
        agent.learn(1000)
        with computing(found("jax-cpu"), double=False):
            env = environment("rsa2c/LQR-v0")
            start = begun(env, 8, jax.random.PRNGKey(0))
            acting = Acting.of(agent.policy, 64)
            acting = acting._replace(sigma=np.zeros_like(acting.sigma))
            _, grid, _ = rollout(env, 6, "tanh")(start, jax.random.PRNGKey(1), acting)
        states = np.asarray(grid.states, np.float64)
        assert np.allclose(grid.means, agent.policy.mean(states.reshape(-1, 4)).reshape(6, 8, 1), atol=1e-4)
        assert np.array_equal(grid.means, grid.latents)
        going = ~np.asarray(grid.terminated | grid.truncated)[:-1]
        assert np.array_equal(states[1:][going], np.asarray(grid.after, np.float64)[:-1][going])


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "rsa2c/LQR-v0"])
def test_small_environments_agree_with_gymnasium(env_id):
    import gymnasium

    single, rng = gymnasium.make(env_id), np.random.default_rng(0)
    with computing(found("jax-cpu"), double=True):
        env = environment(env_id)
        assert np.array_equal(env.low, single.action_space.low) and np.array_equal(env.high, single.action_space.high)
        single.reset(seed=1)
        state = jax.numpy.asarray(single.unwrapped.state)
        step = jax.jit(env.step)
        for _ in range(100):
            action = rng.uniform(1.2 * env.low, 1.2 * env.high)
            state, reward, terminated, truncated = step(state, action)
            seen, expected, over, out, _ = single.step(action)
            assert np.allclose(env.observe(state), seen, atol=1e-6) and float(reward) == pytest.approx(expected)
            assert bool(terminated) == over and (bool(truncated) == out or env_id == "Pendulum-v1")
            if over or out:
                break


def test_a_robot_agrees_with_gymnasium():
    pytest.importorskip("mujoco.mjx", reason="robots on a device need mujoco-mjx, which the extra gpu installs")
    assert differences("HalfCheetah", 50).max() < 1e-9


@pytest.mark.parametrize("name", ["HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid"])
def test_robots_keep_as_many_contacts_as_training_asks_for(name):
    """Ant-v5's model has numbers of its own, which MJX took for the number of contacts: it fell through the floor."""
    pytest.importorskip("mujoco.mjx", reason="robots on a device need mujoco-mjx, which the extra gpu installs")
    from rsa2c.gpu import robots
    from rsa2c.gpu.simulator import FULL, QUICK

    with computing(found("jax-cpu"), double=False):
        kept, all_of_them = (len(getattr(robots, name)(solver)._on_device()[1]._impl.contact.dist)
                             for solver in (QUICK, FULL))  # fmt: skip
    assert min(QUICK.contacts, all_of_them) <= kept <= all_of_them  # of each kind of friction as many


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "usual", "most"),
    [("Hopper", 1e-9, 1e-9), ("Walker2d", 1e-9, 1e-9), ("Ant", 1e-3, 0.1), ("Humanoid", 1e-3, 0.1)],
)
def test_all_robots_agree_with_gymnasium(name, usual, most):
    """Contacts in three dimensions agree to the solvers' last steps only."""
    pytest.importorskip("mujoco.mjx", reason="robots on a device need mujoco-mjx, which the extra gpu installs")
    found = differences(name, 100)
    assert np.median(found) < usual and found.max() < most


def episode_by_numpy(policy, place, speed, steps):
    """Return and length of an `Integrator`'s episode, step by step."""
    total, t = 0.0, 0
    while t < steps and abs(place) <= 3.0:
        speed += 0.1 * policy.bounds.action(policy.mean(np.array([[place, speed]])))[0, 0]
        total += 1.0 - place**2
        place, t = place + 0.1 * speed, t + 1
    return total, t


def test_policies_tried_side_by_side_do_as_each_does_step_by_step():
    """Two policies from the same starts, one that stays and one that runs away: its episodes are over early."""
    with closing(RSA2C(Integrator(), "advanced-ac", device="jax-cpu", **SMALL)) as agent:
        agent.learn(2 * 16 * 24)
        policy, workers, steps = agent.policy, agent.workers, 120
        away = replace(policy, mean=replace(policy.mean, coefficients=np.full_like(policy.mean.coefficients, 9.0)))
        total, lengths = workers._tried([policy, away], steps, 7, None)
        starts, _ = jax.random.split(jax.random.PRNGKey(7))
        starts = np.asarray([workers.env.reset(key).obs for key in jax.random.split(starts, total.shape[1])], float)
    for k, each in enumerate((policy, away)):
        expected = np.array([episode_by_numpy(each, *start, steps) for start in starts])
        same = lengths[k] == expected[:, 1]
        assert same.mean() > 0.95  # in single precision an episode may end a step earlier or later
        assert np.allclose(total[k][same], expected[same, 0], rtol=1e-3, atol=1e-2)
    assert lengths[0].max() == steps > lengths[1].max()
    assert np.array_equal(workers.side_by_side([policy, away], steps, 7), total)
    alone, longest = workers.first_episodes(away, steps, 7)
    assert np.allclose(alone, total[1], rtol=1e-4, atol=1e-3) and longest == lengths[1].max()


def test_the_best_policy_is_kept_on_a_device(agent, monkeypatch):
    """The first is kept, a worse one never, and one that only does better in every other episode neither."""
    state, config, workers = agent.state, agent.config.updated(keep="best"), agent.workers
    state, before = replace(state, steps=workers.steps_between_trials), workers.steps_between_trials - 1
    assert keep_best(replace(state, steps=workers.first_trial - 1), 0, workers, config) is None, "no trial is due"
    first = keep_best(state, before, workers, config)
    assert first.policy is state.policy and first.episodes == TRIAL_EPISODES
    assert first.score == pytest.approx(workers.side_by_side([state.policy], 200, seed_of_trial(state, config)).mean())
    opposite = replace(state.policy.mean, coefficients=-state.policy.mean.coefficients)
    other = replace(state, policy=replace(state.policy, mean=opposite), kept=first)
    for newest, kept in ((np.full(64, -1.0), False), (np.tile([5.0, -1.0], 32), False), (np.full(64, 5.0), True)):
        returns = np.stack([newest, np.zeros(64)])
        monkeypatch.setattr(workers, "side_by_side", lambda *_, returns=returns: returns)
        found = keep_best(replace(other, kept=replace(first, score=0.0)), before, workers, config)
        assert (found.policy is other.policy) == kept and found.score == (5.0 if kept else 0.0)
        assert found.episodes == (TRIAL_EPISODES if kept else 2 * TRIAL_EPISODES)


def test_where_a_training_ends_its_last_policy_is_tried_once(agent, monkeypatch):
    """Whether its last step was known beforehand, or a callback or a clock ends it."""
    tried = []

    def side_by_side(policies, *_):
        tried.append(policies[0])
        return np.full((2, TRIAL_EPISODES), float(len(tried)))

    with closing(RSA2C.of(agent.snapshot(), device=agent.config.device)) as other:
        other.config = other.config.updated(keep="best")
        monkeypatch.setattr(other.workers, "side_by_side", side_by_side)
        before = other.state.steps
        other.learn(2 * 16 * 24)
        assert tried == [other.state.policy] and other.state.kept.score == 1.0
        other.learn(10**6, callback=lambda *_: False)
        assert tried[1:] == [other.state.policy] and other.state.kept.steps == before + 3 * 16 * 24
        other.run_epoch()
        assert len(tried) == 2
        other.conclude()
        assert tried[2:] == [other.state.policy]
        monkeypatch.setattr(other.workers, "first_trial", other.state.steps + 1)
        other.learn(1)
        assert len(tried) == 4, "a trial that was due is not made again"
        last = concluded(other.state, before, other.workers, other.config.updated(keep="last"))
        assert last is other.state and len(tried) == 4


def test_what_environments_carry_over_stays_on_the_device(agent):
    assert agent.state.environments and all(isinstance(each, jax.Array) for each in agent.state.environments)


def seed_of_trial(state, config):
    return environment_seed(generator(config, state.epoch, KEEP))


def test_training_stops_and_goes_on_to_the_same_bytes(agent, tmp_path):
    agent.save(tmp_path / "model")
    loaded = RSA2C.load(tmp_path / "model")
    assert loaded.config.device == agent.config.device
    assert len(loaded.state.environments) == len(agent.state.environments) > 0
    going_on = RSA2C.of(agent.snapshot())
    for each in (loaded, going_on):
        each.run_epoch()
        each.close()
    for name, array in loaded.get_parameters().items():
        assert np.array_equal(array, going_on.get_parameters()[name]), name


def test_what_a_device_does_not_have_is_refused(agent):
    with pytest.raises(ConfigError, match=r"device='jax-cpu' needs precision='float64'.*device='cpu'"):
        RSA2C("Pendulum-v1", device="jax-cpu", precision="float32")
    with pytest.raises(ConfigError, match=r"device='jax-cpu' needs newcomers='zero'"):
        RSA2C("Pendulum-v1", device="jax-cpu", admission="annealed", newcomers="printed")
    with pytest.raises(EnvError, match=r"MountainCarContinuous-v0 does not run on a GPU: .*Use device='cpu'"):
        RSA2C("MountainCarContinuous-v0", device="jax-cpu")
    with pytest.raises(ConfigError, match="device must be one of"):
        RSA2C("Pendulum-v1", device="tpu")
    with pytest.raises(ConfigError, match="callbacks after each step are not called on a GPU"):
        agent.run_epoch(observe=lambda step: None)
    with pytest.raises(ConfigError, match=r"no 16 environments to go on with"):
        agent.workers.restore(())
    with pytest.raises(ConfigError, match="leave out workers and cluster"):
        RSA2C("Pendulum-v1", device="jax-cpu", workers=2)


def test_a_gpu_that_is_not_there_is_named():
    if any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("there is one")
    with pytest.raises(ConfigError, match=r"device='cuda' needs an NVIDIA GPU, and JAX found none.*device='cpu'"):
        RSA2C("Pendulum-v1", device="cuda")

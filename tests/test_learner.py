"""The agent: its public face, its variants, its phases."""

import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from numba.core.event import trigger_event

import rsa2c
from rsa2c.algorithm import epoch as module
from rsa2c.algorithm import released
from rsa2c.algorithm.actor import correlated_noise
from rsa2c.algorithm.automatic import horizon_at, settle_sizes
from rsa2c.algorithm.fits import Fits
from rsa2c.algorithm.phases import roll_out
from rsa2c.algorithm.projection import ProjectionStates, follow_states, on_new_metric, within_trust_region
from rsa2c.algorithm.snapshot import pack
from rsa2c.config import ALGORITHMS
from rsa2c.errors import ConfigError, DataError, EnvError, FileFormatError

SMALL = {"n_envs": 4, "horizon": 50, "capacity": 40}
GUIDED = {"attribution_every": 1, "attribution_warmup": 1}


def small_agent(algorithm=None, env="Pendulum-v1", epochs=3, **fields):
    unguided = algorithm in {"uniform-shap", "advanced-ac", "rkhs-ac"} or fields.get("guidance") == "none"
    agent = rsa2c.RSA2C(env, algorithm, **{**SMALL, **({} if unguided else GUIDED), "seed": 3, **fields})
    for _ in range(epochs):
        agent.run_epoch()
    return agent


def content(agent, checkpoint=False):
    tensors, metadata = pack(agent.snapshot(), checkpoint)
    return {name: array.tobytes() for name, array in tensors.items()}, metadata


@pytest.fixture(scope="module")
def agent():
    return small_agent(epochs=5)


@pytest.fixture(scope="module")
def states(agent):
    return agent.background[:7]


def test_learn_trains_that_many_more_steps_and_returns_self():
    agent = small_agent(epochs=0)
    warmup = agent.num_timesteps
    assert agent.learn(warmup + 201) is agent
    assert agent.num_timesteps - warmup == 400, "the first call includes the warm-up; epochs are whole"
    assert agent.epoch == len(agent.history) == 2
    assert agent.learn(201).num_timesteps - warmup == 800
    assert small_agent(epochs=0).learn(1).epoch == 1, "one epoch at least"


def test_public_properties(agent, states):
    assert agent.value(states).shape == (7, 1)
    assert agent.policy_mean(states).shape == agent.advantage(states).shape == (7, 1)
    assert set(agent.dictionary_sizes) == {"actor", "value"}
    assert agent.dictionary_size == max(agent.dictionary_sizes.values()) <= 40
    assert agent.kernel_weights.shape == (3,)
    assert agent.feature_names == ("cos θ", "sin θ", "angular velocity")


def test_predict_takes_one_observation_or_a_batch(agent, states):
    batch, state = agent.predict(states)
    assert batch.shape == (7, 1) and state is None
    np.testing.assert_allclose(agent.predict(states[2])[0], batch[2], rtol=1e-6)
    np.testing.assert_allclose(batch, 2 * np.tanh(agent.policy_mean(states)), rtol=1e-6)
    assert np.all(np.abs(agent.predict(states, deterministic=False)[0]) <= 2)


def test_stochastic_predictions_have_the_policys_spread(agent, states):
    rng = np.random.default_rng(0)
    draws = np.stack([agent.predict(states[0], deterministic=False, rng=rng)[0] for _ in range(2000)])
    u = np.arctanh(np.clip(draws / 2, -0.999999, 0.999999))
    assert u.std() == pytest.approx(agent.policy.sigma[0], rel=0.1)
    assert u.mean() == pytest.approx(float(agent.policy_mean(states[0])[0]), abs=0.05)


@pytest.mark.parametrize("squash", ["tanh", "clip", "none"])
def test_linearise_is_the_derivative_of_the_action(squash):
    agent = small_agent(squash=squash)
    state, step = agent.background[1], 1e-5
    gain = agent.linearise(state)

    def action(s):
        return agent.policy.bounds.action(agent.policy_mean(s))

    for i in range(3):
        shift = step * np.eye(3)[i]
        np.testing.assert_allclose(gain[:, i], (action(state + shift) - action(state - shift)) / (2 * step), atol=1e-6)


def test_explanations_add_up(agent, states):
    for of, function in (("value", agent.value), ("action", agent.policy_mean), ("advantage", agent.advantage)):
        explanation = agent.explain(states, of=of)
        assert explanation.values.shape == (7, 3, 1)
        total = explanation.values.sum(axis=1) + explanation.base_values
        np.testing.assert_allclose(total, function(states), atol=1e-8)
        assert explanation.feature_names == agent.feature_names
    with pytest.raises(ConfigError, match="'value', 'action', 'advantage'"):
        agent.explain(states, of="reward")


def test_prototypes_add_up(agent, states):
    few, every = (agent.prototypes(states[0], k=k) for k in (3, agent.dictionary_sizes["actor"]))
    assert len(few.states) == 3
    for prototypes in (few, every):
        total = prototypes.shares.sum(axis=0) + prototypes.others + prototypes.offset
        np.testing.assert_allclose(total, agent.policy_mean(states[0]), rtol=1e-9)
    np.testing.assert_allclose(every.others, 0.0, atol=1e-12)


def test_equal_seeds_give_equal_bytes():
    assert content(small_agent(), True) == content(small_agent(), True)
    assert content(small_agent())[0] != content(small_agent(seed=4))[0]


@pytest.mark.parametrize(("env", "preset", "fields"), [
    ("Pendulum-v1", "default", {}),
    ("Pendulum-v1", "paper", {}),
    ("Pendulum-v1", "default", {"noise_variance": 0.01}),
    ("BipedalWalker-v3", "paper", {}),
    ("Ant-v5", "paper", {}),
])  # fmt: skip
def test_uniform_shap_is_advanced_ac(env, preset, fields):
    """Weights that sum to d and are equal are all one: the paper's two ablations are the same system."""
    made = [small_agent(name, env, preset=preset, epochs=4, **fields) for name in ("uniform-shap", "advanced-ac")]
    uniform, advanced = (content(agent)[0] for agent in made)
    assert uniform == advanced


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_variant_trains_and_knows_its_name(algorithm):
    agent = small_agent(algorithm)
    assert agent.algorithm == algorithm
    assert np.all(np.isfinite(agent.policy_mean(agent.background)))
    moved = not np.allclose(agent.kernel_weights, 1.0)
    assert moved == (algorithm in {"rsa2c-kme", "rsa2c-cme", "shuffled-shap"})


def test_without_a_value_critic_there_is_none(tmp_path):
    agent = small_agent("rkhs-ac")
    with pytest.raises(ConfigError, match="RKHS-AC"):
        _ = agent.value
    assert agent.state.value is None and set(agent.dictionary_sizes) == {"actor"}
    assert agent.history[-1]["value_states"] == 0
    assert not any(name.startswith("value/") for name in content(agent)[0])
    agent.save(tmp_path / "agent.safetensors")
    loaded = rsa2c.RSA2C.load(tmp_path / "agent.safetensors")
    assert content(loaded.learn(1)) == content(small_agent("rkhs-ac", epochs=4))


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("env", ["Pendulum-v1", "rsa2c/LQR-v0"])
def test_presets_run(preset, env):
    agent = rsa2c.RSA2C(env, preset=preset, seed=0, n_envs=4)
    agent.run_epoch()
    assert np.isfinite(agent.history[-1]["kl"])


def test_an_epoch_is_a_function_of_the_state():
    """The same state gives the same next state, and is itself not changed."""
    agent = small_agent()
    before, state = content(agent), agent.state
    first, record = module.epoch(state, agent.workers, agent.config)
    second, again = module.epoch(state, agent.workers, agent.config)
    assert content(agent) == before and agent.state is state
    np.testing.assert_array_equal(first.policy.mean.coefficients, second.policy.mean.coefficients)
    np.testing.assert_array_equal(first.background, second.background)
    np.testing.assert_equal(record.metrics, again.metrics)
    assert (first.epoch, first.steps) == (state.epoch + 1, state.steps + agent.sizes.epoch_steps)
    assert tuple(record.seconds) == (*module.PHASES, module.COMPILE) and record.work == again.work


def test_compilation_is_in_no_phase():
    """Numba announces what it compiles or loads; 50 ms of it in one phase are not counted there."""

    @contextmanager
    def compiling(phase):
        if phase == "attribute":
            with trigger_event("numba:compiler_lock"):
                time.sleep(0.05)
        yield

    agent = small_agent()
    agent.run_epoch()
    began = time.perf_counter()
    seconds = agent.run_epoch(compiling).seconds
    assert seconds[module.COMPILE] >= 0.05
    assert all(seconds[phase] >= 0 for phase in module.PHASES)
    assert sum(seconds.values()) <= time.perf_counter() - began


def test_a_caller_can_wrap_the_phases():
    agent, seen = small_agent(), []

    @contextmanager
    def around(phase):
        seen.append(phase)
        yield

    agent.run_epoch(around)
    assert tuple(seen) == module.PHASES


def test_every_option_of_the_actor_and_critics_runs():
    for fields in (
        {"metric": "rkhs"},
        {"metric": "euclidean", "step_rule": "polynomial", "step_size": 0.1},
        {"value_fit": "td", "step_rule": "polynomial", "metric": "rkhs", "step_size": 0.01},
        {"value_fit": "mc"},
        {"value_kernel": "guided", "guide": "value+policy"},
        {"advantage_fit": "released", "smooth_advantage": True, "advantage_clip": 3.0, "metric": "rkhs"},
        {"guidance": "released", "reproject": True, "phi_statistic": "absolute"},
        {"guidance": "printed", "reproject": True, "weight_floor": 0.01},
        {"admission": "annealed", "admission_every": 2, "admission_limit": 3},
        {"restart_p": 0.05, "kernel": "laplace"},
        {"precision": "float32", "scaling": "frozen", "normaliser": "starts"},
        {"replacement": "largest-error", "replacement_every": 1, "capacity": 20},
        {"replacement": "removal-cost", "replacement_every": 1, "capacity": 20},
        {"distractors": 3, "noise_variance": 0.01},
    ):
        agent = small_agent(**fields)
        assert agent.dictionary_size <= agent.config.capacity, fields
        assert np.all(np.isfinite(agent.policy_mean(agent.background))), fields


def test_the_step_has_the_kl_it_was_given():
    agent = small_agent("advanced-ac", kl=0.01, kl_halving=None)
    assert agent.history[-1]["kl"] == pytest.approx(0.01, rel=1e-9)


def test_a_callback_can_stop_and_sees_the_agent():
    agent, seen = small_agent(epochs=0), []

    def callback(local, _):
        seen.append(local["self"].epoch)
        return len(seen) < 2

    agent.learn(10_000, callback=callback)
    assert seen == [1, 2]


def test_an_sb3_callback_object_works():
    class Stop:
        calls = 0

        def on_step(self):
            self.calls += 1
            return False

    agent, callback = small_agent(epochs=0), Stop()
    agent.learn(10_000, callback=callback)
    assert callback.calls == 1 and callback.num_timesteps == agent.num_timesteps


def test_sb3s_own_callback_class_works():
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")

    class Stop(callbacks.BaseCallback):
        def _on_step(self):
            return self.model.epoch < 2

    agent, callback = small_agent(epochs=0), Stop()
    agent.learn(10_000, callback=callback)
    assert callback.n_calls == 101, "50 steps of each of two epochs, and the first of the third"
    assert callback.num_timesteps == agent.num_timesteps == agent.state.steps + 4
    assert agent.epoch == 2, "the unfinished epoch is discarded"


def test_lists_of_sb3_callbacks_with_logger_and_files(tmp_path):
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")

    class Record(callbacks.BaseCallback):
        seen = ()

        def _on_training_start(self):
            self.seen += ("start",)

        def _on_step(self):
            self.logger.record("mine", 1.0)
            return True

        def _on_training_end(self):
            self.seen += ("end",)

    agent, record = small_agent(epochs=0), Record()
    checkpoint = callbacks.CheckpointCallback(save_freq=50, save_path=str(tmp_path / "kept"))
    agent.learn(agent.num_timesteps + 400, callback=[record, checkpoint])
    assert record.seen == ("start", "end")
    assert agent.logger.values["mine"] == 1.0
    assert len(list((tmp_path / "kept").iterdir())) == 2


PHASE_FUNCTIONS = [(module, name) for name in ("roll_out", "admit", "attribute_and_reweight", "step_actor")]
PHASE_FUNCTIONS += [(Fits, name) for name in ("value", "estimate", "advantage")]


@pytest.mark.parametrize(("owner", "phase"), PHASE_FUNCTIONS)
def test_an_exception_leaves_the_agent_as_it_was(monkeypatch, owner, phase):
    agent = small_agent()
    before = content(agent, True)

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, phase, fail)
        env, closed = agent.env, []
        patch.setattr(env, "close", lambda: closed.append(True))
        with pytest.raises(KeyboardInterrupt):
            agent.run_epoch()
        assert closed and agent.env is not env, "a failed epoch leaves no environment open"
    assert content(agent, True) == before
    agent.run_epoch()
    assert content(agent, True) == content(small_agent(epochs=4), True)


@pytest.mark.parametrize("fields", [{"capacity": 1}, {"capacity": 8}, {"n_envs": 1, "horizon": 4}])
def test_tiny_sizes(fields):
    agent = small_agent(**fields, replacement_every=1)
    assert agent.dictionary_size <= agent.config.capacity


class Constant(gym.Env):
    """Pays one and observes noise, whatever is done; never ends."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.normal(size=2), {}

    def step(self, action):
        return self.np_random.normal(size=2), 1.0, False, False, {}


def test_a_constant_reward_moves_nothing():
    agent = small_agent(env=Constant, precision="float64", guidance="none")
    assert np.abs(agent.policy_mean(agent.background)).max() < 1e-6


def test_gamma_one_without_an_end_is_named():
    with pytest.raises(DataError, match="gamma"):
        small_agent(env=Constant, gamma=1.0)


def test_an_environment_of_another_shape_is_named(tmp_path, agent):
    agent.save(tmp_path / "agent.safetensors")
    with pytest.raises(EnvError, match="trained on, Pendulum-v1"):
        rsa2c.RSA2C.load(tmp_path / "agent.safetensors", env="rsa2c/LQR-v0")
    with pytest.raises(ConfigError, match="3 environments"):
        rsa2c.RSA2C(rsa2c.make_env("Pendulum-v1", 3), n_envs=5)


def test_the_backend_is_settled(agent):
    assert agent.config.backend == "arrays"
    assert small_agent(env=lambda: gym.make("Pendulum-v1"), epochs=0).config.backend == "gymnasium"


def test_starts_that_fit_the_metric_are_all_different():
    agent = rsa2c.RSA2C("rsa2c/LQR-v0", seed=0, n_envs=10, horizon=20)
    mean, std = agent.policy_mean.kernel.metric.mean, agent.policy_mean.kernel.metric.std
    true = np.array([0.5, 0.5, 0.1, 0.5]) / np.sqrt(3)
    assert np.all(np.abs(mean) < 0.15 * true)
    np.testing.assert_allclose(std, true, rtol=0.1)


def test_a_saved_agent_is_the_agent(tmp_path, agent, states):
    agent.save(tmp_path / "agent.safetensors")
    other = rsa2c.RSA2C.load(tmp_path / "agent.safetensors")
    np.testing.assert_array_equal(other.predict(states)[0], agent.predict(states)[0])
    np.testing.assert_array_equal(other.value(states), agent.value(states))
    np.testing.assert_array_equal(other.explain(states).values, agent.explain(states).values)
    assert other.config == agent.config and other.num_timesteps == agent.num_timesteps


def test_a_saved_agent_goes_on_exactly(tmp_path):
    whole = small_agent(epochs=4)
    half = small_agent(epochs=2)
    half.save(tmp_path / "half.safetensors")
    rest = rsa2c.RSA2C.load(tmp_path / "half.safetensors")
    rest.run_epoch()
    rest.run_epoch()
    assert content(rest) == content(whole)


def test_a_factory_must_be_given_again(tmp_path):
    def factory():
        return gym.make("Pendulum-v1")

    agent = small_agent(env=factory, epochs=1)
    assert agent.env_id == "Pendulum-v1"
    agent.save(tmp_path / "agent.safetensors")
    loaded = rsa2c.RSA2C.load(tmp_path / "agent.safetensors")
    loaded.predict(agent.background)
    with pytest.raises(EnvError, match=r"env=\.\.\."):
        loaded.learn(100)
    rsa2c.RSA2C.load(tmp_path / "agent.safetensors", env=factory).learn(100)


def test_a_vector_env_can_be_trained_on():
    vector = rsa2c.make_env("Pendulum-v1", 5, backend="gymnasium")
    agent = rsa2c.RSA2C(vector, horizon=30, capacity=30, seed=0)
    agent.learn(100)
    assert agent.config.n_envs == 5
    assert agent.history[-1]["timesteps"] == agent.num_timesteps


def test_content_that_does_not_fit_together_is_named(tmp_path, agent):
    from rsa2c.files import write_tensors

    tensors, metadata = pack(agent.snapshot(), checkpoint=False)
    for name, array in (
        ("actor/coefficients", np.zeros((1, 1))),
        ("value/offset", np.array([np.nan])),
        ("actor/weights", np.array([1.0, -1.0, 1.0])),
        ("metric/std", np.ones(2)),
        ("actor/coefficients", np.full_like(tensors["actor/coefficients"], np.nan)),
        ("background", np.full((4, 3), np.inf)),
    ):
        path = tmp_path / "bad.safetensors"
        write_tensors(path, {**tensors, name: array}, metadata)
        with pytest.raises(FileFormatError, match=r"bad\.safetensors"):
            rsa2c.RSA2C.load(path)


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="Did you mean 'capacity'"):
        rsa2c.RSA2C("Pendulum-v1", capcity=3)
    with pytest.raises(ConfigError, match="n_envs must be positive"):
        rsa2c.RSA2C("Pendulum-v1", n_envs=0)
    with pytest.raises(ConfigError, match="total_timesteps"):
        small_agent(epochs=0).learn(0)
    with pytest.raises(DataError, match=r"\(N, 3\)"):
        small_agent(epochs=0).predict(np.zeros(4))
    with pytest.raises(DataError, match="feature_names"):
        rsa2c.RSA2C("Pendulum-v1", feature_names=("a",))
    with pytest.raises(EnvError, match="Did you mean 'Pendulum-v1'"):
        rsa2c.RSA2C("Pendulm-v1")


def test_learning_the_pendulum():
    """The whole algorithm at its default: from about -1,200 to above -250 in 60,000 steps."""
    agent = rsa2c.RSA2C("Pendulum-v1", "rsa2c-kme", seed=1000).learn(60_000)
    assert rsa2c.evaluate(agent, "Pendulum-v1", episodes=20, seed=0).mean > -250


def test_inputs_that_follow_the_states_leave_the_policy_where_it_is():
    """When the scale of the visited states has drifted, the kernel takes it, and the policy hardly moves."""
    agent = small_agent("advanced-ac", scaling="following", epochs=4)
    far = replace(agent.state.scale, variance=4.0 * agent.state.scale.variance)
    samples = roll_out(agent.policy, agent.workers, 50, agent.config, np.random.default_rng(0))
    policy, value, scale, moves = follow_states(
        agent.policy, agent.state.value, far, samples, agent.config, 4, np.random.default_rng(1)
    )
    batch = samples.gathered()
    assert moves and policy.mean.kernel.metric.std == pytest.approx(np.sqrt(scale.variance))
    assert agent.policy.divergence(agent.policy_mean(batch.raw), policy.mean(batch.raw)) < 0.03
    np.testing.assert_allclose(batch.points, policy.mean.coordinates(batch.raw), atol=1e-12)
    np.testing.assert_array_equal(value.kernel.metric.std, policy.mean.kernel.metric.std)
    still = follow_states(policy, value, scale, samples, agent.config, 4, np.random.default_rng(1))
    assert still[0] is policy, "nothing drifted since"
    np.testing.assert_array_equal(samples.gathered().points, batch.points)


def test_weights_and_scale_change_by_one_operation():
    """A factor of std, and its square on the weights, cancel: the metric and so the function stay what they are."""
    agent = small_agent("advanced-ac", epochs=3)
    mean, states = agent.policy_mean, agent.background.astype(np.float64)
    metric = mean.kernel.metric
    factor = np.array([0.5, 2.0, 1.25])
    scaled = replace(metric, std=factor * metric.std, weights=factor**2 * metric.weights, clip=np.inf, knee=None)
    same, move = on_new_metric(mean, replace(metric, clip=np.inf, knee=None), states, agent.config, 3)
    moved, other = on_new_metric(mean, scaled, states, agent.config, 3)
    assert move == other
    np.testing.assert_allclose(moved.dictionary.gram, same.dictionary.gram, atol=1e-12)
    np.testing.assert_allclose(moved(states), same(states), atol=1e-6)
    policy, held_out = agent.policy, ProjectionStates(np.vstack([mean.remembered_states, states]), states)
    far = metric.reweighted(30.0 * metric.weights)
    for limit in (1e-9, 0.02):
        found, moves = within_trust_region(policy, far, held_out, limit, agent.config, 3)
        assert moves and (found is None or policy.divergence(mean(states), found(states)) <= limit)


def test_learned_deviations_share_the_steps_kl():
    agent = small_agent("advanced-ac", env="rsa2c/LQR-v0", sigma="learned", kl=0.01, kl_final=None, sigma_initial=0.7)
    before = agent.policy.sigma
    agent.run_epoch()
    assert agent.policy.sigma.shape == (1,) and agent.policy.sigma != before
    assert agent.history[-1]["kl"] == pytest.approx(0.01, rel=1e-9)


def test_batches_grow_and_steps_are_counted():
    agent = small_agent("advanced-ac", batch_doubling=400, epochs=0)
    warmup = agent.num_timesteps
    lengths = np.diff([warmup, *(agent.learn(1).num_timesteps for _ in range(3))])
    begun = (warmup, *(warmup + np.cumsum(lengths)[:2]))
    assert list(lengths) == [4 * 50 * (1 + steps // 400) for steps in begun]
    assert horizon_at(agent.config, 10**9, 0) == 20 * 50
    assert agent.state.warmup_steps == warmup


def test_the_kl_of_a_step_anneals_with_the_steps_made():
    agent = small_agent("advanced-ac", kl=0.01, kl_halving=400, epochs=0)
    before = agent.num_timesteps
    agent.run_epoch()
    assert agent.history[-1]["kl"] == pytest.approx(0.01 / (1 + before / 400), rel=1e-9)


def test_the_policy_can_shrink_a_little_in_each_epoch():
    agent = small_agent("advanced-ac")
    state, workers, config = agent.state, agent.workers, agent.config
    kept, _ = module.epoch(state, workers, config)
    shrunk, _ = module.epoch(state, workers, config.updated(policy_decay=0.1))
    before = state.policy.mean.grow(kept.policy.mean.dictionary).coefficients
    difference = kept.policy.mean.coefficients - shrunk.policy.mean.coefficients
    np.testing.assert_allclose(difference, 0.1 * before, atol=1e-12)
    assert np.abs(before).max() > 1e-3


@pytest.mark.parametrize(("limit", "gamma"), [(None, 0.993), (1000, 0.993), (50, 0.98), (1, 0.0)])
def test_the_discount_looks_no_further_than_an_episode_lasts(limit, gamma):
    config = rsa2c.make_config("Walker-of-ones-own", gamma="auto")
    assert settle_sizes(config, d=3, m=1, limit=limit).gamma == pytest.approx(gamma)
    assert settle_sizes(config.updated(gamma=0.5), d=3, m=1, limit=limit).gamma == 0.5


def test_no_state_of_the_batch_sees_a_larger_kl_than_allowed():
    agent = small_agent("advanced-ac", kl=0.5)
    state, workers, config = agent.state, agent.workers, agent.config
    free, record = module.epoch(state, workers, config)
    bounded, small = module.epoch(state, workers, config.updated(kl_largest=0.01))
    assert small.metrics["kl"] < record.metrics["kl"]
    before = state.policy.mean.grow(free.policy.mean.dictionary)
    states = np.vstack([bounded.background, bounded.policy.mean.remembered_states])
    moved = {name: after.policy.mean(states) - before(states) for name, after in (("free", free), ("bounded", bounded))}
    kl = {name: float(np.max(np.sum(m**2 / np.diag(state.policy.covariance), axis=1))) / 2 for name, m in moved.items()}
    assert kl["bounded"] < 0.02 < kl["free"]


def test_the_rule_for_any_environment_goes_on_exactly(tmp_path):
    """Following inputs, learned deviations, growing batches: a saved agent continues as if it had never stopped."""
    fields = {"n_envs": 2, "horizon": 60, "capacity": 40, "seed": 3, "batch_doubling": 2000}
    whole, half = (rsa2c.RSA2C("InvertedPendulum-v5", **fields) for _ in range(2))
    for _ in range(4):
        whole.run_epoch()
    half.run_epoch()
    half.run_epoch()
    half.save(tmp_path / "half.safetensors")
    rest = rsa2c.RSA2C.load(tmp_path / "half.safetensors")
    rest.run_epoch()
    rest.run_epoch()
    assert content(rest) == content(whole)
    assert not np.array_equal(whole.policy_mean.kernel.metric.std, half.policy_mean.kernel.metric.std)


def test_noise_can_be_correlated_in_time():
    """e_t = rho e_{t-1} + sqrt(1 - rho^2) xi_t: standard normal at every step, correlation rho^k after k steps."""
    draw = correlated_noise(np.random.default_rng(0), 0.9)
    noise = np.array([draw((200, 1))[:, 0] for _ in range(400)])
    assert abs(noise.std() - 1) < 0.02 and abs(noise[0].std() - 1) < 0.15
    for k in (1, 5):
        assert abs(np.mean(noise[k:] * noise[:-k]) - 0.9**k) < 0.03
    white = correlated_noise(np.random.default_rng(1), 0.0)
    np.testing.assert_array_equal(white((3, 2)), np.random.default_rng(1).standard_normal((3, 2)))


@pytest.mark.parametrize("features, bound", [(1, 1.0), (7, 1.0), (8, None), (105, None)])
def test_steps_are_bounded_at_every_state_where_features_are_few(features, bound):
    config = rsa2c.make_config("somebody's plant")
    assert settle_sizes(config, features, 1, 200).step.kl_largest == bound
    for asked in (0.3, None):
        assert settle_sizes(config.updated(kl_largest=asked), features, 1, 200).step.kl_largest == asked


def scores(batch, target, sigma, state):
    """A Sigma^-1 (u - h), averaged over the transitions that begin at a state, one after the other."""
    found = [
        target[i] * (batch.latents[i] - batch.means[i]) / sigma**2
        for i in range(batch.n)
        if np.array_equal(batch.raw_states[i], state)
    ]
    return np.mean(found, axis=0)


@pytest.mark.parametrize("fields", [{}, {"advantage_clip": 0.5}, {"smooth_advantage": True}])
@pytest.mark.parametrize("rule", ["printed", "gradient"])
def test_a_newcomer_starts_at_the_score_of_its_transition(rule, fields):
    agent = small_agent("advanced-ac", preset="paper", precision="float64", capacity=120, epochs=1, **fields)
    state, workers, config = agent.state, agent.workers, agent.config
    samples = {}

    def remembered(*arguments):
        samples["fit"], samples["batch"] = fit(*arguments), arguments[1].gathered()
        samples["advantage"] = np.concatenate([block.advantage for block in workers.share.blocks])
        return samples["fit"]

    fit = workers.fits.advantage
    plain, _ = module.epoch(state, workers, config)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workers.fits, "advantage", remembered, raising=False)
        after, record = module.epoch(state, workers, config.updated(newcomers=rule))
    batch, target, sigma = samples["batch"], samples["advantage"], after.policy.sigma
    target = np.clip((target - target.mean()) / target.std(), *(np.array([-1, 1]) * fields.get("advantage_clip", 10.0)))
    mean, known = after.policy.mean, state.policy.mean.dictionary.size
    if "smooth_advantage" in fields:
        critic = mean.kernel(batch.states, mean.centres) @ samples["fit"].weights
        target = np.sum(critic * (batch.latents - batch.means) / sigma**2, axis=1)
    share = 1 / mean.dictionary.size if rule == "printed" else config.step.step_size / batch.n
    change = mean.coefficients - plain.policy.mean.coefficients
    assert mean.dictionary.size > known and record.metrics["kl"] > 0
    np.testing.assert_allclose(change[:known], 0.0, atol=1e-12)
    for i in range(known, mean.dictionary.size):
        expected = share * scores(batch, target, sigma, mean.remembered_states[i])
        np.testing.assert_allclose(change[i], expected, rtol=1e-9, atol=1e-12)


def test_where_transitions_begin_at_one_state_its_score_is_their_mean():
    batch = SimpleNamespace(
        latents=np.array([[1.0], [2.0], [5.0]]), means=np.zeros((3, 1)), raw_states=np.array([[1.0], [2.0], [1.0]])
    )
    block = SimpleNamespace(batch=batch, advantage=np.array([1.0, -1.0, 3.0]))
    estimate = SimpleNamespace(standardised=lambda advantage: advantage)
    totals, counts = released._newcomers(block, np.array([[1.0], [7.0]]), None, 4.0 * np.eye(1), estimate, None)
    np.testing.assert_allclose(totals, [[(1.0 * 1.0 + 3.0 * 5.0) / 4.0], [0.0]])
    assert list(counts) == [2, 0]


def test_batches_grow_by_a_power_of_the_epoch_and_stop_and_go_on_exactly(tmp_path):
    fields = {"step_rule": "polynomial", "batch_power": 1.5, "n_envs": 2, "horizon": 20, "batch_doubling": None}
    whole, half = (small_agent("advanced-ac", epochs=0, **fields) for _ in range(2))
    warmup = whole.num_timesteps
    growth = [1, 3, 5, 8, 11]  # (t+1)^1.5, rounded
    assert [horizon_at(whole.config, 10**9, t) for t in range(5)] == [20 * each for each in growth]
    whole.learn(warmup + 40 * sum(growth))
    assert (whole.epoch, whole.num_timesteps) == (5, warmup + 40 * sum(growth))
    half.learn(warmup + 40 * sum(growth[:2]))
    half.save(tmp_path / "half.safetensors")
    rest = rsa2c.RSA2C.load(tmp_path / "half.safetensors").learn(40 * sum(growth[2:]))
    assert content(rest) == content(whole)
    told = []
    half.learn(40 * growth[2] + 1, lambda locals, globals: told.append(locals["local"]["total_timesteps"]))
    assert told[-1] == half.num_timesteps == warmup + 40 * sum(growth[:4]), "SB3's callbacks are told the last step"

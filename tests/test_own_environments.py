"""Environments of one's own: every form is accepted, named, limited, trained in a run folder and resumed."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import plants
from plants import DictTank, Tank, Unrecorded, make_tank
from rsa2c import RSA2C, evaluate, make_env
from rsa2c.algorithm.automatic import ENDLESS_HORIZON, FOLLOWING_BATCH
from rsa2c.algorithm.snapshot import Snapshot, pack
from rsa2c.cli import main
from rsa2c.envs import Source, backend_of, episode_limit, feature_names, make_single
from rsa2c.envs.flattening import Layout
from rsa2c.errors import ConfigError, DataError, EnvError, NotFoundError, Notice
from rsa2c.files import read_yaml
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.training import judge, resume_run, train_run

SMALL = {"capacity": 24, "initial_centres": 12, "evaluation_episodes": 2, "seed": 1}
TINY = {**SMALL, "n_envs": 2, "horizon": 30}
NAMES = ("level [m]", "temperature [K]", "demand [l/s]")
TESTS = str(Path(__file__).parent)


def tensors(agent):
    return {name: array.tobytes() for name, array in pack(agent.snapshot(), checkpoint=True)[0].items()}


def limited():
    return gym.wrappers.TimeLimit(Tank(), 30)


FORMS = {
    "id": lambda: "rsa2c-tests/Tank-v0",
    "module:Id": lambda: "plants:rsa2c-tests/Tank-v0",
    "module:Class": lambda: "plants:Tank",
    "module:function": lambda: "plants:make_tank",
    "instance": lambda: gym.make("rsa2c-tests/Tank-v0"),
    "instance in a wrapper": lambda: gym.wrappers.RescaleAction(gym.make("rsa2c-tests/Tank-v0"), -1.0, 1.0),
    "class": lambda: Tank,
    "factory": lambda: make_tank,
    "VectorEnv": lambda: SyncVectorEnv([limited] * 2),
    "VectorEnv, same step": lambda: SyncVectorEnv([limited] * 2, autoreset_mode=AutoresetMode.SAME_STEP),
    "Dict": lambda: DictTank,
    "Dict VectorEnv": lambda: SyncVectorEnv([lambda: gym.wrappers.TimeLimit(DictTank(), 30)] * 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_trains_and_is_evaluated(form):
    agent = RSA2C(FORMS[form](), **TINY)
    agent.learn(1)
    assert agent.epoch == 1 and len(agent.feature_names) == 3
    assert agent.feature_names == (("demand", "tank/level", "tank/temperature") if "Dict" in form else NAMES)
    assert agent.action_names == ("inflow [l/s]", "heating [kW]")
    assert evaluate(agent, agent.source, episodes=2, max_steps=5).lengths.tolist() == [5, 5]


def test_an_instance_of_a_registered_id_is_that_id():
    """So that it trains as fast as the id, and a file can hold it."""
    plain, asked = Source.of(gym.make("Pendulum-v1", render_mode="rgb_array")), RSA2C(gym.make("Pendulum-v1"), **TINY)
    assert (plain.id, plain.kwargs, plain.is_id) == ("Pendulum-v1", {}, True)
    assert tensors(asked.learn(1)) == tensors(RSA2C("Pendulum-v1", **TINY).learn(1))
    changed = Source.of(gym.make("Pendulum-v1", g=5.0, max_episode_steps=50))
    assert (changed.id, changed.kwargs) == ("Pendulum-v1", {"g": 5.0, "max_episode_steps": 50})
    twice = Source.of(gym.wrappers.TimeLimit(gym.make("Pendulum-v1"), 500))
    assert (twice.id, twice.kwargs) == ("Pendulum-v1", {}) or episode_limit(make_single(twice)) == 200


def test_an_instance_is_made_again_with_its_wrappers():
    env = gym.wrappers.RescaleAction(gym.make("rsa2c-tests/Tank-v0", setpoint=310.0), -1.0, 1.0)
    vector = make_env(env, 3)
    assert vector.num_envs == 3 and vector.single_action_space.low.tolist() == [-1.0, -1.0]
    assert {inner.unwrapped.setpoint for inner in vector.envs} == {310.0}
    assert env.unwrapped not in [inner.unwrapped for inner in vector.envs]


@pytest.mark.parametrize("make", [Tank, lambda: Unrecorded(gym.make("rsa2c-tests/Tank-v0"))])
def test_an_instance_that_cannot_be_made_again_is_the_only_one(make):
    env = make()
    agent = RSA2C(env, **SMALL, horizon=60)
    assert agent.n_envs == 1 and Source.of(env).alone
    first = tensors(agent.learn(1))
    assert evaluate(agent, env, episodes=3, max_steps=7).lengths.tolist() == [7, 7, 7], "one after the other"
    env.reset()  # it was not closed
    assert tensors(RSA2C(make(), **SMALL, horizon=60).learn(1)) == first
    with pytest.raises(ConfigError, match=r"cannot be made again.*Leave n_envs out"):
        RSA2C(env, **SMALL, n_envs=2, horizon=60)


def test_environments_that_come_in_a_number_fill_the_batch():
    with pytest.warns(Notice, match="no episode limit"):
        agent = RSA2C(Tank(), **SMALL)
    assert (agent.n_envs, agent.sizes.horizon) == (1, FOLLOWING_BATCH)
    several = RSA2C(SyncVectorEnv([limited] * 2), **SMALL)
    assert several.sizes.horizon == 30 * round(FOLLOWING_BATCH / 60)
    assert RSA2C(SyncVectorEnv([limited] * 2), **SMALL, n_envs=2).sizes.horizon == 30, "asked for: the usual rule"


def test_without_a_limit_the_horizon_is_a_number_that_works_and_is_said_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent = RSA2C(Tank, **SMALL)
        agent.learn(1)
    said = [str(each.message) for each in caught if each.category is Notice]
    assert len(said) == 1 and f"{ENDLESS_HORIZON:,} steps of each" in said[0]
    assert (agent.sizes.horizon, agent.episode_limit) == (ENDLESS_HORIZON, None)


def test_without_a_limit_evaluations_stop_at_the_horizon():
    """As the notice says; a policy that has no horizon is asked for max_steps."""
    agent = RSA2C(Tank, **TINY)
    assert evaluate(agent, Tank, episodes=2).lengths.tolist() == [30, 30]
    assert evaluate(agent, lambda: gym.wrappers.TimeLimit(Tank(), 50), episodes=1).lengths.tolist() == [50]


def test_a_run_that_cannot_go_on_says_how_with_its_module(tmp_path):
    class Stuck(Tank):
        taken = 0

        def step(self, action):
            Stuck.taken += 1
            if Stuck.taken > 400:
                raise RuntimeError("valve stuck")
            return super().step(action)

    plants.Stuck = Stuck
    with pytest.raises(EnvError, match="valve stuck") as caught:
        train_run("plants:Stuck", total_timesteps=10_000, out=tmp_path, track=False, **TINY)
    assert caught.value.__notes__[0].endswith("rsa2c resume " + str(next(tmp_path.iterdir())) + " --env plants:Stuck")


def test_the_episode_limit_is_found_wherever_it_is():
    deep = gym.wrappers.TransformReward(gym.wrappers.TimeLimit(Unrecorded(Tank()), 25), lambda r: r)
    assert episode_limit(deep) == 25
    assert episode_limit(gym.wrappers.TimeLimit(gym.wrappers.TimeLimit(Tank(), 90), 25)) == 25
    assert episode_limit(gym.make("rsa2c-tests/Tank-v0")) == 30
    assert episode_limit(SyncVectorEnv([limited])) == 30
    control = Tank()
    control._env = SimpleNamespace(_step_limit=1000.0)  # dm_control's Environment in an adapter
    assert episode_limit(control) == 1000
    control._env._step_limit = float("inf")
    assert episode_limit(control) is None
    own = Tank()
    own.max_episode_steps = 12
    assert episode_limit(own) == 12
    workers = AsyncVectorEnv([lambda: gym.make("Pendulum-v1")], context="fork")
    assert episode_limit(workers) == 200
    workers.close()


def test_dict_observations_keep_every_number_in_its_place():
    flat, plain = make_single(DictTank), make_single(Tank)
    a, b = flat.reset(seed=4)[0], plain.reset(seed=4)[0]
    np.testing.assert_allclose(a, b[[2, 0, 1]], rtol=1e-6)
    assert feature_names(flat, 3) == ("demand", "tank/level", "tank/temperature")
    space = spaces.Dict({"q": spaces.Box(-1, 1, (2,)), "image": spaces.Box(0, 1, (2, 2))})
    layout = Layout.of(space, "x")
    assert layout.names == ("image[0,0]", "image[0,1]", "image[1,0]", "image[1,1]", "q[0]", "q[1]")
    one = {"q": np.array([1.0, 2.0]), "image": np.array([[3.0, 4.0], [5.0, 6.0]])}
    assert layout.one(one).tolist() == [3, 4, 5, 6, 1, 2]
    many = {key: np.stack([value, -value]) for key, value in one.items()}
    assert layout.many(many).tolist() == [[3, 4, 5, 6, 1, 2], [-3, -4, -5, -6, -1, -2]]
    assert layout(one).shape == (6,) and layout(many).shape == (2, 6)
    with pytest.raises(DataError, match=r"q has the shape \(\), expected \(2,\)"):
        layout.one({"q": 1.0, "image": one["image"]})
    with pytest.raises(DataError, match="no entry 'image'"):
        layout.one({"q": one["q"]})


def test_gymnasiums_own_flattening_keeps_the_names():
    flat = gym.wrappers.FlattenObservation(DictTank())
    observation, _ = flat.reset(seed=4)
    np.testing.assert_allclose(observation, make_single(DictTank).reset(seed=4)[0], rtol=1e-6)
    assert feature_names(flat, 3) == ("demand", "tank/level", "tank/temperature")
    assert feature_names(gym.wrappers.DtypeObservation(flat, np.float64), 3)[0] == "demand"

    class WithModes(DictTank):
        observation_space = spaces.Dict({"mode": spaces.Discrete(3), **DictTank().observation_space.spaces})

    modes = gym.wrappers.FlattenObservation(WithModes())
    assert feature_names(modes, 6) == tuple(f"x{i}" for i in range(6)), "three numbers of one entry have no names"


def test_an_agent_of_dict_observations_predicts_from_them(tmp_path):
    agent = RSA2C(DictTank, **TINY).learn(1)
    env = DictTank()
    observation, _ = env.reset(seed=0)
    flat = make_single(DictTank).reset(seed=0)[0]
    agent.save(tmp_path / "a")
    for each in (agent, RSA2C.load(tmp_path / "a")):
        np.testing.assert_array_equal(each.predict(observation)[0], agent.predict(flat)[0])
    batch = {"tank": {"level": np.ones(4), "temperature": np.full(4, 300.0)}, "demand": np.ones((4, 1))}
    assert agent.predict(batch)[0].shape == (4, 2)


def test_flattening_a_vector_of_dicts_is_cheap():
    """A step's flattening is a few small copies: under 100 microseconds for 64 environments on any machine."""
    space = spaces.Dict({key: spaces.Box(-1, 1, (4,)) for key in "abcd"})
    layout = Layout.of(space, "x")
    batch = {key: np.zeros((64, 4), np.float32) for key in "abcd"}
    best = min(_seconds(lambda: layout.many(batch)) for _ in range(50))
    assert best < 1e-4


def _seconds(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def test_env_kwargs_reach_ids_classes_and_factories_and_are_kept(tmp_path):
    for env in ("rsa2c-tests/Tank-v0", Tank, make_tank, "plants:Tank"):
        agent = RSA2C(env, env_kwargs={"setpoint": 305.0}, **TINY)
        assert agent.env.envs[0].unwrapped.setpoint == 305.0
    agent.save(tmp_path / "a")
    again = RSA2C.load(tmp_path / "a")
    assert again.env.envs[0].unwrapped.setpoint == 305.0
    with pytest.raises(ConfigError, match="env_kwargs are arguments of an id, a class or a factory"):
        RSA2C(Tank(), env_kwargs={"setpoint": 1.0})
    with pytest.raises(EnvError, match=r"^Tank could not be made: .*'setpiont'; its arguments are given as env_kwargs"):
        RSA2C(Tank, env_kwargs={"setpiont": 1.0}, **TINY)
    with pytest.raises(ConfigError, match=r"env_kwargs must map arguments to values.*got 'setpoint=1'"):
        RSA2C(Tank, env_kwargs="setpoint=1", **TINY)
    with pytest.raises(EnvError, match="takes no env_kwargs"):
        make_env("Pendulum-v1", backend="arrays", env_kwargs={"g": 5.0})
    assert backend_of(make_env("Pendulum-v1", env_kwargs={"g": 5.0})) == "gymnasium"


def test_names_come_from_the_user_the_environment_or_a_file(tmp_path):
    assert RSA2C(Tank, **TINY).feature_names == NAMES
    assert RSA2C(Tank, feature_names=["a", "b", "c"], **TINY).feature_names == ("a", "b", "c")
    (tmp_path / "names.yaml").write_text("level: m\ntemperature: K\nflag:\n")
    assert RSA2C(Tank, feature_names=tmp_path / "names.yaml", **TINY).feature_names == (
        "level [m]", "temperature [K]", "flag")  # fmt: skip
    with pytest.raises(DataError, match="one name for each of the 3 features, got 2"):
        RSA2C(Tank, feature_names=["a", "b"], **TINY)
    (tmp_path / "names.yaml").write_text("3")
    with pytest.raises(DataError, match=r"names.yaml must be a list of names or a mapping from name to unit, got 3"):
        RSA2C(Tank, feature_names=tmp_path / "names.yaml", **TINY)
    (tmp_path / "names.yaml").write_text("level: {unit: m}\ntemperature: K\nflag:\n")
    with pytest.raises(DataError, match=r"names.yaml must be .* a unit is text; got {'unit': 'm'} for 'level'"):
        RSA2C(Tank, feature_names=tmp_path / "names.yaml", **TINY)
    with pytest.raises(NotFoundError, match=r"feature_names must be a list of names, .*; there is no file 'a,b,c'"):
        RSA2C(Tank, feature_names="a,b,c", **TINY)
    with pytest.raises(DataError, match="feature_names must differ, got a more than once"):
        RSA2C(Tank, feature_names=["a", "b", "a"], **TINY)
    stacked = gym.wrappers.FlattenObservation(gym.wrappers.FrameStackObservation(Tank(), 2))
    with pytest.warns(Notice, match="3 observation_names, but observations of 6 numbers"):
        assert feature_names(stacked, 6) == tuple(f"x{i}" for i in range(6))


@pytest.mark.parametrize("kind", ["NormalizeObservation", "NormalizeReward"])
def test_normalising_wrappers_are_named_with_the_reason(kind):
    reason = "scales each feature itself" if kind == "NormalizeObservation" else "the scale of rewards does not matter"
    wrapper = getattr(gym.wrappers, kind)
    with pytest.warns(Notice, match=f"wrapped in {kind}: .*{reason}"):
        make_env(lambda: gym.wrappers.ClipReward(wrapper(limited()), -9, 9))
    with pytest.warns(Notice, match=f"wrapped in {kind}"):
        make_env(getattr(gym.wrappers.vector, kind)(SyncVectorEnv([limited])))


@pytest.mark.parametrize("scale, constant", [(1000.0, 0.0), (1.0, 50.0), (0.001, -7.0)])
def test_neither_the_scale_of_rewards_nor_a_constant_changes_what_is_learned(scale, constant):
    def learned(change):
        made = lambda: gym.wrappers.TransformReward(limited(), change)  # noqa: E731
        return RSA2C(made, **SMALL, n_envs=4, horizon=60).learn(1500)

    plain, other = learned(lambda reward: reward), learned(lambda reward: scale * reward + constant)
    assert plain.epoch > 3
    np.testing.assert_allclose(other.predict(plain.background)[0], plain.predict(plain.background)[0], atol=1e-3)


def test_the_unit_of_a_feature_does_not_change_what_is_learned():
    """A flow in m^3/s varies by a millionth; powers of two keep every digit."""
    unit = 2.0 ** -np.array([20, 10, 0])

    def scaled():
        box = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        return gym.wrappers.TransformObservation(gym.wrappers.TimeLimit(Tank(), 30), lambda x: x * unit, box)

    def usual():
        return gym.wrappers.TransformObservation(
            gym.wrappers.TimeLimit(Tank(), 30), lambda x: x * 1.0, scaled().observation_space
        )

    ours, theirs = (RSA2C(make, **TINY).learn(300) for make in (scaled, usual))
    states = theirs.background[:5]
    np.testing.assert_array_equal(ours.predict(states * unit)[0], theirs.predict(states)[0])
    assert theirs.background.std(axis=0)[0] * unit[0] < 1e-5


def test_other_things_are_refused_with_what_is_accepted():
    with pytest.raises(EnvError, match=r"an environment is an id such as 'Pendulum-v1'.*SB3's VecEnv.*got int"):
        RSA2C(3)
    with pytest.raises(EnvError, match=r"must make a gymnasium\.Env, got Namespace"):
        RSA2C("argparse:Namespace")
    with pytest.raises(EnvError, match=r"'plants:Tnk'.*no class or function of that name.* Did you mean 'Tank'"):
        RSA2C("plants:Tnk")
    with pytest.raises(EnvError, match=r"module 'no_such_plants' could not be imported: No module named .* folder you"):
        RSA2C("no_such_plants:Tank-v0")
    for path in ("plants.py:Tank", "./plants.py:Tank", "models/plants.py:Tank"):
        with pytest.raises(EnvError, match=r"must name a module as import does, not a file\. Write plants:Tank in its"):
            RSA2C(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gain = 1 / 0", r"ZeroDivisionError: division by zero \(broken_plants\.py, line 1\)$"),
        ("def step(:", r"SyntaxError: invalid syntax \(broken_plants\.py, line 1\)$"),
    ],
)
def test_a_module_that_fails_is_named_with_the_line(text, says, tmp_path, monkeypatch):
    (tmp_path / "broken_plants.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvError, match=f"'broken_plants' failed while it was imported: {says}"):
        RSA2C("broken_plants:Tank")


# What Gymnasium asks of an environment


class WithoutInfos(Tank):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class WithoutInfosOfTwoFeatures(WithoutInfos):
    observation_names = None

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[:2]


class WithoutSeed(Tank):
    def reset(self):
        return super().reset()


class OfOldGym(Tank):
    def step(self, action):
        observation, reward, terminated, _, infos = super().step(action)
        return observation, reward, terminated, infos


class WithRewardsInArrays(Tank):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward, reward]), *rest


class WithoutSpaces(gym.Env):
    pass


class OfWholeNumbers(Tank):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(0, 3, (2,), np.int32)


class Unbounded(Tank):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(0.0, np.inf, (2,), np.float64)


RESET = r"reset\(seed=\.\.\., options=\.\.\.\) must return an observation"
STEP = r"step\(action\) must return observation"


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (WithoutInfos, f"reset of environment 0 does not follow Gymnasium's interface: ValueError: too many .*{RESET}"),
        (WithoutInfosOfTwoFeatures, rf"has the shape \(\), expected \(2,\)\. {RESET}"),
        (WithoutSeed, f"reset of environment 0 does not follow Gymnasium's interface: TypeError: .*'seed'.*{RESET}"),
        (OfOldGym, f"step 1 of environment 0 does not follow Gymnasium's interface: ValueError: not enough .*{STEP}"),
        (WithRewardsInArrays, f"step 1 of environment 0 does not follow Gymnasium's interface: .*{STEP}"),
        (WithoutSpaces, "must have an attribute observation_space, a Box of gymnasium.spaces; got none"),
        (OfWholeNumbers, r"actions Box of shape \(2,\) of int32; .* round it to the nearest level"),
        (Unbounded, r"squash='tanh' needs finite bounds of every action, got .*inf\].*ClipAction .*squash='none'"),
    ],
)
def test_what_is_not_gymnasiums_interface_is_said_with_the_rule(plant, says):
    with pytest.raises(EnvError, match=f"^{plant.__name__}.*{says}"):
        RSA2C(plant, **TINY)
    if plant in (WithoutInfos, WithoutSeed, OfOldGym, WithRewardsInArrays):
        wrapped = gym.wrappers.TimeLimit(plant(), 30)
        with pytest.raises(EnvError, match=says.replace("environment 0", "episode 0")):
            evaluate(RSA2C(Tank, **TINY), lambda: wrapped, episodes=1)


def test_notices_are_given_at_the_line_of_the_program_that_led_to_them():
    with pytest.warns(Notice) as caught:
        RSA2C(lambda: gym.wrappers.NormalizeReward(Tank()), **SMALL)
    assert {each.filename for each in caught if each.category is Notice} == {__file__}


def test_the_warm_up_of_an_environment_without_limit_does_not_grow_with_the_batch():
    class Counted(Tank):
        taken = 0

        def step(self, action):
            Counted.taken += 1
            return super().step(action)

    with pytest.warns(Notice, match="no episode limit"):
        agent = RSA2C(Counted(), **SMALL)
    assert agent.num_timesteps == Counted.taken == 10 * ENDLESS_HORIZON


# EnvPool and dm_control


def test_envpool_instances_and_dm_control_tasks(tmp_path):
    envpool = pytest.importorskip("envpool")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = envpool.make("CheetahRun-v1", env_type="gymnasium", num_envs=3, frame_skip=2)
        plain = envpool.make("Pendulum-v1", env_type="gymnasium", num_envs=2)
    source = Source.of(pool)
    assert (source.id, source.kwargs, source.n_envs) == ("CheetahRun-v1", {"frame_skip": 2}, 3)
    assert Source.of(plain).id == "Pendulum-v1"
    vector = make_env("dm:CartpoleSwingup-v1", 2)
    assert backend_of(vector) == "envpool" and episode_limit(vector) == 1000
    names = feature_names(vector, vector.single_observation_space.shape[0])
    assert names == ("position[0]", "position[1]", "position[2]", "velocity[0]", "velocity[1]")
    small = {**SMALL, "n_envs": 2, "horizon": 20}
    agent = RSA2C("CartpoleSwingup-v1", env_kwargs={"max_episode_steps": 25}, **small).learn(1)
    assert agent.episode_limit == 25
    agent.save(tmp_path / "a")
    again = RSA2C.load(tmp_path / "a")
    result = evaluate(again, again.source, episodes=2)
    assert result.lengths.tolist() == [25, 25]
    np.testing.assert_array_equal(evaluate(again, again.source, episodes=2).returns, result.returns)
    with pytest.raises(ConfigError, match=r"EnvPool does not make CartpoleSwingup-v1 with {'frme_skip': 2}"):
        make_env("CartpoleSwingup-v1", env_kwargs={"frme_skip": 2})


# Run folders, reports, resuming, the command line


def test_a_run_folder_of_a_factory_names_it_and_resumes_exactly(tmp_path):
    options = {**TINY, "epochs_between_evaluations": 1, "attribution_every": 1, "attribution_warmup": 1}
    whole = train_run(make_tank, total_timesteps=580, out=tmp_path / "whole", track=False, **options)
    half = train_run(make_tank, total_timesteps=500, out=tmp_path / "half", track=False, **options)
    document = half.read_config()
    assert (document["environment"], document["env_is_id"]) == ("Tank", False)
    with pytest.raises(EnvError, match=r"Pass it"):
        resume_run(half.path, 580, track=False)
    resume_run(half.path, 580, env=make_tank, track=False)
    assert half.state_path.read_bytes() == whole.state_path.read_bytes()
    data = judge(RunData.of(whole, make_tank), episodes=2)
    assert data.returns["ep_lengths"].tolist() == [[40, 40]]
    from rsa2c.report import write_report

    text = write_report(data).read_text()
    assert "temperature [K]" in text and "rsa2c train Tank" not in text, "no command makes a factory"
    assert "which a file cannot hold" in write_report(whole).read_text(), "the page says what is missing"


def test_a_run_before_its_first_checkpoint_starts_over_with_its_environment(tmp_path):
    options = {**TINY, "feature_names": {"a": "m", "b": "K", "c": None}, "env_kwargs": {"setpoint": 310.0}}
    run = train_run("rsa2c-tests/Tank-v0", total_timesteps=400, out=tmp_path, track=False, **options)
    first = run.state_path.read_bytes()
    document = read_yaml(run.config_path)
    assert document["env_kwargs"] == {"setpoint": 310.0} and document["feature_names"] == ["a [m]", "b [K]", "c"]
    for path in (run.state_path, run.model_path, run.metrics_path, run.evaluations_path):
        path.unlink()
    resume_run(run.path, track=False)
    assert run.state_path.read_bytes() == first
    assert RunData.of(run).agent.env.envs[0].unwrapped.setpoint == 310.0
    from rsa2c.report.result import rerun_command

    assert "--env-kwargs setpoint=310.0" in rerun_command(run.read_config())


def test_the_command_line_trains_evaluates_and_resumes_a_module_in_this_folder(tmp_path):
    """As a newcomer would: one file in the folder, nothing installed or registered."""
    (tmp_path / "my_plant.py").write_text(f"import sys; sys.path.append({TESTS!r})\nfrom plants import make_tank\n")
    (tmp_path / "names.yaml").write_text("level: m\ntemperature: K\ndemand: l/s\n")
    small = ["--n-envs", "2", "--horizon", "40", "--capacity", "16", "--quiet", "--no-track", "--no-report"]

    def rsa2c(*arguments):
        return subprocess.run(
            [sys.executable, "-P", "-m", "rsa2c", *arguments], cwd=tmp_path, capture_output=True, text=True
        )

    asked = ["--env-kwargs", "setpoint=305.5", "--feature-names", "names.yaml", "--total-timesteps", "500"]
    done = rsa2c("train", "my_plant:make_tank", *asked, *small)
    assert done.returncode == 0, done.stderr
    run = next((tmp_path / "runs").iterdir())
    assert Snapshot.load(Run(run).model_path).task.feature_names == NAMES
    assert Run(run).read_config()["env_kwargs"] == {"setpoint": 305.5}
    refused = rsa2c("evaluate", str(run), "--episodes", "2")
    assert refused.returncode == 2 and "a file may name a module, but not have it imported" in refused.stderr
    assert "--env my_plant:make_tank" in refused.stderr
    again = rsa2c("train", "my_plant:make_tank", *asked, *small)
    assert re.search(r"rsa2c resume \S+ --env my_plant:make_tank$", again.stderr, re.MULTILINE), again.stderr
    allowed = rsa2c("evaluate", str(run), "--episodes", "2", "--env", "my_plant:make_tank")
    assert allowed.returncode == 0 and "mean return" in allowed.stdout, allowed.stderr
    more = rsa2c("resume", str(run), "--total-timesteps", "600", "--env", "my_plant:make_tank", *small[6:])
    assert more.returncode == 0, more.stderr


def test_the_command_line_says_a_thing_once_and_nothing_of_pictures_that_there_are_not(tmp_path):
    (tmp_path / "drifting.py").write_text(
        f"import sys; sys.path.append({TESTS!r})\nimport gymnasium as gym\nfrom plants import Tank\n"
        "def make(): return gym.wrappers.NormalizeReward(gym.wrappers.TimeLimit(Tank(), 30))\n"
        "gym.register('Plain-v0', entry_point=Tank, max_episode_steps=30)\n"
    )

    def said(env):
        small = ["--total-timesteps", "500", "--n-envs", "2", "--horizon", "40", "--capacity", "16", "--quiet"]
        command = [sys.executable, "-P", "-m", "rsa2c", "train", env, *small, "--no-track"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr

    assert said("drifting:make").count("wrapped in NormalizeReward") == 1
    assert said("drifting:Plain-v0") == ""


def test_bad_keyword_arguments_are_named(capsys):
    assert main(["train", "Pendulum-v1", "--env-kwargs", "g"]) == 2
    assert "--env-kwargs takes key=value, got 'g'" in capsys.readouterr().err


def test_a_stored_module_is_not_imported(tmp_path):
    """`antigravity` would open a browser; `os:abort` would end the process."""
    agent = RSA2C("rsa2c-tests/Tank-v0", **TINY)
    for name in ("antigravity:Tank", "os:abort", "sys:exit"):
        packed, metadata = pack(agent.snapshot(), checkpoint=False)
        from rsa2c.files import write_tensors

        write_tensors(tmp_path / "a", packed, {**metadata, "env_id": name})
        with pytest.raises(EnvError, match="not have it imported"):
            RSA2C.load(tmp_path / "a").learn(1)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("order", ["rsa2c, gymnasium", "gymnasium, rsa2c"])
def test_the_benchmark_is_registered_in_either_order_of_imports(order):
    code = f"import {order}; print(gymnasium.make('rsa2c/LQR-v0').spec.max_episode_steps)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "200"

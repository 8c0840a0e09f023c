"""Environments with the functional interface of Brax and MuJoCo Playground, on a device and one by one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml

from rsa2c import RSA2C, evaluate
from rsa2c.algorithm.shares import Rollout
from rsa2c.cli import main
from rsa2c.envs import Source, make_env, make_single
from rsa2c.envs.functional import is_functional
from rsa2c.errors import ConfigError, EnvError, Notice

jax = pytest.importorskip("jax", reason="these environments need JAX, which the extra gpu installs")

from integrator import Integrator, Short  # noqa: E402

SMALL = {"n_envs": 16, "horizon": 24, "capacity": 64, "initial_centres": 40, "value_damping": 0.3}


@pytest.mark.parametrize(("env", "kwargs", "name", "far"), [
    (Integrator(2.0), {}, "Integrator", 2.0),
    (Integrator, {"far": 2.0}, "Integrator", 2.0),
    (lambda far: Integrator(far), {"far": 2.0}, "Integrator", 2.0),
    ("integrator:Integrator", {"far": 2.0}, "integrator:Integrator", 2.0),
    ("integrator:Integrator", {}, "integrator:Integrator", 3.0),
])  # fmt: skip
def test_it_trains_on_a_device_however_it_is_given(env, kwargs, name, far):
    with closing(RSA2C(env, "advanced-ac", device="jax-cpu", env_kwargs=kwargs, **SMALL)) as agent:
        assert (agent.env_id, agent.workers.env.features, agent.episode_limit) == (name, 2, 1000)
        assert agent.workers.env._env.far == far
        agent.learn(2 * 16 * 24)
        assert agent.epoch == 1 and 1 < evaluate(agent, agent.source, episodes=1).lengths[0] <= 1000


def test_what_it_says_of_episodes_and_names_is_heeded():
    with closing(RSA2C(Short(), "advanced-ac", device="jax-cpu", **SMALL)) as agent:
        assert agent.feature_names == ("place", "speed") and agent.action_names == ("force",)
        plan = Rollout.drawn(np.random.default_rng(0), agent.policy, 72)
        agent.workers.restore(agent.state.environments)
        batch = agent.workers.roll_out(plan).batch
        assert len(batch.episode_lengths) and batch.episode_lengths.max() == agent.episode_limit == 30
        assert evaluate(agent, Short(), episodes=2).lengths.tolist() == [30, 30]
    endless = Integrator()
    endless.episode_limit = None
    with pytest.warns(Notice, match="Integrator has no episode limit"):
        agent = RSA2C(endless, "advanced-ac", n_envs=2, capacity=20, initial_centres=10)
    assert agent.episode_limit is None and isinstance(agent.env.envs[0].unwrapped.functional.env, Integrator)
    agent.close()


def test_a_copy_steps_as_the_equations_say():
    single = make_single(Integrator(0.5))
    (place, speed), _ = single.reset(seed=3)
    again, _ = make_single(Integrator()).reset(seed=3)
    assert again.tolist() == [place, speed] != make_single(Integrator()).reset(seed=4)[0].tolist()
    over = False
    for _ in range(100):
        seen, reward, over, truncated, _ = single.step(np.array([1.0], np.float32))
        assert reward == pytest.approx(1.0 - place**2, rel=1e-5) and not truncated
        speed += 0.1
        place += 0.1 * speed
        assert np.allclose(seen, [place, speed], rtol=1e-4) and over == (abs(seen[0]) > 0.5)
        if over:
            break
    assert over


class Counted(Integrator):
    """Counts how often it is made, asked for its size, for which Brax resets an environment, and its step traced."""

    made = asked = traced = 0

    @property
    def observation_size(self):
        Counted.asked += 1
        return 2

    def __init__(self):
        super().__init__()
        Counted.made += 1

    def step(self, state, action):
        Counted.traced += 1
        return super().step(state, action)


def test_all_copies_share_what_was_compiled():
    Counted.made = Counted.asked = Counted.traced = 0
    source = Source.of(Counted)
    policy = RSA2C(Integrator(), "advanced-ac", n_envs=2, capacity=20, initial_centres=10, horizon=50)
    env = make_env(source, 3)
    env.reset(seed=0)
    env.step(np.zeros((3, 1), np.float32))
    env.reset(seed=1)
    evaluate(policy, source, episodes=4, max_steps=3)
    assert (Counted.made, Counted.asked, Counted.traced) == (1, 1, 1)
    assert len({id(each.unwrapped) for each in env.envs}) == 3
    policy.close()


def test_programs_of_a_device_are_those_of_the_object():
    """A training that goes on with the same object compiles nothing again; with another limit it must."""
    env, agents = Counted(), []
    for limit in (1000, 1000, 40):
        env.episode_limit = limit
        agents.append(RSA2C(env, "advanced-ac", device="jax-cpu", **SMALL))
    first, second, other = (agent.workers.env for agent in agents)
    assert first == second != other and hash(first) == hash(second) and first != Counted()
    before = Counted.traced
    agents[1].run_epoch()
    assert Counted.traced == before
    for agent in agents:
        agent.close()


def test_on_processors_it_may_be_spread_over_processes():
    settings = {"n_envs": 2, "horizon": 1000, "capacity": 20, "initial_centres": 10}
    with closing(RSA2C(Integrator(2.0), "advanced-ac", **settings)) as alone:
        alone.run_epoch()
        with closing(RSA2C(Integrator(2.0), "advanced-ac", workers=2, **settings)) as spread:
            spread.run_epoch()
        assert np.array_equal(alone.policy_mean.coefficients, spread.policy_mean.coefficients)
        assert np.any(alone.policy_mean.coefficients)


class Both(gym.Env):
    """One of Gymnasium's own, with attributes that Brax's environments have too."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (1,))
    observation_size, action_size = 2, 1


class Several(Integrator):
    observation_size = {"camera": (8, 8), "state": 2}  # noqa: RUF012


def test_what_is_no_such_environment_is_told_apart():
    assert is_functional(Integrator()) and not any(map(is_functional, (Integrator, Both(), "Pendulum-v1", None)))
    assert make_single(Both()).unwrapped.__class__ is Both
    with pytest.raises(EnvError, match=r"observations of Several must be one vector, got the sizes .*camera"):
        make_single(Several())
    with pytest.raises(EnvError, match=r"a factory must make a gymnasium.Env, got dict.*functional interface of Brax"):
        make_single(dict)
    with pytest.raises(ConfigError, match="Integrator is made already"):
        RSA2C(Integrator(), env_kwargs={"far": 1.0})
    for env, kwargs in ((lambda: gym.make("Pendulum-v1", g=5.0), {}), ("Pendulum-v1", {"g": 5.0})):
        with pytest.raises(ConfigError, match=r"needs an environment id without env_kwargs, or .*got Pendulum-v1"):
            RSA2C(env, "advanced-ac", device="jax-cpu", env_kwargs=kwargs, **SMALL)


def test_from_the_command_line_to_a_run_that_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    train = ["train", "integrator:Short", "--device=jax-cpu", "--algorithm=advanced-ac", "--evaluation-episodes=2",
             "--no-track", "--quiet", *small]  # fmt: skip
    assert main([*train, "--total-timesteps=2500", "--out=whole", "--no-report"]) == 0
    assert main([*train, "--total-timesteps=1500"]) == 0
    (run,) = Path("runs").iterdir()
    more = ["--total-timesteps=2500", "--no-track", "--quiet"]
    assert main(["resume", str(run), "--env=integrator:Short", *more]) == 0
    whole = Path("whole", run.name, "model.safetensors").read_bytes()
    assert (run / "model.safetensors").read_bytes() == whole
    versions = yaml.safe_load((run / "config.yaml").read_text())["versions"]
    assert versions["jax"] == jax.__version__ and "integrator:Short" in (run / "report.html").read_text()
    capsys.readouterr()
    assert main(["evaluate", str(run), "--env=integrator:Short", "--episodes=2"]) == 0
    assert "2 episodes" in capsys.readouterr().out

"""The facts about known environments agree with the environments themselves."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import rsa2c
from known import made, named
from rsa2c.envs import action_names, feature_names, known, units
from rsa2c.envs.known import find, known_ids

pytest.importorskip("mujoco")
pytest.importorskip("Box2D")
pytestmark = pytest.mark.filterwarnings("ignore:.*environment .* is out of date:DeprecationWarning")


def test_every_module_of_facts_can_be_found():
    modules = [import_module(f"{known.__name__}.{item.name}") for item in pkgutil.iter_modules(known.__path__)]
    tables = [module.KNOWN for module in modules if hasattr(module, "KNOWN")]
    assert sorted(env_id for table in tables for env_id in table) == known_ids()
    assert all(find(env_id).id == env_id for env_id in known_ids())
    assert find("Unknown-v0") is None


def test_facts_need_no_other_package():
    script = (
        "import sys, types; package = types.ModuleType('rsa2c'); sys.modules['rsa2c'] = package\n"
        # a stand-in, so that rsa2c's own public names are not loaded
        f"package.__path__ = [{str(Path(rsa2c.__file__).parent)!r}]\n"
        "from rsa2c.envs.known import find, known_ids\n"
        "assert all(find(env_id).features for env_id in known_ids())\n"
        "print(*{'gymnasium', 'numpy', 'numba', 'scipy', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("env_id", known_ids())
def test_names_fit_the_environment(env_id):
    env, facts = made(env_id), find(env_id)
    assert len(facts.features) == env.observation_space.shape[0] and len(facts.actions) == env.action_space.shape[0]
    assert facts.episode_limit == env.spec.max_episode_steps
    names = [quantity.name for quantity in (*facts.features, *facts.actions)]
    assert len(set(names)) == len(names) and all(names)
    assert feature_names(env, len(facts.features)) == tuple(names[: len(facts.features)])
    assert action_names(env, len(facts.actions)) == tuple(names[len(facts.features) :])
    assert units(env_id, names) == [quantity.unit for quantity in (*facts.features, *facts.actions)]


def test_unknown_quantities_have_no_unit():
    assert units("Unknown-v0", ("a", "b")) == ["", ""]
    assert units("Pendulum-v1", ("angular velocity", "noise_1")) == ["rad/s", ""]


@pytest.mark.parametrize("env_id", ["BipedalWalker-v3", "BipedalWalkerHardcore-v3"])
def test_the_walkers_features_are_scaled_as_the_facts_say(env_id):
    env = made(env_id)
    env.reset(seed=2)
    found, base = named(env_id, env.step(np.array([0.9, -0.5, -0.2, 0.7]))[0]), env.unwrapped
    expected = {
        "hull angle": base.hull.angle,
        "hull angular velocity": 0.04 * base.hull.angularVelocity,
        "horizontal velocity": 0.12 * base.hull.linearVelocity.x,
        "vertical velocity": 0.08 * base.hull.linearVelocity.y,
        **{f"lidar {i}": ray.fraction for i, ray in enumerate(base.lidar, 1)},
    }
    for leg in (1, 2):
        hip, knee = base.joints[2 * leg - 2], base.joints[2 * leg - 1]
        expected |= {
            f"hip {leg} angle": hip.angle,
            f"hip {leg} speed": hip.speed / 4,
            f"knee {leg} angle": knee.angle + 1.0,
            f"knee {leg} speed": knee.speed / 6,
            f"leg {leg} ground contact": float(base.legs[2 * leg - 1].ground_contact),
        }
    assert found == pytest.approx(expected, abs=1e-6)
    assert all(abs(found[f"{joint} speed"]) > 0.01 for joint in ("hip 1", "knee 1", "hip 2", "knee 2"))


def test_the_landers_features_are_scaled_as_the_facts_say():
    env_id = "LunarLanderContinuous-v3"
    env, base = made(env_id), made(env_id).unwrapped
    for side in ("left", "right"):
        env.reset(seed=2)
        [leg] = [leg for leg in base.legs if (leg.position.x > base.lander.position.x) == (side == "right")]
        leg.ground_contact = True
        found = named(env_id, env.step(np.array([1.0, 1.0]))[0])
        assert found[f"{side} leg ground contact"] == 1.0
        assert sum(found[f"{each} leg ground contact"] for each in ("left", "right")) == 1.0
    lander = base.lander
    assert found["horizontal position"] == pytest.approx((lander.position.x - 10) / 10, abs=1e-6)
    assert found["horizontal velocity"] == pytest.approx(0.2 * lander.linearVelocity.x, abs=1e-6)
    assert found["vertical velocity"] == pytest.approx(2 / 15 * lander.linearVelocity.y, abs=1e-6)
    assert found["angle"] == pytest.approx(lander.angle, abs=1e-6)
    assert found["angular velocity"] == pytest.approx(0.4 * lander.angularVelocity, abs=1e-6)


def test_the_small_environments_features_are_their_states():
    car = made("MountainCarContinuous-v0")
    before = named("MountainCarContinuous-v0", car.reset(seed=0)[0])
    after = named("MountainCarContinuous-v0", car.step(np.ones(1))[0])
    assert after["position"] == pytest.approx(before["position"] + after["velocity"])
    pendulum = made("Pendulum-v1")
    found = named("Pendulum-v1", pendulum.reset(seed=0)[0])
    angle, speed = pendulum.unwrapped.state
    assert found == pytest.approx({"cos θ": np.cos(angle), "sin θ": np.sin(angle), "angular velocity": speed})

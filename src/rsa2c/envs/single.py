"""Gymnasium's own environments: made one by one, checked, and stepped side by side."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray

import rsa2c.envs.lqr  # noqa: F401 - registers the benchmark with Gymnasium
from rsa2c.envs.checks import check_has_spaces, check_spaces
from rsa2c.envs.flattening import FlatObservation
from rsa2c.envs.functional import INTERFACE, Functional, is_functional
from rsa2c.envs.modules import found_in_module, has_module
from rsa2c.envs.names import env_id
from rsa2c.envs.pool import EnvPoolSingle, only_pool_has
from rsa2c.envs.source import EnvLike, Factory, Source
from rsa2c.envs.wrappers import Distractors, ObservationNoise
from rsa2c.errors import EnvError, MissingExtraError, RSA2CError, described, did_you_mean


def make_single(
    env: EnvLike,
    *,
    noise_variance: float | NDArray[Any] = 0.0,
    distractors: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    distractor_kind: str = "noise",
) -> gym.Env[Any, Any]:
    """One of Gymnasium's own environments, checked, flattened if its observations are a Dict, disturbed as in
    `make_env`. `env` is whatever `make_env` takes."""
    source = Source.of(env, env_kwargs)
    single = _made(source)
    check_has_spaces(single)
    if isinstance(single.observation_space, spaces.Dict):
        single = FlatObservation(single)
    check_spaces(single.observation_space, single.action_space, env_id(single))
    if distractors:
        single = Distractors(single, distractors, distractor_kind, source)
    return ObservationNoise(single, noise_variance) if np.any(noise_variance) else single


def functional_of(source: Source) -> Functional | None:
    """The environment with the functional interface that a source makes; None where it makes another."""
    if source.functional is None and source.vector is None:
        make_single(source).close()
    return source.functional


class FreshSyncVectorEnv(SyncVectorEnv[NDArray[Any], NDArray[Any]]):
    """Environments stepped side by side, and created anew by `reset(seed=...)`.

    Resetting alone would not make rollouts depend on nothing but the seed: Box2D's worlds remember earlier episodes in
    the order of their bodies, and BipedalWalker then rounds differently.
    """

    def __init__(self, factory: Factory, num_envs: int) -> None:
        super().__init__([factory] * num_envs)
        if len({id(env) for env in self.envs}) < num_envs:
            raise EnvError(
                f"The factory of {env_id(self.envs[0])} returned the same environment twice; "
                "it must make a new one at each call."
            )
        self.spec = self.envs[0].spec
        self._used = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        if seed is not None and self._used:
            for env in self.envs:
                env.close()
            self.envs = [make() for make in self.env_fns]
        self._used = True
        return super().reset(seed=seed, options=options)  # type: ignore[arg-type]


def known_spec(name: str) -> gym.envs.registration.EnvSpec:
    """The entry of an id in Gymnasium's registry."""
    try:
        return gym.spec(name)
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise EnvError(
            f"Gymnasium has no environment {name!r}.{did_you_mean(name, gym.registry)} "
            "Pass an environment of your own as an object, a class or a function that makes it, or as module:Name."
        ) from error


def _made(source: Source) -> gym.Env[Any, Any]:
    """An environment of a source. One with the functional interface is made once: it has no state of its own."""
    if source.functional is not None:
        return source.functional.single()
    if source.factory is not None:
        made = _from_factory(source.factory)
    else:
        source.check_single("evaluate")
        assert source.id is not None, "a source without a factory has an id"
        made = _from_id(source.id, source.kwargs)
    if is_functional(made):
        source.functional = Functional(made)
        return source.functional.single()
    if isinstance(made, gym.Env):
        return made
    raise EnvError(
        f"{source.id or 'a factory'} must make a gymnasium.Env, got {type(made).__name__}, which does not have the "
        f"functional interface of Brax and MuJoCo Playground either ({', '.join(INTERFACE)})."
    )


def _from_factory(factory: Factory) -> Any:
    made = getattr(factory, "func", factory)
    name = made.__name__ if isinstance(made, type) else "an environment given as a function"
    with _third_party_noise_silenced(), _making(name):
        return factory()


def _from_id(name: str, kwargs: Mapping[str, Any]) -> Any:
    if has_module(name):
        found = found_in_module(name)
        if not isinstance(found, str):
            with _third_party_noise_silenced(), _making(name):
                return found(**kwargs)
        name = found
    if only_pool_has(name):
        return EnvPoolSingle(name, kwargs)
    spec = known_spec(name)
    try:
        with _third_party_noise_silenced():
            if isinstance(spec.entry_point, str):
                load_env_creator(spec.entry_point)  # imports the simulator, so that it can be silenced next
        with _third_party_noise_silenced(), _making(name):
            return gym.make(name, disable_env_checker=True, **kwargs)
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise MissingExtraError(
            f"{name} needs a simulator that is not installed ({error}). Install it with: pip install 'rsa2c[envs]'"
        ) from error


@contextmanager
def _making(name: str) -> Iterator[None]:
    try:
        yield
    except (RSA2CError, ImportError, gym.error.DependencyNotInstalled):
        raise
    except Exception as error:
        innermost = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, TypeError) and innermost.filename == __file__:
            given = "its arguments are given as env_kwargs, or --env-kwargs on the command line"
            raise EnvError(f"{name} could not be made: {error}; {given}.") from error
        raise EnvError(f"{name} could not be made; its own code failed: {described(error)}") from error


@contextmanager
def _third_party_noise_silenced() -> Iterator[None]:
    """Silence warnings that neither a user nor we can act on while an environment is made.

    Box2D's SWIG types warn on import, which crashes the interpreter if warnings are errors. MuJoCo complains about
    Gymnasium's own model files, on the terminal and in a log file in the working directory.
    """
    mujoco = sys.modules.get("mujoco")
    before = mujoco.get_mju_user_warning() if mujoco else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "builtin type .* has no __module__", DeprecationWarning)
        if mujoco:
            mujoco.set_mju_user_warning(lambda message: None)
        try:
            yield
        finally:
            if mujoco:
                mujoco.set_mju_user_warning(before)

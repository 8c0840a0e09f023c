"""Stable-Baselines3's SAC and PPO with RL-Zoo's hyper-parameters, behind one `predict` (extra `baselines`)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rsa2c.baselines.settings import BASELINES, PRESET, BaselineConfig, baseline_config, settings
from rsa2c.envs.checks import check_observations, check_rewards
from rsa2c.envs.names import episode_limit
from rsa2c.envs.single import make_single
from rsa2c.envs.watchdog import watching
from rsa2c.errors import EnvError, require

__all__ = [
    "BASELINES",
    "PRESET",
    "Baseline",
    "BaselineConfig",
    "baseline_config",
    "baseline_env",
    "build_baseline",
    "make_baseline",
    "resolved",
    "settings",
    "torch_threads",
    "train_baseline",
    "watched",
]


@dataclass(frozen=True)
class Baseline:
    """An SB3 model that takes raw observations."""

    algorithm: str
    env_id: str
    config: BaselineConfig
    model: Any
    """SB3's SAC or PPO. One read from a run folder has its policy but cannot learn further."""
    normaliser: Any = None
    """SB3's VecNormalize, if the model is trained on normalised observations."""

    @property
    def num_timesteps(self) -> int:
        """Number of steps it was trained for."""
        return int(self.model.num_timesteps)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], Any]:
        """The action for one observation or a batch of them, in SB3's convention."""
        observation = np.asarray(observation)
        if self.normaliser is not None:
            observation = self.normaliser.normalize_obs(observation)
        return self.model.predict(observation, state, episode_start, deterministic)


def baseline_env(env_id: str, config: BaselineConfig) -> gym.Env[Any, Any]:
    """One environment, disturbed as in the baseline's training."""
    useless: dict[str, Any] = {"distractors": config.distractors, "distractor_kind": config.distractor_kind}
    return make_single(env_id, noise_variance=config.noise_variance, **useless)


def build_baseline(name: str, env_id: str, config: BaselineConfig) -> Baseline:
    """An untrained baseline on its own environments.

    This seeds the global generators of Python, NumPy and PyTorch, which SB3 draws from.
    """
    sb3 = require("stable_baselines3", "baselines", f"The baseline {name}")
    env_util = require("stable_baselines3.common.env_util", "baselines")
    vec_env = require("stable_baselines3.common.vec_env", "baselines")
    _check_environment(name, env_id)
    env = env_util.make_vec_env(partial(baseline_env, env_id, config), n_envs=config.n_envs, seed=config.seed)
    if config.normalise:
        env = vec_env.VecNormalize(env, gamma=config.arguments.get("gamma", 0.99))
    model = getattr(sb3, name.upper())("MlpPolicy", env, seed=config.seed, device="cpu", **resolved(config.arguments))
    return Baseline(name, env_id, config, model, env if config.normalise else None)


def resolved(arguments: dict[str, Any]) -> dict[str, Any]:
    """A copy of SB3's arguments, which it would change, with torch's activation function in place of its name."""
    arguments = copy.deepcopy(arguments)
    if isinstance(activation := arguments.get("policy_kwargs", {}).get("activation_fn"), str):
        arguments["policy_kwargs"]["activation_fn"] = getattr(require("torch.nn", "baselines"), activation)
    return arguments


def _check_environment(name: str, env_id: str) -> None:
    single = make_single(env_id)
    try:
        space: Any = single.action_space
        if episode_limit(single) is None:
            raise EnvError(
                f"{env_id} has no episode limit, so {name} might never start a new episode. Register it with "
                "max_episode_steps."
            )
        if not space.is_bounded():
            raise EnvError(f"{env_id} has unbounded actions, which SB3 refuses. Use a kernel algorithm.")
    finally:
        single.close()


def make_baseline(
    name: str,
    env_id: str,
    seed: int = 0,
    *,
    noise_variance: float = 0.0,
    distractors: int = 0,
    distractor_kind: str = "noise",
    **arguments: Any,
) -> Baseline:
    """An untrained baseline on its own environments; `arguments` override those for SB3 one by one."""
    useless = {"distractors": distractors, "distractor_kind": distractor_kind}
    config = baseline_config(name, env_id, seed=seed, noise_variance=noise_variance, **useless)
    return build_baseline(name, env_id, replace(config, arguments={**config.arguments, **arguments}))


def train_baseline(
    name: str,
    env_id: str,
    total_timesteps: int | None = None,
    seed: int = 0,
    callback: Any = None,
    *,
    threads: int = 1,
    **options: Any,
) -> Baseline:
    """Train a baseline for `total_timesteps` (by default, RL-Zoo's number).

    `callback` is passed to SB3; `options` are those of `make_baseline`.
    """
    steps = total_timesteps if total_timesteps is not None else settings(name, env_id).total_timesteps
    baseline = make_baseline(name, env_id, seed, **options)
    with torch_threads(threads), watched(baseline):
        baseline.model.learn(steps, callback=callback)
    return baseline


@contextmanager
def watched(baseline: Baseline) -> Iterator[None]:
    """While a baseline learns, turn failures of its environments into errors that name them."""
    base: Any = require("stable_baselines3.common.vec_env", "baselines").VecEnvWrapper
    model = baseline.model
    own = model.get_env()
    one, shape = own.unwrapped.envs[0], (own.num_envs, *own.observation_space.shape)

    class Watched(base):
        def reset(self) -> Any:
            with watch(0):
                observations = self.venv.reset()
            check_observations(one, observations, shape, 0)
            return observations

        def step_wait(self) -> Any:
            step = model.num_timesteps // self.num_envs + 1
            with watch(step):
                observations, rewards, dones, infos = self.venv.step_wait()
            check_observations(one, observations, shape, step)
            check_rewards(one, rewards, self.num_envs, step)
            return observations, rewards, dones, infos

    with watching(baseline.env_id, own.unwrapped, baseline.config.step_timeout) as watch:
        model.set_env(Watched(own))
        try:
            yield
        finally:
            model.set_env(own)


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let PyTorch use this many threads inside the block."""
    torch = require("torch", "baselines", "A baseline")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)

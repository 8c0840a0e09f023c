"""Stable-Baselines3's SAC and PPO with RL-Zoo's hyper-parameters, behind one `predict` (extra `baselines`).

The settings are those of github.com/DLR-RM/rl-baselines3-zoo, `hyperparams/sac.yml` (commit c94924e) and
`hyperparams/ppo.yml` (commit 208b6fd). RL-Zoo has Ant-v3 (SAC) and Ant-v4 (PPO); Ant-v5 takes theirs, and an
environment it does not have takes the entry "mujoco".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.envs.single import make_single
from rsa2c.errors import ConfigError, did_you_mean, require


@dataclass(frozen=True)
class Settings:
    """Training steps, environments, whether observation and reward are normalised, SB3's own arguments."""

    total_timesteps: int
    n_envs: int = 1
    normalise: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


BASELINES: dict[str, dict[str, Settings]] = {
    "sac": {
        "Pendulum-v1": Settings(20_000, arguments={"learning_rate": 1e-3}),
        "BipedalWalker-v3": Settings(
            500_000,
            arguments={
                "learning_rate": 7.3e-4,
                "buffer_size": 300_000,
                "batch_size": 256,
                "ent_coef": "auto",
                "gamma": 0.98,
                "tau": 0.02,
                "train_freq": 64,
                "gradient_steps": 64,
                "learning_starts": 10_000,
                "use_sde": True,
                "policy_kwargs": {"log_std_init": -3, "net_arch": [400, 300]},
            },
        ),
        "mujoco": Settings(1_000_000, arguments={"learning_starts": 10_000}),
    },
    "ppo": {
        "Pendulum-v1": Settings(
            100_000,
            n_envs=4,
            arguments={
                "n_steps": 1024,
                "gae_lambda": 0.95,
                "gamma": 0.9,
                "n_epochs": 10,
                "ent_coef": 0.0,
                "learning_rate": 1e-3,
                "clip_range": 0.2,
                "use_sde": True,
                "sde_sample_freq": 4,
            },
        ),
        "BipedalWalker-v3": Settings(
            5_000_000,
            n_envs=32,
            normalise=True,
            arguments={
                "n_steps": 2048,
                "batch_size": 64,
                "gae_lambda": 0.95,
                "gamma": 0.999,
                "n_epochs": 10,
                "ent_coef": 0.0,
                "learning_rate": 3e-4,
                "clip_range": 0.18,
            },
        ),
        "mujoco": Settings(1_000_000, normalise=True),
    },
}


@dataclass(frozen=True)
class Baseline:
    """A trained SB3 model that takes raw observations."""

    model: Any
    normaliser: Any = None
    """SB3's VecNormalize, where the model was trained on normalised observations."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], Any]:
        """The action for one observation or a batch, as SB3 has it."""
        observation = np.asarray(observation)
        if self.normaliser is not None:
            observation = self.normaliser.normalize_obs(observation)
        return self.model.predict(observation, state, episode_start, deterministic)


def settings(name: str, env_id: str) -> Settings:
    """RL-Zoo's settings of a baseline for an environment."""
    if name not in BASELINES:
        raise ConfigError(
            f"baseline {name!r} is unknown; known are {', '.join(BASELINES)}.{did_you_mean(name, BASELINES)}"
        )
    return BASELINES[name].get(env_id, BASELINES[name]["mujoco"])


def make_baseline(
    name: str,
    env_id: str,
    seed: int = 0,
    *,
    noise_variance: float = 0.0,
    distractors: int = 0,
    **arguments: Any,
) -> Baseline:
    """An untrained baseline on its own environments; `arguments` replace single ones of SB3's."""
    chosen = settings(name, env_id)
    sb3 = require("stable_baselines3", "baselines", f"The baseline {name}")
    env_util = require("stable_baselines3.common.env_util", "baselines")
    vec_env = require("stable_baselines3.common.vec_env", "baselines")
    factory = partial(make_single, env_id, noise_variance=noise_variance, distractors=distractors)
    env = env_util.make_vec_env(factory, n_envs=chosen.n_envs, seed=seed)
    arguments = {**chosen.arguments, **arguments}
    if chosen.normalise:
        env = vec_env.VecNormalize(env, gamma=arguments.get("gamma", 0.99))
    model = getattr(sb3, name.upper())("MlpPolicy", env, seed=seed, device="cpu", **arguments)
    return Baseline(model, env if chosen.normalise else None)


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
    """Train a baseline for `total_timesteps` (unset: RL-Zoo's number); `callback` is SB3's, `options` are
    those of `make_baseline`."""
    steps = total_timesteps if total_timesteps is not None else settings(name, env_id).total_timesteps
    baseline = make_baseline(name, env_id, seed, **options)
    with torch_threads(threads):
        baseline.model.learn(steps, callback=callback)
    return baseline


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch compute on so many threads, for a while."""
    torch = require("torch", "baselines", "A baseline")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)

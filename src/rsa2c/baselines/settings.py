"""RL-Zoo's hyper-parameters of SAC and PPO, and what a baseline can be told beside them.

They are those of github.com/DLR-RM/rl-baselines3-zoo, `hyperparams/sac.yml` (commit c94924e) and
`hyperparams/ppo.yml` (commit 208b6fd). RL-Zoo has Ant-v3 (SAC) and Ant-v4 (PPO); Ant-v5 takes theirs, rsa2c/LQR-v0 the
entry of Pendulum-v1, which is of its size, and an environment it does not have the entry "mujoco".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rsa2c.config import ALGORITHMS, Config
from rsa2c.errors import ConfigError, did_you_mean

PRESET = "rl-zoo"
"""The one preset of baselines; a run's `entry` says which of RL-Zoo's it is."""
EVALUATION_STEPS = {"Pendulum-v1": 1_000}
"""Steps between evaluations of a run's training (PPO: at least, and then to the end of the rollout); 20,000 for other
environments."""

ALIKE = {"rsa2c/LQR-v0": "Pendulum-v1"}
"""Environments that take another's entry."""


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
class BaselineFields:
    """What a baseline can be told; all else is as RL-Zoo has it."""

    seed: int = 0
    """Seed of every generator of the run, SB3's global ones too."""
    noise_variance: float = 0.0
    """Variance of Gaussian noise added to the observations while training, in raw units."""
    distractors: int = 0
    """Number of pure-noise features appended to the observation."""
    evaluation_episodes: int = 20
    """Fixed-seed episodes of each evaluation of a run folder's training."""
    step_timeout: float | None = Config.step_timeout
    """Seconds that a step of the environments may take before the run is stopped; unset waits for ever."""
    threads: int = 1
    """Threads of torch; equal threads and seed give equal bytes."""

    def __post_init__(self) -> None:
        # Config has the rules of these names
        Config(**{name: getattr(self, name) for name in SETTABLE})
        if self.seed >= 2**31:
            raise ConfigError(f"seed must be below 2**31 for a baseline (SB3's generators), got {self.seed}.")

    def settings(self) -> dict[str, Any]:
        """Name -> value of every setting."""
        return asdict(self)


SETTABLE = tuple(item.name for item in fields(BaselineFields))


@dataclass(frozen=True)
class BaselineConfig(BaselineFields):
    """Settings of one baseline: what it was told, and what RL-Zoo's entry came to."""

    steps_between_evaluations: int = 20_000
    """Training steps between evaluations of a run folder's training, at least."""
    entry: str = "mujoco"
    """RL-Zoo's entry: the environment's own, that of one alike, or "mujoco"."""
    n_envs: int = 1
    """Environments stepped side by side."""
    normalise: bool = False
    """Whether observation and reward are normalised (SB3's VecNormalize)."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments of SB3's SAC or PPO."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps_between_evaluations", "n_envs"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} must be a whole number >= 1, got {value!r}.")
        if not isinstance(self.arguments, dict):
            raise ConfigError(f"arguments must be a mapping, got {self.arguments!r}.")


def check_algorithm(name: str) -> None:
    """Refuse what is neither a variant of the method nor a baseline."""
    known = [*ALGORITHMS, *BASELINES]
    if name not in known:
        raise ConfigError(f"algorithm {name!r} is unknown; known are {', '.join(known)}.{did_you_mean(name, known)}")


def settings(name: str, env_id: str) -> Settings:
    """RL-Zoo's settings of a baseline for an environment."""
    if name not in BASELINES:
        raise ConfigError(
            f"baseline {name!r} is unknown; known are {', '.join(BASELINES)}.{did_you_mean(name, BASELINES)}"
        )
    return BASELINES[name][_entry(name, env_id)]


def _entry(name: str, env_id: str) -> str:
    entry = ALIKE.get(env_id, env_id)
    return entry if entry in BASELINES[name] else "mujoco"


def baseline_config(name: str, env_id: str, **told: Any) -> BaselineConfig:
    """RL-Zoo's settings for this environment, then the caller's; what a baseline has not is refused by name."""
    chosen = settings(name, env_id)
    for unknown in told:
        if unknown not in SETTABLE:
            raise ConfigError(
                f"{name} has no setting {unknown!r}: it trains with RL-Zoo's hyper-parameters and can be told "
                f"{', '.join(SETTABLE)}.{did_you_mean(unknown, SETTABLE)}"
            )
    return BaselineConfig(
        **told,
        steps_between_evaluations=EVALUATION_STEPS.get(_entry(name, env_id), 20_000),
        entry=_entry(name, env_id),
        n_envs=chosen.n_envs,
        normalise=chosen.normalise,
        arguments=dict(chosen.arguments),
    )

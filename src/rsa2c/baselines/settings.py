"""Settings of the baselines SAC and PPO: RL-Zoo's hyper-parameters, and the few things a user can set besides.

An environment's entry in RL-Zoo is one of its facts (`rsa2c.envs.known`); any other environment takes the entry below.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rsa2c.config import ALGORITHMS, Config
from rsa2c.envs.known import RLZoo, Settings, find
from rsa2c.envs.known.facts import mujoco_rl_zoo
from rsa2c.errors import ConfigError, did_you_mean

PRESET = "rl-zoo"
"""The only preset of baselines; the field `entry` says which of RL-Zoo's entries it is."""

MUJOCO = mujoco_rl_zoo("mujoco")
"""RL-Zoo's settings of Ant-v3 (SAC) and Ant-v4 (PPO), used for Ant-v5 and all environments without an entry."""

BASELINES = tuple(MUJOCO.settings)
"""The names of the baselines."""


@dataclass(frozen=True)
class BaselineFields:
    """What a user can set for a baseline; everything else is RL-Zoo's."""

    seed: int = 0
    """Seed of every generator of the run, SB3's global ones too."""
    noise_variance: float = 0.0
    """Variance of Gaussian noise added to the observations while training, in raw units."""
    distractors: int = 0
    """Number of useless features appended to the observation."""
    distractor_kind: str = "noise"
    """What useless features show: noise, drift, copies, permuted, twin or jumps."""
    evaluation_episodes: int = 20
    """Fixed-seed episodes of each evaluation during training in a run folder."""
    step_timeout: float | None = Config.step_timeout
    """Seconds that a step of the environments may take before the run is stopped; unset waits forever."""
    threads: int = 1
    """Threads of torch; equal threads and seed give equal bytes."""

    def __post_init__(self) -> None:
        Config(**{name: getattr(self, name) for name in SETTABLE})  # Config checks these names
        if self.seed >= 2**31:
            raise ConfigError(f"seed must be below 2**31 for a baseline (SB3's generators), got {self.seed}.")

    def settings(self) -> dict[str, Any]:
        """Name -> value of every setting."""
        return asdict(self)


SETTABLE = tuple(item.name for item in fields(BaselineFields))


@dataclass(frozen=True)
class BaselineConfig(BaselineFields):
    """All settings of one baseline: the user's, and those of RL-Zoo's entry."""

    steps_between_evaluations: int = MUJOCO.evaluation_steps
    """Least number of training steps between evaluations in a run folder."""
    entry: str = MUJOCO.entry
    """RL-Zoo's entry: the environment's own, that of a similar one, or "mujoco"."""
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
    """Refuse a name that is neither a variant of the method nor a baseline."""
    known = [*ALGORITHMS, *BASELINES]
    if name not in known:
        raise ConfigError(f"algorithm {name!r} is unknown; known are {', '.join(known)}.{did_you_mean(name, known)}")


def rl_zoo_entry(env_id: str) -> RLZoo:
    """The entry of RL-Zoo that an environment trains with."""
    known = find(env_id)
    return MUJOCO if known is None or known.rl_zoo is None else known.rl_zoo


def settings(name: str, env_id: str) -> Settings:
    """RL-Zoo's settings of a baseline for an environment."""
    if name not in BASELINES:
        raise ConfigError(
            f"baseline {name!r} is unknown; known are {', '.join(BASELINES)}.{did_you_mean(name, BASELINES)}"
        )
    return rl_zoo_entry(env_id).settings[name]


def baseline_config(name: str, env_id: str, **asked: Any) -> BaselineConfig:
    """RL-Zoo's settings for this environment, then the caller's; names that a baseline does not have are refused."""
    chosen = settings(name, env_id)
    for unknown in asked:
        if unknown not in SETTABLE:
            raise ConfigError(
                f"{name} has no setting {unknown!r}: it trains with RL-Zoo's hyper-parameters. You can set "
                f"{', '.join(SETTABLE)}.{did_you_mean(unknown, SETTABLE)}"
            )
    entry = rl_zoo_entry(env_id)
    return BaselineConfig(
        **asked,
        steps_between_evaluations=entry.evaluation_steps,
        entry=entry.entry,
        n_envs=chosen.n_envs,
        normalise=chosen.normalise,
        arguments=dict(chosen.arguments),
    )

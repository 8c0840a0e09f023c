"""The form in which the facts about an environment are written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

USUAL_TIMESTEPS = 1_000_000
"""Training steps of a run that does not ask for a number, unless its environment has its own."""


class Quantity(NamedTuple):
    """One number of an observation or an action."""

    name: str
    unit: str = ""
    """Its physical unit; empty for pure numbers and for what the environment scales by arbitrary constants."""


@dataclass(frozen=True)
class Settings:
    """What RL-Zoo sets for SAC or PPO: steps, environments, normalisation (VecNormalize), SB3's own arguments."""

    total_timesteps: int
    n_envs: int = 1
    normalise: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RLZoo:
    """An entry of RL-Zoo, with the settings of each baseline by name.

    From github.com/DLR-RM/rl-baselines3-zoo, `hyperparams/sac.yml` (commit c94924e) and `hyperparams/ppo.yml` (commit
    208b6fd).
    """

    entry: str
    settings: Mapping[str, Settings]
    evaluation_steps: int = 20_000
    """Training steps between evaluations (PPO finishes its rollout first). Ours, not RL-Zoo's."""


WIDE_NETWORK: dict[str, Any] = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": "ReLU",
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
"""The network of PPO that RL-Zoo tuned for some of MuJoCo's robots."""


def mujoco_rl_zoo(entry: str, *, ppo_steps: int = 1_000_000, sac_steps: int = 1_000_000, **ppo: Any) -> RLZoo:
    """RL-Zoo's entry of a MuJoCo robot: PPO tuned on one normalised environment, SAC with the arguments of all."""
    return RLZoo(
        entry,
        {
            "sac": Settings(sac_steps, arguments={"learning_starts": 10_000}),
            "ppo": Settings(ppo_steps, normalise=True, arguments=ppo),
        },
    )


@dataclass(frozen=True)
class Skill:
    """What a policy can do, in words, and the evidence without which nobody says so."""

    words: str
    """As in "Pendulum-v1 ...": a verb first, no full stop."""
    worst_return: float
    """The worst evaluated episode returns at least this."""
    whole_episodes: bool = False
    """No evaluated episode ends before the episode limit."""


@dataclass(frozen=True)
class Known:
    """Everything this package knows about one environment beyond what Gymnasium says about it."""

    id: str
    features: tuple[Quantity, ...]
    actions: tuple[Quantity, ...]
    episode_limit: int
    """Steps after which an episode is truncated."""
    total_timesteps: int = USUAL_TIMESTEPS
    exceptions: Mapping[str, Any] = field(default_factory=dict)
    """Settings in which the preset `default` differs from the general rule; each says what the rule would cost."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings by preset name; a `default` here replaces the general rule."""
    rl_zoo: RLZoo | None = None
    """Settings of the baselines, if RL-Zoo has any for this environment or for one like it."""
    drawing: str | None = None
    """What the report draws from a state alone: "pendulum", "cartpole" or "walker"."""
    vector: Callable[[int], Any] | None = None
    """Makes n copies that are stepped as arrays, if this package implements the dynamics itself."""
    optimality_gap: Callable[[Any, int], float] | None = None
    """Relative excess cost of a policy over the known optimum on a number of fixed starts, if the optimum is known."""
    skill: Skill | None = None
    """What a good policy does here, if returns can prove it."""


def by_id(*known: Known) -> dict[str, Known]:
    """The table that a module of this package offers as `KNOWN`."""
    return {one.id: one for one in known}


RELEASED: dict[str, Any] = {
    "scaling": "frozen",
    "sigma": "scheduled",
    "admission": "annealed",
    "admission_threshold": 0.001,
    "replacement": "largest-error",
    "value_ridge": 0.001,
    "advantage_fit": "released",
    "gae_lambda": 1.0,
    "advantage_clip": 10.0,
    "metric": "euclidean",
    "step_rule": "constant",
    "guidance": "released",
    "attribution_states": 64,
    "attribution_background": 256,
    "moment_decay": 0.95,
    "weight_floor": 0.3,
    "cme_embedding": "paper",
}
"""What the preset `paper` has in every environment: the paper's algorithm, with the gaps of its table filled from the
released code. Signed attributions of the Value Critic itself by one sampled permutation, plain gradient on
coefficients, no re-projection: each can be changed by one setting."""

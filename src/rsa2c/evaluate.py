"""One evaluation for every kind of agent: returns of fixed-seed episodes in Gymnasium's environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rsa2c.config import Config
from rsa2c.envs.checks import check_actions, check_count, check_observations, check_rewards
from rsa2c.envs.names import env_id, episode_limit
from rsa2c.envs.single import Factory, make_single
from rsa2c.envs.watchdog import Watch, watching
from rsa2c.errors import ConfigError, DataError, EnvError
from rsa2c.robustness.regions import Units, unit_scale

if TYPE_CHECKING:
    from rsa2c.robustness.attacks import Attack

_SIDE_BY_SIDE = 64  # episodes that run together
_PATIENCE = 100_000  # steps of an episode that nothing ever stops
_ATTACK_STREAM = 3  # keeps an attack's generators apart from those of `envs.wrappers`


@runtime_checkable
class Policy(Protocol):
    """What can be evaluated: Stable-Baselines3's `predict`, so its models fit as they are."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]: ...


@dataclass(frozen=True)
class EvaluationResult:
    """Undiscounted returns (E,) and lengths (E,) of E episodes; episode i started from seed + i."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """Spread over episodes (divisor E, as in Stable-Baselines3)."""
        return float(self.returns.std())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's t interval of the mean; NaN for a single episode, which has none."""
        episodes = len(self.returns)
        if episodes < 2:
            return float("nan"), float("nan")
        half = stdtrit(episodes - 1, 0.5 + level / 2) * self.returns.std(ddof=1) / np.sqrt(episodes)
        return self.mean - float(half), self.mean + float(half)

    def __str__(self) -> str:
        return f"{self.mean:.1f} +- {self.std:.1f} over {len(self.returns)} episodes"


def evaluate(
    policy: Policy,
    env: str | Factory,
    episodes: int = 100,
    noise_variance: float = 0.0,
    distractors: int = 0,
    seed: int = 0,
    deterministic: bool = True,
    units: Units = "raw",
    max_steps: int | None = None,
    attack: Attack | None = None,
    step_timeout: float | None = Config.step_timeout,
) -> EvaluationResult:
    """Returns of `episodes` episodes of a policy.

    `env` is a Gymnasium id or a factory, whose wrappers are kept. Episode i runs in an environment of its
    own, made for it and reset with seed + i, under noise drawn from the same seed; so it does not depend on
    how many others run beside it (for deterministic policies: with `deterministic=False` the policy's own
    generator draws for all at once). They go in lock step, with one call of `predict` for all. Observation
    noise is in raw units, or with `units="normalised"` in those of the agent's normaliser. `max_steps`
    stops longer episodes. `attack` (`rsa2c.robustness.attacks.make_attack`) perturbs what the policy sees, after the
    noise. A step of an episode may take `step_timeout` seconds.
    """
    if not isinstance(policy, Policy):
        raise ConfigError(
            f"A policy needs a method predict(observation, ...), as in SB3; {type(policy).__name__} has none."
        )
    check_count("episodes", episodes)
    check_count("max_steps", max_steps)
    if seed < 0:
        raise ConfigError(f"seed must be a whole number that is not negative, got {seed}.")
    variance = noise_variance * np.square(unit_scale(policy, units))

    returns, lengths = np.zeros(episodes), np.zeros(episodes, dtype=np.int64)
    for start in range(0, episodes, _SIDE_BY_SIDE):
        wave = range(start, min(start + _SIDE_BY_SIDE, episodes))
        singles = [make_single(env, noise_variance=variance, distractors=distractors) for _ in wave]
        try:
            with watching(env_id(singles[0]), None, step_timeout, "episode") as watch:
                _run(policy, singles, seed, wave, returns, lengths, deterministic, max_steps, attack, watch)
        finally:
            for single in singles:
                single.close()
    return EvaluationResult(returns, lengths)


def _run(
    policy: Policy,
    singles: list[gym.Env[Any, Any]],
    seed: int,
    wave: range,
    returns: NDArray[np.float64],
    lengths: NDArray[np.int64],
    deterministic: bool,
    max_steps: int | None,
    attack: Attack | None,
    watch: Watch,
) -> None:
    """One episode in each environment, added to `returns` and `lengths` at the numbers in `wave`."""
    one: Any = singles[0]
    width, action_space = len(singles), one.action_space
    shape = (width, one.observation_space.shape[0])
    known = getattr(policy, "feature_names", None)
    if known is not None and len(known) != shape[1]:
        raise DataError(
            f"an agent of {len(known)} features cannot act in {env_id(one)}, which has {shape[1]}. Evaluate it where "
            "it was trained, with as many distractors."
        )
    starts = []
    for watch.who, single in zip(wave, singles, strict=True):
        with watch(0):
            observation, _ = single.reset(seed=seed + watch.who)
        starts.append(watch.shaped(observation, shape[1:]))
    observations = np.stack(starts)
    check_observations(one, observations, shape, 0, wave, "episode")
    patience = _PATIENCE if max_steps is None and episode_limit(one) is None else None
    rngs = [np.random.default_rng([_ATTACK_STREAM, seed + i]) for i in wave]
    running = np.ones(width, dtype=bool)
    rewards = np.zeros(width)
    state: Any = None
    step = 0
    while running.any():
        # A recurrent policy keeps a state for every environment, so its batch keeps them all to the end
        rows = np.flatnonzero(running) if state is None else np.arange(width)
        first = np.full(len(rows), step == 0)
        seen = observations[rows] if attack is None else attack(observations[rows], [rngs[row] for row in rows])
        actions, state = policy.predict(seen, state, first, deterministic)
        check_actions(one, actions, (len(rows), *action_space.shape), step)
        step += 1
        rewards[:] = 0.0
        for row, action in zip(rows, actions.astype(action_space.dtype, copy=False), strict=True):
            if running[row]:
                watch.who = wave[row]
                with watch(step):
                    observation, rewards[row], terminated, truncated, _ = singles[row].step(action)
                observations[row] = watch.shaped(observation, shape[1:])
                lengths[watch.who] = step
                running[row] = not (terminated or truncated or step == max_steps)
        check_observations(one, observations, shape, step, wave, "episode")
        check_rewards(one, rewards, width, step, wave, "episode")
        returns[wave.start : wave.stop] += rewards
        if step == patience:
            raise EnvError(
                f"{env_id(one)} has no episode limit and did not end within {patience:,} steps. "
                "Pass max_steps."
            )

"""One evaluation for every kind of agent: returns of fixed-seed episodes in Gymnasium's environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rsa2c.config import Config
from rsa2c.envs.checks import check_actions, check_count, check_observations, check_rewards
from rsa2c.envs.modules import use_module
from rsa2c.envs.names import env_id, episode_limit
from rsa2c.envs.single import make_single
from rsa2c.envs.source import EnvLike, Source
from rsa2c.envs.watchdog import Watch, watching
from rsa2c.errors import ConfigError, DataError, EnvError
from rsa2c.robustness.attacks import Attack, FilteredAttack
from rsa2c.robustness.regions import Units, unit_scale
from rsa2c.statistics.words import shown

_SIDE_BY_SIDE = 64  # episodes that run together
_PATIENCE = 100_000  # steps of an episode that nothing ever stops
_ATTACK_STREAM = 3  # keeps an attack's generators apart from those of `envs.wrappers`


@runtime_checkable
class Policy(Protocol):
    """What can be evaluated: anything with Stable-Baselines3's `predict`, so its models need no adapter."""

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

    def __repr__(self) -> str:
        return f"EvaluationResult({self})"

    def __str__(self) -> str:
        return f"{shown(self.mean)} +- {shown(self.std, beside=self.mean)} over {len(self.returns)} episodes"


def evaluate(
    policy: Policy,
    env: EnvLike,
    episodes: int = 100,
    noise_variance: float = 0.0,
    distractors: int = 0,
    seed: int = 0,
    deterministic: bool = True,
    units: Units = "raw",
    max_steps: int | None = None,
    attack: Attack | None = None,
    step_timeout: float | None = Config.step_timeout,
    env_kwargs: Mapping[str, Any] | None = None,
    distractor_kind: str = "noise",
) -> EvaluationResult:
    """Returns of `episodes` episodes of a policy.

    `env` is a Gymnasium id, an instance, a class or a factory, whose wrappers are kept; `env_kwargs` are its arguments.
    Episode i runs in an environment of its own (unless there is only one), made for it and reset with seed + i, under
    noise drawn from the same seed; so it does not depend on how many others run with it (for deterministic policies:
    with `deterministic=False` the policy's own generator draws for all at once).
    Episodes advance in lock step, with one call of `predict` for all. Observation noise is in raw units, or with
    `units="normalised"` in standard deviations of the agent's metric. `max_steps` stops longer episodes (unset, in an
    environment without limit: the agent's horizon). `attack` (`rsa2c.robustness.attacks.make_attack`) perturbs what the
    policy sees, after the noise. A step may take `step_timeout` seconds. Distractors are those of `make_env`.
    """
    if not isinstance(policy, Policy) or isinstance(policy, type):
        got = f"{policy.__name__} is a class" if isinstance(policy, type) else f"{type(policy).__name__} has none"
        raise ConfigError(f"a policy is an object with a method predict(observation, ...), as in SB3; {got}.")
    check_count("episodes", episodes)
    check_count("max_steps", max_steps)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed must be a non-negative whole number, got {seed!r}.")
    variance = noise_variance * np.square(unit_scale(policy, units))
    use_module(env)
    source = Source.of(env, env_kwargs)
    task: dict[str, Any] = {"noise_variance": variance, "distractors": distractors, "distractor_kind": distractor_kind}
    together, waves = 1 if source.alone else _SIDE_BY_SIDE, []
    for start in range(0, episodes, together):
        numbers = range(start, min(start + together, episodes))
        singles = [make_single(source, **task) for _ in numbers]
        try:
            with watching(env_id(singles[0]), None, step_timeout, "episode") as watch:
                wave = _Wave(policy, singles, numbers, seed, attack, watch)
                waves.append(wave.run(deterministic, max_steps))
        finally:
            for single in singles:
                single.close()
    return EvaluationResult(*(np.concatenate(each) for each in zip(*waves, strict=True)))


class _Wave:
    """Episodes that advance in lock step, one environment each; `numbers` are those of the episodes."""

    def __init__(
        self,
        policy: Policy,
        singles: list[Any],
        numbers: range,
        seed: int,
        attack: Attack | None,
        watch: Watch,
    ) -> None:
        self.policy, self.singles, self.numbers, self.attack, self.watch = policy, singles, numbers, attack, watch
        self.one = singles[0]
        self.shape = (len(singles), self.one.observation_space.shape[0])
        known = getattr(policy, "feature_names", None)
        if known is not None and len(known) != self.shape[1]:
            raise DataError(
                f"an agent of {len(known)} features cannot act in {env_id(self.one)}, which has {self.shape[1]}. "
                "Evaluate it where it was trained, with as many distractors."
            )
        self.rngs = [np.random.default_rng([_ATTACK_STREAM, seed + i]) for i in numbers]
        self.running = np.ones(len(singles), dtype=bool)
        self.lengths = np.zeros(len(singles), dtype=np.int64)
        self.observations = self._reset(seed)

    def _reset(self, seed: int) -> NDArray[Any]:
        starts = []
        for number, single in zip(self.numbers, self.singles, strict=True):
            self.watch.who = number
            with self.watch(0):
                observation, _ = single.reset(seed=seed + number)
            starts.append(self.watch.shaped(observation, self.shape[1:]))
        observations = np.stack(starts)
        check_observations(self.one, observations, self.shape, 0, self.numbers, "episode")
        return observations

    def run(self, deterministic: bool, max_steps: int | None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns and lengths of the episodes, each (E,)."""
        endless = max_steps is None and episode_limit(self.one) is None
        if endless:
            max_steps = getattr(self.policy, "longest_episode", None)
        patience = _PATIENCE if endless and max_steps is None else None
        returns, state, step = np.zeros(len(self.singles)), None, 0
        while self.running.any():
            # A recurrent policy keeps a state for every environment, so its batch keeps them all to the end
            rows = np.flatnonzero(self.running) if state is None else np.arange(len(self.singles))
            seen = self._seen(rows, state)
            actions, state = self.policy.predict(seen, state, np.full(len(rows), step == 0), deterministic)
            check_actions(self.one, actions, (len(rows), *self.one.action_space.shape), step)
            step += 1
            returns += self._step(rows, actions, step, max_steps)
            if step == patience:
                raise EnvError(
                    f"{env_id(self.one)} has no episode limit and did not end within {patience:,} steps. "
                    "Pass max_steps."
                )
        return returns, self.lengths

    def _seen(self, rows: NDArray[np.intp], state: Any) -> NDArray[Any]:
        """The observations of these environments as they reach the policy, which remembers `state`."""
        true, rngs = self.observations[rows], [self.rngs[row] for row in rows]
        if isinstance(self.attack, FilteredAttack):
            return self.attack(true, rngs, state)
        return true if self.attack is None else self.attack(true, rngs)

    def _step(self, rows: NDArray[np.intp], actions: NDArray[Any], step: int, max_steps: int | None) -> Any:
        """Rewards (E,) of one step, zero where an episode is over."""
        rewards = np.zeros(len(self.singles))
        for row, action in zip(rows, actions.astype(self.one.action_space.dtype, copy=False), strict=True):
            if self.running[row]:
                self.watch.who = self.numbers[row]
                with self.watch(step):
                    observation, rewards[row], terminated, truncated, _ = self.singles[row].step(action)
                self.observations[row] = self.watch.shaped(observation, self.shape[1:])
                self.lengths[row] = step
                self.running[row] = not (terminated or truncated or step == max_steps)
        check_observations(self.one, self.observations, self.shape, step, self.numbers, "episode")
        check_rewards(self.one, rewards, len(self.singles), step, self.numbers, "episode")
        return rewards

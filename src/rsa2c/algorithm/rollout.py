"""Vector environments to a `Batch` of transitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import DTypeLike, NDArray

from rsa2c.algorithm.batch import Batch, Coordinates, finished_episodes
from rsa2c.algorithm.observing import Observe, Step
from rsa2c.algorithm.sensors import EXACT, Sensors
from rsa2c.config import Config
from rsa2c.envs.checks import autoreset_mode, check_actions, check_count, check_observations, check_rewards
from rsa2c.envs.names import env_id
from rsa2c.envs.vectorised import PARTIAL_RESET
from rsa2c.envs.watchdog import Watch, watching
from rsa2c.errors import ConfigError, EnvError

Act = Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]


class Draws(Protocol):
    """Where the restart kernel's numbers come from: a generator, or one for each environment."""

    def random(self, size: int, /) -> NDArray[np.float64]: ...


def collect(
    env: VectorEnv[Any, Any, Any],
    act: Act,
    metric: Coordinates,
    steps: int,
    seed: int,
    rng: Draws,
    *,
    restart_p: float = 0.0,
    dtype: DTypeLike = np.float64,
    step_timeout: float | None = Config.step_timeout,
    observe: Observe | None = None,
    sensors: Sensors = EXACT,
) -> Batch:
    """Run `steps` steps in every environment, afresh from `reset(seed=seed)`.

    `metric` maps raw observations (n, d) to coordinates, and `act` maps those to the policy's mean (n, m), the latent
    drawn (n, m) and the action (n, m) in the environment's units. With probability `restart_p` per step the episode
    is cut there and its environment starts anew. Steps on which an environment only resets itself are left out, so
    N <= steps * n. A step or reset of the environments may take `step_timeout` seconds. `observe` is called after each
    step, with what the environments gave; policy and batch have what `sensors` make of it.
    """
    check_count("steps", steps)
    mode = autoreset_mode(env)
    _check_restarts(env, mode, restart_p)
    n, (d,) = env.num_envs, env.single_observation_space.shape or ()
    record = _Recording.empty(env, steps, metric, dtype)
    first = np.ones(n, dtype=bool)
    with watching(env_id(env), env.unwrapped, step_timeout) as watch:
        with watch(0):
            observations, _ = env.reset(seed=int(seed))
        check_observations(env, observations, (n, d), 0)
        for t in range(steps):
            action = record.decide(env, act, sensors.every(observations, first), t)
            with watch(t + 1):
                observations, reward, over, out_of_time, infos = env.step(action)
            check_observations(env, observations, (n, d), t + 1)
            check_rewards(env, reward, n, t + 1)
            ended = record.rewarded(t, reward, over, out_of_time)
            if observe is not None:
                observe(Step(action, observations, reward, over, out_of_time, infos, last=t + 1 == steps))
            first = record.begun(t, ended, mode)
            if t + 1 < steps and (fresh := record.restarted(t, ended, mode, restart_p, rng)).any():
                record.keep_final(t, fresh, sensors.some(observations[fresh], np.flatnonzero(fresh)))
                observations = _restarted(env, fresh, observations, t + 1, watch)
                first = first | fresh
            if mode is AutoresetMode.SAME_STEP and ended.any():
                finals = _final_observations(env, infos, np.flatnonzero(ended), t + 1)
                record.keep_final(t, ended, sensors.some(finals, np.flatnonzero(ended)))
    return record.assembled(sensors.every(observations, first))


def _restarted(
    env: VectorEnv[Any, Any, Any], fresh: NDArray[np.bool_], observations: NDArray[Any], step: int, watch: Watch
) -> NDArray[Any]:
    """The observations (n, d) after the environments in `fresh` (n,) were reset."""
    with watch(step):
        starts, _ = env.reset(options={"reset_mask": fresh})
    check_observations(env, starts[fresh], (int(fresh.sum()), observations.shape[1]), step, np.flatnonzero(fresh))
    return np.where(fresh[:, None], starts, observations)


@dataclass(frozen=True, eq=False)
class _Recording:
    """What a rollout fills, step by step: arrays whose first axes are time and environment."""

    metric: Coordinates
    seen: NDArray[Any]  # (steps + 1, n, d) coordinates of observations
    observed: NDArray[np.float64]  # (steps + 1, n, d) raw ones
    means: NDArray[Any]  # (steps, n, m)
    latents: NDArray[Any]  # (steps, n, m)
    rewards: NDArray[np.float64]  # (steps, n), as all below
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    cut: NDArray[np.bool_]
    valid: NDArray[np.bool_]  # not a step on which the environment only resets itself
    replaced: list[tuple[int, NDArray[np.int64], NDArray[Any]]]
    """Final observations that are not in `seen`: time, environments, raw observations."""

    @classmethod
    def empty(cls, env: VectorEnv[Any, Any, Any], steps: int, metric: Coordinates, dtype: DTypeLike) -> _Recording:
        n = env.num_envs
        (d,), (m,) = env.single_observation_space.shape or (), env.single_action_space.shape or ()
        seen = np.empty((steps + 1, n, d), dtype=dtype)
        means, latents = np.empty((2, steps, n, m), dtype=dtype)
        terminated, truncated, cut = np.zeros((3, steps, n), dtype=bool)
        valid = np.ones((steps, n), dtype=bool)
        observed, rewards = np.empty((steps + 1, n, d)), np.empty((steps, n))
        return cls(metric, seen, observed, means, latents, rewards, terminated, truncated, cut, valid, [])

    def decide(self, env: VectorEnv[Any, Any, Any], act: Act, observations: NDArray[Any], t: int) -> NDArray[Any]:
        """The actions of step t, in the type of the action space."""
        x = self.seen[t]
        x[...] = self.metric(observations)
        self.observed[t] = observations
        mean, latent, action = act(x)
        check_actions(env, action, self.means.shape[1:], t)
        self.means[t], self.latents[t] = mean, latent
        return action.astype(env.single_action_space.dtype, copy=False)

    def rewarded(self, t: int, reward: Any, terminated: Any, truncated: Any) -> NDArray[np.bool_]:
        """Keep what step t gave; which environments (n,) it ended an episode in."""
        self.rewards[t], self.terminated[t], self.truncated[t] = reward, terminated, truncated
        return np.asarray(self.terminated[t] | self.truncated[t])

    def restarted(
        self, t: int, ended: NDArray[np.bool_], mode: AutoresetMode, restart_p: float, rng: Draws
    ) -> NDArray[np.bool_]:
        """Which environments (n,) we have to reset after step t: those that do not reset themselves, and those cut."""
        fresh = np.zeros(len(ended), dtype=bool)
        if mode is AutoresetMode.NEXT_STEP:
            self.valid[t + 1] = ~ended
        elif mode is AutoresetMode.DISABLED:
            fresh |= ended
        if restart_p > 0.0:
            self.cut[t] = (rng.random(len(ended)) < restart_p) & self.valid[t] & ~ended
            fresh |= self.cut[t]
        return fresh

    def begun(self, t: int, ended: NDArray[np.bool_], mode: AutoresetMode) -> NDArray[np.bool_]:
        """Which environments (n,) have reset themselves in step t, so that an episode begins with what they show."""
        if mode is AutoresetMode.NEXT_STEP:
            return ~self.valid[t]
        return ended if mode is AutoresetMode.SAME_STEP else np.zeros_like(ended)

    def keep_final(self, t: int, which: NDArray[np.bool_], observations: NDArray[Any]) -> None:
        """Remember the last observations of episodes that end with step t; `seen` will hold those of the next ones."""
        self.replaced.append((t, np.flatnonzero(which), observations))

    def assembled(self, observations: NDArray[Any]) -> Batch:
        """The flat layout of `Batch`; `observations` are those after the last step."""
        self.seen[-1], self.observed[-1] = self.metric(observations), observations
        self.cut[-1] = ~(self.terminated[-1] | self.truncated[-1])
        who, time = np.nonzero(self.valid.T)
        over, out_of_time, stopped = (each[time, who] for each in (self.terminated, self.truncated, self.cut))
        ends = over | out_of_time | stopped
        segment: NDArray[np.int64] = np.cumsum(ends) - ends
        state = np.arange(len(who)) + segment
        last = np.flatnonzero(ends)
        shape = (len(who) + len(last), self.seen.shape[2])
        points, raw = np.empty(shape, dtype=self.seen.dtype), np.empty(shape)
        for flat, recorded in ((points, self.seen), (raw, self.observed)):
            flat[state] = recorded[time, who]
            flat[state[last] + 1] = recorded[time[last] + 1, who[last]]
        if self.replaced:
            row = np.full(self.valid.shape, -1)
            row[time[last], who[last]] = state[last] + 1
            rows = np.concatenate([row[t, i] for t, i, _ in self.replaced])
            raw[rows] = np.concatenate([final for _, _, final in self.replaced])
            points[rows] = self.metric(raw[rows])
        rewards = self.rewards[time, who]
        returns, lengths = finished_episodes(rewards, over | out_of_time, ends)
        return Batch(
            points=points,
            raw=raw,
            segment=segment,
            latents=self.latents[time, who],
            means=self.means[time, who],
            rewards=rewards,
            terminated=over,
            truncated=out_of_time,
            cut=stopped,
            episode_returns=returns,
            episode_lengths=lengths,
            lengths=np.bincount(who, minlength=self.valid.shape[1]),
        )


def start_states(
    env: VectorEnv[Any, Any, Any], count: int, seed: int, step_timeout: float | None = Config.step_timeout
) -> NDArray[Any]:
    """At least `count` first observations, from seeds that follow on `seed`."""
    n, (d,) = env.num_envs, env.single_observation_space.shape or ()
    starts = []
    with watching(env_id(env), env.unwrapped, step_timeout) as watch:
        for first in range(0, count, n):
            with watch(0):
                observations, _ = env.reset(seed=seed + first)
            check_observations(env, observations, (n, d), 0)
            starts.append(observations)
    return np.vstack(starts)


def thinned(rows: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    """At most `count` of the rows, drawn without replacement."""
    return rows if len(rows) <= count else rows[rng.choice(len(rows), count, replace=False)]


def _final_observations(
    env: VectorEnv[Any, Any, Any], infos: dict[str, Any], who: NDArray[np.int64], step: int
) -> NDArray[Any]:
    """Those (len(who), d) of the episodes that ended at this step, whose environments reset themselves within it."""
    if "final_obs" not in infos:
        raise EnvError(
            f"{env_id(env)}: in autoreset mode SameStep a vector environment must give the last observation"
            f" of an episode as infos['final_obs']; got infos with the keys {sorted(infos)}."
        )
    finals = np.stack([np.asarray(infos["final_obs"][i]) for i in who])
    (d,) = env.single_observation_space.shape or ()
    check_observations(env, finals, (len(who), d), step, who)
    return finals


def _check_restarts(env: VectorEnv[Any, Any, Any], mode: AutoresetMode, restart_p: float) -> None:
    if restart_p == 0.0:
        return
    if not 0.0 < restart_p < 1.0:
        raise ConfigError(f"restart_p is a probability per step, 0 to under 1; got {restart_p!r}.")
    resets_some = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv) or env.metadata.get(PARTIAL_RESET)
    if mode is not AutoresetMode.DISABLED and not resets_some:
        raise EnvError(
            f"{env_id(env)}: restart_p={restart_p} restarts single environments, which this "
            f"{type(env.unwrapped).__name__} in autoreset mode {mode.value} cannot do. "
            "Set restart_p=0, or pass an id or a factory."
        )

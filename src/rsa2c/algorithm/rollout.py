"""Vector environments to a `Batch` of transitions; from its rewards and values, advantages and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import DTypeLike, NDArray

from rsa2c.config import Config
from rsa2c.envs.checks import check_actions, check_count, check_observations, check_rewards
from rsa2c.envs.names import env_id
from rsa2c.envs.vectorised import PARTIAL_RESET
from rsa2c.envs.watchdog import watching
from rsa2c.errors import ConfigError, DataError, EnvError

Act = Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True)
class Batch:
    """The N transitions of an epoch, one environment after the other, each in time order, no reset steps.

    A segment is a stretch of one episode. Its L transitions share L + 1 points, the last of which is the
    final observation: transition i leads from `points[i + segment[i]]` to `points[i + segment[i] + 1]`.
    """

    points: NDArray[Any]  # (N + S, d) normalised observations, segment after segment
    segment: NDArray[np.int64]  # (N,) number of each transition's segment, 0 ... S - 1
    latents: NDArray[Any]  # (N, m) u as drawn, before squashing
    means: NDArray[Any]  # (N, m) h(s)
    rewards: NDArray[np.float64]  # (N,) in the environment's units
    terminated: NDArray[np.bool_]  # (N,) the episode ended: no value after it
    truncated: NDArray[np.bool_]  # (N,) the environment stopped it: its value goes on
    cut: NDArray[np.bool_]  # (N,) we stopped it, by the restart kernel or at the end of the epoch
    episode_returns: NDArray[np.float64]  # of episodes that ended by themselves
    episode_lengths: NDArray[np.int64]

    @property
    def n(self) -> int:
        return len(self.rewards)

    @property
    def ends(self) -> NDArray[np.bool_]:
        """Last transition of each segment (N,)."""
        return self.terminated | self.truncated | self.cut

    @property
    def state_index(self) -> NDArray[np.int64]:
        """Rows of `points` that hold the states (N,); the next states are one row further."""
        return np.arange(self.n) + self.segment

    @property
    def states(self) -> NDArray[Any]:
        return self.points[self.state_index]

    @property
    def next_states(self) -> NDArray[Any]:
        return self.points[self.state_index + 1]


def collect(
    env: VectorEnv[Any, Any, Any],
    act: Act,
    normaliser: Callable[[NDArray[Any]], NDArray[Any]],
    steps: int,
    seed: int,
    rng: np.random.Generator,
    restart_p: float = 0.0,
    dtype: DTypeLike = np.float64,
    step_timeout: float | None = Config.step_timeout,
) -> Batch:
    """Run `steps` steps in every environment, afresh from `reset(seed=seed)`.

    `act` maps normalised observations (n, d) to the policy's mean (n, m), the latent drawn (n, m) and the
    action (n, m) in the environment's units. With probability `restart_p` a step the episode is cut there
    and its environment starts anew. Steps on which an environment only resets itself are left out, so N <=
    steps * n. A step or reset of the environments may take `step_timeout` seconds.
    """
    check_count("steps", steps)
    mode = autoreset_mode(env)
    if restart_p != 0.0:
        _check_restarts(env, mode, restart_p)
    n = env.num_envs
    action_space = env.single_action_space
    (d,), (m,) = env.single_observation_space.shape or (), action_space.shape or ()
    seen = np.empty((steps + 1, n, d), dtype=dtype)
    means, latents = np.empty((2, steps, n, m), dtype=dtype)
    rewards = np.empty((steps, n))
    terminated, truncated, cut = np.zeros((3, steps, n), dtype=bool)
    valid = np.ones((steps, n), dtype=bool)
    replaced: list[tuple[int, NDArray[np.int64], NDArray[Any]]] = []  # final observations not in `seen`

    with watching(env_id(env), env.unwrapped, step_timeout) as watch:
        with watch(0):
            observations, _ = env.reset(seed=int(seed))
        check_observations(env, observations, (n, d), 0)
        for t in range(steps):
            x = seen[t]
            x[...] = normaliser(observations)
            mean, latent, action = act(x)
            check_actions(env, action, (n, m), t)
            means[t], latents[t] = mean, latent
            action = action.astype(action_space.dtype, copy=False)
            with watch(t + 1):
                observations, reward, over, out_of_time, infos = env.step(action)
            check_observations(env, observations, (n, d), t + 1)
            check_rewards(env, reward, n, t + 1)
            rewards[t], terminated[t], truncated[t] = reward, over, out_of_time

            ended = terminated[t] | truncated[t]
            if t + 1 < steps:
                fresh = np.zeros(n, dtype=bool)
                if mode is AutoresetMode.NEXT_STEP:
                    valid[t + 1] = ~ended
                elif mode is AutoresetMode.DISABLED:
                    fresh |= ended
                if restart_p > 0.0:
                    cut[t] = (rng.random(n) < restart_p) & valid[t] & ~ended
                    fresh |= cut[t]
                if fresh.any():
                    who = np.flatnonzero(fresh)
                    replaced.append((t, who, observations[who]))
                    with watch(t + 1):
                        starts, _ = env.reset(options={"reset_mask": fresh})
                    check_observations(env, starts[who], (len(who), d), t + 1, who)
                    observations = np.where(fresh[:, None], starts, observations)
            if mode is AutoresetMode.SAME_STEP and ended.any():
                who = np.flatnonzero(ended)
                finals = _final_observations(env, infos, who)
                check_observations(env, finals, (len(who), d), t + 1, who)
                replaced.append((t, who, finals))

    seen[steps] = normaliser(observations)
    cut[-1] = ~(terminated[-1] | truncated[-1])
    return _assemble(seen, replaced, normaliser, latents, means, rewards, terminated, truncated, cut, valid)


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


def _assemble(
    seen: NDArray[Any],
    replaced: list[tuple[int, NDArray[np.int64], NDArray[Any]]],
    normaliser: Callable[[NDArray[Any]], NDArray[Any]],
    latents: NDArray[Any],
    means: NDArray[Any],
    rewards: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    cut: NDArray[np.bool_],
    valid: NDArray[np.bool_],
) -> Batch:
    """From (time, environment) arrays to the flat layout of `Batch`."""
    who, time = np.nonzero(valid.T)
    over, out_of_time, stopped = terminated[time, who], truncated[time, who], cut[time, who]
    ends = over | out_of_time | stopped
    segment: NDArray[np.int64] = np.cumsum(ends) - ends
    state = np.arange(len(who)) + segment
    last = np.flatnonzero(ends)

    points = np.empty((len(who) + len(last), seen.shape[2]), dtype=seen.dtype)
    points[state] = seen[time, who]
    points[state[last] + 1] = seen[time[last] + 1, who[last]]
    if replaced:
        row = np.full(valid.shape, -1)
        row[time[last], who[last]] = state[last] + 1
        rows = np.concatenate([row[t, i] for t, i, _ in replaced])
        points[rows] = normaliser(np.concatenate([final for _, _, final in replaced]))

    rewards = rewards[time, who]
    first = np.concatenate([[0], last[:-1] + 1])
    complete = (over | out_of_time)[last]
    return Batch(
        points=points,
        segment=segment,
        latents=latents[time, who],
        means=means[time, who],
        rewards=rewards,
        terminated=over,
        truncated=out_of_time,
        cut=stopped,
        episode_returns=np.add.reduceat(rewards, first)[complete],
        episode_lengths=(last - first + 1)[complete],
    )


def advantages(batch: Batch, values: NDArray[Any], gamma: float, lam: float) -> NDArray[np.float64]:
    """GAE(lambda) (N,) from the values (N + S,) of `batch.points`.

    delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t) and A_t = sum_k (gamma lambda)^k delta_{t+k},
    the sum stopping with the segment.
    """
    _check_values(batch, values)
    return _gae(
        batch.rewards, values.astype(np.float64), batch.segment, batch.terminated, batch.ends, gamma, lam
    )


def discounted_returns(batch: Batch, values: NDArray[Any] | None, gamma: float) -> NDArray[np.float64]:
    """Discounted returns to go (N,); a segment that did not terminate goes on with its last point's value.

    `values` (N + S,) are those of `batch.points`; None counts nothing after the segment.
    """
    if values is None:
        values = np.zeros(len(batch.points))
    _check_values(batch, values)
    return _returns(
        batch.rewards, values.astype(np.float64), batch.segment, batch.terminated, batch.ends, gamma
    )


@numba.njit(cache=True)
def _gae(rewards, values, segment, terminated, ends, gamma, lam):  # type: ignore[no-untyped-def]
    out = np.empty(len(rewards))
    ahead = 0.0
    for i in range(len(rewards) - 1, -1, -1):
        here = i + segment[i]
        after = 0.0 if terminated[i] else values[here + 1]
        delta = rewards[i] + gamma * after - values[here]
        ahead = delta if ends[i] else delta + gamma * lam * ahead
        out[i] = ahead
    return out


@numba.njit(cache=True)
def _returns(rewards, values, segment, terminated, ends, gamma):  # type: ignore[no-untyped-def]
    out = np.empty(len(rewards))
    ahead = 0.0
    for i in range(len(rewards) - 1, -1, -1):
        if terminated[i]:
            ahead = 0.0
        elif ends[i]:
            ahead = values[i + segment[i] + 1]
        ahead = rewards[i] + gamma * ahead
        out[i] = ahead
    return out


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """When the environments of a vector environment start a new episode after an end."""
    try:
        return AutoresetMode(env.metadata["autoreset_mode"])
    except (KeyError, ValueError) as error:
        raise EnvError(
            f"{env_id(env)}: a vector environment must say in metadata['autoreset_mode'] when it resets, a "
            f"gymnasium.vector.AutoresetMode; got {env.metadata.get('autoreset_mode')!r}."
        ) from error


def _final_observations(
    env: VectorEnv[Any, Any, Any], infos: dict[str, Any], who: NDArray[np.int64]
) -> NDArray[Any]:
    if "final_obs" not in infos:
        raise EnvError(
            f"{env_id(env)}: in autoreset mode SameStep a vector environment must give the last observation"
            f" of an episode as infos['final_obs']; got infos with the keys {sorted(infos)}."
        )
    return np.stack([np.asarray(infos["final_obs"][i]) for i in who])


def _check_restarts(env: VectorEnv[Any, Any, Any], mode: AutoresetMode, restart_p: float) -> None:
    if not 0.0 < restart_p < 1.0:
        raise ConfigError(f"restart_p is a probability per step, 0 to under 1; got {restart_p!r}.")
    resets_some = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv) or env.metadata.get(PARTIAL_RESET)
    if mode is not AutoresetMode.DISABLED and not resets_some:
        raise EnvError(
            f"{env_id(env)}: restart_p={restart_p} restarts single environments, which this "
            f"{type(env.unwrapped).__name__} in autoreset mode {mode.value} cannot do. "
            "Set restart_p=0, or pass an id or a factory."
        )


def _check_values(batch: Batch, values: NDArray[Any]) -> None:
    if values.shape != (len(batch.points),):
        raise DataError(
            f"values must have one entry for each of the batch's {len(batch.points)} points, "
            f"got shape {values.shape}."
        )

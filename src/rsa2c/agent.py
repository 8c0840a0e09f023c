"""The agent: it trains, saves and loads; what can be asked of it is in `trained.py`."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cached_property
from os import PathLike
from typing import Any

from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.epoch import Around, EpochRecord, epoch
from rsa2c.algorithm.snapshot import Snapshot
from rsa2c.algorithm.threads import limited_threads
from rsa2c.algorithm.warmup import settled, warm_up
from rsa2c.callbacks import Callback, Logger, hooks
from rsa2c.config import Config, make_config
from rsa2c.envs import EnvLike, env_id, make_env
from rsa2c.envs.single import make_single
from rsa2c.errors import ConfigError, EnvError
from rsa2c.progress import progress
from rsa2c.trained import Trained
from rsa2c.zoo import located


class RSA2C(Trained):
    """A continuous-control agent whose policy, value and advantage are kernel expansions on remembered states.

    `env` is a Gymnasium id, a factory or a VectorEnv; any setting of `Config` is a keyword argument. What can be asked
    of the agent (predict, explain, certify, ...) is in `Trained`; this class trains, saves and loads.
    """

    preset: str
    history: list[dict[str, float]]
    """A row of metrics for each epoch."""
    attribution_log: list[tuple[int, NDArray, NDArray]]
    """Epoch, mean absolute attribution (d,) and kernel weights (d,) of each attribution."""
    record: EpochRecord | None
    """What is known of the last epoch: metrics, seconds of each phase, sizes."""

    def __init__(
        self,
        env: EnvLike | None,
        algorithm: str | None = None,
        *,
        preset: str = "default",
        feature_names: tuple[str, ...] | None = None,
        snapshot: Snapshot | None = None,
        **settings: Any,
    ) -> None:
        self._source = env
        self._env: VectorEnv | None = None
        if snapshot is not None and (algorithm or settings or feature_names):
            raise ConfigError("a snapshot has its algorithm, settings and feature names already; leave them out.")
        if snapshot is None:
            if isinstance(env, VectorEnv):
                settings.setdefault("n_envs", env.num_envs)
            name = _id_of(env)
            snapshot = self._begun(name, feature_names, preset, make_config(name, preset, algorithm, **settings))
        super().__init__(snapshot.task, snapshot.config, snapshot.state)
        self.preset = snapshot.preset
        self.history, self.attribution_log = list(snapshot.history), list(snapshot.attributions)
        self.record = None

    def _begun(self, name: str, names: tuple[str, ...] | None, preset: str, config: Config) -> Snapshot:
        """Everything before the first epoch: inspect the environment, settle the sizes, warm up."""
        with limited_threads(config.threads):
            probe = _make_env(self._source, config, None)
            try:
                task, config = settled(probe, name, isinstance(self._source, str), names, config)
            finally:
                if probe is not self._source:
                    probe.close()
            self._env = _make_env(self._source, config, Sizes.of(config).n_envs)
            try:
                state, config = warm_up(self._env, config, task)
            except BaseException:
                self.close()
                raise
        return Snapshot(task, preset, config, state)

    def learn(
        self,
        total_timesteps: int,
        callback: Callback | Any = None,
        progress_bar: bool = False,
    ) -> RSA2C:
        """Train `total_timesteps` more steps, rounded up to whole epochs; a callback that returns False stops it.

        A callback is called after each epoch: a function `callback(locals, globals)`, an SB3 callback, or a list of
        these.
        """
        if not total_timesteps > 0:
            raise ConfigError(f"total_timesteps must be positive, got {total_timesteps}.")
        goal = self.num_timesteps + total_timesteps
        threads = limited_threads(self.config.threads)
        with threads, progress(self, goal, enabled=progress_bar) as show, hooks(callback, self) as proceed:
            while self.num_timesteps < goal:
                self.run_epoch()
                show()
                if proceed(locals(), globals()) is False:
                    break
        return self

    def run_epoch(self, around: Around = nullcontext) -> EpochRecord:
        """Train one epoch; `around(phase)` is entered around each phase.

        If it fails, the agent is what it was before, and its environments are closed.
        """
        try:
            self.state, self.record = epoch(self.state, self.env, self.config, around)
        except BaseException:
            self.close()
            raise
        self.history.append(self.record.metrics)
        if self.record.attribution is not None:
            self.attribution_log.append((self.state.epoch, *self.record.attribution))
        return self.record

    @property
    def env(self) -> VectorEnv:
        """The training environments, made when first needed."""
        if self._env is None:
            if self._source is None:
                raise EnvError(
                    f"this agent was trained on a factory or VectorEnv ({self.env_id}), which a file cannot hold. "
                    "Pass it: RSA2C.load(path, env=...)."
                )
            env = _make_env(self._source, self.config, self.sizes.n_envs)
            spaces = (env.single_observation_space.shape, env.single_action_space.shape)
            expected = ((len(self.feature_names),), (len(self.action_names),))
            if spaces != expected:
                if env is not self._source:
                    env.close()
                raise EnvError(
                    f"the agent has observations and actions of the shapes {expected}, {env_id(env)} has {spaces}. "
                    f"Give the environment it was trained on, {self.env_id}."
                )
            self._env = env
        return self._env

    def get_env(self) -> VectorEnv:
        """The training environments, by the name SB3's callbacks ask for."""
        return self.env

    def close(self) -> None:
        """Close the training environments, unless they are the caller's own."""
        if self._env is not None and self._env is not self._source:
            self._env.close()
        self._env = None

    @cached_property
    def logger(self) -> Logger:
        """What SB3's callbacks record into; `agent.logger.values` holds the last value of each key."""
        return Logger()

    def snapshot(self) -> Snapshot:
        """Everything a file holds of the agent, as it is now."""
        log = tuple(self.attribution_log)
        return Snapshot(self.task, self.preset, self.config, self.state, tuple(self.history), log)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything `learn`, `predict` and `explain` need to one safetensors file."""
        self.snapshot().save(path)

    @classmethod
    def load(cls, path: str | PathLike[str], env: EnvLike | None = None) -> RSA2C:
        """The agent in a file, or zoo:ID; `env` is needed to train further only if it was trained on a factory or
        VectorEnv."""
        return cls.of(Snapshot.load(located(path)), env)

    @classmethod
    def of(cls, snapshot: Snapshot, env: EnvLike | None = None) -> RSA2C:
        """The agent that a snapshot describes."""
        if env is None and snapshot.task.is_id:
            env = snapshot.task.env_id
        return cls(env, snapshot=snapshot)


def _make_env(source: EnvLike | None, config: Config, n_envs: int | None) -> VectorEnv:
    assert source is not None, "the caller has an environment"
    return make_env(
        source,
        n_envs,
        backend="auto" if isinstance(source, VectorEnv) else config.backend,
        noise_variance=config.noise_variance,
        distractors=config.distractors,
        threads=config.threads,
    )


def _id_of(env: EnvLike | None) -> str:
    if isinstance(env, str):
        return env
    if env is None:
        raise EnvError("an agent needs an environment: an id such as 'Pendulum-v1', a factory or a VectorEnv.")
    if isinstance(env, VectorEnv):
        return env_id(env)
    single = make_single(env)
    try:
        return env_id(single)
    finally:
        single.close()

"""The agent: it trains, saves and loads; what can be asked of it is in `trained.py`, SB3's habits are in `sb3/`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm.automatic import Sizes, check_total, last_step
from rsa2c.algorithm.epoch import Around, EpochRecord, epoch
from rsa2c.algorithm.keeping import concluded
from rsa2c.algorithm.observing import Observe
from rsa2c.algorithm.robust import tell_short_ramp
from rsa2c.algorithm.snapshot import Snapshot
from rsa2c.algorithm.task import Task
from rsa2c.algorithm.threads import limited_threads
from rsa2c.algorithm.warmup import settled, warm_up
from rsa2c.algorithm.workers import Workers, training_env
from rsa2c.config import Config, make_config
from rsa2c.envs import EnvLike, Source
from rsa2c.envs.checks import check_same_spaces
from rsa2c.envs.modules import use_module
from rsa2c.envs.names import Names
from rsa2c.envs.source import KINDS
from rsa2c.errors import EnvError
from rsa2c.gpu.choosing import on_device
from rsa2c.progress import progress
from rsa2c.sb3.callbacks import Callback, StopTraining, hooks
from rsa2c.sb3.methods import SB3Methods, check_saved_arguments, check_sb3_arguments
from rsa2c.workers import check_workers, hired
from rsa2c.zoo import located


class RSA2C(SB3Methods):
    """A continuous-control agent whose policy, value and advantage are kernel expansions on remembered states.

    `env` is a Gymnasium id, `module:Id`, an instance, of Brax or MuJoCo Playground too, a class or function that makes
    one (`env_kwargs` are their arguments), a VectorEnv, SB3's VecEnv, or a pool of EnvPool; any setting of `Config` is
    a keyword argument. What can be asked of the agent (predict, explain, certify, ...) is in `Trained`; this class
    trains, saves and loads.
    `feature_names` names the features: a list, a mapping from name to unit, or a YAML file with either. `verbose` and
    `tensorboard_log` are for `learn`, as in SB3. With `workers` above 1 the environments are spread over as many
    processes, or with `cluster` over actors of a Ray cluster ("auto", "local", or an address); the result is the same.
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
        feature_names: Names | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        verbose: int = 0,
        tensorboard_log: str | PathLike[str] | None = None,
        device: str = "auto",
        workers: int = 1,
        cluster: str | None = None,
        snapshot: Snapshot | None = None,
        **settings: Any,
    ) -> None:
        check_sb3_arguments(env, algorithm, device, verbose, settings)
        check_workers(workers, cluster)
        use_module(env)
        self.verbose, self.tensorboard_log = verbose, None if tensorboard_log is None else Path(tensorboard_log)
        self._source = None if env is None else Source.of(env, env_kwargs)
        self._env, self._spread = None, (workers, cluster)
        self._workers: Workers | None = None
        if snapshot is not None:
            check_saved_arguments(algorithm=algorithm, feature_names=feature_names, **settings)
        given = snapshot
        if str(device) != "auto":
            settings["device"] = str(device)
        if snapshot is None:
            if self._source is None:
                raise EnvError(f"an agent needs an environment: {KINDS}.")
            brought = self._source.n_envs if "n_envs" not in settings else None
            if brought is not None:
                settings["n_envs"] = brought
            config = make_config(self._source.name, preset, algorithm, **settings)
            snapshot = self._begun(self._source, feature_names, preset, config, brought)
        elif settings:
            snapshot = replace(snapshot, config=snapshot.config.updated(**settings))
        super().__init__(snapshot.task, snapshot.config, snapshot.state)
        self.preset, self.record = snapshot.preset, None
        self.history, self.attribution_log = list(snapshot.history), list(snapshot.attributions)
        if given is not None and self._source is not None:
            self._check_spaces_of(self._source)

    def _begun(self, source: Source, names: Names | None, preset: str, config: Config, brought: int | None) -> Snapshot:
        """Everything before the first epoch: inspect the environment, settle the sizes, warm up."""
        with limited_threads(config.threads):
            probe = training_env(source, config, None)
            try:
                task, config = settled(probe, source, names, config, brought)
                box: Any = probe.single_action_space
            finally:
                if source.vector is None:
                    probe.close()
            try:
                self._workers = self._hired(source, config, task)
                state, config = warm_up(self._workers, box, config, task)
            except BaseException:
                self.close()
                raise
        return Snapshot(task, preset, config, state)

    def _hired(self, source: Source, config: Config, task: Task) -> Workers:
        """Whoever holds the training environments: a device, this process, or as many workers as were asked for."""
        workers, cluster = self._spread
        if config.device != "cpu":
            return on_device(source, config, workers, cluster)
        if workers > 1 or cluster is not None:
            return hired(source, config, task, workers, cluster)
        if self._env is None:
            self._env = training_env(source, config, Sizes.of(config).n_envs)
        return Workers(self._env, config)

    def spread_over(self, workers: int, cluster: str | None = None) -> None:
        """Train on with so many workers; the result does not depend on it."""
        check_workers(workers, cluster)
        self.close()
        self._spread = workers, cluster

    @property
    def workers(self) -> Workers:
        """Whoever holds the training environments, hired when first needed."""
        if self._workers is None:
            if self._spread == (1, None) and self.config.device == "cpu":
                self._workers = Workers(self.env, self.config)
            else:
                self._check_spaces_of(self.source)
                self._workers = self._hired(self.source, self._config_for(self.source), self.task)
        return self._workers

    def learn(
        self,
        total_timesteps: int,
        callback: Callback | Any = None,
        log_interval: int | None = 1,
        tb_log_name: str = "RSA2C",
        reset_num_timesteps: bool = False,
        progress_bar: bool = False,
    ) -> RSA2C:
        """Train `total_timesteps` environment steps more, rounded up to whole epochs; the first call includes the steps
        of the warm-up, which were made when the agent was.

        A callback that returns False stops it: SB3's are called after each step of the environments, a function
        `callback(locals, globals)` after each epoch; a list may have both. `reset_num_timesteps` counts from zero again
        (in SB3 that is the default), and what depends on the count begins anew: the growth of epochs, the decline of
        `kl`, the growth of errors. Logs are written every `log_interval` epochs.
        """
        check_total(total_timesteps)
        if reset_num_timesteps and self.epoch:
            self.state = self.state.counted_anew()
            self.ep_info_buffer.clear()
        goal = total_timesteps + (self.state.steps if self.epoch else 0)
        tell_short_ramp(self.config, goal)
        self.steps_under_way, first, began = 0, self.state.steps, time.perf_counter()
        local = {"total_timesteps": last_step(self.config, first, self.epoch, goal), "tb_log_name": tb_log_name}
        threads, log = limited_threads(self.config.threads), self._logging(tb_log_name, reset_num_timesteps)
        with threads, log, progress(self, goal, enabled=progress_bar) as show, hooks(callback, self, local) as called:
            while True:
                called.before_epoch()
                try:
                    self.run_epoch(observe=called.observe)
                except StopTraining:
                    break
                if self.state.steps >= goal:
                    self.conclude()
                self._log(time.perf_counter() - began, self.state.steps - first)
                if log_interval and self.epoch % log_interval == 0:
                    self.dump_logs()
                show()
                if not called.after_epoch(locals(), globals()) or self.state.steps >= goal:
                    break
            if self.state.steps < goal:
                self.conclude()
        return self

    def conclude(self) -> None:
        """Try the last policy on a device with keep="best": for whoever calls `run_epoch` until the time is up."""
        if self.record is not None:
            before = self.state.steps - self.record.work.steps
            self.state = concluded(self.state, before, self.workers, self.config)

    def run_epoch(self, around: Around = nullcontext, observe: Observe | None = None) -> EpochRecord:
        """Train one epoch; `around(phase)` is entered around each phase, `observe` called after each step.

        If it fails, the agent is what it was before, and its environments are closed.
        """
        self.steps_under_way = 0
        try:
            self.state, self.record = epoch(self.state, self.workers, self.config, around, observe)
        except StopTraining:
            raise
        except BaseException:
            self.close()
            raise
        self.steps_under_way = 0
        self.history.append(self.record.metrics)
        if observe is None:  # whoever watches has noted them as they ended
            self.note_episodes(*self.record.episodes)
        if self.record.attribution is not None:
            self.attribution_log.append((self.state.epoch, *self.record.attribution))
        return self.record

    @property
    def source(self) -> Source:
        """Where its environments come from."""
        if self._source is None:
            raise EnvError(
                f"this agent was trained on a factory or VectorEnv ({self.env_id}), which a file cannot hold. "
                "Pass it: RSA2C.load(path, env=...)."
            )
        return self._source

    @property
    def env(self) -> VectorEnv:
        """The training environments, made when first needed."""
        if self._env is None:
            # a device has its own environments: one of Gymnasium's shows what their spaces are
            self._env = self._made(self.source, self.sizes.n_envs if self.config.device == "cpu" else 1)
            try:
                self._check_spaces(self._env)
            except EnvError:
                self.close()
                raise
        return self._env

    def _made(self, source: Source, n_envs: int | None) -> VectorEnv:
        return training_env(source, self._config_for(source), n_envs)

    def _config_for(self, source: Source) -> Config:
        """The settings for environments of an agent that was begun in others, whose backend may not have these."""
        same = source.id is not None and (source.id, source.kwargs) == (self.env_id, self.task.env_kwargs)
        return self.config if same else self.config.updated(backend="auto")

    def _check_spaces_of(self, source: Source) -> None:
        if self.config.device == "cpu":
            source.check_number(self.n_envs)
        env = self._made(source, source.n_envs)
        try:
            self._check_spaces(env)
        finally:
            if source.vector is None:
                env.close()

    def _check_spaces(self, env: VectorEnv) -> None:
        bounds = self.policy.bounds
        check_same_spaces(env, len(self.feature_names), bounds.low, bounds.high, self.env_id)

    def close(self) -> None:
        """Close the training environments, unless they are the caller's own, and let workers go."""
        if self._workers is not None:
            self._workers.close()
        self._workers = None
        if self._env is not None and (self._source is None or self._source.vector is None):
            self._env.close()
        self._env = None

    def snapshot(self) -> Snapshot:
        """Everything a file holds of the agent, as it is now."""
        log = tuple(self.attribution_log)
        return Snapshot(self.task, self.preset, self.config, self.state, tuple(self.history), log)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything `learn`, `predict` and `explain` need to one safetensors file."""
        self.snapshot().save(path)

    @classmethod
    def load(cls, path: str | PathLike[str], env: EnvLike | None = None, **options: Any) -> RSA2C:
        """The agent in a file, or zoo:ID; `env` is needed to train further only if it was trained on a factory or
        VectorEnv, and must have the same spaces. Options are `verbose`, `tensorboard_log`, `device`, `workers` and
        `cluster`."""
        return cls.of(Snapshot.load(located(path)), env, **options)

    @classmethod
    def of(cls, snapshot: Snapshot, env: EnvLike | None = None, **options: Any) -> RSA2C:
        """The agent that a snapshot describes."""
        same = env == snapshot.task.env_id if isinstance(env, str) else False
        agent = cls(env, env_kwargs=snapshot.task.env_kwargs if same else None, snapshot=snapshot, **options)
        if env is None and snapshot.task.is_id:
            agent._source = Source(id=snapshot.task.env_id, kwargs=snapshot.task.env_kwargs)
        return agent

"""The methods of an agent that users of Stable-Baselines3 expect, beside `learn`, `predict`, `save` and `load`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm.snapshot import Snapshot, pack, unpack
from rsa2c.algorithm.state import TrainingState
from rsa2c.algorithm.task import Task
from rsa2c.config import Config
from rsa2c.envs.modules import use_module
from rsa2c.envs.names import chain
from rsa2c.envs.single import make_single
from rsa2c.envs.source import EnvLike, Source
from rsa2c.envs.vecenv import as_vecenv
from rsa2c.errors import ConfigError, DataError, FileFormatError, did_you_mean
from rsa2c.files import read_tensors
from rsa2c.sb3.logger import Logger, check_verbose, new_folder
from rsa2c.sb3.tensorboard import epoch_scalars
from rsa2c.trained import Trained

EPISODES_KEPT = 100
"""As many as SB3's `stats_window_size` keeps."""
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy")
DEVICES = ("auto", "cpu", "cuda", "jax-cpu")
WITHOUT_USE = {
    "policy": "it has one kind of policy, a kernel expansion",
    "policy_kwargs": "it has no network; capacity and length_scale shape the policy",
    "learning_rate": "kl is the size of a step, as a divergence between policies",
    "n_steps": "n_envs and horizon are the size of a batch",
    "batch_size": "each fit takes the whole batch of n_envs times horizon steps",
    "n_epochs": "each fit is solved at once",
    "buffer_size": "it learns from new steps only; n_envs and horizon are the size of a batch",
    "learning_starts": "it warms up by itself, and learn counts those steps",
    "ent_coef": "sigma_initial and noise_correlation are what explores",
}
"""Arguments of SB3's constructors, and what there is in their place."""


class SB3Methods(Trained):
    """Environments, parameters, seeds and logs, under SB3's names."""

    verbose: int
    tensorboard_log: Path | None
    _source: Source | None
    _env: VectorEnv | None
    _logger: Any = None
    _own_logger = True
    steps_under_way = 0
    """Environment steps of an epoch that is not finished; those of one that a callback stopped stay until the next."""

    ep_info_buffer: deque[dict[str, Any]]
    """The last 100 episodes of training: return `r`, length `l`, seconds `t` since the agent was made or loaded."""

    def __init__(self, task: Task, config: Config, state: TrainingState) -> None:
        super().__init__(task, config, state)
        self.ep_info_buffer, self._made_at = deque(maxlen=EPISODES_KEPT), time.time()

    def note_episodes(self, *ended: tuple[float, int]) -> None:
        """Add episodes, each as its return and length, to `ep_info_buffer`."""
        seconds = time.time() - self._made_at
        self.ep_info_buffer.extend({"r": total, "l": length, "t": seconds} for total, length in ended)

    if TYPE_CHECKING:

        @property
        def env(self) -> VectorEnv: ...

        def snapshot(self) -> Snapshot: ...

        def close(self) -> None: ...

        def _check_spaces_of(self, source: Source) -> None: ...

    @property
    def num_timesteps(self) -> int:
        """Environment steps so far, those of the warm-up and of an unfinished epoch included."""
        return self.state.steps + self.steps_under_way

    def set_env(self, env: EnvLike, force_reset: bool = True) -> None:
        """Train on in another environment with the same spaces; every epoch starts afresh in any case."""
        use_module(env)
        source = Source.of(env)
        self._check_spaces_of(source)
        self.close()
        self._source = source

    def get_env(self) -> Any:
        """The training environments, as SB3's `VecEnv` once SB3 is imported. Its `reset` and `step` play in others like
        them, so that training is not disturbed."""
        config = self.config
        alike = partial(
            make_single,
            self._source,
            noise_variance=config.noise_variance,
            distractors=config.distractors,
            distractor_kind=config.distractor_kind,
        )
        return as_vecenv(self.env, alike)

    def get_vec_normalize_env(self) -> Any:
        """SB3's `VecNormalize` around the training environments; None if there is none."""
        found = (each for each in chain(self.env) if type(each).__name__ == "VecNormalize")
        return next(found, None)

    @property
    def n_envs(self) -> int:
        """Number of training environments."""
        return self.sizes.n_envs

    @property
    def observation_space(self) -> spaces.Box:
        """The environment's, flattened; of an agent without environment, one without bounds."""
        if self._source is None:
            return spaces.Box(-np.inf, np.inf, (len(self.feature_names),), np.float64)
        space: Any = self.env.single_observation_space
        return space

    @property
    def action_space(self) -> spaces.Box:
        """The environment's; of an agent without environment, the bounds it learned in."""
        if self._source is None:
            low, high = self.policy.bounds.low, self.policy.bounds.high
            return spaces.Box(low.astype(np.float32), high.astype(np.float32))
        space: Any = self.env.single_action_space
        return space

    def get_parameters(self) -> dict[str, NDArray[Any]]:
        """Every array that a model file holds, by name, as copies."""
        return {name: np.array(array) for name, array in pack(self.snapshot(), checkpoint=False)[0].items()}

    def set_parameters(
        self,
        load_path_or_dict: str | PathLike[str] | Mapping[str, NDArray[Any]],
        exact_match: bool = True,
        device: str = "auto",
    ) -> None:
        """Take arrays from a model file or a mapping; with `exact_match` they must be all and no others."""
        own, metadata = pack(self.snapshot(), checkpoint=False)
        mapping = isinstance(load_path_or_dict, Mapping)
        given: Any = load_path_or_dict if mapping else read_tensors(load_path_or_dict)[0]  # type: ignore[arg-type]
        missing = sorted(set(own) - set(given)) if exact_match else []
        if missing:
            raise DataError(f"set_parameters misses {', '.join(missing)}. Give them, or pass exact_match=False.")
        for name in sorted(set(given) - set(own)):
            near = did_you_mean(name, own)
            raise DataError(f"set_parameters was given {name!r}, which the agent does not have.{near}")
        try:
            self.state = unpack({**own, **{name: np.array(given[name]) for name in given}}, metadata).state
        except (ValueError, FileFormatError) as error:
            raise DataError(f"set_parameters was given arrays that do not fit together: {error}") from error

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed what is drawn from now on, in training and by `predict`; None changes nothing."""
        if seed is not None:
            self.config = self.config.updated(seed=seed)
            self._prediction_rng = np.random.default_rng(seed)

    @property
    def logger(self) -> Any:
        """What callbacks record into; `agent.logger.values` holds the last value of each key."""
        if self._logger is None:
            self._logger = Logger(self.verbose)
        return self._logger

    def set_logger(self, logger: Any) -> None:
        """Record into a logger of one's own, such as `stable_baselines3.common.logger.configure` makes."""
        self._logger, self._own_logger = logger, False

    def dump_logs(self, iteration: int = 0) -> None:
        """Write what was recorded since the last time."""
        self.logger.dump(step=self.num_timesteps)

    @contextmanager
    def _logging(self, name: str, afresh: bool) -> Iterator[None]:
        """The log of a `learn`: in a new folder under `tensorboard_log`, or in the one of the last `learn`."""
        if self._own_logger and self.tensorboard_log is not None and (afresh or self._logger is None):
            self._logger = Logger(self.verbose, new_folder(self.tensorboard_log, name))
        try:
            yield
        finally:
            if self._own_logger:
                self.logger.close()

    def _log(self, seconds: float, steps: int) -> None:
        """Record the epoch that has just ended; `steps` were made in `seconds` of this `learn`."""
        for key, value in epoch_scalars(self, seconds, steps).items():  # type: ignore[arg-type]
            self.logger.record(key, value)


def check_sb3_arguments(env: Any, algorithm: Any, device: str, verbose: int, settings: Mapping[str, Any]) -> None:
    """Refuse what SB3's constructors take and this agent has no use for."""
    check_verbose(verbose)
    if isinstance(env, str) and env in POLICIES:
        raise ConfigError(
            f"RSA2C takes no {env!r}: it has one kind of policy, a kernel expansion. Write RSA2C(env) instead of "
            f"RSA2C({env!r}, env)."
        )
    check_names(settings)
    if algorithm is not None and not isinstance(algorithm, str):
        raise ConfigError(f"algorithm is a name such as 'rsa2c-kme', got {type(algorithm).__name__}. Write RSA2C(env).")
    if str(device) not in DEVICES:
        raise ConfigError(f"device must be one of {', '.join(map(repr, DEVICES))}, got {str(device)!r}.")


def check_names(names: Collection[str]) -> None:
    """Refuse names of SB3's arguments that have no use here, with what there is in their place."""
    for name, instead in WITHOUT_USE.items():
        if name in names:
            raise ConfigError(f"RSA2C has no {name}: {instead}. Leave it out.")


def check_saved_arguments(**arguments: Any) -> None:
    """Refuse what an agent in a file has already."""
    if given := [name for name, value in arguments.items() if value is not None]:
        raise ConfigError(
            f"a saved agent has its algorithm, settings and feature names already, got {', '.join(given)}. Leave out "
            "all but env, verbose, tensorboard_log, device, workers and cluster."
        )

"""The first state of a training: metric, dictionaries and background from states of the untrained policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from rsa2c.algorithm import automatic
from rsa2c.algorithm.actor import ActionBounds, GaussianPolicy
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.epoch import BACKGROUND_STATES
from rsa2c.algorithm.first_noise import FirstRollouts
from rsa2c.algorithm.following import CLIP, KNEE, Scale
from rsa2c.algorithm.rollout import thinned
from rsa2c.algorithm.state import WARMUP, TrainingState, generator
from rsa2c.algorithm.task import Task
from rsa2c.algorithm.weights import Importances
from rsa2c.algorithm.workers import Workers
from rsa2c.attribution.inputs import named_features
from rsa2c.config import Config, FollowingScale
from rsa2c.envs import Source, action_names, backend_of, episode_limit, feature_names
from rsa2c.envs.names import Names, given_names, layout_of
from rsa2c.errors import EnvError, notice
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction

WARMUP_EPISODES = 10
"""Episodes of the untrained policy, at least: enough for means and deviations to a few per cent."""
START_STATES = 1000
"""Start states that the metric is fitted to where it is fitted to these alone."""


def settled(
    env: VectorEnv, source: Source, names: Names | None, config: Config, brought: int | None
) -> tuple[Task, Config]:
    """The task of an environment, and the configuration with every size that follows from it; `brought` is the number
    of environments that came in one object."""
    box, shape = env.single_action_space, env.single_observation_space.shape
    assert isinstance(box, Box) and shape is not None, "make_env checked it"
    d, m, limit = shape[0], box.shape[0], episode_limit(env)
    asked = config.horizon
    try:
        ActionBounds.of(box, config.squash)
    except EnvError as error:
        raise EnvError(f"{source.name}: {error}") from error
    config = automatic.settle_sizes(config, d, m, limit, brought).updated(backend=backend_of(env))
    if limit is None and asked == "auto":
        notice(
            f"{source.name} has no episode limit, so an epoch takes {config.horizon:,} steps of each environment, and "
            "evaluations stop there. Set horizon for another number."
        )
    known = named_features(feature_names(env, d) if names is None else given_names(names), d)
    kwargs = source.kwargs if source.is_id else {}
    return Task(source.name, source.is_id, limit, known, action_names(env, m), kwargs, layout_of(env)), config


def warm_up(workers: Workers, box: Box, config: Config, task: Task) -> tuple[TrainingState, Config]:
    """The state before the first epoch, and the configuration with its first noise and length scale settled; `box` has
    the actions."""
    sizes, rng, d, m = Sizes.of(config), generator(config, 0, WARMUP), len(task.feature_names), box.shape[0]
    bounds = ActionBounds.of(box, config.squash)
    as_they_are = Dictionary.empty(kernel_from_name(config.kernel, 1.0, np.ones(d)))
    untrained = GaussianPolicy(RKHSFunction.zero(as_they_are, task.action_names), np.ones(m), bounds)
    episode = task.episode_limit or min(sizes.horizon, automatic.ENDLESS_HORIZON)
    steps = workers.warm_up_steps(-(-WARMUP_EPISODES * episode // sizes.n_envs))
    rolled = FirstRollouts.made(untrained, workers, steps, episode, config, rng)
    config, raw = rolled.config, rolled.batch.raw
    metric = _metric(workers, raw, rolled.plan.seed, config)
    candidates = thinned(raw, config.admission.admission_candidates, rng)
    config = automatic.settle_length_scale(config, metric(candidates))
    kernel = kernel_from_name(config.kernel, float(config.length_scale), metric)
    first = min(config.initial_centres, sizes.capacity)
    dictionary = Dictionary.empty(kernel).grown(candidates, config.admission.admission_threshold, first)
    mean = RKHSFunction.zero(dictionary, task.action_names)
    state = TrainingState(
        policy=replace(rolled.plan.policy, mean=mean),
        value=RKHSFunction.zero(dictionary, ("value",)) if config.has_value else None,
        advantage=mean,
        importances=Importances.none(d),
        scale=Scale.of(raw),
        background=thinned(raw, BACKGROUND_STATES, rng),
        epoch=0,
        steps=rolled.count * steps * sizes.n_envs,
        warmup_steps=rolled.count * steps * sizes.n_envs,
        environments=workers.environments,
    )
    return state, config


def _metric(workers: Workers, raw: NDArray, seed: int, config: Config) -> Metric:
    """The first metric: of the raw warm-up states, or of start states only."""
    if isinstance(config.scale, FollowingScale):
        return Metric.fitted(raw, CLIP, KNEE)
    if config.scale.normaliser == "starts":
        return Metric.fitted(workers.start_states(START_STATES, seed + 1))
    return Metric.fitted(raw)

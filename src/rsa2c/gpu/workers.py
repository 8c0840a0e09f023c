"""A training's environments on the device: physics in single precision, fits in double.

Policies, dictionaries and the training's state are the same NumPy objects as without a device: what crosses over in an
epoch is a few megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.observing import Observe
from rsa2c.algorithm.robust import filter_weight
from rsa2c.algorithm.shares import Rollout
from rsa2c.algorithm.workers import Workers
from rsa2c.attribution import cuda
from rsa2c.config import LSTD, ClosedAdvantage, Config, FollowingScale, KLStep
from rsa2c.envs import Source
from rsa2c.envs.single import functional_of
from rsa2c.errors import ConfigError, notice
from rsa2c.gpu.algebra import DeviceAlgebra
from rsa2c.gpu.batch import DeviceBatch
from rsa2c.gpu.device import computing, found
from rsa2c.gpu.environments import ENVIRONMENTS, Environment, Functional, environment
from rsa2c.gpu.fitting import DeviceFits
from rsa2c.gpu.rollout import Acting, Carried, begun, rollout, trial
from rsa2c.gpu.samples import DeviceSamples

WARMUP_STEPS = 32
"""Steps of each environment in the warm-up, at least: rollouts of an epoch's length, so that one program does both."""
MOST_LOST = 1e-3
"""Share of a rollout's steps up to which simulations that diverged are not worth a word: they start anew."""
TRIAL_EPISODES = 64
"""Episodes of a trial: on a device as many take hardly longer than one."""


class DeviceWorkers(Workers):
    """All environments of a training, on a device. They go on from one epoch to the next."""

    fits = DeviceFits()
    tries_side_by_side = True
    steps_between_trials = 5_000_000
    """A trial has a thousand steps one after the other, as many as the rollouts of 60 epochs, but of few environments.
    So many training steps take about half a minute on Ant-v5 (results/gpu.md)."""
    first_trial = 1_250_000
    """After eight seconds on Ant-v5. A policy that falls soon is tried soon: the trial ends with its last episode."""

    def __init__(self, env: Environment, config: Config) -> None:
        check(config)
        self.device, self.env, sizes = found(config.device), env, Sizes.of(config)
        if config.device == "cuda":
            cuda.device()  # an attribution needs CuPy as well, and minutes later that would be learned too late
        self.n_envs, self.horizon, self.episode_limit = sizes.n_envs, sizes.horizon, env.episode_limit
        self.capacity, self.squash = sizes.capacity, config.squash
        self.algebra = DeviceAlgebra(self.device, self.capacity)

    @classmethod
    def of(cls, source: Source, config: Config) -> DeviceWorkers:
        """For whatever a user gave as the environment."""
        if source.id in ENVIRONMENTS and not source.kwargs:
            return cls(environment(source.id), config)
        functional = functional_of(source)
        if functional is not None:
            return cls(Functional(functional), config)
        if source.id is None or source.id in ENVIRONMENTS:
            raise ConfigError(
                f"device={config.device!r} needs an environment id without env_kwargs, or an environment with the "
                f"functional interface of Brax and MuJoCo Playground, got {source.name}. Use device='cpu'."
            )
        return cls(environment(source.id), config)

    @cached_property
    def _layout(self) -> Any:
        """The tree of what environments carry over, as shapes."""
        with computing(self.device, double=False):
            return jax.eval_shape(lambda key: begun(self.env, self.n_envs, key), jax.random.PRNGKey(0))

    def restore(self, environments: tuple[Any, ...]) -> None:
        expected = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(self._layout)]
        if [(each.shape, each.dtype) for each in environments] != expected:
            raise ConfigError(
                f"this training has no {self.n_envs} environments to go on with on {self.device}: it was begun on "
                "another device or with another version of its environment. Train anew with device='cuda'."
            )
        self.environments = environments

    def warm_up_steps(self, steps: int) -> int:
        return self.horizon * -(-WARMUP_STEPS // self.horizon)

    def roll_out(self, plan: Rollout, observe: Observe | None = None) -> DeviceSamples:
        """Roll out in all environments, from where the last rollout left them; the first one starts them."""
        if observe is not None:
            raise ConfigError(
                "callbacks after each step are not called on a GPU, where all steps of an epoch are one program. Use "
                "callback(locals, globals), which is called after each epoch, or device='cpu'."
            )
        acting = Acting.of(plan.policy, self.capacity, plan.correlation)
        program, times = rollout(self.env, self.horizon, self.squash), plan.steps // self.horizon
        with computing(self.device, double=False):
            first, *keys = jax.random.split(jax.random.PRNGKey(plan.seed), 1 + times)
            carried, parts = self._carried(first), []
            errors = None if plan.errors is None else np.float32(plan.errors)
            for key in keys:
                carried, *made = program(carried, key, acting, errors)
                parts.append(made)
            joined: Any = jax.tree.map(lambda *each: each[0] if times == 1 else jnp.concatenate(each), *parts)
            self.environments = tuple(jax.tree.leaves(carried))  # they stay on the device until a file holds them
        batch = DeviceBatch(*joined)
        self._report_lost(batch)
        return DeviceSamples(self, batch, plan.policy.mean.kernel.metric)

    def _carried(self, key: Any) -> Carried:
        """What environments carry over from the last rollout, or start with."""
        if self.environments:
            return jax.tree.unflatten(jax.tree.structure(self._layout), self.environments)
        return jax.jit(begun, static_argnums=(0, 1))(self.env, self.n_envs, key)

    def _report_lost(self, batch: DeviceBatch) -> None:
        early = np.asarray(batch.ended.lengths) < (self.env.episode_limit or 0)
        lost = int(np.sum(np.asarray(batch.grid.truncated) & early))
        if self.env.reports_divergence and lost > MOST_LOST * batch.n:
            notice(f"{lost} simulations diverged within {batch.n} steps and were started anew.")

    def first_episodes(
        self, policy: GaussianPolicy, steps: int, seed: int, errors: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], int]:
        total, lengths = self._tried([policy], steps, seed, errors)
        return total[0], int(lengths.max())

    def side_by_side(
        self, policies: Sequence[GaussianPolicy], steps: int, seed: int, errors: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        return self._tried(policies, steps, seed, errors)[0]

    def _tried(
        self, policies: Sequence[GaussianPolicy], steps: int, seed: int, errors: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns and lengths of the policies' first episodes, (policies, `TRIAL_EPISODES`) both."""
        with computing(self.device, double=False):
            program = trial(self.env, TRIAL_EPISODES, steps, self.squash)
            some: Any = None
            if errors is not None:  # levels for as many episodes
                some = np.float32(errors[np.linspace(0, len(errors) - 1, TRIAL_EPISODES, dtype=int)])
            acting = jax.tree.map(lambda *each: np.stack(each), *(Acting.of(each, self.capacity) for each in policies))
            total, lengths = program(jax.random.PRNGKey(seed), acting, some)
        return np.asarray(total, np.float64), np.asarray(lengths, np.int64)


def check(config: Config) -> None:
    """Refuse settings that a device does not have."""
    wanted: dict[str, bool] = {
        "value_fit='closed'": isinstance(config.value, LSTD),
        "advantage_fit='closed'": isinstance(config.advantage, ClosedAdvantage),
        "step_rule='kl'": isinstance(config.step, KLStep),
        "kl_largest=None": getattr(config.step, "kl_largest", None) is None,
        "scaling='following'": isinstance(config.scale, FollowingScale),
        "newcomers='zero'": getattr(config.admission, "newcomers", "zero") == "zero",
        "kernel='rbf'": config.kernel == "rbf",
        "precision='float64'": config.precision == "float64",
        "restart_p=0": config.restart_p == 0,
        "a robust other than 'filter'": filter_weight(config) is None,
        "noise_variance=0": config.noise_variance == 0,
        "distractors=0": config.distractors == 0,
        "diagnostics=False": not config.diagnostics,
    }
    missing = [name for name, has in wanted.items() if not has]
    if missing:
        raise ConfigError(f"device={config.device!r} needs {', '.join(missing)}. Set them so, or use device='cpu'.")

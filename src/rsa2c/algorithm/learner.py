"""RSA2C: the algorithm of the paper, one method a phase.

An epoch: collect with the current policy, let the dictionaries grow, fit the Value Critic, attribute it by
RKHS-SHAP, make the attributions the kernel's feature weights, fit the Advantage Critic, step the Actor.
Every random draw of epoch t comes from generators seeded by (seed, t, phase), so a saved agent needs no
generator state to go on exactly.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numba
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rsa2c.algorithm import critics, diagnostics, guidance, schedules
from rsa2c.algorithm.actor import ActionBounds, GaussianPolicy, kl_step_size, mean_kl, step_direction
from rsa2c.algorithm.rollout import Batch, advantages, collect, discounted_returns, start_states
from rsa2c.config import make_config
from rsa2c.envs import EnvLike, action_names, backend_of, env_id, episode_limit, feature_names, make_env
from rsa2c.envs.single import Factory, make_single
from rsa2c.errors import DataError, EnvError
from rsa2c.kernel.dictionary import Dictionary, cheapest_removals
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.linalg import second_moment
from rsa2c.kernel.rkhs import Normaliser, RKHSFunction

COLLECT, ADMIT, ATTRIBUTE, WARMUP = range(4)
"""Random streams of an epoch."""
BACKGROUND_STATES = 256
PHASES = ("collect", "admit", "value", "attribute", "advantage", "actor")
"""The steps of an epoch, in their order; `Learner.seconds` has the time each took so far."""
HELD_OUT = 0.2
"""Share of the batch on which the KL of a change of weights is measured."""
REPROJECTION_STATES = 8
"""Batch states a re-projection is fitted to, as a multiple of the dictionary's capacity."""
SMALLEST_CHANGE = 0.1
"""Relative change of every weight up to which the policy is not re-projected."""
ROUNDING_POWER = 0.6
"""Advantages that vary less than this power of machine epsilon, relative to the values, are the fit's rounding."""
READMISSION = 0.3
"""Share of the admission threshold at which a remembered state is kept under new weights."""
TRUST_REGION_TRIALS = 6
"""Shares of a change of weights tried before it is put off."""


class Learner:
    """What is learned, and how: the state of the algorithm and its epoch. `agent.RSA2C` is its public face."""

    policy: GaussianPolicy
    importances: guidance.Importances
    background: NDArray[np.float64]
    feature_names: tuple[str, ...]
    action_names: tuple[str, ...]
    episode_limit: int | None
    _value: RKHSFunction
    _advantage: NDArray[np.float64]

    def __init__(
        self,
        env: EnvLike,
        algorithm: str | None = None,
        *,
        preset: str = "default",
        feature_names: tuple[str, ...] | None = None,
        **fields: Any,
    ) -> None:
        self.env_source: EnvLike | None = env
        self.preset = preset
        if isinstance(env, VectorEnv):
            self.env_id = env_id(env)
            fields.setdefault("n_envs", env.num_envs)
        else:
            self.env_id = env if isinstance(env, str) else _id_of(env)
        self.config = make_config(self.env_id, preset, algorithm, **fields)
        self._env: VectorEnv | None = None
        self.epoch = 0
        self.num_timesteps = 0
        self.history: list[dict[str, float]] = []
        self.attribution_log: list[tuple[int, NDArray, NDArray]] = []
        self.seconds: dict[str, float] = {}
        self._prediction_rng = np.random.default_rng(self.config.seed)
        with self._threads():
            self._warm_up(feature_names)

    def run_epoch(self) -> None:
        """One iteration of the paper's algorithm, whole or not at all: an exception leaves the agent as it was."""
        before = {**vars(self), "history": [*self.history], "attribution_log": [*self.attribution_log]}
        try:
            self._run_phases()
        except BaseException:
            vars(self).update(before)
            raise

    def _run_phases(self) -> None:
        with self._phase("collect"):
            batch = self._collect()
        with self._phase("admit"):
            self._grow_dictionaries(batch)
        with self._phase("value"):
            values = self._fit_value(batch)
            advantage = self._estimate_advantage(batch, values)
        before = self.policy.mean
        with self._phase("attribute"):
            self._attribute_and_reweight(batch, values, advantage)
        after = self.policy.mean
        with self._phase("advantage"):
            fit = self._fit_advantage(batch, advantage)
        with self._phase("actor"):
            kl = self._step_actor(fit)
        self.epoch += 1
        self.num_timesteps += self.sizes.epoch_steps
        self._record(batch, values, kl)
        if self.config.diagnostics:
            with self._phase("diagnose"):
                policy, value = (before, after, self.policy.covariance), self._value.dictionary
                self.history[-1] |= diagnostics.of_epoch(batch, _standardised(advantage), fit, *policy, value)

    def _collect(self) -> Batch:
        """Roll out the current policy from fresh environments."""
        config, rng = self.config, self._rng(COLLECT)
        sigma = schedules.linear(config.sigma_initial, config.sigma_final, self.epoch, config.sigma_epochs)
        self.policy = replace(self.policy, sigma=sigma)
        act = self.policy.sampler(rng, self._dtype)
        seed = int(rng.integers(2**31 - 2**16))
        normaliser, steps = self.policy.mean.normaliser, self.sizes.horizon
        timeout = config.step_timeout
        return collect(self.env, act, normaliser, steps, seed, rng, config.restart_p, self._dtype, timeout)

    def _grow_dictionaries(self, batch: Batch) -> None:
        """Admit what the batch shows that the dictionaries cannot express; at capacity, replace."""
        config = self.config
        if self.epoch % config.admission_every:
            return
        threshold = self._threshold()
        candidates = _thinned(batch.states, config.admission_candidates, self._rng(ADMIT)).astype(np.float64)
        self.policy = replace(self.policy, mean=self._grown(self.policy.mean, candidates, threshold))
        if config.baseline == "value":
            self._value = self._grown(self._value, candidates, threshold)

    def _threshold(self) -> float:
        config = self.config
        start, end = config.admission_threshold, config.admission_threshold_final
        return schedules.geometric(start, end, self.epoch, config.admission_epochs)

    def _grown(self, function: RKHSFunction, candidates: NDArray, threshold: float) -> RKHSFunction:
        room = self.sizes.capacity - function.dictionary.size
        if room > 0:
            limit = min(room, self.config.admission_limit)
            return function.grow(function.dictionary.grown(candidates, threshold, limit))
        if self.config.replacement == "none" or self.epoch % self.config.replacement_every:
            return function
        dictionary = function.dictionary
        grown = dictionary.grown(candidates, threshold, min(self.config.replacement_limit, dictionary.size))
        excess = grown.size - self.sizes.capacity
        if excess <= 0:
            return function
        if self.config.replacement == "largest-error":
            positions = np.argsort(-dictionary.errors, kind="stable")[:excess]
        else:
            moment = second_moment(dictionary.kernel(candidates, dictionary.centres))
            positions = cheapest_removals(dictionary, function.coefficients, excess, moment)
        pruned = function.prune(positions)
        return pruned.grow(pruned.dictionary.grown(candidates, threshold, excess))

    def _fit_value(self, batch: Batch) -> NDArray[np.float64]:
        """Fit the Value Critic; its value at every point of the batch, (N + S,)."""
        config, value = self.config, self._value
        if config.baseline == "none":
            return np.zeros(len(batch.points))
        phi = value.dictionary.features(self._dtype)(batch.points)
        offset = np.zeros(1)
        if config.value_fit == "closed":
            weights, constant = critics.lstd(
                phi, batch, config.gamma, config.value_lambda, config.value_ridge, value.dictionary.gram
            )
            offset = np.array([constant])
        else:
            step = config.value_step
            if config.step_rule == "polynomial":
                step = schedules.polynomial(step, 0.5, self.epoch)
            sweep = (batch, value.coefficients[:, 0], config.gamma)
            if config.value_fit == "td":
                weights = critics.td_sweeps(
                    phi, *sweep, config.value_lambda, step, config.value_ridge, config.value_sweeps
                )
            else:
                weights = critics.mc_sweeps(phi, *sweep, step, config.value_ridge, config.value_sweeps)
        self._value = replace(value, coefficients=weights[:, None], offset=offset)
        return (phi @ weights.astype(phi.dtype)).astype(np.float64) + offset

    def _estimate_advantage(self, batch: Batch, values: NDArray) -> NDArray[np.float64]:
        """GAE(lambda) on the Value Critic, or without one the returns themselves; in reward units, (N,)."""
        if self.config.baseline == "none":
            return discounted_returns(batch, None, self.config.gamma)
        estimate = advantages(batch, values, self.config.gamma, self.config.gae_lambda)
        rounding = float(np.finfo(self._dtype).eps) ** ROUNDING_POWER * float(np.abs(values).max())
        return estimate if estimate.std() > rounding else np.zeros_like(estimate)

    def _attribute_and_reweight(self, batch: Batch, values: NDArray, advantage: NDArray) -> None:
        """RKHS-SHAP, and its attributions as the kernel's new feature weights."""
        config = self.config
        if config.attribution == "none" or self.epoch % config.attribution_every:
            return
        d = batch.points.shape[1]
        if config.attribution == "uniform":
            self._reweight(np.ones(d), batch)
            return
        rng = self._rng(ATTRIBUTE)
        if config.attribution_critic == "value":
            explained = guidance.value_critic(batch.states, self._value)
        else:
            targets = [(advantage + values[batch.state_index])[:, None]]
            if config.guide == "value+advantage":
                targets.append((batch.latents - batch.means) * _standardised(advantage)[:, None])
            elif config.guide == "value+policy":
                targets.append(batch.means)
            explained = guidance.shadow_critic(batch.states, targets, config, rng)
        moments, null, phi = guidance.measure(explained, d, config, rng)
        self.importances = self.importances.updated(moments, null, config.moment_decay)
        if self.importances.updates > config.attribution_warmup:
            weights = self.importances.weights(config, self.policy.mean.kernel.length_scale)
            self._reweight(rng.permutation(weights) if config.shuffle_weights else weights, batch)
        self.attribution_log.append((self.epoch, phi, self.kernel_weights))

    def _reweight(self, weights: NDArray, batch: Batch) -> None:
        """Move the actor's kernel towards `weights` as far as the policy may change, and re-project on it.

        The re-projection is fitted to remembered states too: the batch alone would leave the policy free where it
        seldom is but must act rightly.
        """
        mean, config = self.policy.mean, self.config
        old = mean.kernel.weights
        if np.all(np.abs(weights - old) <= SMALLEST_CHANGE * old):
            return
        count = REPROJECTION_STATES * self.sizes.capacity
        states = self._rng(ATTRIBUTE, 1).permutation(batch.states)[:count].astype(np.float64)
        cut = int(np.ceil(len(states) * HELD_OUT))
        held_out, fitted = states[:cut], np.vstack([mean.centres, states[cut:]])
        before = mean.at(held_out)
        share = 1.0
        for _ in range(TRUST_REGION_TRIALS):
            proposal = self._on_new_metric(mean, old + share * (weights - old), fitted)
            kl = float(np.mean(np.sum((proposal.at(held_out) - before) ** 2, axis=1))) / (2 * self.policy.sigma**2)
            if kl <= config.trust_region:
                break
            share *= np.clip(0.9 * np.sqrt(config.trust_region / kl), 0.1, 0.7)  # KL grows about as share squared
        else:
            return
        self.policy = replace(self.policy, mean=proposal)
        if config.value_kernel == "guided" and config.baseline == "value":
            self._value = self._on_new_metric(self._value, proposal.kernel.weights, fitted)

    def _on_new_metric(self, function: RKHSFunction, weights: NDArray, x: NDArray) -> RKHSFunction:
        """The function on the reweighted kernel: admitted again, room refilled from x, re-projected at x."""
        config = self.config
        if not config.reproject:
            reweighted = Dictionary(function.kernel.reweighted(weights), function.centres, function.dictionary.errors)
            return replace(function, dictionary=reweighted)
        threshold = self._threshold()
        dictionary, kept = function.dictionary.reweighted(weights, READMISSION * threshold)
        refilled = dictionary.grown(
            x[-config.admission_candidates :],
            threshold,
            min(self.sizes.capacity - dictionary.size, config.admission_limit),
        )
        start = np.zeros((refilled.size, function.coefficients.shape[1]))
        start[: len(kept)] = function.coefficients[kept]
        return function.project(refilled, x, config.reproject_ridge, start)

    def _fit_advantage(self, batch: Batch, advantage: NDArray) -> critics.AdvantageFit:
        """The Advantage Critic on the actor's dictionary, in closed form."""
        config, dictionary = self.config, self.policy.mean.dictionary
        phi = dictionary.features(self._dtype)(batch.states)
        noise = batch.latents - batch.means
        target = _standardised(advantage)
        if config.advantage_clip is not None:
            target = np.clip(target, -config.advantage_clip, config.advantage_clip)
        covariance = self.policy.covariance
        fit = critics.fit_advantage(phi, noise, target, dictionary.gram, covariance, config.advantage_ridge)
        self._advantage = fit.weights
        if config.smooth_advantage:
            smooth = np.sum((phi @ fit.weights) * np.linalg.solve(covariance, noise.T).T, axis=1)
            fit = replace(fit, gradient=critics.policy_gradient(phi, noise, smooth, covariance))
        return fit

    def _step_actor(self, fit: critics.AdvantageFit) -> float:
        """Step the policy's mean; the mean KL of the step."""
        config = self.config
        direction = step_direction(fit, self.policy.mean.dictionary, config.metric)
        if config.step_rule == "kl":
            kl = schedules.linear(self.sizes.kl, config.kl_final or self.sizes.kl, self.epoch, config.kl_epochs)
            size = kl_step_size(direction, fit.second_moment, self.policy.covariance, kl)
        else:
            length = float(np.linalg.norm(direction))
            if config.gradient_clip is not None and length > config.gradient_clip:
                direction = direction * (config.gradient_clip / length)
            size = config.step_size
            if config.step_rule == "polynomial":
                size = schedules.polynomial(size, 0.75, self.epoch)
        self.policy = self.policy.step(direction, size)
        return mean_kl(size * direction, fit.second_moment, self.policy.covariance)

    @property
    def sizes(self) -> schedules.Sizes:
        """Environments, steps, capacity and KL as settled."""
        return schedules.Sizes.of(self.config)

    @property
    def kernel_weights(self) -> NDArray[np.float64]:
        """(d,): feature weights of the actor's kernel."""
        return self.policy.mean.kernel.weights.copy()

    def _warm_up(self, names: tuple[str, ...] | None) -> None:
        """Settle every "auto", and begin with dictionaries and normaliser from states of the untrained policy."""
        probe = self._make_env(None)
        box = probe.single_action_space
        assert isinstance(box, Box) and probe.single_observation_space.shape is not None, "make_env checked it"
        d, m = probe.single_observation_space.shape[0], box.shape[0]
        bounds = ActionBounds(np.array(box.low, np.float64), np.array(box.high, np.float64), self.config.squash)
        self.episode_limit = limit = episode_limit(probe)
        self.config = schedules.settle_sizes(self.config, d, m, limit).updated(backend=backend_of(probe))
        self.feature_names = _checked_names(names, feature_names(probe, d), d)
        self.action_names = action_names(probe, m)
        if probe is not self.env_source:
            probe.close()
        rng = self._rng(WARMUP)

        def untrained(x: NDArray) -> tuple[NDArray, NDArray, NDArray]:
            mean = np.zeros((len(x), m))
            u = mean + self.config.sigma_initial * rng.standard_normal(mean.shape)
            return mean, u, bounds.action(u)

        steps = -(-self.config.warmup_episodes * (limit or self.sizes.horizon) // self.sizes.n_envs)
        seed = int(rng.integers(2**31 - 2**16))
        timeout = self.config.step_timeout
        identity = Normaliser(np.zeros(d), np.ones(d), np.inf)
        raw = collect(self.env, untrained, identity, steps, seed, rng, step_timeout=timeout).points
        self.num_timesteps = steps * self.sizes.n_envs
        observations = raw
        if self.config.normaliser == "starts":
            observations = start_states(self.env, 1000, seed + 1, timeout)
        normaliser = Normaliser.fitted(observations, self.config.observation_clip, self.config.smallest_std)
        x = normaliser(_thinned(raw, self.config.admission_candidates, rng))
        self.config = schedules.settle_length_scale(self.config, x)
        kernel = kernel_from_name(self.config.kernel, float(self.config.length_scale), np.ones(d))
        first = min(self.config.initial_centres, self.sizes.capacity)
        dictionary = Dictionary.empty(kernel).grown(x, self.config.admission_threshold, first)
        self.background = _thinned(raw, BACKGROUND_STATES, rng)
        self.policy = GaussianPolicy(
            RKHSFunction.zero(dictionary, normaliser, self.action_names), self.config.sigma_initial, bounds
        )
        self._value = RKHSFunction.zero(dictionary, normaliser, ("value",))
        self._advantage = np.zeros((dictionary.size, m))
        self.importances = guidance.Importances.none(d)

    def _record(self, batch: Batch, values: NDArray, kl: float) -> None:
        """The epoch's row of metrics, and visited states as the background of explanations."""
        self.background = self._raw(_thinned(batch.states, BACKGROUND_STATES, self._rng(ADMIT, 1)))
        returns = discounted_returns(batch, values, self.config.gamma)
        spread = float(np.var(returns))
        explained = 1.0 - float(np.var(returns - values[batch.state_index])) / spread if spread > 0 else float("nan")
        finished = len(batch.episode_returns) > 0
        weights = self.kernel_weights
        self.history.append(
            {
                "epoch": self.epoch,
                "timesteps": self.num_timesteps,
                "ep_rew_mean": float(np.mean(batch.episode_returns)) if finished else float("nan"),
                "ep_len_mean": float(np.mean(batch.episode_lengths)) if finished else float("nan"),
                "sigma": self.policy.sigma,
                "kl": kl,
                "explained_variance": explained,
                "actor_states": self.policy.mean.dictionary.size,
                "value_states": self._value.dictionary.size,
                "weight_ratio": float(weights.max() / weights.min()),
            }
        )

    @property
    def env(self) -> VectorEnv:
        """The training environments, made when first needed."""
        if self._env is None:
            env = self._make_env(self.sizes.n_envs)
            spaces = (env.single_observation_space.shape, env.single_action_space.shape)
            expected = ((len(self.feature_names),), (len(self.action_names),))
            if spaces != expected:
                raise EnvError(
                    f"the agent has observations and actions of the shapes {expected}, {env_id(env)} has {spaces}. "
                    f"Give the environment it was trained on, {self.env_id}."
                )
            self._env = env
        return self._env

    def close(self) -> None:
        """Close the training environments, unless they are the caller's own."""
        if self._env is not None and self._env is not self.env_source:
            self._env.close()
        self._env = None

    def _make_env(self, n_envs: int | None) -> VectorEnv:
        if self.env_source is None:
            raise EnvError(
                f"this agent was trained on a factory or VectorEnv ({self.env_id}), which a file cannot hold. "
                "Pass it: RSA2C.load(path, env=...)."
            )
        config = self.config
        return make_env(
            self.env_source,
            n_envs,
            backend="auto" if isinstance(self.env_source, VectorEnv) else config.backend,
            noise_variance=config.noise_variance,
            distractors=config.distractors,
            threads=config.threads,
        )

    def _raw(self, x: NDArray) -> NDArray[np.float64]:
        normaliser = self.policy.mean.normaliser
        return x.astype(np.float64) * normaliser.std + normaliser.mean

    @property
    def _dtype(self) -> type:
        return np.float32 if self.config.precision == "float32" else np.float64

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, self.epoch, *stream])

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    @contextmanager
    def _threads(self) -> Iterator[None]:
        before = numba.get_num_threads()
        with threadpool_limits(self.config.threads):
            numba.set_num_threads(min(self.config.threads, numba.config.NUMBA_NUM_THREADS))
            try:
                yield
            finally:
                numba.set_num_threads(before)


def _standardised(advantage: NDArray) -> NDArray[np.float64]:
    """Mean zero and unit spread; zero where nothing varies."""
    spread = float(advantage.std())
    return (advantage - advantage.mean()) / spread if spread > 0 else np.zeros_like(advantage)


def _id_of(factory: Factory) -> str:
    env = make_single(factory)
    try:
        return env_id(env)
    finally:
        env.close()


def _thinned(rows: NDArray, count: int, rng: np.random.Generator) -> NDArray:
    return rows if len(rows) <= count else rows[rng.choice(len(rows), count, replace=False)]


def _checked_names(given: tuple[str, ...] | None, known: tuple[str, ...], d: int) -> tuple[str, ...]:
    if given is None:
        return known
    if len(given) != d:
        raise DataError(f"feature_names must have one name for each of the {d} features, got {len(given)}.")
    return tuple(given)

"""The agent: what users of the library hold in their hands."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from rsa2c.algorithm import snapshot
from rsa2c.algorithm.learner import Learner
from rsa2c.attribution import Explanation, Prototypes, explain, prototypes
from rsa2c.attribution.explaining import Groups
from rsa2c.callbacks import Callback, Logger, hooks
from rsa2c.config import algorithm_name
from rsa2c.envs import EnvLike
from rsa2c.errors import ConfigError
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.progress import progress
from rsa2c.robustness.certificates import Certificate, certified_radius, certify
from rsa2c.robustness.regions import Norm, Region, Units, unit_scale


class RSA2C(Learner):
    """A continuous-control agent whose policy, value and advantage are kernel expansions on remembered states.

    `env` is a Gymnasium id, a factory or a VectorEnv; any field of `Config` is a keyword argument.
    """

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
        with self._threads(), progress(self, goal, enabled=progress_bar) as show, hooks(callback, self) as proceed:
            while self.num_timesteps < goal:
                self.run_epoch()
                show()
                if proceed(locals(), globals()) is False:
                    break
        return self

    def get_env(self) -> VectorEnv:
        """The training environments, by the name SB3's callbacks ask for."""
        return self.env

    @cached_property
    def logger(self) -> Logger:
        """What SB3's callbacks record into; `agent.logger.values` holds the last value of each key."""
        return Logger()

    def predict(
        self,
        observation: ArrayLike,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.float32], Any]:
        """The action for one observation (d,) or a batch (N, d), as Stable-Baselines3 has it.

        `state` and `episode_start` are there for that interface and unused; `rng` draws the noise of actions that are
        not deterministic, the agent's own generator unless given.
        """
        u = self.policy_mean(observation)
        if not deterministic:
            rng = rng if rng is not None else self._prediction_rng
            u = u + self.policy.sigma * rng.standard_normal(u.shape)
        return self.policy.bounds.action(u).astype(np.float32), state

    @property
    def policy_mean(self) -> RKHSFunction:
        """h, the Gaussian's mean before squashing."""
        return self.policy.mean

    @property
    def value(self) -> RKHSFunction:
        """The Value Critic, in the environment's reward units."""
        if self.config.baseline == "none":
            raise ConfigError(
                "this agent was trained without a Value Critic (baseline='none', as RKHS-AC); "
                "explain the action or the advantage instead, or train another algorithm."
            )
        return self._value

    @property
    def advantage(self) -> RKHSFunction:
        """w_A(s): the advantage of u at s is w_A(s)^T Sigma^-1 (u - h(s)), in units of the batch's advantage spread."""
        return replace(self.policy.mean, coefficients=self._advantage)

    @property
    def dictionary_sizes(self) -> dict[str, int]:
        """States in each dictionary."""
        return {"actor": self.policy.mean.dictionary.size, "value": self._value.dictionary.size}

    @property
    def dictionary_size(self) -> int:
        """States in the larger dictionary."""
        return max(self.dictionary_sizes.values())

    @property
    def algorithm(self) -> str:
        """Name of the variant the configuration amounts to."""
        return algorithm_name(self.config)

    def linearise(self, state: ArrayLike) -> NDArray[np.float64]:
        """(m, d), or (N, m, d) for a batch: the local feedback gain d action / d state, squashing included."""
        return self.policy.bounds.slope(self.policy_mean(state))[..., None] * self.policy_mean.gradient(state)

    def explain(
        self,
        states: ArrayLike,
        of: str = "value",
        method: str = "kme",
        background: ArrayLike | None = None,
        groups: Groups | None = None,
        interactions: bool = False,
        **options: Any,
    ) -> Explanation:
        """Shapley values of the value, the action's mean before squashing, or the advantage direction at raw states.

        `method` is the game: "kme", interventional and exact, or "cme", observational. The background is the states
        visited last unless given. Further options are those of `rsa2c.attribution.explain` (tolerance, rng, ...).
        """
        sources = {"value": lambda: self.value, "action": lambda: self.policy_mean, "advantage": lambda: self.advantage}
        if of not in sources:
            raise ConfigError(f"of must be one of {', '.join(map(repr, sources))}, got {of!r}.")
        with self._threads():
            return explain(
                sources[of](),
                states,
                self.background if background is None else background,
                method=method,
                groups=groups,
                interactions=interactions,
                feature_names=self.feature_names,
                **options,
            )

    def certify(
        self, states: ArrayLike, epsilon: ArrayLike, norm: Norm = "l2", units: Units = "raw"
    ) -> Certificate:
        """What no observation error of size `epsilon` can exceed at raw states: change of action, value and policy.

        `epsilon` is one number or one a state, in raw observation units or in those of the normaliser.
        """
        region = Region(np.asarray(epsilon, dtype=np.float64), norm, unit_scale(self, units))
        with self._threads():
            return certify(self.policy, None if self.config.baseline == "none" else self._value, states, region)

    def certified_radius(
        self, states: ArrayLike, amount: ArrayLike, norm: Norm = "l2", units: Units = "raw"
    ) -> NDArray[np.float64]:
        """(N,): a size of observation errors up to which no action moves by more than `amount`, proven."""
        with self._threads():
            return certified_radius(self.policy, states, amount, norm, unit_scale(self, units))

    def prototypes(self, state: ArrayLike, k: int = 5) -> Prototypes:
        """The remembered states that carried the action at `state`, with signed shares that add up to its mean."""
        return prototypes(self.policy_mean, state, k, feature_names=self.feature_names)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything `learn`, `predict` and `explain` need to one safetensors file."""
        snapshot.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], env: EnvLike | None = None) -> RSA2C:
        """The agent in a file; `env` is needed to go on training only if it was trained on a factory or VectorEnv."""
        return snapshot.load(path, env)

    def state(self, checkpoint: bool = False) -> tuple[snapshot.Tensors, dict[str, Any]]:
        """The agent as tensors and JSON-able metadata; a checkpoint has the history too."""
        return snapshot.pack(self, checkpoint)

    @classmethod
    def from_state(cls, tensors: snapshot.Tensors, metadata: dict[str, Any], env: EnvLike | None = None) -> RSA2C:
        """The agent that `state` described."""
        agent = cls.__new__(cls)
        agent._env, agent.seconds = None, {}
        snapshot.unpack(agent, tensors, metadata, env)
        agent._prediction_rng = np.random.default_rng(agent.config.seed)
        return agent

"""The agent: what users of the library hold in their hands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c import snapshot
from rsa2c.attribution import Explanation, Prototypes, explain, prototypes
from rsa2c.attribution.explaining import Groups
from rsa2c.config import algorithm_name
from rsa2c.envs import EnvLike
from rsa2c.errors import ConfigError
from rsa2c.learner import Learner
from rsa2c.progress import progress
from rsa2c.rkhs import RKHSFunction

Callback = Callable[[dict[str, Any], dict[str, Any]], bool | None]


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

        `callback(locals, globals)` is called after each epoch, or an SB3-style object's `on_step()`.
        """
        if total_timesteps <= 0:
            raise ConfigError(f"total_timesteps must be positive, got {total_timesteps}.")
        goal = self.num_timesteps + total_timesteps
        proceed = _as_callback(callback, self)
        with self._threads(), progress(self, goal, enabled=progress_bar) as show:
            while self.num_timesteps < goal:
                self.run_epoch()
                show()
                if proceed(locals(), globals()) is False:
                    break
        return self

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


def _as_callback(callback: Any, agent: RSA2C) -> Callback:
    """The callback as a function: `callback(locals, globals)`, or SB3's object, whose hooks are called as SB3 does."""
    if callback is None:
        return lambda *_: None
    if not hasattr(callback, "on_step"):
        return callback
    if hasattr(callback, "init_callback"):
        callback.init_callback(agent)
        callback.on_training_start({"self": agent}, {})

    def step(local: dict[str, Any], _: dict[str, Any]) -> bool | None:
        if hasattr(callback, "update_locals"):
            callback.update_locals(local)
        callback.num_timesteps = agent.num_timesteps
        return callback.on_step()

    return step

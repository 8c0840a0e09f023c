"""What can be asked of a trained agent: actions, values, explanations, certificates; no environment is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.algorithm.actor import GaussianPolicy
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.reweighting import value_importance
from rsa2c.algorithm.robust import filter_weight
from rsa2c.algorithm.sensors import low_passed, remembering
from rsa2c.algorithm.state import Kept, TrainingState
from rsa2c.algorithm.task import Task
from rsa2c.algorithm.threads import limited_threads
from rsa2c.algorithm.weights import Importances
from rsa2c.attribution import ExplainedDataset, Explanation, Prototypes, explain, explain_dataset, prototypes
from rsa2c.attribution.inputs import Groups, check_columns
from rsa2c.attribution.prototypes import familiarity
from rsa2c.attribution.quality import Fidelity, fidelity
from rsa2c.config import Config, algorithm_name
from rsa2c.envs.flattening import as_vector
from rsa2c.errors import ConfigError
from rsa2c.export import Exported, export
from rsa2c.kernel.rkhs import RKHSFunction
from rsa2c.robustness.certificates import Certificate, certified_radius, certify
from rsa2c.robustness.regions import Norm, Region, Units, unit_scale

MEASURED, WEIGHTS = "importance while learning", "kernel weights"
"""Names of what guided."""


class Trained:
    """A task, its settings and the state that training has reached."""

    task: Task
    config: Config
    state: TrainingState
    """What training has reached; an epoch replaces it and changes nothing in it."""

    def __init__(self, task: Task, config: Config, state: TrainingState) -> None:
        self.task, self.config, self.state = task, config, state
        self._prediction_rng = np.random.default_rng(config.seed)

    def predict(
        self,
        observation: ArrayLike | Mapping[str, Any],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.float32], Any]:
        """The action for one observation (d,) or a batch (N, d), as in Stable-Baselines3, and the state for the next.

        Observations may be a Dict where the agent learned from such. An agent with a filter in front needs `state`,
        what predict returned one step before, and `episode_start`, as recurrent policies do; others use neither. `rng`
        draws the noise of actions that are not deterministic, the agent's own generator unless given.
        """
        seen = self._ordered(as_vector(observation, self.task.layout))
        if self.filter_weight is not None:
            seen = state = remembering(self.filter_weight, seen, state, episode_start)
        rng = rng if rng is not None else self._prediction_rng
        return self.policy.predict(seen, state, episode_start, deterministic, rng)

    def filtered(self, episode: ArrayLike) -> NDArray[np.float64]:
        """(T, d): the states that the policy acts on along an episode of measurements (T, d): those of a filter, where
        the agent has one in front. They are what `explain`, `certify` and the like take."""
        measured = np.asarray(self._ordered(episode), dtype=np.float64)
        return measured if self.filter_weight is None else low_passed(self.filter_weight, measured)

    def __repr__(self) -> str:
        sizes = " + ".join(str(size) for size in self.dictionary_sizes.values())
        done = f"{self.num_timesteps:,} steps, {self.epoch} epoch{'s' * (self.epoch != 1)}"
        return f"<{type(self).__name__} {self.env_id}, {self.algorithm}: {done}, remembers {sizes} states>"

    @property
    def env_id(self) -> str:
        """Id of the environment, or the name of its class if it has no id."""
        return self.task.env_id

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each state feature."""
        return self.task.feature_names

    @property
    def action_names(self) -> tuple[str, ...]:
        """A name for each action dimension."""
        return self.task.action_names

    @property
    def episode_limit(self) -> int | None:
        """Steps after which the environment truncates an episode, or None if it never does."""
        return self.task.episode_limit

    @property
    def longest_episode(self) -> int | None:
        """Steps at which evaluations stop an episode: the horizon, where the environment has no limit of its own."""
        return self.sizes.horizon if self.episode_limit is None else None

    @property
    def algorithm(self) -> str:
        """Name of the variant the configuration amounts to."""
        return algorithm_name(self.config)

    @property
    def sizes(self) -> Sizes:
        """Environments, steps and capacity as settled."""
        return Sizes.of(self.config)

    @property
    def epoch(self) -> int:
        """Finished epochs."""
        return self.state.epoch

    @property
    def num_timesteps(self) -> int:
        """Environment steps so far, those of the warm-up included."""
        return self.state.steps

    @property
    def filter_weight(self) -> float | None:
        """Weight of the newest measurement in the filter in front of the policy; None without a filter."""
        return filter_weight(self.config)

    @property
    def acting(self) -> TrainingState | Kept:
        """What acts and is explained: the policy that was kept as the best, or where none was, the last."""
        return self.state.kept or self.state

    @property
    def policy(self) -> GaussianPolicy:
        """The Gaussian policy that acts."""
        return self.acting.policy

    @property
    def policy_mean(self) -> RKHSFunction:
        """h, the Gaussian's mean before squashing."""
        return self.policy.mean

    @property
    def value(self) -> RKHSFunction:
        """The Value Critic, in the environment's reward units."""
        if self.acting.value is None:
            raise ConfigError(
                "this agent was trained without a Value Critic (value_fit='none', as in RKHS-AC); "
                "explain the action or the advantage instead, or train another algorithm."
            )
        return self.acting.value

    @property
    def advantage(self) -> RKHSFunction:
        """w_A(s): the advantage of u at s is w_A(s)^T Sigma^-1 (u - h(s)), in units of the batch's advantage spread."""
        return self.acting.advantage

    @property
    def importances(self) -> Importances:
        """Moving averages of each feature's importance."""
        return self.state.importances

    @property
    def background(self) -> NDArray[np.float64]:
        """(b, d): raw states visited last, the background of explanations."""
        return self.acting.background

    @property
    def kernel_weights(self) -> NDArray[np.float64]:
        """(d,): feature weights of the actor's kernel."""
        return self.policy_mean.kernel.weights.copy()

    @property
    def guided_by(self) -> dict[str, NDArray[np.float64]]:
        """(d,) each: the importance measured for the value while training, and the kernel's weights; nothing where
        nothing guided."""
        if not self.importances.updates:
            return {}
        return {MEASURED: value_importance(self.importances, self.config.guidance), WEIGHTS: self.kernel_weights}

    @property
    def dictionary_sizes(self) -> dict[str, int]:
        """States in each dictionary."""
        sizes = {"actor": self.policy_mean.dictionary.size}
        return sizes if self.acting.value is None else {**sizes, "value": self.acting.value.dictionary.size}

    @property
    def dictionary_size(self) -> int:
        """States in the larger dictionary."""
        return max(self.dictionary_sizes.values())

    def linearise(self, state: ArrayLike) -> NDArray[np.float64]:
        """(m, d), or (N, m, d) for a batch: the local feedback gain d action / d state, squashing included."""
        state = self._ordered(state)
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
        against = self.background if background is None else self._ordered(background, "background")
        options |= {"method": method, "groups": groups, "interactions": interactions}
        with limited_threads(self.config.threads):
            function, states = self._explained(of), self._ordered(states)
            return explain(function, states, against, feature_names=self.feature_names, **options)

    def fidelity(self, explanation: Explanation, of: str = "value") -> dict[str, Fidelity]:
        """Does what guided describe what is explained? Rank agreement and deletion of an explanation's own ranking, of
        those of `guided_by` and of a random one."""
        with limited_threads(self.config.threads):
            rng = np.random.default_rng(0)
            return fidelity(self._explained(of), explanation, self.background, self.guided_by, rng)

    def explain_dataset(
        self,
        dataset: str | PathLike[str],
        out: str | PathLike[str],
        of: str = "value",
        method: str = "kme",
        background: ArrayLike | None = None,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> ExplainedDataset:
        """Explain every state of an NPZ, NPY, Parquet or Minari file into the folder `out`; call it again to continue.

        Files may be larger than memory. `columns` names the columns of the states, in the order of the features; unless
        given they are found by name. Further options are those of `explain`, and `chunk` and `progress` of
        `rsa2c.attribution.explain_dataset`. All cores are used, and their number changes nothing.
        """
        layout, function = self.task.layout, self._explained(of)
        against = self.background if background is None else self._ordered(background, "background")
        entries = () if layout is None else ["/".join(path) for path in layout.paths]
        options |= {"method": method, "columns": columns, "entries": entries}
        return explain_dataset(function, dataset, against, out, feature_names=self.feature_names, **options)

    def _explained(self, of: str) -> RKHSFunction:
        sources = {"value": lambda: self.value, "action": lambda: self.policy_mean, "advantage": lambda: self.advantage}
        if of not in sources:
            raise ConfigError(f"of must be one of {', '.join(map(repr, sources))}, got {of!r}.")
        return sources[of]()

    def certify(self, states: ArrayLike, epsilon: ArrayLike, norm: Norm = "l2", units: Units = "raw") -> Certificate:
        """What no observation error of size `epsilon` can exceed at raw states: change of action, value and policy.

        `epsilon` is one number or one per state, in raw observation units or in standard deviations of the metric.
        """
        region = Region(np.asarray(epsilon, dtype=np.float64), norm, unit_scale(self, units))
        with limited_threads(self.config.threads):
            return certify(self.policy, self.acting.value, self._ordered(states), region)

    def certified_radius(
        self, states: ArrayLike, amount: ArrayLike, norm: Norm = "l2", units: Units = "raw"
    ) -> NDArray[np.float64]:
        """(N,): a size of observation errors up to which no action moves by more than `amount`, proven."""
        with limited_threads(self.config.threads):
            return certified_radius(self.policy, self._ordered(states), amount, norm, unit_scale(self, units))

    def prototypes(self, state: ArrayLike, k: int = 5) -> Prototypes:
        """The remembered states that carried the action at `state`, with signed shares that add up to its mean."""
        return prototypes(self.policy_mean, self._ordered(state), k, feature_names=self.feature_names)

    def familiarity(self, states: ArrayLike) -> NDArray[np.float64]:
        """(N,): similarity of raw states to the nearest state the policy remembers, 1 there and towards 0 far away."""
        return familiarity(self.policy_mean, self._ordered(states))

    def _ordered(self, states: Any, what: str = "states") -> Any:
        """The states; a data frame is refused unless its columns are the features, in their order."""
        check_columns(what, states, self.feature_names, "the agent's features as columns")
        return states

    def export(
        self,
        path: str | PathLike[str],
        to: str | None = None,
        include: Sequence[str] = (),
        precision: str | None = None,
        background: int | None = None,
    ) -> Exported:
        """Write the deterministic policy as code that needs no rsa2c: a C99 header, an ONNX graph or a NumPy file.

        `to` is "c", "onnx" (extra `export`) or "numpy"; unset, it follows from the suffix of `path` (.h, .onnx, .py).
        `include` adds "value", "familiarity" and, in C, "attribution": Shapley values of the mean before squashing
        against the first `background` visited states (16 unless given). `precision="float32"` halves a C header.
        """
        return export(self.task, self.acting, path, to, include, precision, background, self.filter_weight)

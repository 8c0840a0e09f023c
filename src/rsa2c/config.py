"""Everything a training run can be told, as one frozen dataclass.

`Config` is the configuration, the command line and its help at once: a field's docstring is its
help text, its annotation is its rule, and both are checked at construction. Variants of the method
(`ALGORITHMS`) and per-environment settings (`presets/*.yaml`) are nothing but values of these fields.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from rsa2c.errors import ConfigError, did_you_mean

Auto = Literal["auto"]

ALGORITHMS: dict[str, dict[str, Any]] = {
    "rsa2c-kme": {"attribution": "kme", "shuffle_weights": False, "baseline": "value"},
    "rsa2c-cme": {"attribution": "cme", "shuffle_weights": False, "baseline": "value"},
    "uniform-shap": {"attribution": "uniform", "shuffle_weights": False, "baseline": "value"},
    "shuffled-shap": {"attribution": "kme", "shuffle_weights": True, "baseline": "value"},
    "advanced-ac": {"attribution": "none", "shuffle_weights": False, "baseline": "value"},
    "rkhs-ac": {"attribution": "none", "shuffle_weights": False, "baseline": "none"},
}
"""Variants of the method: they differ in these three fields and in nothing else."""

TOTAL_TIMESTEPS = {
    "Pendulum-v1": 200_000,
    "rsa2c/LQR-v0": 1_200_000,
    "BipedalWalker-v3": 3_960_000,
    "Ant-v5": 3_980_000,
}
"""Steps of a run that was not told how many; 1 M for other environments. With the warm-up and the last epoch rounded
up, BipedalWalker-v3 and Ant-v5 end below 4 M."""


@dataclass(frozen=True)
class Config:
    """Settings of one RSA2C agent. `"auto"` is settled from the environment and a warm-up."""

    seed: int = 0
    """Seed of every generator of the run."""

    # Environment and rollout
    backend: Literal["auto", "arrays", "envpool", "gymnasium"] = "auto"
    """Who steps the training environments: our own arrays (Pendulum-v1, rsa2c/LQR-v0), EnvPool or Gymnasium; auto takes
    the first of these that has the environment."""
    noise_variance: float = 0.0
    """Variance of Gaussian noise added to the observations while training, in raw units."""
    distractors: int = 0
    """Number of pure-noise features appended to the observation."""
    n_envs: int | Auto = "auto"
    """Environments stepped side by side."""
    horizon: int | Auto = "auto"
    """Steps of each environment in an epoch; auto is the environment's episode limit."""
    restart_p: float = 0.0
    """Probability a step that an episode is cut and restarted (the paper's restart kernel)."""
    gamma: float = 0.99
    """Discount factor."""
    warmup_episodes: int = 10
    """Episodes of the untrained policy that give the frozen normaliser (at least)."""
    normaliser: Literal["warmup", "starts"] = "warmup"
    """Fit the normaliser to the warm-up's states, or to the start distribution alone."""

    smallest_std: float = 1e-3
    """A feature whose standard deviation over the warm-up is below this, in raw units, counts as constant and keeps its
    scale."""
    observation_clip: float = 10.0
    """Normalised features are clipped to this magnitude."""

    # Kernel and dictionaries
    kernel: Literal["rbf", "laplace"] = "rbf"
    """Product kernel of actor and critics."""
    length_scale: float | Auto = "auto"
    """Kernel length scale on normalised states."""
    length_scale_factor: float = 0.6
    """Used by auto: length scale = factor * sqrt(E|x - x'|^2 / 2) over warm-up states."""
    capacity: int | Auto = "auto"
    """Most states in each dictionary."""
    initial_centres: int = 128
    """Most states admitted from the warm-up."""
    admission_threshold: float = 1e-2
    """Squared RKHS distance to the dictionary's span above which a state is admitted (ALD)."""
    admission_threshold_final: float | None = None
    """Threshold reached after `admission_epochs`; unset keeps it constant."""
    admission_epochs: int = 300
    """Epochs over which the admission threshold anneals geometrically."""
    admission_limit: int = 64
    """Most states admitted an epoch, each dictionary."""
    admission_every: int = 1
    """Epochs between admissions."""
    admission_candidates: int = 4000
    """Batch states considered for admission (a random thinning of larger batches)."""
    replacement: Literal["removal-cost", "largest-error", "none"] = "removal-cost"
    """At capacity: replace the state whose removal changes the function least on the batch, the one with the
    largest stored projection error (the paper's rule), or none."""
    replacement_limit: int = 16
    """Most states replaced each time, each dictionary."""
    replacement_every: int = 5
    """Epochs between replacements."""

    # Value critic
    value_fit: Literal["closed", "td", "mc"] = "closed"
    """Ridge LSTD(lambda) in one solve, TD(lambda) sweeps, or gradient sweeps on Monte-Carlo returns."""
    value_lambda: float = 0.95
    """Trace decay of the value fit."""
    value_ridge: float = 1e-4
    """Weight of the squared RKHS norm in the value fit."""
    value_step: float = 1e-2
    """Step size of `td` and `mc`; with `step_rule="polynomial"` it is b0 of b0 (t+1)^-1/2."""
    value_sweeps: int = 2
    """Passes over the batch of `td` and `mc`."""
    value_kernel: Literal["plain", "guided"] = "plain"
    """Whether the Value Critic's kernel takes the feature weights too."""
    baseline: Literal["value", "none"] = "value"
    """Two critics, or (RKHS-AC) a single compatible critic on returns without a value baseline."""

    # Advantage critic
    gae_lambda: float = 0.95
    """Lambda of the generalised advantage estimate; 1 gives return minus value."""
    advantage_clip: float | None = None
    """Standardised advantages are clipped to this magnitude."""
    smooth_advantage: bool = False
    """Let the Advantage Critic's fit, not the estimate itself, weigh the scores (metrics other than fisher)."""
    advantage_ridge: float = 1e-3
    """Weight of the squared RKHS norm in the advantage fit: the damping of the natural gradient."""

    # Actor
    squash: Literal["tanh", "clip", "none"] = "tanh"
    """How the Gaussian variable u becomes an action inside the bounds."""
    sigma_initial: float = 0.5
    """Standard deviation of u in the first epoch."""
    sigma_final: float = 0.2
    """Standard deviation of u after `sigma_epochs`."""
    sigma_epochs: int = 150
    """Epochs over which the standard deviation anneals."""
    metric: Literal["fisher", "rkhs", "euclidean"] = "fisher"
    """Metric of the actor's step: natural gradient, RKHS gradient, or plain gradient on coefficients."""
    step_rule: Literal["kl", "constant", "polynomial"] = "kl"
    """Size the step by its KL, by `step_size`, or by step_size (t+1)^-3/4."""
    kl: float | Auto = "auto"
    """Mean KL a step (nats a state, summed over action dimensions)."""
    kl_final: float | None = None
    """KL reached after `kl_epochs`; unset keeps it constant."""
    kl_epochs: int = 300
    """Epochs over which the KL target anneals."""
    step_size: float = 1.0
    """Step size of the rules `constant` and `polynomial`."""
    gradient_clip: float | None = None
    """Largest Euclidean norm of the step direction (rules `constant` and `polynomial`)."""

    # Attribution and guidance
    attribution: Literal["kme", "cme", "uniform", "none"] = "kme"
    """Game whose Shapley values become kernel weights; uniform sets equal weights, none sets nothing."""
    shuffle_weights: bool = False
    """Placebo: permute the weights over features each time."""
    guide: Literal["value", "value+advantage", "value+policy"] = "value"
    """What is attributed for the weights."""
    attribution_critic: Literal["shadow", "value"] = "shadow"
    """Attribute a separate unweighted regression with shadow features, or the Value Critic itself."""
    attribution_every: int = 10
    """Epochs between attributions."""
    attribution_warmup: int = 2
    """Attributions taken before weights are first set."""
    attribution_states: int = 64
    """States explained each time."""
    attribution_background: int = 48
    """Background states of the game."""
    attribution_centres: int = 200
    """Centres of the attribution critic."""
    attribution_samples: int = 20000
    """Most batch states the attribution critic is fitted to."""
    attribution_length_scale: float = 1.0
    """Length scale of the attribution critic over sqrt(number of features)."""
    attribution_ridge: float = 1e-3
    """Ridge of the attribution critic."""
    attribution_nodes: int | None = 6
    """Quadrature nodes of the exact values in training; unset takes the exact number, ceil(d/2)."""
    shadow_features: int = 6
    """Permuted columns that give the null level."""
    null_factor: float = 2.0
    """Multiples of the null level taken off each feature's importance."""
    moment_decay: float = 0.9
    """Decay of the moving average of importances."""
    phi_statistic: Literal["squared", "absolute", "signed"] = "squared"
    """Mean over states that measures a feature's importance."""
    phi_estimator: Literal["exact", "permutation"] = "exact"
    """Exact Shapley values, or one sampled permutation as the paper's released code."""
    weight_rule: Literal["null", "ratio"] = "null"
    """Importance above the shadows' null, or the released code's length-scale ratios."""
    weight_floor: float = 0.3
    """Share kappa_0 of equal weights mixed in (rule null); floor of phi (rule ratio)."""
    weight_power: float = 0.5
    """Weights follow importance to this power (rule null): 1 in proportion, 0 all features above the null alike."""
    shortest_length_scale: float = 0.6
    """No feature's length scale falls under this (rule null)."""
    ratio_mix: float = 0.25
    """kappa of the rule ratio."""
    ratio_range: float = 2.0
    """Ratios of length scales stay in [1/range, range] (rule ratio)."""
    ratio_features: int | None = None
    """Only this many most deviating features change (rule ratio); unset means all."""
    reproject: bool = True
    """Re-project the policy on the new kernel when weights change."""
    reproject_ridge: float = 1e-6
    """Ridge of the re-projection."""
    trust_region: float = 0.02
    """Largest KL a change of weights may induce on held-out states."""
    cme_embedding: Literal["intercept", "marginal", "paper"] = "intercept"
    """Conditional mean embedding of the game cme."""
    cme_ridge: float = 1e-3
    """Ridge lambda of the conditional mean embedding (times n)."""
    cme_permutations: int = 8
    """Orders sampled for the game cme in training, in antithetic pairs; few features are enumerated instead, where that
    takes no more coalitions."""

    # Running
    epochs_between_evaluations: int = 5
    """Epochs between evaluations of a run folder's training."""
    evaluation_episodes: int = 20
    """Fixed-seed episodes of those evaluations."""
    step_timeout: float | None = 300.0
    """Seconds that a step or reset of the environments, all side by side, may take before the run is stopped; unset
    waits for ever."""
    diagnostics: bool = False
    """Record the quantities of the convergence theory each epoch: zeta_a, lambda_F, projection errors, kernel drift."""
    precision: Literal["float32", "float64"] = "float32"
    """Of batch features and their Gram products; factorisations are always float64."""
    threads: int = 1
    """Threads of BLAS and numba; equal threads and seed give equal bytes."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = _checked(field.name, getattr(self, field.name), _hints()[field.name])
            object.__setattr__(self, field.name, value)
        if self.attribution_critic == "value" and self.guide != "value":
            raise ConfigError(
                f"guide={self.guide!r} needs attribution_critic='shadow': the Value Critic knows the value alone. "
                "Set guide='value'."
            )
        if self.smooth_advantage and self.metric == "fisher":
            raise ConfigError("smooth_advantage has no effect but damping with metric='fisher'. Set one or the other.")

    def updated(self, **changes: Any) -> Config:
        """The same configuration with some fields changed; unknown names are refused."""
        for name in changes:
            if name not in _hints():
                raise ConfigError(
                    f"config field {name!r} does not exist.{did_you_mean(name, _hints())} "
                    "`rsa2c train --help` lists all fields."
                )
        return replace(self, **changes)


_POSITIVE = {
    "smallest_std", "weight_floor",
    "n_envs", "horizon", "warmup_episodes", "observation_clip", "length_scale", "length_scale_factor", "capacity",
    "initial_centres", "admission_threshold", "admission_threshold_final", "admission_epochs", "admission_limit",
    "admission_every", "admission_candidates", "replacement_every", "value_ridge", "value_step", "value_sweeps",
    "advantage_clip", "advantage_ridge", "sigma_initial", "sigma_final", "sigma_epochs", "kl", "kl_final",
    "kl_epochs", "step_size", "gradient_clip", "attribution_every", "attribution_warmup", "attribution_states",
    "attribution_background", "attribution_centres", "attribution_samples", "attribution_length_scale",
    "attribution_ridge", "attribution_nodes", "ratio_mix", "ratio_range", "ratio_features", "reproject_ridge",
    "trust_region", "shortest_length_scale", "cme_ridge", "cme_permutations", "epochs_between_evaluations",
    "evaluation_episodes", "step_timeout", "threads",
}  # fmt: skip
_UNIT_INTERVAL = {"gamma", "value_lambda", "gae_lambda", "moment_decay"}
_BELOW_ONE = {"admission_threshold", "admission_threshold_final", "restart_p", "weight_floor"}
_NOT_NEGATIVE = {
    "restart_p", "seed", "noise_variance", "distractors", "replacement_limit", "shadow_features", "null_factor",
    "weight_power",
}  # fmt: skip


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Config)


def _checked(name: str, value: Any, hint: Any) -> Any:
    """`value` as the annotation `hint` wants it, or an error that says what is allowed."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ConfigError(f"{name} must be a number of 64 bits, got one of {value.bit_length()}.")
    allowed = _alternatives(hint)
    literals = [choice for choice in allowed if isinstance(choice, str)]
    types = [kind for kind in allowed if isinstance(kind, type)]
    if isinstance(value, str):
        if value in literals:
            return value
        raise ConfigError(f"{name} must be {_described(allowed)}, got {value!r}.{did_you_mean(value, literals)}")
    if value is None:
        if type(None) in types:
            return None
    elif bool in types:
        if isinstance(value, bool):
            return value
    elif float in types and not isinstance(value, bool) and hasattr(value, "__float__"):
        return _bounded(name, float(value))
    elif int in types and not isinstance(value, bool) and hasattr(value, "__index__"):
        return _bounded(name, value.__index__())
    raise ConfigError(f"{name} must be {_described(allowed)}, got {value!r}.")


def _bounded(name: str, value: Any) -> Any:
    if not math.isfinite(value):
        raise ConfigError(f"{name} must be finite, got {value}.")
    if name in _POSITIVE and value <= 0:
        raise ConfigError(f"{name} must be positive, got {value}.")
    if name in _NOT_NEGATIVE and value < 0:
        raise ConfigError(f"{name} must not be negative, got {value}.")
    if name in _UNIT_INTERVAL and not 0 <= value <= 1:
        raise ConfigError(f"{name} must lie in [0, 1], got {value}.")
    if name in _BELOW_ONE and not value < 1:
        raise ConfigError(f"{name} must be below 1, got {value}.")
    return value


@cache
def _alternatives(hint: Any) -> tuple[Any, ...]:
    origin = get_origin(hint)
    if origin is Literal:
        return get_args(hint)
    if origin is Union or origin is type(int | str):
        return tuple(choice for part in get_args(hint) for choice in _alternatives(part))
    return (hint,)


def _described(allowed: Sequence[Any]) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", type(None): "unset (null)"}
    return " or ".join(words.get(choice, repr(choice)) for choice in allowed)


@cache
def _preset_file(env_id: str) -> dict[str, dict[str, Any]] | None:
    files = {path.name: path for path in (resources.files("rsa2c") / "presets").iterdir()}
    path = files.get(f"{env_id.replace('/', '-')}.yaml")
    return None if path is None else yaml.safe_load(path.read_text("utf-8"))


def preset_names(env_id: str) -> list[str]:
    """Presets that exist for an environment; any environment has `default`."""
    return list(_preset_file(env_id) or {"default": {}})


def make_config(env_id: str, preset: str = "default", algorithm: str | None = None, **overrides: Any) -> Config:
    """The preset's values for this environment, then the variant's, then the caller's, which may not make another
    variant of it."""
    presets = _preset_file(env_id) or {"default": {}}
    if preset not in presets:
        raise ConfigError(
            f"preset {preset!r} does not exist for {env_id}; it has {', '.join(presets)}."
            f"{did_you_mean(preset, presets)}"
        )
    if algorithm is not None and algorithm not in ALGORITHMS:
        raise ConfigError(
            f"algorithm {algorithm!r} is unknown; known are {', '.join(ALGORITHMS)}."
            f"{did_you_mean(algorithm, ALGORITHMS)}"
        )
    variant = ALGORITHMS[algorithm] if algorithm else {}
    config = Config().updated(**{**(presets[preset] or {}), **variant, **overrides})
    if algorithm is not None and (actual := algorithm_name(config)) != algorithm:
        changed = ", ".join(f"{name}={overrides[name]!r}" for name in variant
                            if overrides.get(name, variant[name]) != variant[name])  # fmt: skip
        remedy = f"Ask for the algorithm {actual}" if actual in ALGORITHMS else "Leave that out"
        raise ConfigError(f"with {changed} it is no longer {algorithm} but {actual}. {remedy}.")
    return config


def default_timesteps(env_id: str) -> int:
    """Steps of a run that was not told how many."""
    return TOTAL_TIMESTEPS.get(env_id, 1_000_000)


def algorithm_name(config: Config) -> str:
    """The variant's name that a configuration amounts to."""
    for name, values in ALGORITHMS.items():
        if all(getattr(config, field) == value for field, value in values.items()):
            return name
    return "custom"

"""Variants of the method by name, presets of an environment, and the configuration that the two amount to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsa2c.config.settings import Config
from rsa2c.envs.known import USUAL_TIMESTEPS, find
from rsa2c.errors import ConfigError, did_you_mean

ALGORITHMS: dict[str, dict[str, Any]] = {
    "rsa2c-kme": {"attribution": "kme", "shuffle_weights": False},
    "rsa2c-cme": {"attribution": "cme", "shuffle_weights": False},
    "uniform-shap": {"guidance": "uniform"},
    "shuffled-shap": {"attribution": "kme", "shuffle_weights": True},
    "advanced-ac": {"guidance": "none"},
    "rkhs-ac": {"guidance": "none", "value_fit": "none"},
}
"""Variants of the method: they differ in these settings only. Those that are guided take the preset's rule."""


GENERAL: dict[str, Any] = {
    "precision": "float64",  # wide kernels: in single precision the Fisher matrix became indefinite on HalfCheetah-v5
    "scaling": "following",
    "admission_threshold": 3e-3,
    "capacity": 512,
    "initial_centres": 192,
    "gamma": "auto",
    "value_lambda": 0.98,
    "value_ridge": 5e-6,
    "value_damping": 0.5,
    "gae_lambda": 0.95,
    "sigma": "learned",
    "sigma_initial": "auto",
    "noise_correlation": "auto",
    "kl": 0.04,
    "kl_halving": 1_000_000,
    "kl_largest": "auto",
    "policy_decay": 0.004,
    "keep": "best",
    "epochs_between_evaluations": 25,
    "evaluation_episodes": 10,
}
"""The preset `default` of every environment that has none of its own: one rule for all, found on Hopper-v5,
Walker2d-v5 and HalfCheetah-v5 by thousands of trainings with other seeds than those reported (results/research.md)."""

SIDE_BY_SIDE: dict[str, Any] = {
    "n_envs": 4096,
    "horizon": 16,
    "capacity": 1024,
    "value_damping": 0.0,
    "kl": 0.1,  # Ant-v5 after 24 s: 3,706, with 0.04 2,740
    "kl_halving": 30_000_000,
    "kl_largest": None,
    "batch_doubling": None,
    "keep": "last",  # a trial takes as long as dozens of epochs, and has a program of its own to compile
    "epochs_between_evaluations": 100,
    "attribution_every": 10,  # an attribution takes as long as an epoch's physics, and a batch says more
    "moment_decay": 0.9,
}
"""What the preset `default` has instead on a GPU, where an epoch is a few steps of thousands of environments."""


def _presets(env_id: str, device: str = "cpu") -> Mapping[str, Mapping[str, Any]]:
    known, many = find(env_id), {} if device == "cpu" else SIDE_BY_SIDE
    if known is None:
        return {"default": {**GENERAL, **many}}
    return {"default": {**GENERAL, **known.exceptions, **many}, **known.presets}


def preset_names(env_id: str) -> list[str]:
    """Presets that exist for an environment; any environment has `default`."""
    return list(_presets(env_id))


def make_config(env_id: str, preset: str = "default", algorithm: str | None = None, **overrides: Any) -> Config:
    """The preset's settings for this environment, overridden by the variant's, overridden by the caller's.

    The caller's settings must have an effect, and must leave the variant what it is.
    """
    presets = _presets(env_id, overrides.get("device", "cpu"))
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
    config = Config.built({**presets[preset], **variant}, overrides)
    if algorithm is not None and (actual := algorithm_name(config)) != algorithm:
        changed = ", ".join(f"{name}={value!r}" for name, value in overrides.items() if name in _DECISIVE)
        remedy = f"Ask for algorithm {actual}" if actual in ALGORITHMS else "Leave that out"
        raise ConfigError(f"{changed} would turn {algorithm} into {actual}. {remedy}.")
    return config


def default_timesteps(env_id: str) -> int:
    """Training steps of a run if none are given."""
    known = find(env_id)
    return USUAL_TIMESTEPS if known is None else known.total_timesteps


_DECISIVE = ("attribution", "guidance", "shuffle_weights", "value_fit")


def algorithm_name(config: Config) -> str:
    """The name of the variant that a configuration amounts to, or "custom"."""
    settings = config.settings()
    decisive = {name: settings.get(name) for name in _DECISIVE}
    decisive["value_fit"] = "none" if decisive["value_fit"] == "none" else None
    if decisive["attribution"] is not None:
        decisive["guidance"] = None
    for name, values in ALGORITHMS.items():
        if decisive == {**dict.fromkeys(_DECISIVE), **values}:
            return name
    return "custom"

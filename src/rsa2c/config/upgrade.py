"""Settings in older files; those of format version 1 were one flat list of 85 names, whether they had an effect or
not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsa2c.config.flat import built
from rsa2c.config.settings import Config
from rsa2c.errors import ConfigError

BEFORE_TRAINING = ("warmup_episodes", "smallest_std", "observation_clip")
"""Settings of version 1 that only the warm-up read: what they led to is in the trained metric."""
CONSTANT: dict[str, Any] = {
    "attribution_samples": 20000,
    "attribution_length_scale": 1.0,
    "attribution_ridge": 1e-3,
    "attribution_nodes": 6,
    "shadow_features": 6,
    "null_factor": 2.0,
    "weight_power": 0.5,
    "shortest_length_scale": 0.6,
    "reproject_ridge": 1e-6,
    "cme_permutations": 8,
}
"""Settings of version 1 that are constants now, with the only value they can have."""
ADMISSION_LIMIT = 64


def without_shadows(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of version 6 for those of version 5: importance above the null of shadow features is no more."""
    return {**settings, "guidance": "agreement"} if settings.get("guidance") == "shadow" else dict(settings)


def upgraded_settings(old: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of version 2 that mean what these of version 1 meant; those without an effect are dropped."""
    settings = {name: value for name, value in old.items() if name not in BEFORE_TRAINING}
    for name, constant in CONSTANT.items():
        if (value := settings.pop(name, constant)) != constant:
            raise ConfigError(
                f"it was trained with {name}={value!r}, which can no longer be set (it is {constant!r} now). "
                "Use rsa2c 0.1 for this file."
            )
    settings |= {"scaling": "frozen", "sigma": "scheduled"}
    if settings.pop("baseline", "value") == "none":
        settings["value_fit"] = "none"
    rule, critic = settings.pop("weight_rule", "null"), settings.pop("attribution_critic", "shadow")
    if settings.get("attribution") in ("uniform", "none"):
        settings["guidance"] = settings.pop("attribution")
    elif (rule, critic) in (("null", "shadow"), ("ratio", "value")):
        settings["guidance"] = "agreement" if rule == "null" else "released"
    else:
        raise ConfigError(
            f"it was trained with weight_rule={rule!r} and attribution_critic={critic!r}, which no longer go together. "
            "Use rsa2c 0.1 for this file."
        )
    if settings.get("admission_threshold_final") is not None:
        settings["admission"] = "annealed"
    elif settings.get("admission_limit", ADMISSION_LIMIT) != ADMISSION_LIMIT or settings.get("admission_every", 1) != 1:
        settings |= {"admission": "annealed", "admission_threshold_final": settings.get("admission_threshold", 1e-2)}
    else:
        settings.pop("admission_threshold_final", None)
    if settings.get("advantage_clip") is not None or settings.get("smooth_advantage"):
        settings["advantage_fit"] = "released"
    return built(Config, settings, {}).settings()

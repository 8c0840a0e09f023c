"""Settings as flags: the twenty that people change, in groups, and the rest behind `--help-all`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from typing import Annotated, Any, Literal

import tyro

from rsa2c.config import Config, Setting, all_settings

EVERYDAY: dict[str, tuple[str, ...]] = {
    "task": ("seed", "device", "noise_variance", "distractors", "backend"),
    "budget": ("n_envs", "horizon", "epochs_between_evaluations", "evaluation_episodes"),
    "policy": ("length_scale", "capacity", "squash", "sigma_initial", "kl", "robust"),
    "critic": ("gamma", "value_lambda", "value_ridge", "gae_lambda"),
    "guidance": ("guide", "attribution_every", "weight_floor"),
    "running": ("threads", "step_timeout"),
}
"""What `rsa2c train --help` shows, by group."""
REST = "further"
"""Group of all other settings."""


def groups(everything: bool) -> dict[str, list[Setting]]:
    """The settings of each group; with `everything`, one more group has those that are seldom changed."""
    known = all_settings(Config)
    grouped = {name: [known[each] for each in names] for name, names in EVERYDAY.items()}
    if everything:
        shown = {each for names in EVERYDAY.values() for each in names}
        grouped[REST] = [setting for name, setting in known.items() if name not in shown]
    return grouped


def flags(preset: Mapping[str, Any], everything: bool = True) -> dict[str, Any]:
    """A dataclass for each group of flags, with the preset's values as defaults, made for tyro."""
    made: dict[str, Any] = {}
    for name, settings in groups(everything).items():
        members = []
        for setting in settings:
            default = preset.get(setting.name, setting.default)
            text = tyro.conf.arg(help=setting.help)
            members.append((setting.name, Annotated[_type_of(setting), text], field(default=default)))
        made[name] = make_dataclass(f"{name.capitalize()}Options", members, frozen=True)
        made[name].__doc__ = ""
    return made


def _type_of(setting: Setting) -> Any:
    """What tyro is to read; a choice is one of its names."""
    return Literal[setting.hint] if isinstance(setting.hint, tuple) else setting.hint


def given(options: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The flags of these groups that differ from their defaults."""
    asked: dict[str, Any] = {}
    for name in names:
        for each in fields(getattr(options, name)):
            value = getattr(getattr(options, name), each.name)
            if value != each.default:
                asked[each.name] = value
    return asked

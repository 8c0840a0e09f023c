"""The flat list of settings that users see, and the nested dataclasses that the code reads.

A field whose name is in `CHOICES` holds one of several dataclasses; in the flat list it is the name of that
alternative, under the choice's tag, beside the alternative's own settings.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

from rsa2c.config import choices, released
from rsa2c.config.rules import checked
from rsa2c.errors import ConfigError, did_you_mean

Made = TypeVar("Made")


@dataclass(frozen=True)
class Choice:
    """Alternatives by the name that users give them, under a flat name, the tag."""

    tag: str
    help: str
    alternatives: dict[str, type]

    def name_of(self, chosen: object) -> str:
        """What users call the alternative that an object is."""
        return next(name for name, kind in self.alternatives.items() if type(chosen) is kind)


CHOICES: dict[str, Choice] = {
    "scale": Choice(
        "scaling",
        "Means and standard deviations of the kernel's inputs: following the visited states, or fixed before training.",
        {"following": choices.FollowingScale, "frozen": choices.FrozenScale},
    ),
    "exploration": Choice(
        "sigma",
        "The policy's standard deviations: learned, one for each action dimension, or a linear schedule for all.",
        {"learned": choices.LearnedSigma, "scheduled": choices.ScheduledSigma},
    ),
    "admission": Choice(
        "admission",
        "Threshold of admission to the dictionaries: constant, or annealed as in the released code.",
        {"constant": choices.ConstantAdmission, "annealed": released.AnnealedAdmission},
    ),
    "replacement": Choice(
        "replacement",
        "At capacity, replace the states whose removal costs least, those with the largest stored projection error "
        "(the paper's rule), or none.",
        {
            "removal-cost": choices.RemovalCost,
            "largest-error": released.LargestError,
            "none": choices.NoReplacement,
        },
    ),
    "value": Choice(
        "value_fit",
        "Ridge LSTD(lambda) in closed form, TD(lambda) sweeps, gradient sweeps on Monte-Carlo returns, or no Value "
        "Critic at all (RKHS-AC).",
        {"closed": choices.LSTD, "td": released.TD, "mc": released.MonteCarlo, "none": choices.NoValue},
    ),
    "advantage": Choice(
        "advantage_fit",
        "The Advantage Critic's closed form, or the released code's clipped and smoothed variant of it.",
        {"closed": choices.ClosedAdvantage, "released": released.ReleasedAdvantage},
    ),
    "step": Choice(
        "step_rule",
        "Size the actor's step by its KL divergence, by a constant, or by a0 (t+1)^-3/4.",
        {"kl": choices.KLStep, "constant": released.ConstantStep, "polynomial": released.PolynomialStep},
    ),
    "robust": Choice(
        "robust",
        "What is done so that errors of measurement do less harm: nothing, a kernel whose standard deviations include "
        "them, noise on the observations while training, a penalty on what they change of the policy, or a low-pass "
        "filter in front of it.",
        {
            "none": choices.NoRobustness,
            "scale": choices.WiderScale,
            "noise": choices.NoisyTraining,
            "smooth": choices.SmoothPolicy,
            "filter": choices.FilteredMeasurements,
        },
    ),
    "guidance": Choice(
        "guidance",
        "How attributions become kernel weights: equal ones for what actions move and for features on whose importance "
        "two halves of the episodes agree, the released "
        "code's rule, the rule that the paper prints, equal weights, or not at all.",
        {
            "agreement": choices.AgreementGuidance,
            "released": released.ReleasedGuidance,
            "printed": released.PrintedGuidance,
            "uniform": choices.UniformGuidance,
            "none": choices.NoGuidance,
        },
    ),
    "game": Choice(
        "attribution",
        "Game whose Shapley values guide: interventional (kme) or observational (cme).",
        {"kme": choices.KME, "cme": choices.CME},
    ),
}


@cache
def hints_of(kind: type[Any]) -> dict[str, Any]:
    """Annotations of a dataclass, bounds included."""
    return get_type_hints(kind, include_extras=True)


def check_fields(made: Any) -> None:
    """Bring every plain field of a configuration into its annotated type, or say what is allowed."""
    for field in fields(made):
        value = getattr(made, field.name)
        if field.name in CHOICES:
            allowed = tuple(CHOICES[field.name].alternatives.values())
            if not isinstance(value, allowed):
                names = ", ".join(kind.__name__ for kind in allowed)
                raise ConfigError(f"{field.name} must be one of {names}, got {value!r}.")
            check_fields(value)
        else:
            hint = hints_of(type(made))[field.name]  # type: ignore[arg-type]
            object.__setattr__(made, field.name, checked(field.name, value, hint))


def flattened(made: Any) -> dict[str, Any]:
    """Flat name -> value, in the order of the fields; a choice's tag comes before its settings."""
    flat: dict[str, Any] = {}
    for field in fields(made):
        value = getattr(made, field.name)
        if field.name in CHOICES:
            flat[CHOICES[field.name].tag] = CHOICES[field.name].name_of(value)
            flat |= flattened(value)
        else:
            flat[field.name] = value
    return flat


def built(kind: type[Made], base: Mapping[str, Any], asked: Mapping[str, Any]) -> Made:
    """A configuration of `kind` from flat settings: those of `base`, overridden by what was `asked` for.

    What `asked` names must have an effect; settings of `base` whose choice is not made are dropped.
    """
    known = owners(kind)  # type: ignore[arg-type]
    for name in (*base, *asked):
        if name not in known:
            near = did_you_mean(str(name), known)
            raise ConfigError(f"setting {name!r} does not exist.{near} `rsa2c train --help-all` lists all settings.")
    settings, used = {**base, **asked}, set[str]()
    made = _made(kind, settings, used)
    for name in asked:
        if name not in used:
            raise ConfigError(_no_effect(name, known[name], flattened(made)))
    return made


def _made(kind: type[Made], settings: Mapping[str, Any], used: set[str]) -> Made:
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in CHOICES:
            choice = CHOICES[field.name]
            name = settings.get(choice.tag, choice.name_of(field.default))
            if not isinstance(name, str) or name not in choice.alternatives:
                near = did_you_mean(str(name), choice.alternatives)
                raise ConfigError(f"{choice.tag} must be one of {_quoted(choice.alternatives)}, got {name!r}.{near}")
            used.add(choice.tag)
            values[field.name] = _made(choice.alternatives[name], settings, used)
        elif field.name in settings:
            used.add(field.name)
            values[field.name] = settings[field.name]
    return kind(**values)


@cache
def owners(kind: type[Any]) -> dict[str, dict[str, list[str]]]:
    """Flat name -> the choices that bring it along, tag -> names; empty for what is always there."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, tag, alternative in _walk(kind, "", ""):
        found.setdefault(name, {})
        if tag:
            found[name].setdefault(tag, []).append(alternative)
    return found


def _walk(kind: type, tag: str, alternative: str) -> Iterator[tuple[str, str, str]]:
    for field in fields(kind):
        if field.name in CHOICES:
            choice = CHOICES[field.name]
            yield choice.tag, tag, alternative
            for name, inner in choice.alternatives.items():
                yield from _walk(inner, choice.tag, name)
        else:
            yield field.name, tag, alternative


def _no_effect(name: str, belongs: Mapping[str, list[str]], live: Mapping[str, Any]) -> str:
    (tag, alternatives), *_ = belongs.items()
    unique = list(dict.fromkeys(alternatives))
    now = f" with {tag}={live[tag]!r}" if tag in live else ""
    return (
        f"{name} has no effect{now}: it belongs to {tag}={' or '.join(map(repr, unique))}. "
        f"Set {tag} accordingly, or leave {name} out."
    )


def _quoted(names: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, names))


@dataclass(frozen=True)
class Setting:
    """One flat setting: its annotation, default and help text."""

    name: str
    hint: Any
    default: Any
    help: str


@cache
def all_settings(kind: type[Any]) -> dict[str, Setting]:
    """Every flat setting of a configuration, live or not; help texts are the docstrings of the fields."""
    found: dict[str, Setting] = {}
    defaults = kind()
    texts = _docstrings(kind)
    for field in fields(kind):
        if field.name in CHOICES:
            choice = CHOICES[field.name]
            default = choice.name_of(getattr(defaults, field.name))
            found.setdefault(choice.tag, Setting(choice.tag, tuple(choice.alternatives), default, choice.help))
            for inner in choice.alternatives.values():
                for setting in all_settings(inner).values():
                    found.setdefault(setting.name, setting)
        else:
            hint = hints_of(kind)[field.name]  # type: ignore[arg-type]
            found[field.name] = Setting(field.name, hint, getattr(defaults, field.name), texts.get(field.name, ""))
    return found


def _docstrings(kind: type) -> dict[str, str]:
    """The strings that stand under the fields of a dataclass in its source."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = _docstrings(kind.__mro__[1]) if kind.__mro__[1] is not object else {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            texts[field.target.id] = " ".join(str(text.value.value).split())  # type: ignore[attr-defined]
    return texts

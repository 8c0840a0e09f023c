"""Mistakes in the arguments of a command, found before tyro reads them and told as this library tells all mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from rsa2c.errors import ConfigError, did_you_mean

KINDS = {int: "a whole number", float: "a number", str: "text"}
HELP = ("-h", "--help")
TYRO = "--tyro-"
"""What tyro itself takes: shell completion."""


@dataclass(frozen=True)
class Option:
    """What an option takes, read from a field of a dataclass."""

    name: str
    hint: Any
    required: bool

    @property
    def positional(self) -> bool:
        return tyro.conf.Positional in _notes(self.hint)

    @property
    def shown(self) -> str:
        """How it is written: ENV, or --to {c,onnx,numpy}."""
        if self.positional:
            return self.name.upper()
        return f"{self.flag} {self.named or self.name.upper()}"

    @property
    def named(self) -> str | None:
        """The names among which the command chooses, as {c,onnx,numpy}."""
        return next((each.metavar for each in _notes(self.hint) if getattr(each, "metavar", None)), None)

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types it may have, one after the other."""
        plain = _plain(self.hint)
        union = get_origin(plain) in (Union, UnionType)
        return tuple(_plain(each) for each in get_args(plain)) if union else (plain,)

    @property
    def switch(self) -> bool:
        """Whether it stands alone, without a value."""
        return self.kinds == (bool,)

    @property
    def several(self) -> bool:
        """Whether any number of values follow it."""
        return get_origin(self.kinds[0]) in (tuple, list)

    @property
    def rule(self) -> str:
        """What its value must be."""
        if self.named:
            return f"one of {self.named}"
        choices = ", ".join(map(repr, self.choices))
        others = [KINDS[kind] for kind in self.kinds if kind in KINDS]
        return " or ".join([*others, f"one of {choices}" if len(self.choices) > 1 else choices]).removesuffix(" or ")

    @property
    def choices(self) -> list[str]:
        """The words it may be."""
        return [word for kind in self.kinds if get_origin(kind) is Literal for word in get_args(kind)]

    def check(self, value: str) -> None:
        """Refuse a value that tyro could not read."""
        if self.several or any(_reads(kind, value) for kind in self.kinds):
            return
        near = did_you_mean(value, self.choices)
        if int in self.kinds and _reads(float, value) and float(value).is_integer():
            near = f" Write {float(value):.0f}."
        raise ConfigError(f"{self.flag} must be {self.rule}, got {value!r}.{near}")


def check_arguments(options: type, arguments: list[str], program: str, complete: bool) -> None:
    """Refuse arguments that are no options of the dataclass, lack their value or have one of another type; with
    `complete`, also where a required one is missing."""
    if any(each in HELP or each.startswith(TYRO) for each in arguments):
        return
    known = list(_options(options))
    opposites = {f"--no-{each.flag[2:]}": each for each in known if each.switch and _has_opposite(each)}
    flags = {each.flag: each for each in known if not each.positional} | opposites
    places, given, rest, last = [each for each in known if each.positional], [], list(arguments), ""
    while rest:
        token = rest.pop(0)
        if token.startswith("-") and not _reads(float, token):
            name, equals, value = token.partition("=")
            option = flags.get(name.replace("_", "-"))
            if option is None:
                near = did_you_mean(name.lstrip("-"), [flag[2:] for flag in flags]).replace("mean '", "mean '--")
                raise ConfigError(f"{program} has no option {name}.{near} `{program} --help` shows its options.")
            given.append(option)
            _check_values(option, [value] if equals else None, rest)
        elif left := [each for each in places if each not in given]:
            given.append(left[0])
        else:
            raise ConfigError(_superfluous(token, flags.get(last), places, flags, program))
        last = token
    if missing := [each.shown for each in known if complete and each.required and each not in given]:
        usage = " ".join([program, *(each.shown for each in known if each.required)])
        raise ConfigError(f"{program} needs {' and '.join(missing)}. Write: {usage}. `{program} --help` says more.")


def _check_values(option: Option, given: list[str] | None, rest: list[str]) -> None:
    """Check the values of an option, those behind its equals sign or those that follow, which are taken from `rest`."""
    if option.switch:
        if given:
            raise ConfigError(f"{option.flag} takes no value, got {given[0]!r}. Write {option.flag} alone.")
        return
    values = given or []
    while given is None and rest and not rest[0].startswith("--") and (option.several or not values):
        values.append(rest.pop(0))
    if not values and not option.several:
        raise ConfigError(f"{option.flag} must be followed by {option.rule}, got nothing.")
    for value in values:
        option.check(value)


def _superfluous(
    token: str, before: Option | None, places: list[Option], flags: dict[str, Option], program: str
) -> str:
    """What to say of an argument that has no place."""
    if before is not None and before.switch:
        return f"{before.flag} takes no value, got {token!r}. Write {before.flag} alone."
    near = f" Did you mean --{token}?" if f"--{token}" in flags else f" `{program} --help` says more."
    takes = f"takes {places[0].shown} and options that begin with --" if places else "takes no arguments"
    return f"{program} {takes}, got {token!r} besides.{near}"


def _options(options: type) -> Iterator[Option]:
    """Those of a dataclass, and of the dataclasses in it."""
    hints = get_type_hints(options, include_extras=True)
    for each in fields(options):
        hint = hints[each.name]
        if is_dataclass(hint):
            yield from _options(hint)  # type: ignore[arg-type]
        else:
            yield Option(each.name, hint, each.default is MISSING and each.default_factory is MISSING)


def _plain(hint: Any) -> Any:
    """A type without its annotations."""
    return _plain(get_args(hint)[0]) if get_origin(hint) is Annotated else hint


def _notes(hint: Any) -> list[Any]:
    """The annotations of a type."""
    if get_origin(hint) is not Annotated:
        return []
    return [*hint.__metadata__, *_notes(get_args(hint)[0])]


def _has_opposite(option: Option) -> bool:
    """Whether there is a --no-NAME beside --NAME."""
    return tyro.conf.FlagCreatePairsOff not in _notes(option.hint)


def _reads(kind: Any, value: str) -> bool:
    """Whether a text is of a type."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is NoneType:
        return value == "None"
    try:
        kind(value)
    except ValueError:
        return False
    return True

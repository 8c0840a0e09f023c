"""What all subcommands share: the registry, and options read from a dataclass by tyro."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

import tyro

from rsa2c.cli.arguments import check_arguments
from rsa2c.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rsa2c.agent import RSA2C

Flag = tyro.conf.FlagCreatePairsOff[bool]
Options = TypeVar("Options")
Command = Callable[[list[str]], None]
COMMANDS: dict[str, Command] = {}


def command(function: Command) -> Command:
    """Make `function` a subcommand; it takes the arguments after its name."""
    COMMANDS[function.__name__.rstrip("_")] = function
    return function


def parse(options: type[Options], arguments: list[str], function: Command, default: Any = None) -> Options:
    """Read `arguments` as the dataclass `options`; help ends the process as tyro does."""
    name = f"rsa2c {function.__name__.rstrip('_')}"
    check_arguments(options, arguments, name, complete=default is None)
    return tyro.cli(
        options,
        args=arguments,
        prog=name,
        description=cleandoc(function.__doc__ or ""),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.PositionalMetavarFromFieldName),
        **({} if default is None else {"default": default}),
    )


def typed_env(name: str | None) -> str | None:
    """An environment that the user typed; the module of `module:Name` may be a file in the current folder."""
    if name is not None and ":" in name:
        from rsa2c.envs.modules import use_module

        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        use_module(name)
    return name


def keyword_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """`key=value` pairs; values are read as YAML, so that numbers are numbers."""
    import yaml

    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.isidentifier()):
            raise ConfigError(f"--env-kwargs takes key=value, got {pair!r}.")
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(f"--env-kwargs: the value of {key} cannot be read, got {value!r}.") from error
    return found


def program() -> str:
    """How to call this program again: by its name if the shell finds it, else as it was called."""
    called = sys.argv[0]
    return called if os.path.basename(called) == "rsa2c" and shutil.which("rsa2c") is None else "rsa2c"


def choice(*names: str) -> Any:
    return tyro.conf.arg(metavar="{" + ",".join(names) + "}")


def visited(agent: RSA2C, count: int, method: str) -> NDArray[np.float64]:
    """The first `count` of the visited states that a model keeps; `method`, in Python, takes any states."""
    if not 1 <= count <= len(agent.background):
        raise ConfigError(
            f"--states must be between 1 and {len(agent.background)}, the visited states a model keeps, "
            f"got {count}. agent.{method} in Python takes any states."
        )
    return agent.background[:count]

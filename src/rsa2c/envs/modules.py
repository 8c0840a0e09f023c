"""Environments in modules that the user names: `my_plants:Tank-v0`, or `my_plants:Tank` for a class or function.

A name that somebody types may import its module. A name in a file may not: whoever sends a run folder could then run
code. So `use_module` is called where names are typed (the agent's argument, the command line), and a name that was read
from a file finds only what is registered with Gymnasium or was typed before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from rsa2c.errors import EnvError, described, did_you_mean

_typed: dict[str, str | Callable[..., Any]] = {}
"""Names that were typed, and what they mean: an id in Gymnasium's registry, a class or a function."""


def has_module(name: str) -> bool:
    """Whether a name has the form `module:Name` (`dm:` marks dm_control's tasks and is no module)."""
    return ":" in name and not name.startswith("dm:")


def use_module(name: Any) -> None:
    """Import the module of a name that the user typed; anything else than `module:Name` is left alone."""
    if not isinstance(name, str) or not has_module(name) or name in _typed:
        return
    import gymnasium as gym  # not above: whether a name has a module can be asked without it

    module, _, wanted = name.partition(":")
    if not all(part.isidentifier() for part in module.split(".")) or module.endswith(".py"):
        stem = PurePath(module).stem
        raise EnvError(f"{name!r} must name a module as import does, not a file. Write {stem}:{wanted} in its folder.")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise EnvError(
            f"there is no environment {name!r}: its module {module!r} could not be imported: {error}. Is it installed, "
            "or in the folder you are in?"
        ) from error
    except Exception as error:
        raise EnvError(
            f"there is no environment {name!r}: its module {module!r} failed while it was imported: {described(error)}"
        ) from error
    if wanted in gym.registry:
        _typed[name] = wanted
    elif callable(made := getattr(found, wanted, None)):
        _typed[name] = made
    else:
        near = did_you_mean(wanted, [*gym.registry, *vars(found)])
        raise EnvError(
            f"there is no environment {name!r}: importing {module} registers no {wanted!r} with Gymnasium, and it has "
            f"no class or function of that name.{near}"
        )


def was_typed(name: str) -> bool:
    """Whether the user typed this name, so that another process of this training may import its module too."""
    return name in _typed


def found_in_module(name: str) -> str | Callable[..., Any]:
    """What `module:Name` means: an id in Gymnasium's registry, a class or a function. Nothing is imported."""
    if name in _typed:
        return _typed[name]
    import gymnasium as gym

    _, _, wanted = name.partition(":")
    if wanted in gym.registry:
        return wanted
    raise EnvError(
        f"Gymnasium has no environment {name!r} yet: a file may name a module, but not have it imported. If you trust "
        f"it, name it yourself: env={name!r} in Python, --env {name} on the command line."
    )

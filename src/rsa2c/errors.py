"""Errors a user can meet. Each names the thing, the rule, what was received and the remedy."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterable
from types import ModuleType


class RSA2CError(Exception):
    """Base class of every error this library raises on purpose."""


class Notice(UserWarning):
    """Something a user should know that stops nothing; the command line prints it as one line."""


def notice(message: str) -> None:
    """Give a `Notice`, at the line of the program that led here and not at one of this library's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "rsa2c":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, Notice, stacklevel=level)


class ConfigError(RSA2CError, ValueError):
    """A setting that does not exist, or a value it may not take."""


class EnvError(RSA2CError, RuntimeError):
    """An environment that is unknown, unsupported, or that returned something unusable."""


class DataError(RSA2CError, ValueError):
    """An array of the wrong shape, or with NaN or infinite entries."""


class FileFormatError(RSA2CError, ValueError):
    """A file that is damaged, truncated, or not one of ours."""


class MissingExtraError(RSA2CError, ImportError):
    """An optional dependency that is not installed."""


class RunExistsError(RSA2CError, FileExistsError):
    """A run folder that already exists and is never overwritten."""


class NotFoundError(RSA2CError, FileNotFoundError):
    """A run, model or preset that was not found."""


def require(module: str, extra: str, what: str = "This") -> ModuleType:
    """Import an optional module, or name the extra that installs it; `what` is the feature that needs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs {module!r}, which is not installed. Install it with: pip install 'rsa2c[{extra}]'"
        ) from error


def described(error: BaseException) -> str:
    """An error in words: the message of one of ours; for any other, its type and place as well."""
    if isinstance(error, RSA2CError):
        return str(error)
    if isinstance(error, SyntaxError):  # which has its place in its message
        return f"{type(error).__name__}: {error}"
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<frozen")]
    place = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The sentence `Did you mean 'x'?` for the candidate nearest to `name`, or nothing if none is similar."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    nearest = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[nearest[0]]!r}?" if nearest else ""

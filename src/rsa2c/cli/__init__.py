"""The command line: a file for each group of subcommands, one function per subcommand, whose docstring is its help.

Heavy modules are imported by the command that needs them. A mistake in the input gives one message on stderr
and exit code 2; an interruption gives exit code 130.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from rsa2c.cli.command import COMMANDS
from rsa2c.errors import ConfigError, Notice, RSA2CError, did_you_mean

# The order of the help
# isort: off
from rsa2c.cli import train  # noqa: F401
from rsa2c.cli import evaluate  # noqa: F401
from rsa2c.cli import explain  # noqa: F401
from rsa2c.cli import report  # noqa: F401
from rsa2c.cli import certify  # noqa: F401
from rsa2c.cli import zoo  # noqa: F401
from rsa2c.cli import watch  # noqa: F401
from rsa2c.cli import card  # noqa: F401
from rsa2c.cli import export  # noqa: F401
from rsa2c.cli import sweep  # noqa: F401
from rsa2c.cli import tune  # noqa: F401
from rsa2c.cli import reproduce  # noqa: F401
from rsa2c.cli import profile  # noqa: F401
from rsa2c.cli import overview  # noqa: F401
# isort: on


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    name, *rest = arguments
    if name == "--version":
        print(f"rsa2c {version('rsa2c')}")
        return 0
    shown, warnings.showwarning = warnings.showwarning, _showing()  # type: ignore[assignment]
    try:
        if name not in COMMANDS:
            near = did_you_mean(name, COMMANDS)
            raise ConfigError(f"there is no command {name!r}.{near} `rsa2c --help` lists all commands.")
        COMMANDS[name](rest)
    except RSA2CError as error:
        print("\n".join([f"rsa2c: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output (head, less) is gone; Python must not complain about it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as interruption:
        print(f"rsa2c: {str(interruption) or 'Interrupted.'}", file=sys.stderr)
        return 130
    finally:
        warnings.showwarning = shown
    return 0


def _showing() -> Callable[..., None]:
    """What shows warnings: a notice of ours as one line, and once in a command; any other as Python shows it."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], filename: str, *rest: Any) -> None:
        if not issubclass(category, Notice):
            sys.stderr.write(warnings.formatwarning(message, category, filename, rest[0]))
        elif str(message) not in said:
            said.add(str(message))
            print(f"rsa2c: {message}", file=sys.stderr)

    return show


def _usage() -> str:
    summaries = {name: (function.__doc__ or "").splitlines()[0] for name, function in COMMANDS.items()}
    return "\n".join(
        [
            "rsa2c: continuous-control agents that explain themselves",
            "",
            "usage: rsa2c COMMAND ...        (rsa2c COMMAND --help shows its options)",
            "",
            *(f"  {name:<10} {summary}" for name, summary in summaries.items()),
            "",
            "examples:",
            "  rsa2c train Pendulum-v1                train, and print where the files are",
            "  rsa2c train Pendulum-v1 --kl 0.02      every setting is a flag",
            "  rsa2c report zoo:Pendulum-v1           the report of an agent that comes with rsa2c",
            "  rsa2c train Ant-v5 --help              the main settings, with the preset's values (--help-all: all)",
        ]
    )

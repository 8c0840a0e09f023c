"""Run ids: the name of a run's folder says what distinguishes it."""

from __future__ import annotations

import re
from typing import Any

from rsa2c.baselines.settings import BaselineConfig
from rsa2c.config import Config
from rsa2c.errors import DataError

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,199}")
_SEED = re.compile(r"__s\d+(?=__|$)")


def make_run_id(env_id: str, algorithm: str, preset: str, config: Config | BaselineConfig) -> str:
    """`<env, / as ->__<algorithm>__<preset>__n<noise variance>__s<seed>`, with `__d<k>` for k distractors
    of noise and `__d<k>-<kind>` for others; without what a module's name may begin with and a run's may not."""
    name = re.sub(r"[/:]", "-", env_id).lstrip("_")
    run_id = f"{name}__{algorithm}__{preset}__n{word(config.noise_variance)}__s{config.seed}"
    kind = "" if config.distractor_kind == "noise" else f"-{config.distractor_kind}"
    return run_id + (f"__d{config.distractors}{kind}" if config.distractors else "")


def word(value: Any) -> str:
    """A setting in a run id: a number is as short as it can be without ambiguity."""
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def without_seed(run_id: str) -> str:
    """The part of the id that runs with different seeds share."""
    return _SEED.sub("", run_id)


def check_run_id(run_id: str) -> None:
    """Refuse an id that is not a plain folder name."""
    if not _RUN_ID.fullmatch(run_id) or ".." in run_id:
        raise DataError(
            f"run id {run_id!r} is refused: only letters, digits and ._+=- are allowed, at most 200, and no '..'."
        )

"""Callbacks in Stable-Baselines3's convention: functions, objects with hooks, or lists of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C

Callback = Callable[[dict[str, Any], dict[str, Any]], bool | None]


class Logger:
    """The part of SB3's logger that its callbacks use: the last value recorded under each key."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def record(self, key: str, value: Any, exclude: Any = None) -> None:
        """Remember a value; `exclude` is there for SB3's signature."""
        self.values[key] = value

    def dump(self, step: int = 0) -> None:
        """Nothing is written: the values stay in `values`."""


@contextmanager
def hooks(callback: Any, agent: RSA2C) -> Iterator[Callback]:
    """One function that calls every callback given, between the hooks for the start and the end of training.

    SB3's hooks are called as SB3 calls them, with an epoch in place of a rollout and of a step.
    """
    callbacks = callback if isinstance(callback, list | tuple) else [] if callback is None else [callback]
    objects = [each for each in callbacks if hasattr(each, "on_step")]
    for each in objects:
        _call(each, "init_callback", agent)
        _call(each, "on_training_start", {"self": agent}, {})

    def after_epoch(local: dict[str, Any], world: dict[str, Any]) -> bool:
        proceed = True
        for each in callbacks:
            if each in objects:
                _call(each, "update_locals", local)
                each.num_timesteps = agent.num_timesteps
                proceed = each.on_step() is not False and proceed
                _call(each, "on_rollout_end")
            else:
                proceed = each(local, world) is not False and proceed
        return proceed

    yield after_epoch
    for each in objects:
        _call(each, "on_training_end")


def _call(callback: Any, hook: str, *arguments: Any) -> None:
    if hasattr(callback, hook):
        getattr(callback, hook)(*arguments)

"""Callbacks in Stable-Baselines3's convention: functions, objects with hooks, or lists of both.

SB3's objects are called as SB3 calls them: at the start and the end of training and of each rollout (an epoch), and
after every step of the environments, with the step's `infos`, `dones`, `rewards`, ... in their `locals`. One that says
False stops training at once; the unfinished epoch is discarded, as SB3 discards an unfinished rollout. A plain function
`callback(locals, globals)` is called after each epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from rsa2c.algorithm.observing import Observe, Step
from rsa2c.envs.checks import autoreset_mode

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C

Callback = Callable[[dict[str, Any], dict[str, Any]], bool | None]


class StopTraining(Exception):
    """A callback asked for the end of training in the middle of an epoch."""


class Hooks:
    """The callbacks of one `learn`; `local` is what SB3's objects find in their `locals` from the start."""

    def __init__(self, callback: Any, agent: RSA2C, local: dict[str, Any]) -> None:
        given = callback if isinstance(callback, list | tuple) else [] if callback is None else [callback]
        self.objects = [each for each in given if hasattr(each, "on_step")]
        self.functions: list[Callback] = [each for each in given if each not in self.objects]
        self.agent, self.local, self.began = agent, local, time.time()
        self.returns = np.zeros(0)
        self.lengths = np.zeros(0, dtype=np.int64)
        self.resets = np.zeros(0, dtype=bool)  # environments whose next step only resets them

    @property
    def observe(self) -> Observe | None:
        """What a rollout calls after each step; None where nobody asks."""
        return self._after_step if self.objects else None

    def before_epoch(self) -> None:
        """Call the hooks for the start of a rollout."""
        self.returns = np.zeros(self.agent.n_envs)
        self.lengths = np.zeros(self.agent.n_envs, dtype=np.int64)
        self.resets = np.zeros(self.agent.n_envs, dtype=bool)
        self.local["n_steps"] = 0
        self.all("on_rollout_start")

    def after_epoch(self, local: dict[str, Any], world: dict[str, Any]) -> bool:
        """Call the functions; whether to go on."""
        return all([_agrees(each(local, world)) for each in self.functions])

    def _after_step(self, step: Step) -> None:
        self.agent.steps_under_way += len(step.rewards)
        dones = step.terminated | step.truncated
        # SB3's objects keep this very dictionary, and find what is new in it
        self.local |= {
            "new_obs": step.observations, "actions": step.actions, "clipped_actions": step.actions,
            "rewards": step.rewards, "dones": dones, "infos": self._infos(step, dones),
            "n_steps": self.local["n_steps"] + 1,
        }  # fmt: skip
        proceed = True
        for each in self.objects:
            _call(each, "update_locals", self.local)
            each.num_timesteps = self.agent.num_timesteps
            proceed = _agrees(each.on_step()) and proceed
        if not proceed:
            raise StopTraining
        if step.last:
            self.all("on_rollout_end")

    def _infos(self, step: Step, dones: np.ndarray) -> list[dict[str, Any]]:
        """One dictionary for each environment, as SB3 has them: at an end with the episode's return and length, its
        last observation, and whether it was truncated."""
        self.returns += np.where(self.resets, 0.0, step.rewards)
        self.lengths += ~self.resets
        self.resets = dones if autoreset_mode(self.agent.env) is AutoresetMode.NEXT_STEP else self.resets
        infos = separated(step.infos, len(dones))
        finals = step.infos.get("final_obs", step.observations)
        for i in np.flatnonzero(dones):
            ended = float(self.returns[i]), int(self.lengths[i])
            summary = {"r": ended[0], "l": ended[1], "t": time.time() - self.began}
            infos[i] |= {
                "episode": infos[i].get("episode", summary),
                "terminal_observation": finals[i],
                "TimeLimit.truncated": bool(step.truncated[i] and not step.terminated[i]),
            }
            self.agent.note_episodes(ended)
            self.returns[i] = self.lengths[i] = 0
        return infos

    def all(self, hook: str, *arguments: Any) -> None:
        """Call a hook of every object that has it."""
        for each in self.objects:
            _call(each, hook, *arguments)


@contextmanager
def hooks(callback: Any, agent: RSA2C, local: dict[str, Any]) -> Iterator[Hooks]:
    """The callbacks between their hooks for the start and the end of training."""
    made = Hooks(callback, agent, {"self": agent, "callback": callback, **local})
    if made.objects:
        made.local["env"] = agent.get_env()
    made.all("init_callback", agent)
    made.all("on_training_start", made.local, {})
    yield made
    made.all("on_training_end")


def separated(infos: dict[str, Any], n: int) -> list[dict[str, Any]]:
    """Gymnasium's infos of n environments, a dictionary of arrays with masks, as n dictionaries."""
    if "sb3" in infos:  # SB3's own environments have them so
        return [dict(info) for info in infos["sb3"]]
    each: list[dict[str, Any]] = [{} for _ in range(n)]
    for key, values in infos.items():
        if key.startswith("_") or key == "final_obs":
            continue
        if isinstance(values, dict):
            for i, inner in enumerate(separated(values, n)):
                if inner:
                    each[i][key] = inner
        elif np.ndim(values) and len(values) == n:
            mask = infos.get(f"_{key}", np.ones(n, dtype=bool))
            for row in np.flatnonzero(mask):
                each[row][key] = values[row]
    return each


def _agrees(answer: Any) -> bool:
    """Whether a callback's answer lets training go on; None does."""
    return answer is None or bool(answer)


def _call(callback: Any, hook: str, *arguments: Any) -> None:
    if hasattr(callback, hook):
        getattr(callback, hook)(*arguments)

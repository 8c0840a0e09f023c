"""Environments that go wrong, registered with Gymnasium as `Raises-v0` and so on: see `WAYS`.

They are well until `after` steps were taken in this process, so that a training has something to lose.
"""

from __future__ import annotations

import collections
import itertools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

AFTER = 168
"""Good steps of the environments that have an id."""


class Bad(gym.Env):
    """A small world whose only rule is that one day it misbehaves in the way `what` says."""

    taken = 0
    """Steps of all of them in this process."""

    def __init__(self, what: str = "nothing", after: int = AFTER) -> None:
        if what == "raises when made":
            raise FileNotFoundError("no such model: world.xml")
        self.observation_space = spaces.Box(-10.0, 10.0, (3,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.what, self.after = what, after
        self.state = np.zeros(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        if self.what == "raises in reset" and Bad.taken >= self.after:
            raise RuntimeError("the simulator lost its licence")
        self.state = self.np_random.uniform(-1.0, 1.0, 3)
        return self.state.copy(), {}

    def step(self, action):
        Bad.taken += 1
        self.state = 0.9 * self.state + 0.1 * float(action[0])
        result = (self.state.copy(), -float(self.state @ self.state), False, False, {})
        return result if Bad.taken <= self.after else self.misbehave(result)

    def misbehave(self, result):
        match self.what:
            case "raises":
                return 1.0 / int(self.taken < 0)
            case "exits":
                sys.exit("licence expired")
            case "hangs":
                time.sleep(600.0)
            case "hangs on":
                while True:
                    try:
                        time.sleep(600.0)
                    except Exception:
                        continue
            case "hangs in native code":
                collections.deque(itertools.repeat(0), maxlen=0)
            case "turns NaN":
                return (result[0] * np.nan, *result[1:])
            case "pays infinity":
                return (result[0], np.inf, *result[2:])
            case "loses a feature":
                return (result[0][:2], *result[1:])
            case "loses all but one":
                return (result[0][:1], *result[1:])
            case "forgets a value":
                return result[:4]
            case "dies":
                os._exit(3)
            case "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
        return result


WAYS = {
    "Good": "nothing",
    "Raises": "raises",
    "RaisesInReset": "raises in reset",
    "RaisesWhenMade": "raises when made",
    "Exits": "exits",
    "Hangs": "hangs",
    "HangsOn": "hangs on",
    "HangsNatively": "hangs in native code",
    "NaN": "turns NaN",
    "Infinite": "pays infinity",
    "Misshapen": "loses a feature",
    "Forgetful": "forgets a value",
    "Dies": "dies",
}


def register() -> None:
    """Make the ids known to Gymnasium."""
    for name, what in WAYS.items():
        gym.register(f"{name}-v0", entry_point=Bad, max_episode_steps=10, kwargs={"what": what})


def registering(folder: Path) -> dict[str, str]:
    """Environment variables of Python processes that know the ids from their start."""
    (folder / "sitecustomize.py").write_text("import misbehaving\nmisbehaving.register()\n")
    path = [str(folder), str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}

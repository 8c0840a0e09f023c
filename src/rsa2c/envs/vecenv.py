"""Stable-Baselines3's vector environments: its `VecEnv` behind Gymnasium's interface, and the other way round."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rsa2c.errors import EnvError

_MODULE = "stable_baselines3.common.vec_env"


def is_vecenv(env: Any) -> bool:
    """Whether an object is SB3's `VecEnv`; whoever has one has imported SB3."""
    return _MODULE in sys.modules and isinstance(env, sys.modules[_MODULE].VecEnv)


class SB3Vector(VectorEnv[Any, NDArray[Any], NDArray[Any]]):
    """SB3's `VecEnv`: it resets in the step that ends an episode and keeps the last observation in the infos."""

    def __init__(self, venv: Any) -> None:
        self.venv, self.num_envs = venv, venv.num_envs
        self.single_observation_space, self.single_action_space = venv.observation_space, venv.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.spec = _attribute(venv, "spec")
        self.observation_names = _attribute(venv, "observation_names")
        self.action_names = _attribute(venv, "action_names")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.venv.seed(int(seed))
        return self.venv.reset(), {}

    def step(self, actions: NDArray[Any]) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        observations, rewards, dones, each = self.venv.step(actions)
        truncated = np.array([bool(info.get("TimeLimit.truncated", False)) for info in each]) & dones
        infos: dict[str, Any] = {"sb3": each}
        if dones.any():
            finals = np.empty(self.num_envs, dtype=object)
            for i in np.flatnonzero(dones):
                finals[i] = each[i]["terminal_observation"]
            infos |= {"final_obs": finals, "_final_obs": dones}
        return observations, rewards.astype(np.float64), dones & ~truncated, truncated, infos


def _attribute(venv: Any, name: str) -> Any:
    """An attribute of the first environment; None if it has none."""
    try:
        return venv.get_attr(name, 0)[0]
    except (AttributeError, IndexError):
        return None


def as_vecenv(vector: VectorEnv[Any, Any, Any], alike: Callable[[], Any]) -> Any:
    """What SB3's callbacks expect as training environments; where SB3 was not imported, the vector environment. `alike`
    makes an environment to play in."""
    if isinstance(vector.unwrapped, SB3Vector):
        return vector.unwrapped.venv
    return _training_class()(vector, alike) if _MODULE in sys.modules else vector


@cache
def _training_class() -> type:
    class TrainingEnvs(_played_class()):  # type: ignore[misc]
        """The training environments as SB3's callbacks see them: they can be looked at and called."""

        def __init__(self, vector: VectorEnv[Any, Any, Any], alike: Callable[[], Any]) -> None:
            self.vector = vector
            super().__init__(vector.num_envs, vector.single_observation_space, vector.single_action_space, alike)

        def __repr__(self) -> str:
            return f"TrainingEnvs({self.vector})"

        @property
        def envs(self) -> list[Any]:
            """Gymnasium's environments; none where another backend steps them."""
            return list(getattr(self.vector.unwrapped, "envs", []))

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            if attr_name == "render_mode":
                return [None] * self.num_envs
            return list(super().get_attr(attr_name, indices))

        def _get_target_envs(self, indices: Any) -> list[Any]:
            if not self.envs:
                raise EnvError(
                    "the training environments are stepped as arrays and cannot be called one by one. Train with "
                    "backend='gymnasium'."
                )
            return list(super()._get_target_envs(indices))

    return TrainingEnvs


@cache
def _played_class() -> type:
    vec_env: Any = sys.modules[_MODULE]

    class PlayedEnvs(vec_env.DummyVecEnv):
        """Those that are reset and stepped are others, made by `alike` when first needed: training steps its own."""

        def __init__(self, count: int, observations: Any, actions: Any, alike: Callable[[], Any]) -> None:
            self.alike = alike
            vec_env.VecEnv.__init__(self, count, observations, actions)

        @cached_property
        def others(self) -> Any:
            monitored = importlib.import_module("stable_baselines3.common.monitor").Monitor
            return vec_env.DummyVecEnv([lambda: monitored(self.alike())] * self.num_envs)

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return list(self.others.env_is_wrapped(wrapper_class, indices))

        def seed(self, seed: int | None = None) -> Any:
            return self.others.seed(seed)

        def reset(self) -> Any:
            observations, self.reset_infos = self.others.reset(), self.others.reset_infos
            return observations

        def step_async(self, actions: Any) -> None:
            self.others.step_async(actions)

        def step_wait(self) -> Any:
            return self.others.step_wait()

        def close(self) -> None:
            """Training closes its environments itself."""
            if "others" in vars(self):
                self.others.close()

    return PlayedEnvs

"""Checks of what an environment offers and returns. An error names the environment, the place and the remedy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rsa2c.envs.names import AnyEnv, env_id, feature_names
from rsa2c.errors import ConfigError, DataError, EnvError


def check_spaces(observation_space: gym.Space[Any], action_space: gym.Space[Any], name: str) -> None:
    """Refuse spaces other than a vector of features and a vector of continuous actions."""
    if not (isinstance(observation_space, spaces.Box) and len(observation_space.shape) == 1):
        raise EnvError(
            f"{name} has observations {_describe(observation_space)}; rsa2c needs one flat vector of "
            "features, a Box of shape (d,). Flatten it, as with gymnasium.wrappers.FlattenObservation."
        )
    if not (isinstance(action_space, spaces.Box) and len(action_space.shape) == 1):
        raise EnvError(
            f"{name} has actions {_describe(action_space)}; rsa2c learns continuous actions only, "
            "a Box of shape (m,)."
        )
    if 0 in (*observation_space.shape, *action_space.shape):
        raise EnvError(f"{name} has an empty space: observations {observation_space}, actions {action_space}")


def check_count(name: str, number: Any) -> None:
    """Refuse anything but a whole number >= 1 or None, which means that it was left out."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if number is not None and not (whole and number >= 1):
        raise ConfigError(f"{name} must be a whole number >= 1, got {number!r}.")


def check_observations(
    env: AnyEnv,
    observations: NDArray[Any],
    shape: tuple[int, int],
    step: int,
    who: Any = None,
    kind: str = "environment",
) -> None:
    """Refuse observations of the wrong shape or with NaN or infinite entries; row i belongs to `who[i]`."""
    if observations.shape != shape:
        raise EnvError(
            f"{env_id(env)}: observations of shape {observations.shape} at step {step}, expected {shape} "
            "according to the observation space."
        )
    finite = np.isfinite(observations)
    if not finite.all():
        row, feature = np.argwhere(~finite)[0]
        name = feature_names(env, shape[1])[feature]
        raise EnvError(
            f"{env_id(env)}: the observation is {observations[row, feature]} at step {step} of {kind} "
            f"{row if who is None else who[row]}, feature {feature} ({name}). Observations must be finite."
        )


def check_rewards(
    env: AnyEnv, rewards: NDArray[Any], n: int, step: int, who: Any = None, kind: str = "environment"
) -> None:
    """Refuse rewards of the wrong shape, or that are NaN or infinite."""
    if rewards.shape != (n,):
        raise EnvError(f"{env_id(env)}: rewards of shape {rewards.shape} at step {step}, expected ({n},).")
    finite = np.isfinite(rewards)
    if not finite.all():
        row = int(np.argmin(finite))
        raise EnvError(
            f"{env_id(env)}: the reward is {rewards[row]} at step {step} of {kind} "
            f"{row if who is None else who[row]}. Rewards must be finite."
        )


def check_actions(env: AnyEnv, actions: NDArray[Any], shape: tuple[int, ...], step: int) -> None:
    """Refuse actions of the wrong shape, or that are NaN or infinite."""
    if actions.shape != shape:
        raise DataError(
            f"{env_id(env)}: the policy gave actions of shape {actions.shape} at step {step}, "
            f"expected {shape}."
        )
    if not np.isfinite(actions).all():
        row, action = np.argwhere(~np.isfinite(actions))[0]
        raise DataError(
            f"{env_id(env)}: the policy's action {action} is {actions[row, action]} at step {step}: the "
            "policy has diverged. A smaller kl or a larger ridge keeps it finite."
        )


def _describe(space: gym.Space[Any]) -> str:
    return f"Box of shape {space.shape}" if isinstance(space, spaces.Box) else str(space)

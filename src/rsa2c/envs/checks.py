"""Checks of what an environment offers and returns. An error names the environment, the place and the remedy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from rsa2c.envs.names import AnyEnv, chain, env_id, feature_names
from rsa2c.errors import ConfigError, DataError, EnvError, notice


def check_has_spaces(env: gym.Env[Any, Any]) -> None:
    """Refuse an environment that does not say what its observations and actions are."""
    for name in ("observation_space", "action_space"):
        if not isinstance(found := getattr(env, name, None), gym.Space):
            got = "none" if found is None else type(found).__name__
            raise EnvError(f"{env_id(env)} must have an attribute {name}, a Box of gymnasium.spaces; got {got}.")


def check_spaces(observation_space: gym.Space[Any], action_space: gym.Space[Any], name: str) -> None:
    """Refuse spaces other than a vector of features and a vector of continuous actions."""
    if not (isinstance(observation_space, spaces.Box) and len(observation_space.shape) == 1):
        raise EnvError(
            f"{name} has observations {_describe(observation_space)}; rsa2c needs one flat vector of "
            f"features, a Box of shape (d,), or a Dict of such. {_observation_remedy(observation_space)}"
        )
    whole = isinstance(action_space, spaces.Box) and not np.issubdtype(action_space.dtype, np.floating)
    if whole or not (isinstance(action_space, spaces.Box) and len(action_space.shape) == 1):
        raise EnvError(
            f"{name} has actions {_describe(action_space)}; rsa2c learns continuous actions only, "
            f"a Box of shape (m,) of floating-point numbers. {_action_remedy(action_space)}"
        )
    if 0 in (*observation_space.shape, *action_space.shape):
        raise EnvError(f"{name} has an empty space: observations {observation_space}, actions {action_space}")


def _observation_remedy(space: gym.Space[Any]) -> str:
    if isinstance(space, spaces.Tuple):
        return "Return a Dict, whose keys name the features, or flatten it with gymnasium.wrappers.FlattenObservation."
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return "Encode the numbers as 0 and 1, as gymnasium.wrappers.FlattenObservation does."
    return "Flatten it, as with gymnasium.wrappers.FlattenObservation."


def _action_remedy(space: gym.Space[Any]) -> str:
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return "Flatten it in a wrapper, as gymnasium.wrappers.TransformAction can."
    if isinstance(space, spaces.Tuple | spaces.Dict):
        return "Join its continuous parts to one Box in a wrapper; rsa2c has no actions of several kinds."
    return (
        "If they are levels of an actuator, let a wrapper take a Box and round it to the nearest level; for a choice "
        "between unlike things use an algorithm with discrete actions, such as SB3's PPO."
    )


NORMALISING = {
    "NormalizeObservation": "the agent scales each feature itself, and the wrapper's running means are in no model "
    "file, so a trained policy would be given other numbers than it learned from, and explanations have no units",
    "NormalizeReward": "the scale of rewards does not matter to the agent, but the wrapper's changes while it learns, "
    "so values drift and the returns that are shown are not the environment's",
}
"""Wrappers that the agent is better off without, and why; SB3's VecNormalize is both."""


def warn_of_normalisation(env: AnyEnv) -> None:
    """Say once for each normalising wrapper below the agent why it should go."""
    found: dict[str, str] = {}
    for each in chain(env):
        kind = type(each).__name__
        for name in NORMALISING:
            part = {"NormalizeObservation": "norm_obs", "NormalizeReward": "norm_reward"}[name]
            if kind == name or (kind == "VecNormalize" and getattr(each, part, False)):
                found[name] = kind if kind == name else f"VecNormalize({part}=True)"
    for name, shown in found.items():
        notice(f"{env_id(env)} is wrapped in {shown}: {NORMALISING[name]}. Remove it.")


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """When the environments of a vector environment start a new episode after an end."""
    try:
        return AutoresetMode(env.metadata["autoreset_mode"])
    except (KeyError, ValueError) as error:
        raise EnvError(
            f"{env_id(env)}: a vector environment must say in metadata['autoreset_mode'] when it resets, a "
            f"gymnasium.vector.AutoresetMode; got {env.metadata.get('autoreset_mode')!r}."
        ) from error


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
            f"{env_id(env)}: the policy gave actions of shape {actions.shape} at step {step}, expected {shape}."
        )
    if not np.isfinite(actions).all():
        row, action = np.argwhere(~np.isfinite(actions))[0]
        raise DataError(
            f"{env_id(env)}: the policy's action {action} is {actions[row, action]} at step {step}: the "
            "policy has diverged. A smaller kl or a larger ridge keeps it finite."
        )


def _describe(space: gym.Space[Any]) -> str:
    return f"Box of shape {space.shape} of {space.dtype}" if isinstance(space, spaces.Box) else str(space)


def check_same_spaces(
    env: VectorEnv[Any, Any, Any], features: int, low: NDArray[Any], high: NDArray[Any], trained_on: str
) -> None:
    """Refuse an environment whose observations (features,) or actions in [low, high] are not those of an agent."""
    box: Any = env.single_action_space
    found, expected = (env.single_observation_space.shape, box.shape), ((features,), low.shape)
    bounds, given = np.stack([low, high]), np.stack([box.low, box.high])
    if found == expected and np.allclose(bounds, given):
        return
    what = f"observations and actions of the shapes {expected}, {env_id(env)} has {found}"
    if found == expected:
        what = f"actions between {bounds[0]} and {bounds[1]}, {env_id(env)} between {given[0]} and {given[1]}"
    raise EnvError(f"the agent has {what}. Give the environment it was trained on, {trained_on}.")

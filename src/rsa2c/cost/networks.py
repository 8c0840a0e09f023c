"""What an iteration of Stable-Baselines3's SAC and PPO costs, in operations of its matrix products.

A layer of a inputs and b outputs costs 2 a b per sample forward, as much again for the gradient of its weights, and as
much for that of its inputs, which the first layer needs only if something before it learns. Activations, losses and
the optimiser are left out, as torch's own counter leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rsa2c.baselines.settings import Settings, settings


@dataclass(frozen=True)
class Iteration:
    """Environment steps and updates between two rollouts, and their operations."""

    steps: int
    rollout: float
    update: float

    @property
    def flops(self) -> float:
        """Operations of the whole iteration."""
        return self.rollout + self.update


def iteration(name: str, env_id: str, features: int, outputs: int) -> Iteration:
    """One iteration of a baseline with its settings for an environment of this many features and action dimensions."""
    count = {"ppo": ppo_iteration, "sac": sac_iteration}
    chosen = settings(name, env_id)
    return count[name](features, outputs, chosen)


def ppo_iteration(d: int, m: int, chosen: Settings) -> Iteration:
    """A rollout of `n_steps` in every environment, then `n_epochs` passes over it."""
    arguments = chosen.arguments
    hidden = _hidden(arguments, [64, 64])
    steps = chosen.n_envs * arguments.get("n_steps", 2048)
    policy, value = [d, *hidden, m], [d, *hidden, 1]
    noise = 2 * hidden[-1] * m if arguments.get("use_sde") else 0
    rollout = steps * (_forward(policy) + _forward(value) + 2 * noise) + chosen.n_envs * _forward(value)
    update = steps * arguments.get("n_epochs", 10) * (_trained(policy) + _trained(value) + 2 * noise)
    return Iteration(steps, float(rollout), float(update))


def sac_iteration(d: int, m: int, chosen: Settings) -> Iteration:
    """`train_freq` steps in every environment, then `gradient_steps` updates of actor and two critics."""
    arguments = chosen.arguments
    hidden = _hidden(arguments, [256, 256])
    steps = chosen.n_envs * arguments.get("train_freq", 1)
    updates = arguments.get("gradient_steps", 1) * arguments.get("batch_size", 256)
    sde = bool(arguments.get("use_sde"))
    # Two heads, mean and deviation; with state-dependent exploration one, and its noise and variance.
    actor, critic = [d, *hidden, m if sde else 2 * m], [d + m, *hidden, 1]
    noise = 2 * 2 * hidden[-1] * m if sde else 0
    # Actor: at the next state, and trained. Each critic: as target, trained, and inside the actor's loss.
    learned = _forward(actor) + _trained(actor) + 4 * noise
    learned += 2 * (_forward(critic) + _trained(critic) + _trained(critic, inputs=True))
    return Iteration(steps, float(steps * (_forward(actor) + noise)), float(updates * learned))


def _hidden(arguments: dict[str, Any], default: list[int]) -> list[int]:
    return list(arguments.get("policy_kwargs", {}).get("net_arch", default))


def _forward(sizes: Sequence[int]) -> int:
    """Operations of one sample through layers of these sizes."""
    return sum(2 * a * b for a, b in pairwise(sizes))


def _trained(sizes: Sequence[int], inputs: bool = False) -> int:
    """Forward and backward."""
    return 3 * _forward(sizes) - (0 if inputs else 2 * sizes[0] * sizes[1])

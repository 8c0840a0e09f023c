"""Our environments in Gymnasium's registry."""

from __future__ import annotations

from rsa2c.envs.known.lqr import LQR


def register() -> None:
    """Let `gymnasium.make` know `rsa2c/LQR-v0`; doing so again changes nothing."""
    from gymnasium.envs import registration

    if LQR.id not in registration.registry:
        registration.register(LQR.id, entry_point="rsa2c.envs.lqr:LQREnv", max_episode_steps=LQR.episode_limit)

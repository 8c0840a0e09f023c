"""Stable-Baselines3's SAC and PPO behind the protocol of our own agents."""

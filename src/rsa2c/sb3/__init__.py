"""Stable-Baselines3's habits: its callbacks, its logger and the methods that its users expect of an agent."""

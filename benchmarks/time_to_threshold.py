"""Seconds of training until a mean return is reached on MuJoCo's robots: rsa2c beside SB3's PPO, on the same simulator.

Both train on EnvPool's environments, on one core, with untouched settings: rsa2c's default, RL-Zoo's tuned PPO for each
robot, on one environment as RL-Zoo does (`--ppo-envs 8` gives it eight, in batches of the same size). The clock starts
when the agent is made and pauses during evaluations, which are the same for both: ten fixed starts in Gymnasium's own
environment, after every 20,000 steps. Compilation is not counted: a short training before warms up both.

    python benchmarks/time_to_threshold.py [--seeds 0 1 2] [--only Hopper-v5]
"""

from __future__ import annotations

import argparse

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

import rsa2c
from _peers import SimulatorVecEnv
from _provenance import write
from _watch import Watch
from rsa2c.baselines.policy import Baseline, baseline_config, resolved, torch_threads

GOALS = {"Hopper-v5": 2_000.0, "Walker2d-v5": 2_000.0, "HalfCheetah-v5": 3_000.0}
LIMIT = 1_000_000
EPISODES, BETWEEN = 10, 20_000


class Clock(Watch):
    """Evaluates every so many steps."""

    def __init__(self, env_id: str) -> None:
        super().__init__(env_id, GOALS[env_id], EPISODES)
        self.due = BETWEEN

    def reached(self, steps: int) -> bool:
        """Whether the goal is reached, if an evaluation is due."""
        if steps < self.due:
            return False
        self.due = (steps // BETWEEN + 1) * BETWEEN
        return self.solved(steps)


def ours(env_id: str, seed: int, limit: int = LIMIT) -> Clock:
    """RSA2C-KME with its default settings."""
    clock = Clock(env_id)
    agent = clock.policy = rsa2c.RSA2C(env_id, "rsa2c-kme", seed=seed, backend="envpool", keep="last")
    agent.learn(limit, callback=lambda *_: not clock.reached(agent.num_timesteps))
    agent.close()
    return clock


def ppo(env_id: str, seed: int, envs: int, limit: int = LIMIT) -> Clock:
    """SB3's PPO with RL-Zoo's settings; more environments share its rollout."""
    clock, config = Clock(env_id), baseline_config("ppo", env_id, seed=seed)
    arguments = resolved(config.arguments)
    arguments["n_steps"] = max(arguments.get("n_steps", 2048) // envs, 1)
    env = VecNormalize(SimulatorVecEnv(env_id, envs, seed, "envpool"), gamma=arguments.get("gamma", 0.99))
    model = PPO("MlpPolicy", env, seed=seed, device="cpu", **arguments)
    clock.policy = Baseline("ppo", env_id, config, model, env)

    class Check(BaseCallback):
        stop = False

        def _on_rollout_start(self) -> None:
            self.stop = self.stop or clock.reached(self.num_timesteps)

        def _on_step(self) -> bool:
            return not self.stop

    model.learn(limit, callback=Check())
    env.close()
    return clock


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", default=",".join(GOALS))
    parser.add_argument("--ppo-envs", type=int, default=1)
    options = parser.parse_args()
    lines = [
        "| environment | goal | seed | rsa2c: seconds (CPU), steps | PPO: the same | ratio, wall | ratio, CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    with torch_threads(1):
        for env_id in options.only.split(","):
            ours(env_id, 1000, 25_000)
            ppo(env_id, 1000, options.ppo_envs, 2_000)
            for seed in options.seeds:
                mine, theirs = ours(env_id, seed), ppo(env_id, seed, options.ppo_envs)
                wall, cpu = theirs.taken / mine.taken
                shown = [
                    f"{c.taken[0]:.0f} ({c.taken[1]:.0f}), {c.solution.steps:,}"
                    + ("" if np.isfinite(c.solution.seconds) else f", not reached ({c.solution.mean_return:.0f})")
                    for c in (mine, theirs)
                ]
                more = "" if np.isfinite(theirs.solution.seconds) else "more than "
                cells = (env_id, f"{GOALS[env_id]:,.0f}", seed, *shown, f"{more}{wall:.1f}", f"{more}{cpu:.1f}")
                row = "| " + " | ".join(map(str, cells)) + " |"
                lines.append(row)
                print(row, flush=True)
    body = "\n".join([*lines, "", f"PPO trains on {options.ppo_envs} environment(s). Ratios: PPO's seconds by ours."])
    print("written to", write("time_to_threshold", "Time to a return, MuJoCo", body, "torch", "stable-baselines3"))


if __name__ == "__main__":
    main()

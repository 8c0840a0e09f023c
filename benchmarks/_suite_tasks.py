"""What the suite trains: environments with their steps, bars and dreams, variants, and the order of the runs."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rsa2c.algorithm.automatic import FOLLOWING_BATCH, FOLLOWING_LENGTH
from rsa2c.baselines.settings import BASELINES, PRESET
from rsa2c.config import Config, FrozenScale, default_timesteps
from rsa2c.envs.known import find
from rsa2c.runs.grid import IN_RUN_ID
from rsa2c.runs.names import make_run_id

MILLION = 1_000_000
RETURN, GOAL, GAP = "mean", "goal_steps", "gap"
"""What is compared with a bar: the name of a row's field."""


@dataclass(frozen=True)
class Target:
    """One line of the table: what an environment must reach after so many steps."""

    environment: str
    steps: int
    bar: float | None = None
    dream: float | None = None
    measure: str = RETURN
    seeds: int = 5


TARGETS = (
    Target("Hopper-v5", MILLION, 3_200, 3_700),
    Target("Walker2d-v5", MILLION, 4_600, 5_500),
    Target("HalfCheetah-v5", MILLION, 5_800, 9_500),
    Target("Ant-v5", MILLION, 2_500, 4_000),
    Target("Ant-v5", 4 * MILLION, 4_600, 5_500, seeds=3),
    Target("Swimmer-v5", MILLION, 300, 365.7),
    Target("Reacher-v5", MILLION, -5),
    Target("InvertedPendulum-v5", MILLION, 1_000, 1_000),
    Target("InvertedDoublePendulum-v5", MILLION, 9_200),
    Target("Humanoid-v5", 5 * MILLION, None, 5_000, seeds=3),
    Target("BipedalWalker-v3", MILLION, 280, 320),
    Target("BipedalWalker-v3", 4 * MILLION, 305, 320),
    Target("LunarLanderContinuous-v3", 500_000, 250, 280),
    Target("MountainCarContinuous-v0", 500_000, 90, 95),
    Target("Pendulum-v1", default_timesteps("Pendulum-v1")),
    Target("Pendulum-v1", default_timesteps("Pendulum-v1"), 10_000, 5_000, GOAL),
    Target("rsa2c/LQR-v0", default_timesteps("rsa2c/LQR-v0")),
    Target("rsa2c/LQR-v0", default_timesteps("rsa2c/LQR-v0"), 0.01, 0.001, GAP),
)
"""The bars and dreams were set before the runs. Swimmer's dream is the best of RL-Zoo's published returns; where only
"best known" was asked for and RL-Zoo has no such environment, there is no dream."""

FURTHER_SEEDS = 3
FURTHER = (
    Target("Pusher-v5", MILLION, seeds=FURTHER_SEEDS),
    Target("HumanoidStandup-v5", MILLION, seeds=FURTHER_SEEDS),
    Target("BipedalWalkerHardcore-v3", MILLION, seeds=FURTHER_SEEDS),
    Target("CartpoleSwingup-v1", MILLION, seeds=FURTHER_SEEDS),
    Target("CheetahRun-v1", MILLION, seeds=FURTHER_SEEDS),
    Target("FingerSpin-v1", MILLION, seeds=FURTHER_SEEDS),
    Target("ReacherEasy-v1", MILLION, seeds=FURTHER_SEEDS),
    Target("WalkerWalk-v1", MILLION, seeds=FURTHER_SEEDS),
    Target("Go1JoystickFlatTerrain-v1", MILLION, seeds=FURTHER_SEEDS),
    Target("PandaPickCube-v1", MILLION, seeds=FURTHER_SEEDS),
)
"""Ten environments that nobody tuned for: three of Gymnasium, five of dm_control and two of MuJoCo Playground. The last
seven are EnvPool's."""

LEFT_OUT_FROM = ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5")


def left_out(environment: str) -> dict[str, dict[str, Any]]:
    """Name -> settings that take one part of the general rule away and leave the others what they are.

    All features of these environments vary. The length scale and the number of environments are given as numbers
    because their automatic rules depend on whether the scale follows.
    """
    known = find(environment)
    assert known is not None, f"{environment} is a known environment"
    d = len(known.features)
    frozen = {
        "scaling": "frozen",
        "length_scale": FOLLOWING_LENGTH * (d - 2) ** 0.5,
        "n_envs": round(FOLLOWING_BATCH / known.episode_limit),
    }
    return {
        "frozen-metric": frozen,
        "frozen-length-scale": {"length_scale": FrozenScale().length_scale_factor * d**0.5},
        "scheduled-sigma": {"sigma": "scheduled"},
    }


@dataclass(frozen=True)
class Task:
    """One row: an environment, an algorithm and a seed, trained for so many steps and judged."""

    environment: str
    algorithm: str
    seed: int
    steps: int
    variant: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    noise: tuple[float, ...] = ()
    """Variances of observation noise, in raw units, under which the policy is judged besides."""

    @property
    def key(self) -> tuple[str, str, int, int, str, str]:
        """What distinguishes a row from the others."""
        return row_key(asdict(self))

    @property
    def suffix(self) -> str:
        """The end of the run folder's name. Milestones of a kernel agent share a folder; SB3 cannot continue a run."""
        parts = (self.variant, str(self.steps) if self.algorithm in BASELINES else "")
        return "".join(f"__{part}" for part in parts if part)

    @property
    def run_id(self) -> str:
        """The name of the run folder, as `train_run` makes it."""
        preset = PRESET if self.algorithm in BASELINES else "default"
        shown = {name: value for name, value in self.settings.items() if name in IN_RUN_ID}
        return make_run_id(self.environment, self.algorithm, preset, Config(seed=self.seed, **shown)) + self.suffix

    def command(self) -> str:
        """The command that trains the same agent."""
        words = ["rsa2c", "train", self.environment, "--algorithm", self.algorithm, "--seed", str(self.seed)]
        words += ["--total-timesteps", str(self.steps)]
        for name, value in self.settings.items():
            flag = name.replace("_", "-")
            if isinstance(value, Mapping):
                words += [f"--{flag}", *(f"{key}={each}" for key, each in value.items())]
                continue
            words += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
        return shlex.join(words)

    def __str__(self) -> str:
        kind, count = self.settings.get("distractor_kind", ""), self.settings.get("distractors")
        useless = f" {count} {kind}" if count else ""
        return f"{self.environment}{useless} {self.variant or self.algorithm} seed {self.seed} {self.steps:,} steps"


def row_key(row: Mapping[str, Any]) -> tuple[str, str, int, int, str, str]:
    """The key of a task or of the row that it left."""
    settings = ",".join(f"{name}={value}" for name, value in sorted(row["settings"].items()))
    return row["environment"], row["algorithm"], row["seed"], row["steps"], row["variant"], settings


def tasks(targets: Iterable[Target], algorithms: Iterable[str], seeds: Collection[int]) -> list[Task]:
    """Every run of the targets, with those of the seeds that a target asks for."""
    distinct = dict.fromkeys((each.environment, each.steps, each.seeds) for each in targets)
    return [
        Task(environment, algorithm, seed, steps)
        for environment, steps, count in distinct
        for algorithm in algorithms
        for seed in range(count)
        if seed in seeds
    ]


def left_out_tasks(targets: Iterable[Target], seeds: Collection[int]) -> list[Task]:
    """Every run with one part of the general rule left out."""
    return [
        Task(target.environment, "rsa2c-kme", seed, target.steps, variant, settings)
        for target in targets
        if target.environment in LEFT_OUT_FROM
        for variant, settings in left_out(target.environment).items()
        for seed in range(target.seeds)
        if seed in seeds
    ]


def ordered(found: Iterable[Task], order: str) -> list[Task]:
    """By seed (the short runs of seed 0 first), or environment by environment. Milestones stay in their order."""
    listed = list(found)
    place = {environment: i for i, environment in enumerate(dict.fromkeys(task.environment for task in listed))}

    def by_seed(task: Task) -> tuple[Any, ...]:
        known = find(task.environment)
        quick = known is not None and known.vector is not None  # arrays: seconds, whatever the steps
        return task.seed, not quick, task.steps, place[task.environment]

    def by_environment(task: Task) -> tuple[Any, ...]:
        return place[task.environment], task.algorithm, task.variant, task.seed, task.steps

    return sorted(listed, key=by_seed if order == "seed" else by_environment)

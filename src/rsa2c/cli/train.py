"""`rsa2c train` and `rsa2c resume`."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rsa2c.baselines.settings import BASELINES, PRESET, BaselineFields, check_algorithm
from rsa2c.cli.command import Flag, choice, command, parse, program
from rsa2c.config import ALGORITHMS, Config, make_config
from rsa2c.errors import described

if TYPE_CHECKING:
    from pathlib import Path

    from rsa2c.runs.folder import Run


@dataclass
class CommonOptions:
    """What to train, and where its files go."""

    env: tyro.conf.Positional[str]
    """Gymnasium id, such as Pendulum-v1."""
    algorithm: Annotated[str, choice(*ALGORITHMS, *BASELINES)] = "rsa2c-kme"
    """Variant of the method, or a baseline of Stable-Baselines3 (`rsa2c train ENV --algorithm sac --help` shows the
    flags it has)."""
    preset: str = "default"
    """Named settings of the environment (sac and ppo have rl-zoo alone); the flags below change single ones."""
    total_timesteps: int | None = None
    """Training steps, rounded up to whole epochs (PPO: rollouts); unset takes a number fit for the environment."""
    out: str = "runs"
    """Folder in which the run's own folder is made."""
    no_track: Flag = False
    """Write no TensorBoard events; else they are written where tensorboard is installed."""
    no_report: Flag = False
    """Write no report.html at the end."""
    quiet: Flag = False
    """Show no progress."""


@dataclass
class TrainOptions(CommonOptions):
    """What to train, and where its files go."""

    config: Config = field(default_factory=Config)


@dataclass
class BaselineOptions(CommonOptions):
    """What to train, and where its files go."""

    config: BaselineFields = field(default_factory=BaselineFields)


@command
def train(arguments: list[str]) -> None:
    """Train an agent in a new run folder.

    Ctrl-C keeps the last whole epoch, and `rsa2c resume` goes on from there to exactly the same result (sac and ppo
    begin again).
    """
    help_flags = [argument for argument in arguments if argument in ("-h", "--help")]
    choices = [argument for argument in arguments if argument not in help_flags]
    # The first reading finds which preset the flags are to change, the second changes it (or shows it).
    first = parse(TrainOptions, choices or help_flags, train)
    check_algorithm(first.algorithm)
    if first.algorithm in BASELINES:
        if help_flags:
            parse(BaselineOptions, help_flags, train, BaselineOptions(first.env, first.algorithm, PRESET))
        told = {item.name: getattr(first.config, item.name) for item in fields(Config)}
        _train(first, {name: value for name, value in told.items() if value != getattr(Config(), name)})
        return
    preset = make_config(first.env, first.preset, first.algorithm)
    default = TrainOptions(first.env, first.algorithm, first.preset, config=preset)
    options = parse(TrainOptions, help_flags or choices, train, default)
    _announce(options.quiet)
    _train(options, asdict(options.config))


def _train(options: CommonOptions, told: dict[str, Any]) -> None:
    from rsa2c.runs.training import train_run

    run = train_run(
        options.env,
        options.algorithm,
        options.preset,
        options.total_timesteps,
        options.out,
        display=not options.quiet,
        track=not options.no_track,
        **told,
    )
    _finish(run, options)


@dataclass
class ResumeOptions:
    """Which run, and how far."""

    run: tyro.conf.Positional[str]
    """Run folder, or its name under ./runs."""
    total_timesteps: int | None = None
    """Training steps in all, those already done included; unset takes what the run was first told."""
    no_track: Flag = False
    """Write no TensorBoard events; else they are written where tensorboard is installed."""
    no_report: Flag = False
    """Write no report.html at the end."""
    quiet: Flag = False
    """Show no progress."""


@command
def resume(arguments: list[str]) -> None:
    """Go on with a run that was stopped, or train a finished one further.

    A run of sac or ppo that was stopped begins again, and a finished one stays as it is.
    """
    options = parse(ResumeOptions, arguments, resume)
    _announce(options.quiet)
    from rsa2c.runs.folder import Run
    from rsa2c.runs.training import is_finished, is_judged, resume_run

    run = Run.open(options.run)
    # A run that was stopped in its last evaluation has nothing left to train
    if options.total_timesteps is not None or not is_finished(run) or is_judged(run):
        resume_run(run.path, options.total_timesteps, display=not options.quiet, track=not options.no_track)
    _finish(run, options)


def _announce(quiet: bool) -> None:
    if not quiet:
        print("preparing (compiles for some seconds in the first run after an installation)", file=sys.stderr)


def _finish(run: Run, options: CommonOptions | ResumeOptions) -> None:
    """Judge the run, write its report, say what it came to; a report that fails costs nothing but itself."""
    from rsa2c.report import write_report
    from rsa2c.runs.training import FINAL_EPISODES, judge

    if not options.quiet:
        print(f"evaluating over {FINAL_EPISODES} episodes", file=sys.stderr)
    judge(run)
    path = None
    if not options.no_report:
        try:
            path = write_report(run)
        except Exception as error:
            print(f"rsa2c: the report could not be written: {described(error)}", file=sys.stderr)
    _print_summary(run, path)


def _print_summary(run: Run, report: Path | None) -> None:
    """What a training run came to, and where its files are."""
    from rsa2c.agent import RSA2C
    from rsa2c.runs.training import load_policy

    agent, judged = load_policy(run), run.read_returns()
    returns = judged["returns"][judged["noise_variance"] == 0.0][0]
    seconds = float(run.read_metrics()[-1]["seconds"])
    print(f"\n{agent.env_id}, {agent.algorithm}, seed {agent.config.seed}")
    print(f"  mean return  {returns.mean():.1f} over {len(returns)} episodes")
    print(f"  training     {agent.num_timesteps:,} steps in {seconds:.1f} s")
    if isinstance(agent, RSA2C):
        weights = sorted(zip(agent.kernel_weights, agent.feature_names, strict=True), reverse=True)
        top = ", ".join(f"{name} {weight:.2f}" for weight, name in weights[:5])
        sizes = ", ".join(f"{name} {size}" for name, size in agent.dictionary_sizes.items())
        print(f"  remembers    {sizes} states")
        print(f"  looks at     {top}  (kernel weights)")
    print(f"  files        {run.path}")
    if report is not None:
        print(f"  report       {report}   (open it in a browser)")
    print(f"  next         {program()} evaluate {run.path}")
    if isinstance(agent, RSA2C):
        print(f"               {program()} explain {run.path} --of action")

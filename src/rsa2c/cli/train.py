"""`rsa2c train` and `rsa2c resume`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rsa2c.baselines.settings import BASELINES, PRESET, BaselineFields, check_algorithm
from rsa2c.cli.command import Flag, choice, command, keyword_arguments, parse, program, typed_env
from rsa2c.cli.settings import flags, given
from rsa2c.config import ALGORITHMS, make_config
from rsa2c.errors import ConfigError, described

if TYPE_CHECKING:
    from pathlib import Path

    from rsa2c.agent import RSA2C
    from rsa2c.runs.data import RunData

EXPLAINED_STATES = 32
"""Visited states from which the summary of a training says what the actions depend on."""


@dataclass
class RunOptions:
    """What to train, and where its files go."""

    env: tyro.conf.Positional[str]
    """Gymnasium id, such as Pendulum-v1; module:Id or module:Class of your own; dm:CheetahRun-v1 for dm_control's tasks
    (EnvPool)."""
    algorithm: Annotated[str, choice(*ALGORITHMS, *BASELINES)] = "rsa2c-kme"
    """Variant of the method, or a baseline of Stable-Baselines3 (`rsa2c train ENV --algorithm sac --help` shows the
    flags it has)."""
    preset: str = "default"
    """Named settings of the environment (sac and ppo have rl-zoo only); the flags below override single ones."""
    total_timesteps: int | None = None
    """Environment steps, warm-up included, rounded up to whole epochs (PPO: rollouts); unset: a number that suits the
    environment."""
    env_kwargs: tuple[str, ...] = ()
    """Arguments of the environment, as key=value."""
    feature_names: str | None = None
    """YAML file with the features' names, a list or a mapping from name to unit."""
    out: str = "runs"
    """Folder in which the run's own folder is made."""
    workers: int = 1
    """Processes over which the environments are spread, or with an address, actors of a Ray cluster."""
    address: str | None = None
    """Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT."""
    no_track: Flag = False
    """Write no TensorBoard events; otherwise they are written if tensorboard is installed."""
    no_report: Flag = False
    """Write no report.html at the end."""
    quiet: Flag = False
    """Show no progress."""


@dataclass
class BaselineOptions(RunOptions):
    """What to train, and where its files go."""

    config: BaselineFields = field(default_factory=BaselineFields)


@command
def train(arguments: list[str]) -> None:
    """Train an agent in a new run folder.

    Ctrl-C keeps the last whole epoch, and `rsa2c resume` continues from there to exactly the same result (sac and ppo
    start over). `rsa2c train ENV --help` shows the settings people change, with that environment's values; --help-all
    shows all of them.
    """
    everything = "--help-all" in arguments
    arguments = ["--help" if argument == "--help-all" else argument for argument in arguments]
    help_flags = [argument for argument in arguments if argument in ("-h", "--help")]
    choices = [argument for argument in arguments if argument not in help_flags]
    # The first reading finds out which preset the flags override, the second overrides it (or shows it).
    first, asked = _read(choices or help_flags, {}, everything or bool(choices))
    typed_env(first.env)
    check_algorithm(first.algorithm)
    if first.algorithm in BASELINES:
        if help_flags:
            parse(BaselineOptions, help_flags, train, BaselineOptions(first.env, first.algorithm, PRESET))
    else:
        # A device has a preset of its own, which is no setting that differs from it.
        device = {"device": asked["device"]} if "device" in asked else {}
        preset = make_config(first.env, first.preset, first.algorithm, **device).settings()
        shown = {"env": first.env, "algorithm": first.algorithm, "preset": first.preset}
        first, asked = _read(help_flags or choices, preset, everything or not help_flags, shown)
        asked |= device
        _announce(first.quiet)
    _train(first, asked)


def _read(
    arguments: list[str], preset: dict[str, Any], everything: bool, shown: dict[str, str] | None = None
) -> tuple[RunOptions, dict[str, Any]]:
    """The run's options, and the settings that differ from the preset's."""
    classes = flags(preset, everything)
    members = [(name, kind, field(default_factory=kind)) for name, kind in classes.items()]
    options = make_dataclass("TrainOptions", members, bases=(RunOptions,))
    options.__doc__ = RunOptions.__doc__
    try:
        read: Any = parse(options, arguments, train, options(**shown) if shown else None)
    except ConfigError:
        from rsa2c.sb3.methods import check_names

        check_names([each[2:].partition("=")[0].replace("-", "_") for each in arguments if each.startswith("--")])
        raise
    return read, given(read, tuple(classes))


def _train(options: RunOptions, asked: dict[str, Any]) -> None:
    from rsa2c.runs.data import RunData
    from rsa2c.runs.training import train_run

    run = train_run(
        options.env,
        options.algorithm,
        options.preset,
        options.total_timesteps,
        options.out,
        display=not options.quiet,
        track=not options.no_track,
        env_kwargs=keyword_arguments(options.env_kwargs),
        feature_names=options.feature_names,
        workers=options.workers,
        cluster=options.address,
        **asked,
    )
    _finish(RunData.of(run), options)


@dataclass
class ResumeOptions:
    """Which run, and how far."""

    run: tyro.conf.Positional[str]
    """Run folder, or its name under ./runs."""
    total_timesteps: int | None = None
    """Environment steps in all, including those already done; unset: the number the run was created with."""
    env: str | None = None
    """The environment as module:Name, where the run was trained on one of your own: a run folder imports nothing."""
    workers: int = 1
    """Processes over which the environments are spread, or with an address, actors of a Ray cluster."""
    address: str | None = None
    """Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT."""
    no_track: Flag = False
    """Write no TensorBoard events; otherwise they are written if tensorboard is installed."""
    no_report: Flag = False
    """Write no report.html at the end."""
    quiet: Flag = False
    """Show no progress."""


@command
def resume(arguments: list[str]) -> None:
    """Continue a run that was stopped, or train a finished one further.

    A run of sac or ppo that was stopped starts over; a finished one cannot be trained further.
    """
    options = parse(ResumeOptions, arguments, resume)
    _announce(options.quiet)
    from rsa2c.runs.data import RunData
    from rsa2c.runs.folder import Run
    from rsa2c.runs.training import is_finished, is_judged, resume_run

    run, env = Run.open(options.run), typed_env(options.env)
    data = RunData.of(run, env)
    # A run that was stopped in its final evaluation has nothing left to train
    if options.total_timesteps is not None or not is_finished(data) or is_judged(data):
        resume_run(
            run.path,
            options.total_timesteps,
            env=env,
            display=not options.quiet,
            track=not options.no_track,
            workers=options.workers,
            cluster=options.address,
        )
    _finish(RunData.of(run, env), options)


def _announce(quiet: bool) -> None:
    if not quiet:
        print("preparing (the first run after an installation compiles for some seconds)", file=sys.stderr)


def _finish(run: RunData, options: RunOptions | ResumeOptions) -> None:
    """Evaluate the run, write its report, print a summary; if the report fails, nothing else is lost."""
    from rsa2c.report import write_report
    from rsa2c.runs.training import FINAL_EPISODES, judge

    if not options.quiet:
        print(f"evaluating over {FINAL_EPISODES} episodes", file=sys.stderr)
    data, path = judge(run), None
    if not options.no_report:
        try:
            path = write_report(data)
        except Exception as error:
            print(f"rsa2c: the report could not be written: {described(error)}", file=sys.stderr)
    _print_summary(data, path)


def _print_summary(data: RunData, report: Path | None) -> None:
    """What a training run reached, and where its files are."""
    from rsa2c.agent import RSA2C
    from rsa2c.statistics.words import shown

    run, agent, judged = data.run, data.agent, data.clean_returns
    assert judged is not None, "the run has just been evaluated"
    returns = judged[0]
    seconds = float(data.last_row["seconds"])
    print(f"\n{agent.env_id}, {agent.algorithm}, seed {agent.config.seed}")
    print(f"  mean return  {shown(returns.mean())} over {len(returns)} episodes")
    print(f"  training     {data.steps:,} steps in {seconds:.1f} s{data.which_acts}")
    if isinstance(agent, RSA2C):
        sizes = ", ".join(f"{name} {size}" for name, size in agent.dictionary_sizes.items())
        print(f"  remembers    {sizes} states")
        _print_features(agent)
    print(f"  files        {run.path}")
    if report is not None:
        print(f"  report       {report}   (open it in a browser)")
    print(f"  next         {program()} evaluate {run.path}{run.env_option}")
    if isinstance(agent, RSA2C):
        print(f"               {program()} explain {run.path} --of action")


def _print_features(agent: RSA2C) -> None:
    """The features that guided, the features that the actions depend on, and whether the two rank alike."""
    import numpy as np

    from rsa2c.statistics import rank_agreement
    from rsa2c.statistics.words import MOST_NAMED, attended

    weights, names = agent.kernel_weights, agent.feature_names
    effects = agent.explain(agent.background[:EXPLAINED_STATES], of="action").importances.mean(axis=1)
    shares = effects / max(effects.sum(), np.finfo(float).tiny)
    largest = ", ".join(f"{names[i]} {shares[i]:.0%}" for i in np.argsort(-shares, kind="stable")[:MOST_NAMED])
    looks = attended(weights, names)
    beside = f"; rank agreement with the weights {rank_agreement(weights, effects):.2f}" if looks else ""
    print(f"  looks at     {looks or 'all features alike'}  (kernel weights)")
    print(f"  responds to  {largest}  (Shapley values of the action{beside})")

"""The command line: one function a subcommand, its docstring the help, its options a dataclass for tyro.

Heavy modules are imported by the command that needs them. A mistake of the user's is one message on stderr
and exit code 2; an interruption is exit code 130.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import resources
from importlib.metadata import version
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro

from rsa2c.config import ALGORITHMS, Config, algorithm_name, make_config, preset_names
from rsa2c.errors import ConfigError, RSA2CError, did_you_mean

if TYPE_CHECKING:
    from rsa2c.store import Run

Flag = tyro.conf.FlagCreatePairsOff[bool]
Options = TypeVar("Options")
Command = Callable[[list[str]], None]
COMMANDS: dict[str, Command] = {}
EXTRAS = {
    "envs": ("mujoco", "Box2D", "pygame"),
    "fast": ("envpool",),
    "explain": ("matplotlib", "shap", "sklearn"),
    "baselines": ("torch", "stable_baselines3"),
    "track": ("tensorboard",),
    "cluster": ("ray",),
}


def command(function: Command) -> Command:
    """Make `function` a subcommand; it takes the arguments after its name."""
    COMMANDS[function.__name__.rstrip("_")] = function
    return function


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    name, *rest = arguments
    if name == "--version":
        print(f"rsa2c {version('rsa2c')}")
        return 0
    try:
        if name not in COMMANDS:
            near = did_you_mean(name, COMMANDS)
            raise ConfigError(f"there is no command {name!r}.{near} `rsa2c --help` lists all commands.")
        COMMANDS[name](rest)
    except RSA2CError as error:
        print(f"rsa2c: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; Python must not complain of it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as interruption:
        print(f"rsa2c: {str(interruption) or 'Interrupted.'}", file=sys.stderr)
        return 130
    return 0


def _usage() -> str:
    summaries = {name: (function.__doc__ or "").splitlines()[0] for name, function in COMMANDS.items()}
    return "\n".join(
        [
            "rsa2c: continuous-control agents that explain themselves",
            "",
            "usage: rsa2c COMMAND ...        (rsa2c COMMAND --help tells more)",
            "",
            *(f"  {name:<10} {summary}" for name, summary in summaries.items()),
            "",
            "examples:",
            "  rsa2c train Pendulum-v1                train, and print where the files are",
            "  rsa2c train Pendulum-v1 --kl 0.02      every setting is a flag",
            "  rsa2c train Ant-v5 --help              all settings, with the preset's values",
        ]
    )


def parse(options: type[Options], arguments: list[str], function: Command, default: Any = None) -> Options:
    """Read `arguments` as the dataclass `options`; help and mistakes end the process as tyro does."""
    return tyro.cli(
        options,
        args=arguments,
        prog=f"rsa2c {function.__name__.rstrip('_')}",
        description=cleandoc(function.__doc__ or ""),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.PositionalMetavarFromFieldName),
        **({} if default is None else {"default": default}),
    )


def _choice(*names: str) -> Any:
    return tyro.conf.arg(metavar="{" + ",".join(names) + "}")


@dataclass
class TrainOptions:
    """What to train, and where its files go."""

    env: tyro.conf.Positional[str]
    """Gymnasium id, such as Pendulum-v1."""
    algorithm: Annotated[str, _choice(*ALGORITHMS)] = "rsa2c-kme"
    """Variant of the method."""
    preset: str = "default"
    """Named settings of the environment; the flags below change single ones."""
    total_timesteps: int | None = None
    """Training steps, rounded up to whole epochs; unset takes a number fit for the environment."""
    out: str = "runs"
    """Folder in which the run's own folder is made."""
    track: Flag = True
    """Write TensorBoard events where tensorboard is installed."""
    quiet: Flag = False
    """Show no progress."""
    config: Config = field(default_factory=Config)


@command
def train(arguments: list[str]) -> None:
    """Train an agent in a new run folder.

    Ctrl-C keeps the last whole epoch, and `rsa2c resume` goes on from there to exactly the same result.
    """
    help_flags = [argument for argument in arguments if argument in ("-h", "--help")]
    choices = [argument for argument in arguments if argument not in help_flags]
    # The first reading finds which preset the flags are to change, the second changes it (or shows it).
    first = parse(TrainOptions, choices or help_flags, train)
    preset = make_config(first.env, first.preset, first.algorithm)
    default = TrainOptions(first.env, first.algorithm, first.preset, config=preset)
    options = parse(TrainOptions, help_flags or choices, train, default)
    if (actual := algorithm_name(options.config)) != options.algorithm:
        raise ConfigError(
            f"these settings are no longer {options.algorithm} but {actual}. "
            + (f"Say so with: --algorithm {actual}" if actual in ALGORITHMS else "")
        )
    _announce(options.quiet)
    from rsa2c.training import train_run

    run = train_run(
        options.env,
        options.algorithm,
        options.preset,
        options.total_timesteps,
        options.out,
        display=not options.quiet,
        track=options.track,
        **asdict(options.config),
    )
    _print_summary(run)


@dataclass
class ResumeOptions:
    """Which run, and how far."""

    run: tyro.conf.Positional[str]
    """Run folder, or its name under ./runs."""
    total_timesteps: int | None = None
    """Training steps in all, those already done included; unset takes what the run was first told."""
    track: Flag = True
    """Write TensorBoard events where tensorboard is installed."""
    quiet: Flag = False
    """Show no progress."""


@command
def resume(arguments: list[str]) -> None:
    """Go on with a run that was stopped, or train a finished one further."""
    options = parse(ResumeOptions, arguments, resume)
    _announce(options.quiet)
    from rsa2c.training import resume_run

    run = resume_run(options.run, options.total_timesteps, display=not options.quiet, track=options.track)
    _print_summary(run)


@dataclass
class EvaluateOptions:
    """Which run, and under which conditions."""

    run: tyro.conf.Positional[str]
    """Run folder, or its name under ./runs."""
    episodes: int = 100
    """Episodes, started from seed, seed + 1, ..."""
    noise_variance: float = 0.0
    """Variance of Gaussian noise added to the observations, in raw units."""
    seed: int = 0
    """Seed of the first episode."""
    json: Flag = False
    """Print JSON, with every return."""


@command
def evaluate(arguments: list[str]) -> None:
    """Returns of a run's agent over fixed-seed episodes of Gymnasium's own environment."""
    options = parse(EvaluateOptions, arguments, evaluate)
    from rsa2c.evaluate import evaluate as measure
    from rsa2c.store import Run
    from rsa2c.training import load_agent, longest_episode

    run = Run.open(options.run)
    agent = load_agent(run)
    result = measure(
        agent,
        agent.env_id,
        episodes=options.episodes,
        noise_variance=options.noise_variance,
        distractors=agent.config.distractors,
        seed=options.seed,
        max_steps=longest_episode(agent),
    )
    if options.json:
        interval = [bound if math.isfinite(bound) else None for bound in result.interval()]
        summary = {"mean": result.mean, "std": result.std, "interval": interval}
        series = {"returns": result.returns.tolist(), "lengths": result.lengths.tolist()}
        asked = {key: value for key, value in asdict(options).items() if key not in ("json", "run")}
        context = {"run": str(run.path), "environment": agent.env_id, "num_timesteps": agent.num_timesteps}
        print(json.dumps({**context, **asked, **summary, **series}, indent=2, allow_nan=False))
        return
    low, high = result.interval()
    noise = f"{options.noise_variance:g} (standard deviation {options.noise_variance**0.5:g})"
    print(f"{agent.env_id}, {agent.algorithm}, {agent.num_timesteps:,} steps")
    print(f"mean return      {result.mean:.2f}   95% interval {low:.2f} to {high:.2f}")
    print(f"over episodes    standard deviation {result.std:.2f}, worst {result.returns.min():.2f}")
    print(f"{options.episodes} episodes from seed {options.seed}, noise variance {noise}")


@dataclass
class ExplainOptions:
    """Which run, what of it, and how."""

    run: tyro.conf.Positional[str]
    """Run folder, or its name under ./runs."""
    of: Annotated[str, _choice("value", "action", "advantage")] = "value"
    """What is explained."""
    method: Annotated[str, _choice("kme", "cme")] = "kme"
    """Interventional values (exact) or observational ones (estimated, with standard errors)."""
    states: int = 200
    """States explained, of those the agent visited last."""
    out: str | None = None
    """Data file to write, an .npz; the plots take its name. Unset: explain_<of>_<method>.npz in the run folder."""


@command
def explain(arguments: list[str]) -> None:
    """Shapley values of a run's agent over visited states: a data file, beeswarm, bars and a training heatmap."""
    options = parse(ExplainOptions, arguments, explain)
    from pathlib import Path

    from rsa2c import plots
    from rsa2c.store import Run
    from rsa2c.training import load_agent

    run = Run.open(options.run)
    agent = load_agent(run)
    if not 1 <= options.states <= len(agent.background):
        raise ConfigError(
            f"--states must lie between 1 and {len(agent.background)}, the visited states a model keeps, "
            f"got {options.states}. agent.explain in Python takes any states."
        )
    explanation = agent.explain(agent.background[: options.states], of=options.of, method=options.method)
    out = Path(options.out) if options.out else run.path / f"explain_{options.of}_{options.method}.npz"
    written = [explanation.save(out)]
    stem = written[0].with_suffix("")
    for name in explanation.output_names:
        label = "" if len(explanation.output_names) == 1 else "_" + name.replace(" ", "_").replace("/", "_")
        written += plots.save(plots.beeswarm(explanation, name), f"{stem}{label}_beeswarm")
        written += plots.save(plots.bar(explanation, name), f"{stem}{label}_bars")
    if agent.attribution_log:
        epochs, importances, weights = zip(*agent.attribution_log, strict=True)
        written += plots.save(plots.heatmap(epochs, importances, agent.feature_names), f"{stem}_training")
        figure = plots.heatmap(epochs, weights, agent.feature_names, label="kernel weight")
        written += plots.save(figure, f"{stem}_weights")
    print(f"{agent.env_id}, {agent.algorithm}: {options.of} at {options.states} visited states")
    print(f"  game      {explanation.game}")
    print(f"  residual  {abs(explanation.efficiency_residual).max():.1e} (values sum to f(s) - E f up to this)")
    for name, size in explanation.top(8):
        print(f"  {size:10.4g}  {name}")
    print("  files     " + "\n            ".join(str(path) for path in written))


@command
def list_(arguments: list[str]) -> None:
    """Environments with presets, algorithms, installed extras, and the runs under ./runs."""
    parse(_NoOptions, arguments, list_)
    from rsa2c.store import find_runs

    print("environments with presets (any other Gymnasium id trains with settings found by itself)")
    for env_id in _preset_environments():
        print(f"  {env_id:<20} {', '.join(preset_names(env_id))}")
    print("\nalgorithms\n  " + "\n  ".join(ALGORITHMS))
    print("\nextras")
    for extra, modules in EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        print(f"  {extra:<12}" + (f"pip install 'rsa2c[{extra}]'" if missing else "installed"))
    runs = find_runs("runs")
    print("\nruns under ./runs" if runs else "\nno runs under ./runs")
    for run in runs:
        print(f"  {run.path}   {_status(run)}")


@dataclass
class _NoOptions:
    """Nothing to choose."""


def _announce(quiet: bool) -> None:
    if not quiet:
        print("preparing (compiles for some seconds in the first run after an installation)", file=sys.stderr)


def _preset_environments() -> list[str]:
    files = (resources.files("rsa2c") / "presets").iterdir()
    names = sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))
    return [name.replace("rsa2c-", "rsa2c/") for name in names]


def _status(run: Run) -> str:
    """Steps and last evaluation of a run, in words; what cannot be read is said, and stops nothing."""
    try:
        document, rows = run.read_config(), run.read_metrics()
        total, config = document["total_timesteps"], document["config"]
        steps = len(rows) * int(config["n_envs"]) * int(config["horizon"])
        words = f"{steps:,} steps" if steps >= total else f"{steps:,} of {total:,} steps"
        if run.evaluations_path.exists():
            words += f", mean return {run.read_evaluations()['results'][-1].mean():.1f}"
        return words
    except RSA2CError as error:
        return f"unreadable: {error}"
    except (KeyError, IndexError, TypeError, ValueError) as error:
        return f"unreadable: {type(error).__name__} {error}"


def _print_summary(run: Run) -> None:
    """What a training run came to, and where its files are."""
    from rsa2c.training import load_agent

    agent, results = load_agent(run), run.read_evaluations()["results"]
    seconds = float(run.read_metrics()[-1]["seconds"])
    weights = sorted(zip(agent.kernel_weights, agent.feature_names, strict=True), reverse=True)
    top = ", ".join(f"{name} {weight:.2f}" for weight, name in weights[:5])
    sizes = ", ".join(f"{name} {size}" for name, size in agent.dictionary_sizes.items())
    print(f"\n{agent.env_id}, {agent.algorithm}, seed {agent.config.seed}")
    print(f"  mean return  {results[-1].mean():.1f} over {results.shape[1]} episodes")
    print(f"  training     {agent.num_timesteps:,} steps in {seconds:.1f} s")
    print(f"  remembers    {sizes} states")
    print(f"  looks at     {top}  (kernel weights)")
    print(f"  files        {run.path}")
    print(f"  next         rsa2c evaluate {run.path}")
    print(f"               rsa2c explain {run.path} --of action")


if __name__ == "__main__":
    sys.exit(main())

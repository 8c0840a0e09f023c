"""The command line: what it prints, and that a user's mistake is one message and exit code 2."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import field, make_dataclass
from pathlib import Path

import pytest
import tyro

from rsa2c import Explanation, plots
from rsa2c.cli import COMMANDS, main
from rsa2c.cli.arguments import check_arguments
from rsa2c.cli.command import program
from rsa2c.cli.settings import flags
from rsa2c.cli.train import RunOptions
from rsa2c.config import Config, all_settings, make_config
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.training import load_agent
from rsa2c.statistics import rank_agreement
from rsa2c.statistics.words import attended

TINY = [
    "--n-envs=4", "--horizon=50", "--capacity=24", "--initial-centres=12",
    "--attribution-centres=20", "--attribution-states=8", "--attribution-background=8",
    "--evaluation-episodes=2", "--no-track", "--quiet",
]  # fmt: skip
RUN = "Pendulum-v1__rsa2c-kme__default__n0__s0"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def trained(capsys):
    assert main(["train", "Pendulum-v1", "--total-timesteps", "2600", *TINY]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    """The message of a command that ends with exit code 2."""
    code = main(list(arguments))
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert {"train", "resume", "evaluate", "list"} <= set(COMMANDS)


def test_no_command_is_a_mistake(capsys):
    assert "usage: rsa2c COMMAND" in refused(capsys)


@pytest.mark.parametrize("name", ["train", "resume", "evaluate", "list"])
def test_each_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([name, "--help"])
    assert exit_.value.code == 0
    assert COMMANDS[name].__doc__.splitlines()[0] in capsys.readouterr().out


def test_train_help_shows_the_presets_values(capsys):
    with pytest.raises(SystemExit):
        main(["train", "Pendulum-v1", "--help"])
    preset = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "(default: 0.985)" in preset
    assert preset != capsys.readouterr().out


def test_train_says_what_came_of_it_and_where_it_is(trained, tmp_path):
    assert f"files        runs/{RUN}" in trained
    assert "over 100 episodes" in trained
    assert (tmp_path / "runs" / RUN / "model.safetensors").is_file()


def test_flags_change_the_preset_and_nothing_else(capsys, tmp_path):
    arguments = ["Pendulum-v1", "--algorithm", "advanced-ac", "--seed", "7", "--noise-variance", "0.01"]
    changes = ["--kl", "0.5", "--total-timesteps", "1", "--out", "elsewhere"]
    unguided = [flag for flag in TINY if not flag.startswith("--attribution")]
    assert main(["train", *arguments, *changes, *unguided]) == 0
    path = tmp_path / "elsewhere" / "Pendulum-v1__advanced-ac__default__n0.01__s7"
    config = Run(path).read_config()["config"]
    assert (config["kl"], config["seed"], config["guidance"]) == (0.5, 7, "none")
    assert config["admission_threshold"] == make_config("Pendulum-v1").admission.admission_threshold


def test_evaluate_gives_the_score_that_training_printed(trained, capsys):
    assert main(["evaluate", RUN, "--json"]) == 0
    assert f"mean return  {json.loads(capsys.readouterr().out)['mean']:.1f} over 100 episodes" in trained


def test_the_summary_tells_what_guided_from_what_the_actions_depend_on(capsys):
    every_epoch = ["--attribution-every=1", "--attribution-warmup=1"]
    assert main(["train", "Pendulum-v1", "--total-timesteps", "2600", *TINY, *every_epoch]) == 0
    trained, agent = capsys.readouterr().out, load_agent(Run.open(RUN))
    effects = agent.explain(agent.background[:32], of="action").importances[:, 0]
    names, (looks, responds) = agent.feature_names, re.findall(r"(?:looks at|responds to) +(.*)", trained)
    assert looks == f"{attended(agent.kernel_weights, names) or 'all features alike'}  (kernel weights)"
    first = int(effects.argmax())
    assert responds.startswith(f"{names[first]} {effects[first] / effects.sum():.0%}")
    assert f"weights {rank_agreement(agent.kernel_weights, effects):.2f})" in responds


def test_every_account_of_a_run_has_the_same_score_episodes_and_steps(trained, capsys):
    """Summary, list, evaluate, report, comparison, card; also after a crash that left the log ahead."""
    run = Run.open(RUN)
    rows = run.read_metrics()
    run.append_metrics({**rows[-1], "epoch": int(rows[-1]["epoch"]) + 1, "timesteps": 99_999})
    told = {"summary": trained}
    for name, arguments in {"list": ["list"], "evaluate": ["evaluate", RUN]}.items():
        assert main(arguments) == 0
        told[name] = capsys.readouterr().out
    for name, arguments in {"report": [RUN], "comparison": ["runs"]}.items():
        assert main(["report", *arguments, "--out", f"{name}.html"]) == 0
        told[name] = Path(f"{name}.html").read_text(encoding="utf-8")
    assert main(["card", RUN, "--out", "card.md"]) == 0
    told["card"] = Path("card.md").read_text(encoding="utf-8")

    data = RunData.of(run)
    returns, mean = data.clean_returns[0], data.clean_returns[0].mean()
    assert (data.steps, len(returns)) == (int(rows[-1]["timesteps"]), 100)
    for name in ("summary", "list", "evaluate"):
        assert f"{data.steps:,} steps" in told[name], name
        assert f"{mean:.1f}" in told[name] or f"{mean:.2f}" in told[name], name
        assert "100 episodes" in told[name], name
    assert f"{data.steps:,} environment steps" in told["report"] and "over 100 episodes" in told["report"]
    assert f"<b>{mean:,.1f}</b>".replace("-", "−") in told["report"]
    assert f"{data.steps:,} environment steps" in told["card"] and f"| mean | {mean:.2f} |" in told["card"]
    document = json.loads(re.search(r'id="data">(.*?)</script>', told["comparison"], re.DOTALL)[1])
    (row,) = document["runs"]
    assert (row["steps"], row["episodes"], row["scores"]) == (data.steps, 100, [pytest.approx(mean)])


def test_resume_then_evaluate(trained, capsys):
    assert main(["resume", f"runs/{RUN}", "--total-timesteps", "3000", "--no-track", "--quiet"]) == 0
    assert main(["evaluate", RUN, "--episodes", "2", "--noise-variance", "0.04"]) == 0
    assert "noise variance 0.04 (standard deviation 0.2)" in capsys.readouterr().out
    assert main(["evaluate", RUN, "--episodes", "3", "--seed", "5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["returns"]) == result["episodes"] == 3
    assert result["mean"] == pytest.approx(sum(result["returns"]) / 3)
    assert result["seed"] == 5


def test_list(trained, capsys, tmp_path):
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "config.yaml").write_text("[")
    (tmp_path / "runs" / "half").mkdir()
    (tmp_path / "runs" / "half" / "config.yaml").write_text("environment: x\nconfig: {}\ntotal_timesteps: 5\n")
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    for word in ("Pendulum-v1", "rsa2c-cme", "envs", f"runs/{RUN}   ", "unreadable"):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trian", "Pendulum-v1"], "Did you mean 'train'"),
        (["train"], "rsa2c train needs ENV. Write: rsa2c train ENV."),
        (["train", "Pendulum-v2"], "Did you mean 'Pendulum-v1'"),
        (["train", "CartPole-v1"], "continuous actions only"),
        (["train", "Pendulum-v1", "--kll", "1"], "has no option --kll. Did you mean '--kl'?"),
        (["train", "Pendulum-v1", "--n-envs", "0"], "n_envs must be positive"),
        (["train", "Pendulum-v1", "--n-envs", "many"], "--n-envs must be a whole number or 'auto', got 'many'"),
        (["train", "Pendulum-v1", "--capacity", "-5"], "capacity must be positive"),
        (["train", "Pendulum-v1", "--total-timesteps", "0"], "total_timesteps must be a positive, finite number"),
        (["train", "Pendulum-v1", "--algorithm", "rsa2c"], "algorithm 'rsa2c' is unknown"),
        (["train", "Pendulum-v1", "--preset", "papper"], "preset 'papper' does not exist"),
        (["train", "Pendulum-v1", "--guidance", "none"], "would turn rsa2c-kme into advanced-ac"),
        (["train", "Pendulum-v1", "--attribution", "cme", "--shuffle-weights"], "Leave that out"),
        (["train", "Pendulum-v1", "--algorithm", "ppp"], "sac, ppo. Did you mean 'ppo'"),
        (["resume", "runs/nothing"], "runs/nothing does not exist"),
        (["evaluate", "runs/nothing"], "rsa2c list"),
    ],
)
def test_mistakes_are_one_message(arguments, says, capsys, tmp_path):
    assert says in refused(capsys, *arguments)
    assert not (tmp_path / "runs").exists()


TRAIN = ["train", "Pendulum-v1"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*TRAIN, "--seeed", "3"], "rsa2c train has no option --seeed. Did you mean '--seed'? `rsa2c train"),
        ([*TRAIN, "-s", "3"], "has no option -s. `rsa2c train --help`"),
        ([*TRAIN, "--lr", "1"], "has no option --lr. `rsa2c train --help`"),
        ([*TRAIN, "--learning-rate=1"], "RSA2C has no learning_rate: kl is the size of a step"),
        ([*TRAIN, "--batch-size", "64"], "RSA2C has no batch_size: each fit takes the whole batch"),
        ([*TRAIN, "--seed", "x"], "--seed must be a whole number, got 'x'."),
        ([*TRAIN, "--seed=x"], "--seed must be a whole number, got 'x'."),
        ([*TRAIN, "--seed"], "--seed must be followed by a whole number, got nothing."),
        ([*TRAIN, "--seed", "--quiet"], "--seed must be followed by a whole number, got nothing."),
        ([*TRAIN, "--total_timesteps", "1e5"], "--total-timesteps must be a whole number, got '1e5'. Write 100000."),
        ([*TRAIN, "--kl", "x"], "--kl must be a number or 'auto', got 'x'."),
        (
            [*TRAIN, "--robust", "nois"],
            "one of 'none', 'scale', 'noise', 'smooth', 'filter', got 'nois'. Did you mean 'noise'?",
        ),
        ([*TRAIN, "more"], "rsa2c train takes ENV and options that begin with --, got 'more' besides."),
        ([*TRAIN, "seed", "3"], "got 'seed' besides. Did you mean --seed?"),
        ([*TRAIN, "--quiet", "yes"], "--quiet takes no value, got 'yes'. Write --quiet alone."),
        ([*TRAIN, "--quiet=yes"], "--quiet takes no value, got 'yes'. Write --quiet alone."),
        ([*TRAIN, "--no-quiet"], "has no option --no-quiet"),
        (["export"], "needs RUN and --to {c,onnx,numpy}. Write: rsa2c export RUN --to {c,onnx,numpy}."),
        (["export", "x"], "rsa2c export needs --to {c,onnx,numpy}."),
        (["export", "x", "--to"], "--to must be followed by one of {c,onnx,numpy}, got nothing."),
        (["certify", "x"], "rsa2c certify needs --epsilon EPSILON. Write: rsa2c certify RUN --epsilon EPSILON."),
        (["list", "x"], "rsa2c list takes no arguments, got 'x' besides."),
    ],
)
def test_what_the_command_line_cannot_read_is_one_message(arguments, says, capsys, monkeypatch):
    message = refused(capsys, *arguments)
    assert says in message and len(message.splitlines()) == 1
    monkeypatch.setattr("rsa2c.cli.command.check_arguments", lambda *_, **__: None)
    with pytest.raises(SystemExit) as refusal:  # nothing is refused that tyro would have read
        main(arguments)
    assert refusal.value.code == 2


def test_every_setting_is_read_with_its_default():
    values = {name: setting.default for name, setting in all_settings(Config).items() if setting.default is not None}
    for name, value in values.items():
        text = [] if isinstance(value, bool) else [str(value)]
        check_arguments(_train_options(), ["Pendulum-v1", f"--{name.replace('_', '-')}", *text], "rsa2c train", True)
        check_arguments(_train_options(), ["Pendulum-v1", "=".join([f"--{name}", *text])], "rsa2c train", True)
    assert len(values) > 60


def _train_options():
    members = [(name, kind, field(default_factory=kind)) for name, kind in flags({}).items()]
    return make_dataclass("Options", members, bases=(RunOptions,))


@pytest.mark.parametrize(
    "arguments",
    [
        ["Pendulum-v1", "--n-envs", "auto", "--value-step=-1", "--capacity", "-5", "--quiet"],
        ["--shuffle-weights", "Pendulum-v1", "--no-shuffle-weights", "--env-kwargs", "a=1", "b=2", "--seed", "0"],
        ["Pendulum-v1", "--env-kwargs", "--total-timesteps", "None", "--out=x=y"],
    ],
)
def test_what_tyro_reads_is_not_refused(arguments):
    options = _train_options()
    check_arguments(options, arguments, "rsa2c train", True)
    assert tyro.cli(options, args=arguments, config=(tyro.conf.OmitArgPrefixes,)).env == "Pendulum-v1"


def test_mistakes_about_a_run_are_one_message(trained, capsys, tmp_path):
    path = f"runs/{RUN}"
    assert f"rsa2c resume {path}" in refused(capsys, "train", "Pendulum-v1", *TINY)
    assert f"Did you mean {path}?" in refused(capsys, "evaluate", path[:-1] + "9")
    assert "episodes must be" in refused(capsys, "evaluate", path, "--episodes", "0")
    model = tmp_path / path / "state.safetensors"
    model.write_bytes(model.read_bytes()[:100])
    assert "state.safetensors is not a usable state file" in refused(capsys, "evaluate", path)


def test_a_missing_extra_names_its_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "envpool", None)
    message = refused(capsys, "train", "Ant-v5", "--backend", "envpool", "--n-envs", "1")
    assert "pip install 'rsa2c[fast]'" in message


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m rsa2c train --help | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert result.stderr == ""


def test_explain_writes_data_and_plots(trained, capsys, tmp_path):
    assert main(["explain", RUN, "--of", "action", "--states", "20", "--out", "why.npz"]) == 0
    printed = capsys.readouterr().out
    assert "KME" in printed and "angular velocity" in printed
    fidelity = [line.split(maxsplit=1) for line in printed.split("fidelity")[1].splitlines()[1:5]]
    names = ("these values", "importance while learning", "kernel weights", "random order")
    assert all(text.startswith(name) and float(area) < 1 for (area, text), name in zip(fidelity, names, strict=True))
    assert Explanation.load(tmp_path / "why.npz").values.shape == (20, 3, 1)
    written = {path.name for path in tmp_path.iterdir()}
    assert {"why_beeswarm.png", "why_beeswarm.svg", "why_bars.png"} <= written


def test_heatmaps_of_explain_number_epochs_as_the_metrics_do(capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    every_epoch = ["--attribution-every=1", "--attribution-warmup=1"]
    assert main(["train", "Pendulum-v1", "--total-timesteps", "2600", *TINY, *every_epoch]) == 0
    drawn, heatmap = [], plots.heatmap

    def recording(epochs, *arguments, **options):
        drawn.append(list(epochs))
        return heatmap(epochs, *arguments, **options)

    monkeypatch.setattr(plots, "heatmap", recording)
    assert main(["explain", RUN, "--states", "5"]) == 0
    assert drawn == [[int(row["epoch"]) for row in Run.open(RUN).read_metrics()]] * 2


def test_explain_names_what_it_cannot_do(trained, capsys):
    assert "must be between 1 and" in refused(capsys, "explain", RUN, "--states", "0")
    assert "'value', 'action', 'advantage'" in refused(capsys, "explain", RUN, "--of", "reward")


def test_explain_without_matplotlib_still_writes_the_data(trained, capsys, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["explain", RUN, "--states", "20"]) == 0
    printed = capsys.readouterr().out
    assert "explain_value_kme.npz" in printed and "pip install 'rsa2c[explain]'" in printed
    assert Explanation.load(tmp_path / "runs" / RUN / "explain_value_kme.npz").values.shape == (20, 3, 1)


def test_a_run_without_its_checkpoint_is_judged_from_its_model(trained, capsys):
    assert main(["evaluate", RUN, "--episodes", "2", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    Run("runs/" + RUN).state_path.unlink()
    assert main(["evaluate", RUN, "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["returns"] == before["returns"]


def test_one_episode_has_no_interval(trained, capsys):
    assert main(["evaluate", RUN, "--episodes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "interval" not in printed and "1 episode from" in printed


def test_what_comes_next_is_called_as_the_program_was(trained, monkeypatch):
    assert f"next         rsa2c evaluate runs/{RUN}" in trained
    monkeypatch.setattr(sys, "argv", [".venv/bin/rsa2c", "train"])
    monkeypatch.setenv("PATH", "")
    assert program() == ".venv/bin/rsa2c"
    monkeypatch.setattr(sys, "argv", ["-m"])
    assert program() == "rsa2c"

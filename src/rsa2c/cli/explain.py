"""`rsa2c explain`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rsa2c.cli.command import choice, command, parse, visited
from rsa2c.errors import ConfigError

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.attribution.explained import ExplainedDataset
    from rsa2c.attribution.explanation import Explanation
    from rsa2c.attribution.quality import Fidelity
    from rsa2c.runs.data import AgentData

JUDGED = 1_000
"""States of a dataset from which the fidelity of their explanations is measured."""


@dataclass
class ExplainOptions:
    """Which run, which of its functions, and how."""

    run: tyro.conf.Positional[str]
    """Run folder, its name under ./runs, a model file, or zoo:ID (`rsa2c zoo` lists them)."""
    of: Annotated[str, choice("value", "action", "advantage")] = "value"
    """What is explained."""
    method: Annotated[str, choice("kme", "cme")] = "kme"
    """Interventional values (by quadrature) or observational ones (estimated; sampled ones have standard errors)."""
    states: int | None = None
    """States explained, of those the agent visited last; 200 unless given."""
    dataset: str | None = None
    """Explain the states of this file instead, however large: NPZ, NPY, Parquet or Minari. The same command continues
    what was interrupted."""
    columns: list[str] = field(default_factory=list)
    """Columns of the dataset with the states, in the order of the features. Unset: found by name."""
    device: Annotated[str, choice("cpu", "cuda")] = "cpu"
    """Where to compute (kme only)."""
    precision: Annotated[str, choice("float64", "float32")] = "float64"
    """float32 is faster, on a GPU only."""
    out: str | None = None
    """Data file to write, an .npz; the plots take its name. Unset: explain_<of>_<method>.npz in the run folder,
    or explain_<of>_<method>-<name>.npz beside a model file and, for the zoo, in the current folder. With --dataset, a
    folder of .npy files."""

    @property
    def computing(self) -> dict[str, Any]:
        """Options that differ from their defaults."""
        given = {"device": (self.device, "cpu"), "precision": (self.precision, "float64")}
        return {name: value for name, (value, default) in given.items() if value != default}


@command
def explain(arguments: list[str]) -> None:
    """Shapley values of a run's agent over visited states: a data file, beeswarm, bars and a training heatmap.

    Without matplotlib (extra `explain`), only the data file is written. With --dataset, the states come from a file
    that may be larger than memory, and no plots are drawn.
    """
    options = parse(ExplainOptions, arguments, explain)
    from rsa2c.errors import MissingExtraError
    from rsa2c.runs.source import opened

    data = opened(options.run)
    agent = data.kernel_agent
    if options.dataset is not None:
        _explain_dataset(options, data)
        return
    if options.columns:
        raise ConfigError("--columns names columns of a dataset: give --dataset FILE, or leave it out.")
    states = visited(agent, 200 if options.states is None else options.states, "explain")
    explanation = agent.explain(states, of=options.of, method=options.method, **options.computing)
    fidelity = agent.fidelity(explanation, options.of)
    out = Path(options.out) if options.out else data.output(f"explain_{options.of}_{options.method}.npz")
    written = [explanation.save(out)]
    without = ""
    try:
        written += _draw(explanation, agent, options.of, written[0].with_suffix(""))
        written += _draw_training(data, fidelity, options.of, written[0].with_suffix(""))
    except MissingExtraError as error:
        without = f"  no plots  {error}"
    print(f"{agent.env_id}, {agent.algorithm}: {options.of} at {len(states)} visited states")
    _print(explanation, abs(explanation.efficiency_residual).max(), fidelity)
    print("  files     " + "\n            ".join(str(path) for path in written))
    if without:
        print(without)


def _explain_dataset(options: ExplainOptions, data: AgentData) -> None:
    """The states of a file instead of visited ones."""
    if options.states is not None:
        raise ConfigError(
            "--states counts visited states, and --dataset explains all states of a file: give one of them."
        )
    assert options.dataset is not None
    agent, name = data.kernel_agent, f"explain_{options.of}_{options.method}_{Path(options.dataset).stem}"
    done = agent.explain_dataset(
        options.dataset,
        Path(options.out) if options.out else data.output(name),
        of=options.of,
        method=options.method,
        columns=options.columns or None,
        progress=True,
        **options.computing,
    )
    print(f"{agent.env_id}, {agent.algorithm}: {options.of} at {len(done):,} states of {options.dataset}")
    print(f"  columns   {', '.join(done.asked['dataset']['columns'])}")
    some = done.load()[:: -(-len(done) // JUDGED)]
    _print(done, done.largest_residual, agent.fidelity(some, options.of))
    print(f"  files     {done.folder}/*.npy, row by row as in the dataset")


def _print(explanation: Explanation | ExplainedDataset, residual: float, fidelity: dict[str, Fidelity]) -> None:
    from rsa2c.attribution.quality import OWN

    print(f"  game      {explanation.game}")
    print(f"  residual  {residual:.1e} (values sum to f(s) - E f up to this)")
    for name, size in explanation.top(8):
        print(f"  {size:10.4g}  {name}")
    print("  fidelity  deletion area: share left while features are removed, the most important first (less is better)")
    for name, one in fidelity.items():
        beside = "" if name == OWN or isnan(one.agreement) else f" (rank agreement {one.agreement:.2f})"
        print(f"  {one.deletion:10.2f}  {name}{beside}")


def _draw(explanation: Explanation, agent: RSA2C, of: str, stem: Path) -> list[Path]:
    """Beeswarms and bars of an explanation."""
    from rsa2c import plots
    from rsa2c.attribution.quality import order_note

    written: list[Path] = []
    for name in explanation.output_names:
        note = order_note(agent.fidelity(explanation.output(name), of))
        label = "" if len(explanation.output_names) == 1 else "_" + name.replace(" ", "_").replace("/", "_")
        written += plots.save(plots.beeswarm(explanation, name, note=note), f"{stem}{label}_beeswarm")
        written += plots.save(plots.bar(explanation, name, note=note), f"{stem}{label}_bars")
    return written


def _draw_training(data: AgentData, fidelity: dict[str, Fidelity], of: str, stem: Path) -> list[Path]:
    """Importances and kernel weights over training, from the run's log; epochs are numbered as in metrics.csv."""
    from rsa2c import plots
    from rsa2c.attribution.quality import guide_note
    from rsa2c.trained import MEASURED, WEIGHTS

    log = data.attributions
    if log is None or not len(log["epoch"]):
        return []
    epochs, names = log["epoch"], [str(name) for name in log["feature_names"]]
    notes = [guide_note(fidelity, name, of) if name in fidelity else "" for name in (MEASURED, WEIGHTS)]
    written = plots.save(plots.heatmap(epochs, log["phi"], names, note=notes[0]), f"{stem}_training")
    figure = plots.heatmap(epochs, log["weights"], names, label="kernel weight", note=notes[1])
    return written + plots.save(figure, f"{stem}_weights")

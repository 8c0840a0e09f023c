"""Puts agents into the zoo of the package (src/rsa2c/zoo/agents), each with its score.

    python benchmarks/zoo.py runs/suite/Hopper-v5__rsa2c-kme__default__n0__s0 ...

An agent is the policy that acts at the end of a finished run, with its value, advantage and background. States,
coefficients and background are stored in single precision if that changes no output by more than TOLERANCE at the
background states; if it does, coefficients or everything that acts stay in double precision. The score is that of the
file, in episodes that start from seeds 0, 1, ... The zoo has the agent of seed 0, whatever it scores.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from rsa2c import zoo
from rsa2c.agent import RSA2C
from rsa2c.algorithm.snapshot import Snapshot, pack, unpack
from rsa2c.errors import ConfigError, RSA2CError
from rsa2c.files import compacted, write_tensors
from rsa2c.files.compact import expanded
from rsa2c.runs.data import RunData
from rsa2c.runs.evaluation import evaluate_policy
from rsa2c.runs.folder import Run
from rsa2c.runs.provenance import provenance
from rsa2c.runs.training import FINAL_EPISODES, is_finished

TOLERANCE = 1e-4
"""Largest change of an output that single precision may make, in standard deviations over the background states."""
STATES, COEFFICIENTS = ("background", "/states", "/centres", "/errors"), ("/coefficients",)
ROUNDED = ((*STATES, *COEFFICIENTS), STATES, ("background",))
"""Ends of the names of the tensors in single precision, from the smallest file to the most exact one."""


def acting(snapshot: Snapshot) -> Snapshot:
    """The snapshot as if the policy that acts were the last, without the history.

    Moving averages over training (importances, scales) are those of the last epoch.
    """
    state = snapshot.state
    if (kept := state.kept) is not None:
        state = replace(
            state, policy=kept.policy, value=kept.value, advantage=kept.advantage, background=kept.background,
            epoch=kept.epoch, steps=kept.steps, kept=None,
        )  # fmt: skip
    return replace(snapshot, state=state, history=(), attributions=())


def changes(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """The largest change of each function at the background states, in standard deviations of its outputs there."""
    found = {}
    for name in ("action", "value", "advantage"):
        old, new = (_function(snapshot, name) for snapshot in (before, after))
        if old is not None and new is not None:
            outputs = old(before.state.background)
            moved = np.abs(new(before.state.background) - outputs)
            found[name] = float((moved.max(axis=0) / outputs.std(axis=0)).max())
    return found


def _function(snapshot: Snapshot, name: str):
    state = snapshot.state
    return {"action": state.policy.mean, "value": state.value, "advantage": state.advantage}[name]


def packed(snapshot: Snapshot):
    """Tensors and metadata of the smallest file that is exact enough, and what rounding changed."""
    tensors, metadata = pack(snapshot, checkpoint=False)
    for ends in ROUNDED:
        small = compacted(tensors, metadata, [name for name in tensors if name.endswith(ends)])
        changed = changes(snapshot, unpack(*expanded(*small)))
        if max(changed.values()) <= TOLERANCE:
            break
    return *small, changed


def add(data: RunData, seed: int, episodes: int, folder: Path) -> Path:
    """Write the agent of a run and its card."""
    agent = _accepted(data, seed)
    tensors, metadata, changed = packed(acting(agent.snapshot()))
    shipped = RSA2C.of(unpack(*expanded(tensors, metadata)))
    result = evaluate_policy(shipped, episodes)
    made = provenance()
    card = zoo.Card(
        environment=data.environment,
        algorithm=agent.algorithm,
        seed=agent.config.seed,
        total_timesteps=data.total_timesteps,
        steps=agent.num_timesteps,
        seconds=round(float(data.last_row["seconds"]), 1),
        commit=data.document.get("commit"),
        versions=data.document.get("versions", {}),
        states=shipped.dictionary_sizes,
        mean=result.mean,
        interval=result.interval(),
        returns=tuple(result.returns.tolist()),
        lengths=tuple(result.lengths.tolist()),
        evaluated_with={**made["versions"], "processor": made["processor"]},
        rounding=changed,
    )
    path = folder / zoo.file_name(data.environment)
    write_tensors(path, tensors, {**metadata, "zoo": card.document()})
    return path


def _accepted(data: RunData, seed: int) -> RSA2C:
    """The agent of a run that the zoo can take."""
    agent, path = data.kernel_agent, data.run.path
    if not is_finished(data):
        raise ConfigError(f"run {path} is unfinished. Continue it with: rsa2c resume {path}")
    if agent.config.seed != seed:
        raise ConfigError(
            f"run {path} has seed {agent.config.seed}; the zoo has that of seed {seed}, so that nothing is picked by "
            "its score. Another seed is named with --seed."
        )
    if agent.config.noise_variance or agent.config.distractors:
        raise ConfigError(f"run {path} has noise or distractors; the zoo has agents of the plain environments.")
    return agent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="folders of finished runs")
    parser.add_argument("--seed", type=int, default=0, help="the seed that the runs must have")
    parser.add_argument("--episodes", type=int, default=FINAL_EPISODES, help="episodes of the score")
    parser.add_argument("--folder", type=Path, default=zoo.FOLDER, help="where the agents are")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for run in options.runs:
        try:
            path = add(RunData.of(Run.open(run)), options.seed, options.episodes, options.folder)
        except RSA2CError as error:
            sys.exit(str(error))
        card = zoo.Card.of(path)
        rounding = ", ".join(f"{name} {change:.0e}" for name, change in card.rounding.items())
        print(f"{path.name}  {card.mean:.2f}, {path.stat().st_size:,} bytes, rounding: {rounding}", flush=True)


if __name__ == "__main__":
    main()

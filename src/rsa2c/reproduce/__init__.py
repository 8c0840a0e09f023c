"""The paper's tables and figures reproduced: run or reuse the sweep, then write the paper's results next to ours.

`studies.yaml` says what is run, `records` holds what tables need from a run and `archive` stores it; `tables` and
`figures` make the rest, and `claims` the verdicts on what the paper says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from rsa2c.errors import ConfigError, NotFoundError, RSA2CError, described, did_you_mean
from rsa2c.files import PathLike, holding, write_atomically
from rsa2c.reproduce import figures, lqr_tables, sizes, tables, verdicts
from rsa2c.reproduce.alone import read_alone
from rsa2c.reproduce.archive import append_records, read_records
from rsa2c.reproduce.cells import Table
from rsa2c.reproduce.earlier import TABLE as EARLIER
from rsa2c.reproduce.earlier import earlier_settings
from rsa2c.reproduce.plateau import plateau
from rsa2c.reproduce.present import present
from rsa2c.reproduce.records import Record, record
from rsa2c.reproduce.selection import PRESETS, Selection, thresholds
from rsa2c.reproduce.versions import Plan
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.grid import Grid, Job
from rsa2c.runs.names import without_seed
from rsa2c.runs.sweep import is_whole

Preset = Literal["default", "paper", "both"]
QUICK = {"seeds": 2, "steps": 20_000, "baseline steps": 2_000, "episodes": 5}
"""A check that everything runs: its numbers mean nothing."""
SEEDS = 10
"""Seeds of grids that do not name their own."""


@cache
def studies() -> dict[str, dict[str, dict[str, Any]]]:
    """The grids of every target."""
    return yaml.safe_load((resources.files("rsa2c") / "reproduce" / "studies.yaml").read_text("utf-8"))


def grids(target: str, seeds: int | None = None, preset: Preset = "both", quick: bool = False,
          only: Sequence[str] = ()) -> dict[str, list[Job]]:  # fmt: skip
    """The jobs of a target by the name of their grid; of the grids in `only`, if it names any. `seeds` overrides the
    study's own number."""
    if target not in studies():
        near = did_you_mean(target, studies())
        raise ConfigError(f"target {target!r} is unknown; known are {', '.join(studies())}.{near}")
    if preset not in get_args(Preset):
        raise ConfigError(f"preset must be one of {', '.join(get_args(Preset))}, got {preset!r}.")
    documents = studies()[target]
    for name in only:
        if name not in documents:
            near = did_you_mean(name, documents)
            raise ConfigError(f"{target} has no grid {name!r}; it has {', '.join(documents)}.{near}")
    found = {}
    for name, document in documents.items():
        if only and name not in only:
            continue
        wanted = {"seeds": SEEDS, **document} | ({} if seeds is None else {"seeds": seeds})
        if quick:
            wanted |= {"seeds": min(QUICK["seeds"], wanted["seeds"]), "total_timesteps": QUICK["steps"],
                       "final_episodes": QUICK["episodes"]}  # fmt: skip
        jobs = Grid.of(wanted, f"study {target}/{name}").jobs()
        kept = [job for job in jobs if job.is_baseline or preset in ("both", job.preset)]
        if quick:
            kept = [replace(job, total_timesteps=QUICK["baseline steps"]) if job.is_baseline else job for job in kept]
        if kept:
            found[name] = kept
    if not found:
        asked = f"the grids {', '.join(only)}" if only else "its grids"
        raise ConfigError(f"{target} has no runs with the preset {preset!r} in {asked}. Use --preset both.")
    return found


def jobs_of(found: Mapping[str, list[Job]]) -> list[Job]:
    """The runs of a study, each once even if several grids share it."""
    return list({job.run_id: job for group in found.values() for job in group}.values())


def asked(target: str) -> dict[str, Plan]:
    """What a study asks of each variant today, by the run id without the seed."""
    found: dict[str, Plan] = {}
    for name, jobs in grids(target).items():
        seeds = len({job.fields["seed"] for job in jobs})
        for job in jobs:
            found.setdefault(without_seed(job.run_id), Plan(target, name, seeds, job))
    return found


def recorded(job: Job, data: RunData, grid_of: Mapping[str, str]) -> Record:
    """The record of a run that a sweep has just finished; `grid_of` has the grid of each run id."""
    return record(grid_of[job.run_id], job, data)


def collect(
    found: Mapping[str, list[Job]], runs: PathLike, known: Mapping[str, Record] | None = None
) -> tuple[list[Record], dict[str, str]]:
    """Records of the runs that are complete, and what is wrong with those that cannot be read or were made with
    settings other than their jobs'. Runs in `known` are not read again."""
    records, problems = [], {}
    for name, jobs in found.items():
        for job in jobs:
            folder = Run(Path(runs) / job.run_id)
            if known and job.run_id in known:
                records.append(replace(known[job.run_id], grid=name))
                continue
            try:
                if folder.returns_path.exists() and is_whole(job, data := RunData.of(folder)):
                    records.append(record(name, job, data))
            except (RSA2CError, LookupError, ValueError) as error:
                problems[job.run_id] = described(error)
    return records, problems


def write(target: str, new: Sequence[Record], out: PathLike, runs: PathLike | None = None) -> list[Path]:
    """Write tables and figures of a study to `out`, from the new records and those kept there; beeswarms and heatmaps
    are made for the new records only, whose run folders are under `runs`. Trainings timed alone are beside `out`.
    Records of an earlier version of the study are shown only where there is nothing else (`present`)."""
    out = Path(out)
    kept, written = keep(target, new, out)
    plans = asked(target)
    records, remarks = present(kept, plans)
    study = Selection(records, read_alone(out.parent), plans)
    environments = list(dict.fromkeys(item.environment for item in records))
    made = build(study, environments, out)
    (out / f"{EARLIER}.csv").unlink(missing_ok=True)
    for table in made:
        path = out / f"{table.name}.csv"
        write_atomically(path, table.csv().encode())
        written.append(path)
    pictures = out / "figures"
    for environment in environments:
        for preset in PRESETS:
            written += figures.curves(study, environment, preset, pictures)
            if environment.startswith("rsa2c/LQR"):
                written += figures.gap_curves(study, environment, preset, pictures)
        written += figures.distractor_curves(study, environment, pictures)
        written += figures.rate_curves(study, environment, pictures)
        if rows := sizes.read_rows(environment, out):
            written += figures.size_curves(rows, pictures)
        if runs is not None:
            for preset in PRESETS:
                written += figures.explanations(Selection(new), environment, Path(runs), preset, pictures)
    page = out / "tables.md"
    write_atomically(page, _page(target, records, made, remarks).encode())
    return [page, *written]


def known(out: PathLike) -> list[Record]:
    """The records kept in `out`; empty if there are none."""
    return read_records(out) if (Path(out) / "runs.csv").exists() else []


def keep(target: str, records: Sequence[Record], out: PathLike) -> tuple[list[Record], list[Path]]:
    """Append records to the files in `out`. Returns all records as read from those files (so that tables made later
    from the files alone are the same), and the files' paths."""
    if not records and not known(out):
        raise NotFoundError(f"no run of {target} is finished, so there is nothing to write to {out}.")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with holding(out, "folder", wait=True):
        written = append_records(out, records)
        return read_records(out), written


def measure_sizes(environment: str, out: PathLike) -> None:
    """Measure an epoch's cost against the size of the dictionaries, unless `out` has it already."""
    if not sizes.read_rows(environment, out):
        table = sizes.sizes_table(environment, sizes.measured(environment))
        Path(out).mkdir(parents=True, exist_ok=True)
        write_atomically(Path(out) / f"{table.name}.csv", table.csv().encode())


def build(study: Selection, environments: Sequence[str], folder: PathLike | None = None) -> list[Table]:
    """Every table that the records allow, and the one of `measure_sizes` if `folder` has it."""
    made = [tables.runs(study), earlier_settings(study)]
    for environment in environments:
        if environment.startswith("rsa2c/LQR"):
            made += [make(study, environment) for make in lqr_tables.TABLES]
        made += [tables.returns(study, environment), tables.noise(study, environment)]
        if thresholds(environment):
            made.append(tables.solution(study, environment))
        made += [plateau(study, environment), tables.guidance(study, environment)]
        if folder is not None:
            made.append(sizes.sizes_table(environment, sizes.read_rows(environment, folder)))
        if any(item.grid.startswith("correction") and item.environment == environment for item in study.records):
            made.append(tables.corrections(study, environment))
    made.append(verdicts.claims_table(study, environments))
    return [table for table in made if table.rows]


def _page(target: str, records: Sequence[Record], made: Sequence[Table], remarks: Sequence[str]) -> str:
    def of(name: str) -> str:
        return "; ".join(sorted({getattr(item, name) for item in records} - {""})) or "not noted"

    head = [
        f"# {target}: the paper and ours",
        "",
        f"- command: `rsa2c reproduce {target}` (one grid of it: `--grids NAME`)",
        f"- commits of the runs: {of('commit')}",
        f"- processors: {of('processor')}",
        f"- versions: {of('versions')}",
        *(f"- {remark}" for remark in remarks),
        "",
    ]
    return "\n".join(head) + "\n" + "\n\n".join(table.markdown() for table in made) + "\n"


__all__ = [
    "Preset",
    "asked",
    "build",
    "collect",
    "grids",
    "jobs_of",
    "keep",
    "known",
    "measure_sizes",
    "read_records",
    "recorded",
    "studies",
    "write",
]

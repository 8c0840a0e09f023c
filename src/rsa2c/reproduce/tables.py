"""Tables of a study: the paper's figure, ours with its settings, ours with `default`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rsa2c import statistics
from rsa2c.baselines.settings import rl_zoo_entry
from rsa2c.reproduce import paper
from rsa2c.reproduce.cells import Part, Spread, Table, thousands, three_digits
from rsa2c.reproduce.earlier import remark, version
from rsa2c.reproduce.measures import drawn
from rsa2c.reproduce.records import Record
from rsa2c.reproduce.selection import PRESETS, TWINS, Selection, slug, thresholds
from rsa2c.reproduce.versions import conflict
from rsa2c.runs.sweep import REMARK


def runs(study: Selection) -> Table:
    """What was run: the variants, seeds and training steps of every grid."""
    groups: dict[tuple[str, str, int, str, int], list[Record]] = {}
    for item in study.records:
        groups.setdefault((item.grid, item.preset, item.distractors, item.varied, item.steps), []).append(item)
    rows: list[list[Any]] = []
    for (grid, preset, distractors, varied, steps), found in groups.items():
        noise = sorted({item.noise for item in found})
        counts: dict[int, list[str]] = {}
        for name in study.algorithms(found):
            counts.setdefault(len({item.seed for item in found if item.algorithm == name}), []).append(name)
        seeds = "; ".join(f"{count} of {', '.join(names)}" for count, names in counts.items())
        levels = ", ".join(f"{level:g}" for level in noise)
        several = len({item.varied for item in study.records if item.grid == grid}) > 1
        name = f"{grid} (`{varied}`)" if several else grid
        rows.append([name, preset, version(study, found), seeds, levels, distractors, steps, len(found)])
    columns = ["grid", "preset", "settings", "seeds of variants", "noise in training", "distractors", "steps of a run",
               "runs"]  # fmt: skip
    return Table("grids", "What was run", columns, rows, shown={"steps of a run": thousands})


def _published(environment: str, algorithm: str, noise: float = 0.0) -> Spread | None:
    found = paper.published_return(environment, algorithm, noise)
    return Spread(found.mean, found.std) if found else None


def taken_over(study: Selection, environment: str) -> list[str]:
    """The remark that a table needs whose rows show a variant by another one's runs."""
    return [
        f"{name} was not trained with the preset {' or '.join(f'`{preset}`' for preset in presets)}: its values there "
        f"are those of {TWINS[name]}'s runs, which are the same bit for bit."
        for name, presets in study.taken_over(environment).items()
    ]


def returns(study: Selection, environment: str) -> Table:
    """Final return without noise: the paper's, ours with its preset, ours with `default`; IQM with its interval."""
    rows = []
    for algorithm in study.shown(environment):
        row: list[Any] = [algorithm, _published(environment, algorithm)]
        for preset in study.presets(algorithm):
            values = [item.mean for item in study.of(environment=environment, algorithm=algorithm, preset=preset)]
            row.append(Spread.of(values))
            found = statistics.estimate([values], statistics.iqm, study.rng) if values else None
            row.append(drawn(found, len(values)) if found else None)
        rows.append(row)
    columns = ["variant", "paper", "ours, preset `paper`", "IQM", "ours, preset `default`", "IQM"]
    notes = [
        "Mean ± standard deviation over seeds (divisor n; number of seeds), each the mean of 100 fixed-seed episodes; "
        "interquartile mean with its 95% bootstrap interval from 5 seeds on. The paper evaluates 5 episodes, so its "
        "standard deviations include those between episodes. SAC and PPO: Stable-Baselines3 with RL-Zoo's settings, "
        "last columns.",
        REMARK,
        *taken_over(study, environment),
        *remark(study, environment),
    ]
    if (other := rl_zoo_entry(environment).entry) not in (environment, "mujoco"):
        notes.insert(1, f"RL-Zoo has no settings for {environment}: SAC and PPO train with those of {other}, and "
                        "for as few steps; nobody tuned them for it.")  # fmt: skip
    return Table(f"returns_{slug(environment)}", f"{environment}: return", columns, rows, notes)


def noise(study: Selection, environment: str) -> Table:
    """Return under observation noise by protocol: noise at evaluation, in training, or both.

    A number of the paper stands in the row whose variance is its level, and again in the row whose standard deviation
    is its level. What has no values has no column.
    """

    def ours(name: str, preset: str, trained: float, evaluated: float) -> Spread | None:
        runs = study.of(environment=environment, algorithm=name, preset=preset, noise=trained)
        return Spread.of([item.mean_at(evaluated) for item in runs if evaluated in item.returns])

    levels = sorted({level for item in study.of(environment=environment) for level in item.returns})
    found: dict[str, list[Spread | None]] = {}
    rows: list[list[Any]] = []
    for name in study.shown(environment):
        same, default = study.presets(name)
        for level in levels:
            rows.append([name, level, level**0.5])
            cells = {
                "paper, level as variance": _published(environment, name, level),
                "paper, level as standard deviation": _published(environment, name, round(level**0.5, 9)),
                f"`paper`, {EVALUATED}": ours(name, same, 0.0, level),
                f"`paper`, {BOTH}": ours(name, same, level, level) if level else None,
                f"`paper`, {TRAINED}": ours(name, same, level, 0.0) if level else None,
                f"`default`, {EVALUATED}": ours(name, default, 0.0, level),
                f"`default`, {BOTH}": ours(name, default, level, level) if level else None,
                f"`default`, {TRAINED}": ours(name, default, level, 0.0) if level else None,
            }
            for column, cell in cells.items():
                found.setdefault(column, []).append(cell)
    kept = {column: cells for column, cells in found.items() if any(cells)}
    rows = [[*row, *cells] for row, *cells in zip(rows, *kept.values(), strict=True)]
    columns, shown = ["variant", "variance", "standard deviation", *kept], {"standard deviation": three_digits}
    notes = [*_noise_notes(environment, levels, list(kept)), *taken_over(study, environment)]
    notes += remark(study, environment)
    return Table(f"noise_{slug(environment)}", f"{environment}: observation noise", columns, rows, notes, shown)


EVALUATED, BOTH, TRAINED = "noise at evaluation", "noise in training and at evaluation", "noise in training only"
PROTOCOLS = {
    EVALUATED: "trained without noise, evaluated with it",
    BOTH: "trained and evaluated with it",
    TRAINED: "trained with it, evaluated without, as the paper's released code does",
}


def _noise_notes(environment: str, levels: list[float], columns: list[str]) -> list[str]:
    """Which protocols a table of noise shows, and where the paper's numbers stand in it."""
    run = [name for name in PROTOCOLS if any(column.endswith(name) for column in columns)]
    notes = ["Protocols: " + "; ".join(f"{name} ({PROTOCOLS[name]})" for name in run) + "."]
    if absent := [name for name in PROTOCOLS if name not in run]:
        notes[0] += f" Not run here: {', '.join(absent)}."
    published = sorted({row.noise_variance for row in paper.returns() if row.environment == environment})
    if published:
        beside = f", where “{TRAINED}” beside it is the released code's protocol at its own level"
        meeting = beside if TRAINED in run else ""
        squares = [f"{level:g} ({level**2:g})" for level in published if round(level**2, 9) not in levels]
        notes.append(
            "The paper does not say which protocol its numbers have. It calls its levels variances; its released code "
            "uses them as standard deviations. So each of its numbers stands in the row of that variance, and again in "
            f"the row of that standard deviation{meeting}."
        )
        if squares:
            notes[-1] += f" Levels that have no such row here, and their squares: {', '.join(squares)}."
    return notes


def solution(study: Selection, environment: str) -> Table:
    """Epochs, steps and seconds until the mean evaluation return passes the threshold; cost of an epoch."""
    rows = []
    for algorithm in study.shown(environment):
        for threshold in thresholds(environment):
            rows += _published_solution(environment, algorithm, threshold)
            for preset in study.presets(algorithm):
                runs = study.of(environment=environment, algorithm=algorithm, preset=preset)
                if runs:
                    rows.append(_solution_row(study, runs, threshold, preset))
    columns = ["variant", "threshold", "MFLOP per epoch", "epochs", "ms per epoch", "steps", "seconds", "reached"]
    notes = [
        "Medians over seeds with 95% bootstrap intervals from 5 seeds on; a seed that never reached the threshold "
        "counts as later than all others. A threshold counts as passed at the first evaluation above it, so all "
        "numbers are upper bounds. The seconds exclude evaluation. An epoch of a baseline is a row of its metrics: "
        "about 1,000 steps, or one rollout if that is longer. Runs that shared the machine with others took longer: "
        "benchmarks/time_to_solution.py measures each alone.",
        *taken_over(study, environment),
        *remark(study, environment),
    ]
    return Table(f"solution_{slug(environment)}", f"{environment}: cost and time to solution", columns, rows, notes)


def _published_solution(environment: str, algorithm: str, threshold: float) -> list[list[Any]]:
    """The paper's row, if it has one."""
    published = paper.published_cost(environment, algorithm)
    if published and threshold == paper.threshold(environment):
        name = f"{algorithm} (the paper's own, {published.device})"
        cells = [1e3 * published.gflop, published.epochs, published.epoch_ms, None, published.seconds, None]
        return [[name, threshold, *cells]]
    counted = paper.prose(environment, algorithm, "gflop")
    if counted and not published:
        return [[f"{algorithm} (the paper's own)", threshold, 1e3 * counted.value, *[None] * 5]]
    return []


def _solution_row(study: Selection, runs: list[Record], threshold: float, preset: str) -> list[Any]:
    epochs, steps, seconds = (
        drawn(statistics.median_steps([item.curve.until(threshold, column) for item in runs], study.rng), len(runs))
        for column in ("epochs", "steps", "seconds")
    )
    reached = sum(np.isfinite(item.curve.until(threshold, "steps")) for item in runs)
    return [
        f"{runs[0].algorithm} ({preset})",
        threshold,
        1e3 * float(np.median([item.gflop for item in runs])),
        epochs.value,
        float(np.median([item.epoch_ms for item in runs])),
        steps,
        seconds,
        Part(int(reached), len(runs)),
    ]


def guidance(study: Selection, environment: str) -> Table:
    """What guidance gains: each variant against Advanced AC, for every preset and number of distractors."""
    rows = []
    settings = sorted({(item.preset, item.distractors) for item in study.records
                       if item.environment == environment and item.preset in PRESETS})  # fmt: skip
    for preset, distractors in settings:
        chosen = study.of(environment=environment, preset=preset, distractors=distractors)
        control = [item for item in chosen if item.algorithm == "advanced-ac"]
        for algorithm in study.algorithms(chosen):
            found = [item for item in chosen if item.algorithm == algorithm]
            is_compared = algorithm != "advanced-ac" and not conflict([*found, *control])
            against = [item.mean for item in control] if is_compared else []
            rows.append([preset, distractors, algorithm, *_guidance_cells(study, environment, found, against)])
    columns = ["preset", "distractors", "variant", "return", "difference to Advanced AC", "P(better)"]
    columns += ["reached the threshold", "median steps"] if thresholds(environment) else []
    columns.append("largest/smallest weight")
    notes = [f"Every variant differs from RSA2C-KME only in the named part. {REMARK} Differences have Welch's 95% "
             "intervals, probabilities bootstrap ones from 5 seeds on.", *remark(study, environment)]  # fmt: skip
    return Table(f"guidance_{slug(environment)}", f"{environment}: what guidance gains", columns, rows, notes)


def _guidance_cells(study: Selection, environment: str, runs: list[Record], control: list[float]) -> list[Any]:
    values = [item.mean for item in runs]
    cells: list[Any] = [Spread.of(values), None, None]
    if control:
        cells[1] = statistics.mean_difference(values, control)
        better = statistics.probability_of_improvement([values], [control], study.rng)
        cells[2] = drawn(better, len(values), len(control))
    for threshold in thresholds(environment)[:1]:
        steps = [item.curve.until(threshold, "steps") for item in runs]
        cells += [Part(int(np.isfinite(steps).sum()), len(steps)), float(np.median(steps))]
    return [*cells, float(np.median([item.weight_ratio for item in runs]))]


def corrections(study: Selection, environment: str) -> Table:
    """Our corrections of the paper's algorithm, one at a time on its preset."""
    base = study.of(environment=environment, algorithm="rsa2c-kme", preset="paper")
    changed = [item for item in study.records if item.grid.startswith("correction") and item.environment == environment]
    varied, seeds = sorted({item.varied for item in changed}), {item.seed for item in changed}
    base = [item for item in base if item.seed in seeds]
    before = [item.mean for item in base]
    rows: list[list[Any]] = []
    for name in ("", *varied):
        of = {"environment": environment, "algorithm": "rsa2c-kme", "preset": "paper", "varied": name}
        found = study.of(**of) if name else base
        if not found:
            continue
        values = [item.mean for item in found]
        steps = [item.curve.until(thresholds(environment)[0], "steps") for item in found]
        gain = statistics.mean_difference(values, before) if name and before else None
        label = f"`{name.replace('__', ', ')}`" if name else "the preset `paper`"
        rows.append([label, Spread.of(values), gain, statistics.median_steps(steps, study.rng)])
    columns = ["changed", "return", "gain", "median steps to the threshold"]
    notes = ["Gains have Welch's 95% intervals."]
    if any("newcomers=" in name for name in varied):
        notes[0] += " `newcomers` is no correction: the paper's appendix has it, its released code has not."
    title = f"{environment}: our corrections, one at a time"
    return Table(f"corrections_{slug(environment)}", title, columns, rows, notes)

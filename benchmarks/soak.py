"""A long run of short epochs: checks memory, open files and dictionaries after every epoch.

    python benchmarks/soak.py [--epochs 2000]

Trains RSA2C-KME on Pendulum-v1 in a run folder, with guidance, evaluations and checkpoints: everything that a training
of several hours does, many times over.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from statistics import median

from reliability import record
from rsa2c.runs import training
from rsa2c.runs.folder import Run

WARM_UP = 200
"""Epochs before memory is compared, while dictionaries and caches fill."""
WINDOW = 200
GROWTH = 0.05
SETTINGS = {
    "n_envs": 4, "horizon": 50, "capacity": 64, "initial_centres": 32, "attribution_every": 5,
    "attribution_centres": 50, "replacement_every": 2, "epochs_between_evaluations": 10, "evaluation_episodes": 1,
    "sigma_final": 0.4,
}  # fmt: skip


def resident() -> float:
    """Current memory of this process, MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Watch(training.Checkpointer):
    """The keeper of run folders, extended to record memory, files and dictionaries after each epoch."""

    seen: list[tuple[float, int, int, int, float]] = []  # noqa: RUF012

    def after_epoch(self, *arguments: object) -> None:
        super().after_epoch(*arguments)
        sizes, agent = self.agent.dictionary_sizes, self.agent
        files = len(os.listdir("/proc/self/fd"))
        weights = agent.kernel_weights
        self.seen.append((resident(), files, sizes["actor"], sizes["value"], float(weights.max() / weights.min())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2000)
    epochs = parser.parse_args().epochs
    training.Checkpointer = Watch  # type: ignore[misc]
    training.CHECKPOINT_INTERVAL = 1.0
    with tempfile.TemporaryDirectory() as folder:
        run = training.train_run("Pendulum-v1", "rsa2c-kme", total_timesteps=epochs * 200, out=folder, **SETTINGS)
        evaluations = len(Run(run.path).read_evaluations()["timesteps"])
        bytes_of_state = run.state_path.stat().st_size
    memory, files, actor, value, ratio = zip(*Watch.seen, strict=True)
    before, after = median(memory[WARM_UP : WARM_UP + WINDOW]), median(memory[-WINDOW:])
    growth = after / before - 1
    held = set(files[WARM_UP:])
    largest = max(*actor, *value)
    guided = sum(r > 1 for r in ratio)
    rows = [
        ["epochs", len(memory), epochs],
        ["evaluations in the run folder", evaluations, epochs // SETTINGS["epochs_between_evaluations"]],
        ["epochs with unequal kernel weights", guided, "most"],
        [f"resident memory, median of epochs {WARM_UP}-{WARM_UP + WINDOW}, MB", f"{before:.1f}", ""],
        [f"resident memory, median of the last {WINDOW}, MB", f"{after:.1f}", f"within {GROWTH:.0%}"],
        ["growth", f"{growth:+.2%}", f"at most {GROWTH:.0%}"],
        ["open files, fewest and most", f"{min(held)} and {max(held)}", "equal"],
        ["largest dictionary", largest, f"at most {SETTINGS['capacity']}"],
        ["last checkpoint, kB", round(bytes_of_state / 1e3), ""],
    ]
    notes = [f"Pendulum-v1, RSA2C-KME, with {', '.join(f'{name}={value}' for name, value in SETTINGS.items())}; a "
             "checkpoint about every second, TensorBoard events on."]  # fmt: skip
    print(record("soak", "A long run of short epochs", ["what", "found", "allowed"], rows, notes))
    if growth > GROWTH or len(held) > 1 or largest > SETTINGS["capacity"] or guided < epochs / 2:
        raise SystemExit("memory, files or dictionaries grew, or guidance was not active")


if __name__ == "__main__":
    main()

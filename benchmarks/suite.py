"""Every environment of the table, every seed: trained as `rsa2c train` does, judged by 100 episodes in Gymnasium.

    python benchmarks/suite.py                                   all runs of rsa2c-kme that are still missing
    python benchmarks/suite.py --jobs 2 --only Hopper-v5,Walker2d-v5 --seeds 0-2
    python benchmarks/suite.py --algorithms ppo,sac --only Hopper-v5
    python benchmarks/suite.py --leave-one-out                   one part of the general rule taken away at a time
    python benchmarks/suite.py --further                         ten environments that nobody tuned for
    python benchmarks/suite.py --table                           write results/suite.md from the rows, train nothing

Each run has a process of its own with one thread, and leaves one line in results/suite/runs.jsonl. Runs that have a
line are skipped. A run that was stopped, however it was stopped, continues from its folder when the suite is started
again (SB3's start over). Environments with several milestones are one run: it is judged, and then trained further.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from _provenance import RESULTS
from _suite_run import read_rows
from _suite_table import line, write_page
from _suite_tasks import FURTHER, TARGETS, Task, left_out_tasks, ordered, row_key, tasks
from rsa2c.baselines.settings import check_algorithm
from rsa2c.errors import did_you_mean
from rsa2c.runs.evaluation import signals_ignored, terminations_interrupt

CHILD = Path(__file__).with_name("_suite_run.py")
POLL_SECONDS = 0.1


def main() -> None:
    options = parsed()
    work(options, lambda: chosen(options), lambda rows: write_page(rows, options.results.parent / "suite.md"))


def work(
    options: argparse.Namespace,
    missing: Callable[[], list[Task]],
    page: Callable[[list[dict[str, Any]]], Path],
) -> None:
    """List the runs that are missing, or make them, and write the page from all rows; `add_queue` has the options."""
    options.results.mkdir(parents=True, exist_ok=True)
    failed: list[Task] = []
    if options.list:
        print("\n".join(map(str, missing())))
        return
    if not options.table:
        failed = Queue(missing(), options.folder, options.results).work(options.jobs)
    print("written to", page(read_rows(options.results)))
    if failed:
        sys.exit(f"{len(failed)} runs failed: {'; '.join(map(str, failed))}. Their logs are in {options.folder}.")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, help="environments, separated by commas")
    parser.add_argument("--seeds", type=numbers, default=range(5), help="0-2 or 0,3 (longest runs: below 3)")
    parser.add_argument("--algorithms", type=names, default=["rsa2c-kme"], help="such as rsa2c-kme,advanced-ac,ppo,sac")
    parser.add_argument("--leave-one-out", action="store_true", help="Hopper, Walker2d and HalfCheetah only")
    parser.add_argument("--further", action="store_true", help="environments that nobody tuned for")
    parser.add_argument("--up-to", type=int, help="leave out runs of more steps")
    parser.add_argument("--steps", type=int, help="train this many instead (a trial: the table does not show it)")
    parser.add_argument("--order", choices=("seed", "environment"), default="seed")
    add_queue(parser, "suite")
    return parser.parse_args()


def add_queue(parser: argparse.ArgumentParser, name: str) -> None:
    """The options of a queue of runs whose rows are in results/NAME."""
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--folder", type=Path, default=Path("runs") / name, help="where the run folders and logs are")
    where = f"where the rows are ({name}.md: beside)"
    parser.add_argument("--results", type=Path, default=RESULTS / name, help=where)
    parser.add_argument("--list", action="store_true", help="print the runs that are missing, in their order")
    parser.add_argument("--table", action="store_true", help="only write the page")


def names(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str) -> list[int]:
    """Whole numbers and ranges of them: 0-2,4 is 0, 1, 2 and 4."""
    found: list[int] = []
    for part in names(text):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def check_names(flag: str, asked: Iterable[str], known: Iterable[str]) -> None:
    """Stop where `flag` has a name that is not known."""
    for name in asked:
        if name not in known:
            sys.exit(f"{flag} has {name!r}; it can have {', '.join(known)}.{did_you_mean(name, known)}")


def without_row(found: Iterable[Task], results: Path) -> list[Task]:
    """The runs that have no row yet."""
    done = {row_key(row) for row in read_rows(results)}
    return [task for task in found if task.key not in done]


def chosen(options: argparse.Namespace) -> list[Task]:
    """The runs that were asked for and have no row yet, in their order."""
    targets = FURTHER if options.further else TARGETS
    known = dict.fromkeys(target.environment for target in targets)
    check_names("--only", options.only or (), known)
    for name in options.algorithms:
        check_algorithm(name)
    wanted = [target for target in targets if target.environment in (options.only or known)]
    if options.leave_one_out:
        found = left_out_tasks(wanted, options.seeds)
    else:
        found = tasks(wanted, options.algorithms, options.seeds)
    if options.steps is not None:
        found = list(dict.fromkeys(replace(task, steps=options.steps) for task in found))
    if options.up_to is not None:
        found = [task for task in found if task.steps <= options.up_to]
    return ordered(without_row(found, options.results), options.order)


class Queue:
    """Runs that wait for a process, in order; two milestones of one run never train at the same time."""

    def __init__(self, waiting: list[Task], folder: Path, results: Path) -> None:
        self.waiting, self.folder, self.results = waiting, folder, results
        self.running: dict[Task, subprocess.Popen[bytes]] = {}
        self.failed: list[Task] = []

    def work(self, jobs: int) -> list[Task]:
        """Run all; the runs that failed are returned. A signal stops the processes, which save what they have."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with terminations_interrupt():
            try:
                while self.waiting or self.running:
                    while len(self.running) < jobs and (task := self.next()) is not None:
                        self.start(task)
                    time.sleep(POLL_SECONDS)
                    for task in [task for task, process in self.running.items() if process.poll() is not None]:
                        self.finish(task)
            except KeyboardInterrupt:
                with signals_ignored():
                    self.stop()
                sys.exit("Interrupted; what is trained is kept. Continue with the same command.")
        return self.failed

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()

    def next(self) -> Task | None:
        """The first run whose folder is free; later milestones of a run that failed are dropped as failed."""
        busy, broken = ({task.run_id for task in group} for group in (self.running, self.failed))
        dropped = [task for task in self.waiting if task.run_id in broken]
        self.failed += dropped
        self.waiting = [task for task in self.waiting if task not in dropped]
        for i, task in enumerate(self.waiting):
            if task.run_id not in busy:
                return self.waiting.pop(i)
        return None

    def start(self, task: Task) -> None:
        print(f"{time.strftime('%H:%M:%S')}  started   {task}", flush=True)
        command = [sys.executable, str(CHILD), json.dumps(asdict(task)), str(self.folder), str(self.results)]
        with open(self.log(task), "ab") as log:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self.running[task] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def finish(self, task: Task) -> None:
        code = self.running.pop(task).returncode
        if code == 0:
            row = next(row for row in read_rows(self.results) if row_key(row) == task.key)
            outcome = f"finished  {task}: {line(row)}"
        else:
            self.failed.append(task)
            last = self.log(task).read_text("utf-8", "replace").strip().splitlines()[-1:]
            outcome = f"failed    {task} (exit code {code}): {' '.join(last)}"
        print(f"{time.strftime('%H:%M:%S')}  {outcome}", flush=True)

    def log(self, task: Task) -> Path:
        """The file that has everything a run printed."""
        return self.folder / f"{task.run_id}.log"


if __name__ == "__main__":
    main()

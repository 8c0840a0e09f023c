"""Minutes that the Pendulum-v1 ablation at `default` takes: five variants, ten seeds, judged under seven noise levels.

    python benchmarks/study_time.py [--workers 2]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _provenance import write
from rsa2c.reproduce import paper, read_records


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    workers = parser.parse_args().workers
    with tempfile.TemporaryDirectory() as folder:
        command = ["reproduce", "pendulum", "--grids", "ablation", "--preset", "default", "--workers", str(workers)]
        places = ["--runs", f"{folder}/runs", "--out", f"{folder}/out"]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "rsa2c.cli", *command, *places], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        records = read_records(Path(folder) / "out")
    training = sum(item.seconds for item in records)
    published = paper.published_cost("Pendulum-v1", "rsa2c-kme")
    assert published is not None, "the paper gives the cost of RSA2C-KME on Pendulum-v1"
    body = (
        f"`rsa2c {' '.join(command)}`: {seconds / 60:.1f} minutes for {len(records)} runs with every table and figure, "
        f"{training / 60:.1f} of them training, summed over the runs. One run of the paper's RSA2C-KME takes "
        f"{published.seconds / 60:.1f} minutes to its threshold on its own machine: the study takes as long as "
        f"{seconds / published.seconds:.2f} of them."
    )
    print(body)
    print(write("study_time", "The Pendulum-v1 study at `default`", body))


if __name__ == "__main__":
    main()

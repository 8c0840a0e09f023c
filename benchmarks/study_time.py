"""Minutes that the Pendulum-v1 ablation with `default` takes: five variants, ten seeds, seven noise levels.

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
        f"`rsa2c {' '.join(command)}` takes {seconds / 60:.1f} minutes for {len(records)} runs, including every table "
        f"and figure. Training time, summed over the runs, is {training / 60:.1f} minutes. According to the paper, one "
        f"run of its RSA2C-KME takes {published.seconds / 60:.1f} minutes to reach the threshold on the authors' "
        f"machine. Our whole study takes {seconds / published.seconds:.2f} times as long as that one run."
    )
    print(body)
    print(write("study_time", "The Pendulum-v1 study at `default`", body))


if __name__ == "__main__":
    main()

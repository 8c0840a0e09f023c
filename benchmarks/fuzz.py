"""Fuzzes every file reader with atheris: coverage-guided, with the mutations of `tests/strangers.py`.

    python benchmarks/fuzz.py --minutes 10 [--targets model state ...]

Each target gets an equal share of the time, in a separate process. An input is saved under `tests/corpus/`, which
`tests/test_strangers.py` replays, if it raises anything but the library's own errors, executes something, takes more
memory than its size justifies, or ends the process.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
LONGEST_INPUT = 2**16
SECONDS_AN_INPUT = 60
MEMORY_MB = 4000


def fuzz(target: str, seconds: int, scratch: Path) -> None:
    """Fuzz one target in this process, which libFuzzer terminates."""
    import atheris

    with atheris.instrument_imports(include=["rsa2c"]):
        import strangers

    counts: Counter[str] = Counter()
    began = time.monotonic()
    corpus = scratch / "corpus"
    corpus.mkdir()
    (corpus / "valid").write_bytes(strangers.TARGETS[target].valid)
    for name, content in strangers.corpus(target):
        (corpus / name).write_bytes(content)

    def once(content: bytes) -> None:
        counts["inputs"] += 1
        try:
            counts["read" if strangers.read(target, content, scratch) is None else "refused"] += 1
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__}-{Path(frame.filename).stem}-{frame.lineno}"
            counts[f"failure {place}"] += 1
            if counts[f"failure {place}"] == 1:
                strangers.keep(target, place, content)
        if counts["inputs"] % 20 == 0:
            document = {**counts, "seconds": round(time.monotonic() - began)}
            (scratch / "counts.json").write_text(json.dumps(document))

    def mutator(content: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return atheris.Mutate(content, most)
        # The corpus fills with inputs that the first check refuses, so half of the time we start from a valid file.
        start = content if rng.random() < 0.5 else strangers.TARGETS[target].valid
        return strangers.mutated(target, start, rng)[:most]

    flags = [f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", f"-timeout={SECONDS_AN_INPUT}", "-seed=1",
             f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={scratch}/crash-", "-report_slow_units=1000"]  # fmt: skip
    atheris.Setup([sys.argv[0], *flags, str(corpus)], once, custom_mutator=mutator)
    atheris.Fuzz()


def supervise(target: str, seconds: int) -> list[object]:
    """Fuzz one target in a process, restarted if an input ends it; the row of results."""
    import strangers

    total: Counter[str] = Counter()
    deadline, crashes = time.monotonic() + seconds, 0
    while (left := round(deadline - time.monotonic())) > 5:
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            command = [sys.executable, __file__, "--one", target, str(left), folder]
            done = subprocess.run(command, capture_output=True, text=True)
            counts = scratch / "counts.json"
            total.update(json.loads(counts.read_text()) if counts.exists() else {})
            artifacts = [path for path in scratch.glob("crash-*")]
            for path in artifacts:
                strangers.keep(target, path.name.removeprefix("crash-")[:40], path.read_bytes())
            crashes += len(artifacts)
            if not artifacts and done.returncode:
                raise SystemExit(f"{target}: the fuzzer failed\n{done.stderr[-3000:]}")
    failures = {name: count for name, count in total.items() if name.startswith("failure")}
    for name in failures:
        print(f"  {target}: {name}", flush=True)
    return [target, total["seconds"], total["inputs"], total["read"], total["refused"], len(failures), crashes]


def main() -> None:
    sys.path.insert(0, str(TESTS))
    if "--one" in sys.argv:
        return fuzz(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    import strangers
    from reliability import record  # not at the top: modules imported before atheris are not instrumented

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--targets", nargs="+", choices=list(strangers.TARGETS), default=list(strangers.TARGETS))
    options = parser.parse_args()
    share = round(60 * options.minutes / len(options.targets))
    rows = []
    for target in options.targets:
        rows.append(supervise(target, share))
        print(rows[-1], flush=True)
    columns = ["file", "seconds", "inputs", "read", "refused", "other errors", "crashes"]
    notes = [
        "Coverage-guided (atheris), starting from a valid file and the saved corpus, with byte mutations and mutations "
        "of the format. Refused means that one of the library's own errors was raised.",
        "Other errors include inputs that execute, import or compile something when read, or that take more memory "
        f"than {strangers.BYTES_A_BYTE} times their size plus {strangers.BYTES_AT_LEAST // 2**20} MiB.",
    ]
    print(record("fuzz", "Files from strangers", columns, rows, notes))
    if any(row[-2] or row[-1] for row in rows):
        raise SystemExit("some inputs were not refused properly; they are saved under tests/corpus")


if __name__ == "__main__":
    main()

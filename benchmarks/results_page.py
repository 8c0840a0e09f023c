"""docs/results.md, from the records that `rsa2c reproduce` left under results/: nothing in it is typed.

    python benchmarks/results_page.py
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from _provenance import RESULTS
from rsa2c import reproduce
from rsa2c.reproduce import claims, paper

DOCS = RESULTS.parent / "docs"
CAPTIONS = {
    "ablation_default": "Ablation, preset `default`: mean evaluation return with its 95% interval over seeds",
    "ablation_paper": "Ablation, preset `paper`",
    "comparison_default": "Beside Stable-Baselines3's SAC and PPO",
    "comparison_paper": "The same with the preset `paper`",
    "distractors_10": "With 10 useless features",
    "distractors_30": "With 30 useless features",
    "gap_default": "Gap to the optimal cost along training: median and interquartile range over seeds",
    "gap_paper": "The same with the preset `paper`",
    "random_iterate": "Expected gap of Theorem 2's random iterate under its step sizes, beside its rate: most "
    "of it is the share of the first iterates, which are unstable",
    "random_iterate_stable": "The same, drawn from the iterates since the first stable one",
    "beeswarm_kme_default": "The value's attributions under KME",
    "beeswarm_cme_default": "The value's attributions under CME",
    "heatmap_kme_default": "Importances over training under KME",
    "heatmap_cme_default": "Importances over training under CME",
    "beeswarm_kme_paper": "The value's attributions under KME, preset `paper`",
    "beeswarm_cme_paper": "The value's attributions under CME, preset `paper`",
    "heatmap_kme_paper": "Importances over training under KME, preset `paper`",
    "heatmap_cme_paper": "Importances over training under CME, preset `paper`",
    "cost_time": "Milliseconds of an epoch against the size of the dictionaries",
    "cost_memory": "Peak memory of an epoch's arrays against the size of the dictionaries",
}
INTRODUCTION = """\
# The paper and ours

Every table has the paper's figure, ours with the preset `paper` (its algorithm and settings, ours where it gives none:
`src/rsa2c/envs/known` says which) and ours with `default`.
Made by `python benchmarks/results_page.py` from the records under `results/`, which `rsa2c reproduce` writes: a row for
each run in `runs.csv`, with its commit. What was not run is missing here, and nothing is filled in from elsewhere.
The paper is "{title}" by {authors}; its code is at {code}.

The paper's claims, by our runs:

| study | preset | hold | do not hold | cannot be said |
|---|---|---|---|---|
"""


def main() -> None:
    parts, tally = [], []
    for target in reproduce.studies():
        folder = RESULTS / target
        if not (folder / "runs.csv").exists():
            continue
        page, *_ = reproduce.write(target, reproduce.read_records(folder), folder)
        tally += verdicts(target, folder)
        text = page.read_text("utf-8")
        parts.append(text.replace("# ", "## ", 1) if text.startswith("# ") else text)
        for stem, caption in CAPTIONS.items():
            if (folder / "figures" / f"{stem}.png").exists():
                parts.append(f"![{caption}](../results/{target}/figures/{stem}.png)\n\n*{caption}.*\n")
    path = DOCS / "results.md"
    introduction = INTRODUCTION.format(**paper.document()) + "\n".join(tally) + "\n"
    Path(path).write_text("\n".join([introduction, *parts]), "utf-8")
    print(path)


def verdicts(target: str, folder: Path) -> list[str]:
    """The rows of a study in the table of verdicts."""
    rows = list(csv.DictReader(io.StringIO((folder / "claims.csv").read_text("utf-8"))))
    found = []
    for preset in dict.fromkeys(row["preset"] for row in rows):
        counts = claims.tally(row["verdict"] for row in rows if row["preset"] == preset)
        found.append(f"| [{target}](#{target}-the-paper-and-ours) | {preset} | {' | '.join(map(str, counts))} |")
    return found


if __name__ == "__main__":
    main()

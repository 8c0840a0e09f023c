"""Makes docs/results.md from the records that `rsa2c reproduce` wrote under results/; nothing is typed by hand.

python benchmarks/results_page.py
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from _provenance import RESULTS
from rsa2c import reproduce
from rsa2c.reproduce import paper, verdicts
from rsa2c.reproduce.selection import PRESETS

DOCS = RESULTS.parent / "docs"
CAPTIONS = {
    "ablation_default": "Ablation, preset `default`: mean evaluation return with its 95% interval over seeds",
    "ablation_paper": "Ablation, preset `paper`",
    "comparison_default": "Compared with Stable-Baselines3's SAC and PPO",
    "comparison_paper": "The same with the preset `paper`",
    "distractors_10": "With 10 useless features",
    "distractors_30": "With 30 useless features",
    "gap_default": "Gap to the optimal cost during training: median and interquartile range over seeds",
    "gap_paper": "The same with the preset `paper`",
    "random_iterate": "Expected gap of Theorem 2's random iterate under its step sizes, compared with its rate; "
    "most of the gap comes from the first iterates, which are unstable",
    "random_iterate_stable": "The same, drawn from the iterates since the first stable one",
    "beeswarm_kme_default": "Attributions of the value under KME",
    "beeswarm_cme_default": "Attributions of the value under CME",
    "heatmap_kme_default": "Importances during training under KME",
    "heatmap_cme_default": "Importances during training under CME",
    "beeswarm_kme_paper": "Attributions of the value under KME, preset `paper`",
    "beeswarm_cme_paper": "Attributions of the value under CME, preset `paper`",
    "heatmap_kme_paper": "Importances during training under KME, preset `paper`",
    "heatmap_cme_paper": "Importances during training under CME, preset `paper`",
    "cost_time": "Milliseconds per epoch against the size of the dictionaries",
    "cost_memory": "Peak memory of the arrays of an epoch against the size of the dictionaries",
}
INTRODUCTION = """\
# The paper and ours

Every table compares three results: the number in the paper, ours with the preset `paper`, and ours with the preset
`default`. The preset `paper` uses the paper's algorithm and settings, and our own settings where the paper gives none;
`src/rsa2c/envs/known` documents which. `python benchmarks/results_page.py` makes this page from the records under
`results/`, which `rsa2c reproduce` writes: `runs.csv` has one row per run, with its commit, and `returns.csv` one
row per run and noise level. Experiments that were not run are missing, and nothing is filled in from elsewhere, but for
one variant that is another: where Uniform SHAP was not trained, its rows have Advanced AC's runs and say so.

`default` is that preset as it was when a run was trained. `settings.csv` has the settings of every run. “What was run”
says which grids were trained with today's, and “Earlier settings” what has changed since for the others. Runs of
different settings are never compared; those of an earlier version are shown until their grid is run again.

The paper is "{title}" by {authors}; its code is at {code}.

The paper's claims, judged by our runs:

| study | preset | hold | do not hold | inconclusive | not measured alone |
|---|---|---|---|---|---|
"""


def main() -> None:
    parts, tally = [], []
    for target in reproduce.studies():
        folder = RESULTS / target
        if not (folder / "runs.csv").exists():
            continue
        page, *_ = reproduce.write(target, reproduce.read_records(folder), folder)
        tally += counts(target, folder)
        text = page.read_text("utf-8")
        parts.append(text.replace("# ", "## ", 1) if text.startswith("# ") else text)
        for stem, caption in CAPTIONS.items():
            if (folder / "figures" / f"{stem}.png").exists():
                parts.append(f"![{caption}](../results/{target}/figures/{stem}.png)\n\n*{caption}.*\n")
    path = DOCS / "results.md"
    introduction = INTRODUCTION.format(**paper.document()) + "\n".join(tally) + "\n"
    Path(path).write_text("\n".join([introduction, *parts]), "utf-8")
    print(path)


def counts(target: str, folder: Path) -> list[str]:
    """One study's rows of the table of verdicts."""
    rows = list(csv.DictReader(io.StringIO((folder / "claims.csv").read_text("utf-8"))))
    found = []
    for preset in sorted({row["preset"] for row in rows}, key=PRESETS.index):
        each = verdicts.tally(row["verdict"] for row in rows if row["preset"] == preset).values()
        found.append(f"| [{target}](#{target}-the-paper-and-ours) | {preset} | {' | '.join(map(str, each))} |")
    return found


if __name__ == "__main__":
    main()

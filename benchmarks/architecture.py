"""Draws docs/img/architecture.svg from the imports in the source: packages by layer, an arrow for each dependency.

    python benchmarks/architecture.py

Prints the number of arrows, of arrows that point to a higher layer (there must be none), and the longest file and
function. `tests/test_architecture.py` holds the code to these rules.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import matplotlib

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from architecture import LAYERS, arrows, layer, modules, unit  # noqa: E402

WIDTH, HEIGHT = 11.0, 9.5


def places() -> dict[str, tuple[float, float]]:
    """Where each unit is drawn: its layer from the bottom up, spread over the width."""
    found = {}
    for number, names in enumerate(LAYERS):
        shift = 0.5 * (number % 2 - 0.5)
        for position, name in enumerate(names):
            found[name] = ((position + 1) / (len(names) + 1) * WIDTH + shift, float(number))
    return found


def draw(path: Path) -> None:
    """Write the figure."""
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "rsa2c"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
    where = places()
    sizes = {name: sum(unit(module) == name for module in modules()) for name in where}
    for upper, lower in (arrow for arrow in arrows() if arrow[1] != "errors"):
        (x, y), (a, b) = where[upper], where[lower]
        style = {"arrowstyle": "-|>", "color": "#7a8aa0", "alpha": 0.45, "lw": 0.8, "shrinkA": 9, "shrinkB": 9}
        axes.annotate("", (a, b), (x, y), arrowprops={**style, "connectionstyle": "arc3,rad=0.08"})
    for name, (x, y) in where.items():
        label = f"{name}/ ({sizes[name]})" if sizes[name] > 1 else name
        box = {"boxstyle": "round,pad=0.35", "fc": "#eef3fb" if sizes[name] > 1 else "white", "ec": "#34507a"}
        axes.text(x, y, label, ha="center", va="center", fontsize=10, bbox=box)
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(-0.6, len(LAYERS) - 0.4)
    axes.axis("off")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def longest_function() -> tuple[int, str]:
    """Lines and name of the longest function that is not compiled by Numba."""
    found = []
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "njit" not in "".join(map(ast.unparse, node.decorator_list)):
                found.append(((node.end_lineno or 0) - node.lineno + 1, f"{name}.{node.name}"))
    return max(found)


def main() -> None:
    draw(ROOT / "docs" / "img" / "architecture.svg")
    back = [arrow for arrow in arrows() if layer(arrow[1]) > layer(arrow[0])]
    lengths = {name: path.read_text(encoding="utf-8").count("\n") for name, path in modules().items()}
    longest = max(lengths, key=lambda name: lengths[name])
    print(f"{len(arrows())} arrows between {len(places())} units, {len(back)} of them back")
    print(f"{len(lengths)} files, the longest {longest} with {lengths[longest]} lines")
    print("longest function: {1} with {0} lines".format(*longest_function()))


if __name__ == "__main__":
    main()

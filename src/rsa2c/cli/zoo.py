"""`rsa2c zoo`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rsa2c.cli.command import Flag, command, parse, program

if TYPE_CHECKING:
    from rsa2c.zoo import Card


@dataclass
class ZooOptions:
    """How to list."""

    json: Flag = False
    """Print JSON, with everything that is known of each agent."""


@command
def zoo(arguments: list[str]) -> None:
    """Trained agents that come with rsa2c, with their scores: a command that takes a run takes zoo:ID as well."""
    options = parse(ZooOptions, arguments, zoo)
    from rsa2c.zoo import cards

    found = cards()
    if options.json:
        print(json.dumps({f"zoo:{name}": card.document() for name, card in found.items()}, indent=2, allow_nan=False))
        return
    rows = [("", "mean return", "seed", "steps", "states", "KB"), *(_row(card) for card in found.values())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        cells = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        print(f"{name:<{widths[0]}}  {'  '.join(cells)}")
    print("\nmean return: over episodes in Gymnasium's own environment, ± half of its 95% interval")
    print("seed: not chosen by score; steps: of training; states: remembered by actor and value")
    print(f"next: {program()} evaluate {rows[1][0]}")


def _row(card: Card) -> tuple[str, ...]:
    low, high = card.interval
    digits = 1 if abs(card.mean) >= 10 else 2
    score = f"{card.mean:,.{digits}f} ± {(high - low) / 2:.{digits}f}"
    states = "/".join(map(str, card.states.values()))
    return f"zoo:{card.environment}", score, str(card.seed), f"{card.steps:,}", states, f"{card.size / 1000:.0f}"

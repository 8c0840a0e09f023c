"""`rsa2c card`."""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from rsa2c.cli.command import command, parse, typed_env


@dataclass
class CardOptions:
    """Which agent, and where to write."""

    run: tyro.conf.Positional[str]
    """Run folder, its name under ./runs, a model file, or zoo:ID (`rsa2c zoo` lists them)."""
    out: str | None = None
    """File to write, README.md for Hugging Face; unset: print the card."""
    episodes: int = 100
    """Episodes of the score, where there was no final evaluation."""
    licence: str | None = None
    """Licence under which you publish the agent, such as mit; unset: the card names none."""
    env: str | None = None
    """The environment as module:Name, where the run was trained on one of your own: a run folder imports nothing."""


@command
def card(arguments: list[str]) -> None:
    """Write a model card in Hugging Face's format: score, training, how to load, limits. Nothing is uploaded."""
    options = parse(CardOptions, arguments, card)
    from rsa2c.files import write_atomically
    from rsa2c.report.card import model_card
    from rsa2c.runs.source import opened

    text = model_card(opened(options.run, typed_env(options.env)), options.episodes, options.licence)
    if options.out is None:
        print(text, end="")
        return
    write_atomically(options.out, text.encode())
    print(options.out)

"""Text files from Jinja2 templates, with names that cannot leave the comment or string they are put in."""

from __future__ import annotations

import re
from importlib import resources
from importlib.metadata import version
from typing import Any

import jinja2

FOLDER = resources.files("rsa2c.export")
LONGEST_NAME = 80


def rendered(template: str, **context: Any) -> bytes:
    """The template as UTF-8."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = (FOLDER / template).read_text(encoding="utf-8")
    return (environment.from_string(text).render(version=version("rsa2c"), **context).rstrip() + "\n").encode()


def harmless(name: str) -> str:
    """A name in one line of printable characters, without what ends a C comment, continues a line or begins a trigraph.

    Names come from environments and model files, whose authors must not be able to write code into ours.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in name)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)|\\", " ", printable)[:LONGEST_NAME]

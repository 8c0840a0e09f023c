"""The zoo: one trained agent for each environment, in the package, with the score that it reached.

    agent = rsa2c.load("zoo:Hopper-v5")

A file of the zoo is a model (`rsa2c.algorithm.snapshot`) of the policy that acts, in fewer bytes
(`rsa2c.files.compact`), with a card in its metadata. `benchmarks/zoo.py` writes them.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from rsa2c.errors import FileFormatError, NotFoundError, did_you_mean
from rsa2c.files import PathLike, read_metadata

PREFIX = "zoo:"
FOLDER = Path(__file__).parent / "agents"


@dataclass(frozen=True, kw_only=True)
class Card:
    """Where an agent of the zoo comes from, and what it scored."""

    environment: str
    algorithm: str
    seed: int
    total_timesteps: int
    """Training steps that the run was asked to make."""
    steps: int
    """Environment steps of the run. The policy that acts may be of an earlier epoch (`agent.num_timesteps`)."""
    seconds: float
    """Training time."""
    commit: str | None
    """What trained it."""
    versions: dict[str, str]
    """Versions of the libraries that trained it."""
    states: dict[str, int]
    """Remembered states of actor and value."""
    mean: float
    """Mean return over the episodes."""
    interval: tuple[float, float]
    """95% interval of that mean."""
    returns: tuple[float, ...]
    """Return of each episode, without noise, from seed 0 on, of the agent as it is in the file."""
    lengths: tuple[int, ...]
    """Steps of each episode."""
    evaluated_with: dict[str, str]
    """Versions of the libraries, and the processor, that these episodes ran on."""
    rounding: dict[str, float]
    """Largest change at the background states that single precision made, for action, value and advantage, in standard
    deviations of each over these states."""

    @property
    def path(self) -> Path:
        """The agent's file."""
        return FOLDER / file_name(self.environment)

    @property
    def size(self) -> int:
        """Bytes of that file."""
        return self.path.stat().st_size

    @property
    def episodes(self) -> int:
        """Episodes of the score."""
        return len(self.returns)

    def document(self) -> dict[str, Any]:
        """The card as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, path: PathLike) -> Card:
        """The card of a file."""
        try:
            stored = read_metadata(path, "model")["zoo"]
            values: dict[str, Any] = {each.name: stored[each.name] for each in fields(cls)}
            return cls(**{**values, **{name: tuple(values[name]) for name in ("interval", "returns", "lengths")}})
        except (KeyError, TypeError) as error:
            raise FileFormatError(f"{path} has no card of the zoo ({type(error).__name__}: {error}).") from error


@cache
def cards() -> dict[str, Card]:
    """The cards of all agents, by environment."""
    found = [Card.of(path) for path in sorted(FOLDER.glob("*.safetensors"))]
    return {card.environment: card for card in sorted(found, key=lambda card: card.environment.lower())}


def located(source: PathLike) -> PathLike:
    """The file of an agent of the zoo that is named zoo:ID; anything else is returned unchanged."""
    if not is_zoo(source):
        return source
    name = str(source).removeprefix(PREFIX)
    if name not in cards():
        close = did_you_mean(name, cards()).replace("'", "'zoo:", 1)
        raise NotFoundError(f"the zoo has no agent {name!r}.{close} It has {', '.join(cards())}.")
    return cards()[name].path


def is_zoo(source: PathLike) -> bool:
    """Whether a name is one of the zoo's, zoo:ID."""
    return str(source).startswith(PREFIX)


def file_name(environment: str) -> str:
    """The name of an environment's file."""
    return re.sub(r"[/:]", "-", environment) + ".safetensors"

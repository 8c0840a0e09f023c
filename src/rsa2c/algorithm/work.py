"""What an epoch did, in sizes: how many states were considered, admitted, removed, explained, re-projected.

An `EpochRecord` carries it; `rsa2c.cost` turns it into operations and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from rsa2c.kernel.dictionary import MATRICES, Dictionary


@dataclass(frozen=True)
class Basis:
    """A dictionary's size, and which of its matrices have been computed already."""

    states: int
    gram: bool = True
    cholesky: bool = True
    inverse_factor: bool = True
    inverse: bool = True

    @classmethod
    def of(cls, dictionary: Dictionary) -> Basis:
        """The size of a dictionary as it is now; its matrices are computed when first needed and then kept."""
        return cls(dictionary.size, *(name in vars(dictionary) for name in MATRICES))

    @classmethod
    def new(cls, states: int) -> Basis:
        """A dictionary of so many states that has computed nothing yet."""
        return cls(states, *(False for _ in MATRICES))


@dataclass(frozen=True)
class Growth:
    """A dictionary offered candidates: `admitted` of them joined, after `removed` states had to leave. So many
    `functions` are on it, and have `outputs` together."""

    basis: Basis
    outputs: int
    candidates: int
    admitted: int
    removed: int = 0
    functions: int = 1


@dataclass(frozen=True)
class Attribution:
    """Shapley values of an expansion on `centres`, fitted to `samples` and chosen among `candidates`; 0 if given."""

    centres: int
    features: int
    outputs: int
    samples: int = 0
    candidates: int = 0


@dataclass(frozen=True)
class Reprojection:
    """A function moved to a new metric: of `old` states `kept` stay, and it has `states` afterwards."""

    old: int
    kept: int
    states: int
    points: int
    outputs: int
    held_out: int = 0


@dataclass(frozen=True)
class Work:
    """The sizes of one epoch: N transitions on N + S points, d features, m action dimensions, and what happened."""

    steps: int
    """Environment steps, those on which an environment only resets itself included."""
    transitions: int
    points: int
    features: int
    outputs: int
    policy: Basis
    """The actor's dictionary while collecting."""
    actor: Basis
    """The actor's dictionary at the advantage fit."""
    value: Basis | None
    """The Value Critic's dictionary at its fit; None without one."""
    deviations: int = 1
    """Distinct standard deviations of the policy: the advantage fit solves a system for each."""
    growths: tuple[Growth, ...] = ()
    attribution: tuple[Attribution, ...] = ()
    """Of each critic that was attributed."""
    reprojections: tuple[Reprojection, ...] = ()
    """Where feature weights changed."""
    followed: tuple[Reprojection, ...] = ()
    """Where the kernel's inputs followed the visited states."""
    number: int = 1
    """Number of the epoch, from 0 on: the first has no values to be damped towards."""

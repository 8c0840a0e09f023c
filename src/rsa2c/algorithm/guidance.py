"""From attributions to kernel weights, while training.

A feature counts if its attributions repeat, or if actions move it (`influence.py`). Features that count have equal
weights, the others hardly any: how much the value depends on a feature says little about how finely the policy has to
look at it. Attributions are of the value, and on request of the advantage direction or the policy, by two *attribution
critics* of their own, always unweighted, each fitted to one half of the epoch's episodes. With f and g the two critics,

    a_i / b_i,  a_i = E_s phi_i(s; f) phi_i(s; g),  b_i = E_s (phi_i(s; f)^2 + phi_i(s; g)^2) / 2,

is how far they repeat. What chance makes of a useless feature differs from half to half, so its a_i is zero on average,
however slowly the feature changes within an episode. b_i alone is biased upwards by the noise of a critic, and most of
all for features that change slowly: shadow features made by permuting rows do not show that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.weights import Measured
from rsa2c.algorithm.work import Attribution
from rsa2c.attribution.cme import cme_values
from rsa2c.attribution.cuda import shapley_product_cuda
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import exact_nodes, shapley_product
from rsa2c.attribution.sampled import permutation_values
from rsa2c.attribution.settings import DEFAULT_RANK
from rsa2c.config import CME, AgreementGuidance, CriticGuidance
from rsa2c.kernel.algebra import NUMPY, Algebra
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.rkhs import RKHSFunction

SAMPLES = 20_000
"""Most batch states that the attribution critic is fitted to: its time stays below a tenth of an epoch's."""
CANDIDATES = 5
"""States among which each centre of the attribution critic is chosen."""
CENTRE_THRESHOLD = 1e-2
"""Squared RKHS distance above which a state becomes a centre."""
RIDGE = 1e-3
"""Ridge of the attribution critic; its targets have unit variance."""
NODES = 6
"""Quadrature nodes: at a length scale of sqrt(d) the error is below 1e-9, far below the noise of 64 states."""
CME_PERMUTATIONS = 8
"""Orders of features sampled for the game cme, in antithetic pairs."""
STATISTICS: dict[str, Callable[[NDArray], Any]] = {"absolute": np.abs, "signed": np.asarray}


@dataclass(frozen=True, eq=False)
class Critic:
    """A kernel expansion to attribute, the normalised states it was fitted to, and which columns are one source."""

    x: NDArray
    dictionary: Dictionary
    coefficients: NDArray[np.float64]
    sources: list[slice]
    explained: NDArray[np.float64]
    """(sources,): share of each source's variance that the expansion explains; 1 where it is what is attributed."""
    samples: int = 0
    """States the expansion was fitted to; 0 for the Value Critic, which was given."""
    candidates: int = 0
    """States among which its centres were chosen."""
    targets: NDArray = field(default_factory=lambda: np.zeros((0, 0)))
    """(samples, outputs): what it was fitted to, standardised."""

    @property
    def work(self) -> Attribution:
        """The sizes of its attribution."""
        centres, outputs = self.coefficients.shape
        return Attribution(centres, self.dictionary.centres.shape[1], outputs, self.samples, self.candidates)


Halves = tuple[Critic, Critic]
"""Critics of the two halves of an epoch's episodes."""
ProductValues = Callable[[Game, int], NDArray[np.float64]]
"""Computes Shapley values (T, d, outputs) of a game by quadrature with a number of nodes."""


def value_critic(states: NDArray, value: RKHSFunction) -> Critic:
    """The Value Critic itself, as in the paper: nothing to check it against."""
    return Critic(states, value.dictionary, value.coefficients, [slice(0, 1)], np.ones(1))


def attribution_critics(
    states: NDArray,
    targets: list[NDArray],
    first: NDArray[np.bool_],
    kernel: str,
    centres: int,
    rng: np.random.Generator,
    algebra: Algebra = NUMPY,
) -> Halves:
    """Unweighted ridge regressions of each source's targets (N, outputs) on the states (N, d), one on the rows that
    `first` (N,) marks, the other on all others.

    Targets are standardised, a source as a whole. Centres are chosen afresh, so nothing that guided before decides
    what is seen now, and a suppressed feature can come back.
    """
    standardised = [target - target.mean(axis=0) for target in targets]
    y = np.column_stack([target / max(float(target.std()), 1e-12) for target in standardised])
    ends = np.cumsum([0] + [target.shape[1] for target in targets])
    sources = [slice(a, b) for a, b in pairwise(ends)]
    one, other = (_fitted(states[rows], y[rows], sources, kernel, centres, rng, algebra) for rows in (first, ~first))
    return one, other


def _fitted(
    x: NDArray,
    targets: NDArray,
    sources: list[slice],
    kernel: str,
    centres: int,
    rng: np.random.Generator,
    algebra: Algebra,
) -> Critic:
    """The regression on some rows."""
    d = x.shape[1]
    count = min(len(x), CANDIDATES * centres)
    candidates = x[rng.choice(len(x), count, replace=False)].astype(np.float64)
    empty = Dictionary.empty(kernel_from_name(kernel, np.sqrt(d), np.ones(d)))
    dictionary = algebra.grown(empty, candidates, CENTRE_THRESHOLD, centres)
    coefficients, fitted = algebra.regressed(
        dictionary, x, targets, RIDGE, "the attribution critic", "Lower attribution_centres"
    )
    unexplained = np.square(targets - fitted)
    explained = np.array([max(0.0, 1.0 - float(unexplained[:, s].mean())) for s in sources])
    return Critic(x, dictionary, coefficients, sources, explained, len(x), count, targets)


def enumerates(players: int) -> bool:
    """Whether the game cme is enumerated in training: if that takes no more coalitions than sampling."""
    return 2**players <= CME_PERMUTATIONS * players


def product_values(device: str) -> ProductValues:
    """What computes a game's values by quadrature: the kernels in CUDA where the training is on an NVIDIA GPU."""
    if device != "cuda":
        return shapley_product
    return lambda game, nodes: shapley_product_cuda(game, nodes, "float64")[0]


def measure(
    critics: Halves, rule: AgreementGuidance, rng: np.random.Generator, values: ProductValues = shapley_product
) -> Measured:
    """What two critics agree on and what each says alone: means over states of phi_i(s; f) phi_i(s; g) and of squares,
    summed over a source's outputs. Logged is the mean absolute value of both critics' mean."""
    x = np.concatenate([critic.x for critic in critics])
    states, background = _drawn(x, rule, rng)
    one, other = (_attributions(critic, states, background, rule, rng, values) for critic in critics)
    logged = np.abs((one + other)[:, :, 0] / 2).mean(axis=0)
    return Measured(*agreement(one, other, critics[0]), explained(critics), logged)


def agreement(one: NDArray, other: NDArray, critic: Critic) -> tuple[NDArray, NDArray]:
    """(sources, d) both: means over n of products, and of squares, of what two critics say, (n, d, outputs) both."""
    products, squares = (each.mean(axis=0) for each in (one * other, (one**2 + other**2) / 2))
    return by_source(products, critic), by_source(squares, critic)


def by_source(each: NDArray, critic: Critic) -> NDArray[np.float64]:
    """(sources, d) from numbers for each feature and output (d, outputs)."""
    return np.stack([each[:, source].sum(axis=1) for source in critic.sources])


def explained(critics: Halves) -> NDArray[np.float64]:
    """(sources,): the share of each source's variance that critics explain, mean of both."""
    return np.mean([critic.explained for critic in critics], axis=0)


def measure_value(
    critic: Critic, rule: CriticGuidance, rng: np.random.Generator, values: ProductValues = shapley_product
) -> Measured:
    """The statistic of the Value Critic's own attributions, which nothing is checked against."""
    states, background = _drawn(critic.x, rule, rng)
    phi = _attributions(critic, states, background, rule, rng, values)
    means = STATISTICS[rule.phi_statistic](phi).sum(axis=2).mean(axis=0)[None]
    return Measured(means, means, critic.explained, np.abs(phi[:, :, 0]).mean(axis=0))


def _drawn(
    x: NDArray, rule: AgreementGuidance | CriticGuidance, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """States to explain and background states."""
    counts = rule.attribution_states, rule.attribution_background
    one, other = (x[rng.choice(len(x), min(count, len(x)), replace=False)].astype(np.float64) for count in counts)
    return one, other


def _attributions(
    critic: Critic,
    states: NDArray,
    background: NDArray,
    rule: AgreementGuidance | CriticGuidance,
    rng: np.random.Generator,
    values: ProductValues,
) -> NDArray[np.float64]:
    """Shapley values (T, d, outputs) of the critic in the game that the rule plays."""
    dictionary, d = critic.dictionary, states.shape[1]
    game = Game(states, background, dictionary.centres, critic.coefficients, dictionary.kernel)
    if isinstance(rule.game, CME):
        return cme_values(
            game,
            embedding=rule.game.cme_embedding,
            ridge=rule.game.cme_ridge,
            permutations=None if enumerates(d) else CME_PERMUTATIONS,
            rng=rng,
            approximation=rule.game.cme_approximation,
            rank=DEFAULT_RANK if rule.game.cme_rank is None else rule.game.cme_rank,
        )[0]
    if rule.phi_estimator == "permutation":
        return permutation_values(game, rng)
    return values(game, min(NODES, exact_nodes(d)))

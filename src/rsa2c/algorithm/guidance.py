"""From attributions to kernel weights, while training.

Weights come from how much each state feature matters to what is attributed (the value, and on request the
advantage direction or the policy). The default estimator measures this on an *attribution critic* of its own,
always unweighted, beside *shadow features*: permuted columns that cannot matter and so show the null level
that noise alone produces. Absolute and squared means are biased upwards by the critic's noise; without that
null they do not separate useful from useless features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.work import Attribution
from rsa2c.attribution.cme import cme_values
from rsa2c.attribution.game import Game
from rsa2c.attribution.kme import exact_nodes, shapley_product
from rsa2c.attribution.sampled import permutation_values
from rsa2c.attribution.settings import DEFAULT_RANK
from rsa2c.config import CME, CriticGuidance, ShadowGuidance
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.linalg import ridge_regression
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
SHADOW_FEATURES = 6
"""Permuted columns that show the null level: their mean is then known to about a quarter of itself."""
NULL_FACTOR = 2.0
"""Multiples of the null level taken off each importance: without it useless features keep weight."""
WEIGHT_POWER = 0.5
"""Weights follow importance to this power: 1 is in proportion, 0 treats all features above the null alike."""
SHORTEST_LENGTH_SCALE = 0.6
"""No feature's length scale falls below this many standard deviations: a finer kernel does not generalise."""
CME_PERMUTATIONS = 8
"""Orders of features sampled for the game cme, in antithetic pairs."""
STATISTICS: dict[str, Callable[[NDArray], Any]] = {"absolute": np.abs, "signed": np.asarray}


@dataclass(frozen=True, eq=False)
class Importances:
    """Moving averages of each feature's importance and of the shadows' null, one row per source."""

    moments: NDArray[np.float64]
    """(sources, d)"""
    null: NDArray[np.float64]
    """(sources,)"""
    explained: NDArray[np.float64]
    """(sources,): share of each source's variance that the attribution critic explains."""
    updates: int = 0

    @classmethod
    def none(cls, dimension: int) -> Importances:
        """Before anything was measured."""
        return cls(np.zeros((0, dimension)), np.zeros(0), np.zeros(0))

    def updated(self, moments: NDArray, null: NDArray, explained: NDArray, decay: float) -> Importances:
        """A plain mean over the first measurements, then an average that forgets with `decay`."""
        if self.updates == 0:
            return Importances(moments, null, explained, 1)
        keep = min(decay, self.updates / (self.updates + 1.0))
        return replace(
            self,
            moments=keep * self.moments + (1 - keep) * moments,
            null=keep * self.null + (1 - keep) * null,
            explained=keep * self.explained + (1 - keep) * explained,
            updates=self.updates + 1,
        )

    def above_null(self) -> NDArray[np.float64]:
        """(d,): root of what exceeds twice the null, each source normalised to sum one, summed over sources."""
        excess = np.sqrt(np.maximum(self.moments - NULL_FACTOR * self.null[:, None], 0.0))
        totals = excess.sum(axis=1, keepdims=True)
        return np.divide(excess, totals, out=np.zeros_like(excess), where=totals > 0).sum(axis=0)

    def weights(self, floor: float, length_scale: float) -> NDArray[np.float64]:
        """(d,): kernel weights w_i = f + (1 - f) d I_i^p / sum_l I_l^p, I the importance above the null.

        They sum to d, less what the shortest length scale cuts off. f = floor^e, where e is the share of the value's
        variance that is explained: what little explains the value says little about which features are useless.
        """
        importance = self.above_null()
        d = len(importance)
        if importance.sum() == 0:
            return np.ones(d)
        floor **= float(self.explained[0])
        importance = np.where(importance > 0, importance**WEIGHT_POWER, 0.0)
        weights = floor + (1 - floor) * d * importance / importance.sum()
        return np.minimum(weights, (length_scale / SHORTEST_LENGTH_SCALE) ** 2)


@dataclass(frozen=True, eq=False)
class Explained:
    """A kernel expansion to attribute, the normalised states to attribute it at, and which columns are one source."""

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


def value_critic(states: NDArray, value: RKHSFunction) -> Explained:
    """The Value Critic itself, as in the paper: no shadow features, hence no null."""
    return Explained(states, value.dictionary, value.coefficients, [slice(0, 1)], np.ones(1))


def shadow_critic(
    states: NDArray, targets: list[NDArray], kernel: str, centres: int, rng: np.random.Generator
) -> Explained:
    """Unweighted ridge regression of each source's targets (N, outputs) on the state and its shadow features.

    Targets are standardised, a source as a whole. Centres are chosen afresh, so nothing that guided before decides
    what is seen now, and a suppressed feature can come back.
    """
    shadows = [rng.permutation(states[:, j]) for j in rng.choice(states.shape[1], SHADOW_FEATURES)]
    x = np.column_stack([states, *shadows])
    width = x.shape[1]
    count = min(len(x), CANDIDATES * centres)
    candidates = x[rng.choice(len(x), count, replace=False)].astype(np.float64)
    empty = Dictionary.empty(kernel_from_name(kernel, np.sqrt(width), np.ones(width)))
    dictionary = empty.grown(candidates, CENTRE_THRESHOLD, centres)

    standardised = [target - target.mean(axis=0) for target in targets]
    standardised = [target / max(float(target.std()), 1e-12) for target in standardised]
    ends = np.cumsum([0] + [target.shape[1] for target in targets])
    sources = [slice(a, b) for a, b in pairwise(ends)]

    phi = dictionary.features(x.dtype)(x)
    targets_of_all = np.column_stack(standardised)
    remedy = "Lower attribution_centres"
    coefficients = ridge_regression(phi, targets_of_all, dictionary.gram, RIDGE, "the attribution critic", remedy)
    unexplained = np.square(targets_of_all - phi @ coefficients.astype(phi.dtype))
    explained = np.array([max(0.0, 1.0 - float(unexplained[:, s].mean())) for s in sources])
    return Explained(x, dictionary, coefficients, sources, explained, len(x), count, targets_of_all)


def enumerates(players: int) -> bool:
    """Whether the game cme is enumerated in training: if that takes no more coalitions than sampling."""
    return 2**players <= CME_PERMUTATIONS * players


def measure(
    explained: Explained, d: int, rule: ShadowGuidance | CriticGuidance, rng: np.random.Generator
) -> tuple[NDArray, NDArray, NDArray]:
    """Importance of the d state features to each source, (sources, d), each source's null, (sources,), and the mean
    absolute attribution of the first source, (d,), whatever the statistic that guides."""
    x, dictionary, coefficients = explained.x, explained.dictionary, explained.coefficients

    def drawn(count: int) -> NDArray[np.float64]:
        return x[rng.choice(len(x), min(count, len(x)), replace=False)].astype(np.float64)

    states, background = drawn(rule.attribution_states), drawn(rule.attribution_background)
    game = Game(states, background, dictionary.centres, coefficients, dictionary.kernel)
    if isinstance(rule.game, CME):
        phi = cme_values(
            game,
            embedding=rule.game.cme_embedding,
            ridge=rule.game.cme_ridge,
            permutations=None if enumerates(x.shape[1]) else CME_PERMUTATIONS,
            rng=rng,
            approximation=rule.game.cme_approximation,
            rank=DEFAULT_RANK if rule.game.cme_rank is None else rule.game.cme_rank,
        )[0]
    elif isinstance(rule, CriticGuidance) and rule.phi_estimator == "permutation":
        phi = permutation_values(game, rng)
    else:
        phi = shapley_product(game, min(NODES, exact_nodes(x.shape[1])))
    statistic = STATISTICS[rule.phi_statistic] if isinstance(rule, CriticGuidance) else np.square
    means = np.stack([statistic(phi[:, :, source]).sum(axis=2).mean(axis=0) for source in explained.sources])
    null = means[:, d:].mean(axis=1) if means.shape[1] > d else np.zeros(len(means))
    return means[:, :d], null, np.abs(phi[:, :d, 0]).mean(axis=0)

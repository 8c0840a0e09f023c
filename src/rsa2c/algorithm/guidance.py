"""From attributions to kernel weights, while training.

Weights come from how much each state feature matters to what is attributed (the value, and on request the
advantage direction or the policy). The default estimator measures this on an *attribution critic* of its own,
always unweighted, beside *shadow features*: permuted columns that cannot matter and so show the null level
that noise alone produces. Absolute and squared means are biased upwards by the critic's noise; without that
null they do not separate useful from useless features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.cme import cme_values
from rsa2c.attribution.kme import shapley_product
from rsa2c.attribution.sampled import permutation_values
from rsa2c.config import Config
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import kernel_from_name
from rsa2c.kernel.linalg import second_moment, solve_positive
from rsa2c.kernel.rkhs import RKHSFunction

CANDIDATES = 5
"""States among which each centre of the attribution critic is chosen."""
STATISTICS: dict[str, Callable[[NDArray], Any]] = {"squared": np.square, "absolute": np.abs, "signed": np.asarray}


@dataclass(frozen=True, eq=False)
class Importances:
    """Moving averages of each feature's importance and of the shadows' null, one row a source."""

    moments: NDArray[np.float64]
    """(sources, d)"""
    null: NDArray[np.float64]
    """(sources,)"""
    updates: int = 0

    @classmethod
    def none(cls, dimension: int) -> Importances:
        """Before anything was measured."""
        return cls(np.zeros((0, dimension)), np.zeros(0))

    def updated(self, moments: NDArray, null: NDArray, decay: float) -> Importances:
        """A plain mean over the first measurements, then an average that forgets with `decay`."""
        if self.updates == 0:
            return Importances(moments, null, 1)
        keep = min(decay, self.updates / (self.updates + 1.0))
        return replace(
            self,
            moments=keep * self.moments + (1 - keep) * moments,
            null=keep * self.null + (1 - keep) * null,
            updates=self.updates + 1,
        )

    def above_null(self, config: Config) -> NDArray[np.float64]:
        """(d,): what exceeds the null, each source normalised to sum one, summed over sources."""
        excess = np.maximum(self.moments - config.null_factor * self.null[:, None], 0.0)
        if config.phi_statistic == "squared":
            excess = np.sqrt(excess)
        totals = excess.sum(axis=1, keepdims=True)
        return np.divide(excess, totals, out=np.zeros_like(excess), where=totals > 0).sum(axis=0)

    def weights(self, config: Config, length_scale: float) -> NDArray[np.float64]:
        """(d,): kernel feature weights these importances ask for.

        With the rule null they sum to d, less what the shortest length scale cuts off.
        """
        if config.weight_rule == "ratio":
            return ratio_weights(self.moments.sum(axis=0), config)
        importance = self.above_null(config)
        d = len(importance)
        if importance.sum() == 0:
            return np.ones(d)
        importance = np.where(importance > 0, importance**config.weight_power, 0.0)
        weights = config.weight_floor + (1 - config.weight_floor) * d * importance / importance.sum()
        return np.minimum(weights, (length_scale / config.shortest_length_scale) ** 2)


def ratio_weights(phi: NDArray, config: Config) -> NDArray[np.float64]:
    """The released code's rule: phi floored and divided by its mean, rho = 1/sqrt(phi) clipped, length scales
    multiplied by (1 - kappa) + kappa rho, on request only those of the most deviating features."""
    relative = np.maximum(phi, config.weight_floor)
    rho = np.clip(1.0 / np.sqrt(relative / relative.mean()), 1.0 / config.ratio_range, config.ratio_range)
    if config.ratio_features is not None:
        unchanged = np.argsort(np.abs(np.log(rho)))[: max(len(rho) - config.ratio_features, 0)]
        rho[unchanged] = 1.0
    return 1.0 / ((1 - config.ratio_mix) + config.ratio_mix * rho) ** 2


@dataclass(frozen=True, eq=False)
class Explained:
    """A kernel expansion to attribute, the normalised states to attribute it at, and which columns are one source."""

    x: NDArray
    dictionary: Dictionary
    coefficients: NDArray[np.float64]
    sources: list[slice]


def value_critic(states: NDArray, value: RKHSFunction) -> Explained:
    """The Value Critic itself, as in the paper: no shadow features, hence no null."""
    return Explained(states, value.dictionary, value.coefficients, [slice(0, 1)])


def shadow_critic(states: NDArray, targets: list[NDArray], config: Config, rng: np.random.Generator) -> Explained:
    """Unweighted ridge regression of each source's targets (N, outputs) on the state and its shadow features.

    Targets are standardised, a source as a whole. Centres are chosen afresh, so nothing that guided before
    decides what is seen now, and a suppressed feature can come back.
    """
    n, d = states.shape
    rows = rng.choice(n, min(n, config.attribution_samples), replace=False)
    shadows = [rng.permutation(states[rows, j]) for j in rng.choice(d, config.shadow_features)]
    x = np.column_stack([states[rows], *shadows])
    width = x.shape[1]
    kernel = kernel_from_name(config.kernel, config.attribution_length_scale * np.sqrt(width), np.ones(width))
    count = min(len(x), CANDIDATES * config.attribution_centres)
    candidates = x[rng.choice(len(x), count, replace=False)].astype(np.float64)
    dictionary = Dictionary.empty(kernel).grown(candidates, 1e-2, config.attribution_centres)

    standardised = [target[rows] - target[rows].mean(axis=0) for target in targets]
    standardised = [target / max(float(target.std()), 1e-12) for target in standardised]
    ends = np.cumsum([0] + [target.shape[1] for target in targets])
    sources = [slice(a, b) for a, b in pairwise(ends)]

    phi = dictionary.features(x.dtype)(x)
    metric = second_moment(phi) + config.attribution_ridge * dictionary.gram
    right = (phi.T @ np.column_stack(standardised).astype(phi.dtype)).astype(np.float64) / len(x)
    coefficients = solve_positive(metric, right, "the attribution critic", "Raise attribution_ridge")
    return Explained(x, dictionary, coefficients, sources)


def enumerates(players: int, config: Config) -> bool:
    """Whether the game cme is enumerated in training: where that takes no more coalitions than sampling."""
    return 2**players <= config.cme_permutations * players


def measure(explained: Explained, d: int, config: Config, rng: np.random.Generator) -> tuple[NDArray, NDArray, NDArray]:
    """Importance of the d state features to each source, (sources, d), each source's null, (sources,), and the mean
    absolute attribution of the first source, (d,), whatever the statistic that guides."""
    x, dictionary, coefficients = explained.x, explained.dictionary, explained.coefficients

    def drawn(count: int) -> NDArray[np.float64]:
        return x[rng.choice(len(x), min(count, len(x)), replace=False)].astype(np.float64)

    states, background = drawn(config.attribution_states), drawn(config.attribution_background)
    game = (states, background, dictionary.centres, coefficients, dictionary.kernel)
    if config.attribution == "cme":
        phi = cme_values(
            *game,
            embedding=config.cme_embedding,
            ridge=config.cme_ridge,
            permutations=None if enumerates(x.shape[1], config) else config.cme_permutations,
            rng=rng,
        )[0]
    elif config.phi_estimator == "permutation":
        phi = permutation_values(*game, rng)
    else:
        exact = -(-x.shape[1] // 2)
        phi = shapley_product(*game, min(config.attribution_nodes or exact, exact))
    statistic = STATISTICS[config.phi_statistic]
    means = np.stack([statistic(phi[:, :, source]).sum(axis=2).mean(axis=0) for source in explained.sources])
    null = means[:, d:].mean(axis=1) if means.shape[1] > d else np.zeros(len(means))
    return means[:, :d], null, np.abs(phi[:, :d, 0]).mean(axis=0)

"""The observational coalition game: kernel ridge regression of what is not observed on what is.

    v(C) = sum_j eta_j a_C(s, j) sum_b omega_b(C, s) B_rest(b, j)

a_C multiplies the state's factors of the observed features, B_rest those of the background's other features, and
the weights omega come from the features in C alone. With A = K_C + n lambda I, p = A^-1 k_C(X, s), o = A^-1 1:

    intercept   omega = p + o (1 - 1^T p) / (1^T o)    ridge with an unpenalised constant (ordinary kriging)
    marginal    omega = 1/n + p - mean(p)              tends to the marginal far from the data
    paper       omega = p                              does not sum to one, so v shrinks and efficiency fails

Every product over features is a sum of log factors, which a feature joins or leaves by one addition. With features
phi (Nystroem or random Fourier) in place of K_C a coalition costs O(n r^2) instead of O(n^3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from rsa2c.attribution.game import Game

Array = NDArray[np.float64]
EMBEDDINGS = ("intercept", "marginal", "paper")
APPROXIMATIONS = ("nystroem", "fourier")


class Coalition(NamedTuple):
    """What a coalition's value is made of: sums of log factors (or of random-feature phases) over its features."""

    gram: Array  # (n, n), (n, r) for Nystroem or the phases (n, r): background against itself
    cross: Array  # (n, T), (r, T) for Nystroem or the phases (T, r): background against states
    observed: Array  # (T, q): states against centres, features in the coalition
    rest: Array  # (n, q): background against centres, features outside it


class ConditionalGame:
    """The game of T states among players; values are (T, m) for one coalition."""

    def __init__(
        self,
        game: Game,
        embedding: str = "intercept",
        ridge: float = 1e-3,
        approximation: str | None = None,
        rank: int = 64,
        rng: np.random.Generator | None = None,
    ) -> None:
        scales = game.kernel.scales
        self.kernel, self.coefficients, self.embedding = game.kernel, game.coefficients, embedding
        self.x, self.background, self.centres = (a * scales for a in (game.states, game.background, game.centres))
        d, n = self.x.shape[1], len(self.background)
        self.players = [np.array([i]) for i in range(d)] if game.players is None else list(game.players)
        self.approximation, self.damping = approximation, n * ridge
        if approximation is not None:
            rng = np.random.default_rng(0) if rng is None else rng
            self.rank = min(rank, n) if approximation == "nystroem" else rank
            if approximation == "nystroem":
                self.landmarks = self.background[rng.choice(n, self.rank, replace=False)]
            else:
                self.frequencies = game.kernel.frequencies((d, self.rank), rng)
                self.phase = rng.uniform(0, 2 * np.pi, self.rank)

    def _log_factor(self, left: Array, right: Array) -> Array:
        return self.kernel.log_factor(left[:, None] - right[None, :])

    def _log_factors(self, player: int) -> Coalition:
        """The sums of log factors, or of phases, that one player contributes."""
        total: list[Array] = []
        for i in self.players[player]:
            x, b, c = self.x[:, i], self.background[:, i], self.centres[:, i]
            if self.approximation == "fourier":
                own = [np.outer(b, self.frequencies[i]), np.outer(x, self.frequencies[i])]
            elif self.approximation == "nystroem":
                z = self.landmarks[:, i]
                own = [np.vstack([self._log_factor(z, z), self._log_factor(b, z)]), self._log_factor(z, x)]
            else:
                own = [self._log_factor(b, b), self._log_factor(b, x)]
            own += [self._log_factor(x, c), self._log_factor(b, c)]
            total = own if not total else [t + o for t, o in zip(total, own, strict=True)]
        return Coalition(*total)

    def empty(self) -> Coalition:
        """The empty coalition: the rest is everybody, and all other factors are one."""
        first = self._log_factors(0)
        rest = first.rest.copy()
        for player in range(1, len(self.players)):
            rest += self._log_factors(player).rest
        return Coalition(np.zeros_like(first.gram), np.zeros_like(first.cross), np.zeros_like(first.observed), rest)

    def join(self, coalition: Coalition, player: int) -> Coalition:
        """The coalition with this player added."""
        own = self._log_factors(player)
        return Coalition(
            coalition.gram + own.gram,
            coalition.cross + own.cross,
            coalition.observed + own.observed,
            coalition.rest - own.rest,
        )

    def value(self, coalition: Coalition) -> Array:
        """v(C) of every state, (T, m)."""
        weights = self.weights(coalition)
        unseen = weights.T @ np.exp(coalition.rest)
        unseen *= np.exp(coalition.observed)
        return np.asarray(unseen @ self.coefficients)

    def weights(self, coalition: Coalition) -> Array:
        """omega (n, T): how much each background state counts for each state, given the coalition's features."""
        if self.approximation is None:
            gram = np.exp(coalition.gram)
            gram[np.diag_indices_from(gram)] += self.damping
            targets = np.column_stack([np.exp(coalition.cross), np.ones(len(gram))])
            solved = cho_solve(cho_factor(gram, lower=True, overwrite_a=True), targets, overwrite_b=True)
            p, o = solved[:, :-1], solved[:, -1]
        else:
            p, o = self._low_rank(*self._features(coalition))
        if self.embedding == "paper":
            return np.asarray(p)
        if self.embedding == "marginal":
            return np.asarray(p + (1.0 - p.sum(axis=0)) / len(p))
        return np.asarray(p + np.outer(o, (1.0 - p.sum(axis=0)) / o.sum()))

    def _features(self, coalition: Coalition) -> tuple[Array, Array]:
        """Feature maps (n, r) of the background and (T, r) of the states whose inner products approximate k_C."""
        if self.approximation == "fourier":
            scale = np.sqrt(2.0 / self.rank)
            return scale * np.cos(coalition.gram + self.phase), scale * np.cos(coalition.cross + self.phase)
        among, towards = np.exp(coalition.gram[: self.rank]), np.exp(coalition.gram[self.rank :])
        values, vectors = eigh(among)
        # The pseudo-inverse: few features leave the landmarks' Gram matrix of low numerical rank.
        kept = values > values[-1] * self.rank * np.finfo(np.float64).eps
        whitening = vectors[:, kept] / np.sqrt(values[kept])
        return towards @ whitening, np.exp(coalition.cross).T @ whitening

    def _low_rank(self, background: Array, states: Array) -> tuple[Array, Array]:
        """p and o for A = Phi Phi^T + n lambda I, by the r x r system."""
        inner = background.T @ background
        inner[np.diag_indices_from(inner)] += self.damping
        factor = cho_factor(inner, lower=True)
        p = background @ cho_solve(factor, states.T)
        o = (1.0 - background @ cho_solve(factor, background.sum(axis=0))) / self.damping
        return p, o

"""One entry for both games: `explain` turns a kernel expansion, states and a background into an `Explanation`.

States and background are in raw units; the function maps them feature by feature to the kernel's coordinates, so the
game among raw features is the game among coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.explanation import Explanation
from rsa2c.attribution.game import Game
from rsa2c.attribution.inputs import Groups, checked, named_features, named_players, picked_outputs
from rsa2c.attribution.playing import Nodes, check_device, play_interventional, play_observational, settled_nodes
from rsa2c.attribution.settings import InterventionalSettings, ObservationalSettings, Settings, settings_of
from rsa2c.kernel.kernels import ProductKernel

Array = NDArray[np.float64]


class KernelFunction(Protocol):
    """What can be explained: f(s) = offset + sum_j k(coordinates(s), centre_j) coefficients_j, as `RKHSFunction`."""

    @property
    def kernel(self) -> ProductKernel: ...
    @property
    def centres(self) -> Array: ...
    @property
    def coefficients(self) -> Array: ...
    @property
    def offset(self) -> Array | None: ...
    @property
    def output_names(self) -> tuple[str, ...]: ...
    def coordinates(self, states: Array, /) -> Array: ...


def explain(
    function: KernelFunction,
    states: ArrayLike,
    background: ArrayLike,
    *,
    method: str = "kme",
    feature_names: Sequence[str] | None = None,
    outputs: Sequence[str | int] | None = None,
    groups: Groups | None = None,
    interactions: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Explanation:
    """Shapley values of every output at every state.

    `method="kme"` is the interventional game, computed by quadrature: exact with `nodes="exact"`; otherwise the error
    is estimated and kept under `tolerance` (`InterventionalSettings`). `device="cuda"` computes it on an NVIDIA GPU,
    with `precision="float32"` in half the time. `method="cme"` is the observational game: enumerated up to ten players,
    above that sampled with standard errors (`ObservationalSettings`: `tolerance`, `embedding`, `ridge`, `permutations`,
    `approximation`, `rank`, `rng`). An option of the other game is refused.

    `groups` maps names to features that join coalitions together, one player each; features in no group stay players
    of their own. `progress` shows a line with the time left; None shows it for long jobs at a terminal.
    """
    prepared = Prepared.of(function, background, method, feature_names, outputs, groups, interactions, options)
    return prepared(checked("states", states, function.kernel.dimension), progress)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A function, a background and checked settings: everything `explain` needs but the states."""

    function: KernelFunction
    background: Array
    """(B, d), in raw units."""
    settings: Settings
    players: list[NDArray[np.intp]] | None
    feature_names: tuple[str, ...]
    """Names of the players."""
    picked: list[int]
    interactions: bool
    nodes: Nodes | None = None
    """The number of nodes, where it was chosen beforehand; otherwise it is chosen among the states explained."""

    @classmethod
    def of(
        cls,
        function: KernelFunction,
        background: ArrayLike,
        method: str,
        feature_names: Sequence[str] | None,
        outputs: Sequence[str | int] | None,
        groups: Groups | None,
        interactions: bool,
        options: dict[str, Any],
    ) -> Prepared:
        settings = settings_of(method, options)
        check_device(settings, interactions)
        d = function.kernel.dimension
        players, names = named_players(groups, named_features(feature_names, d))
        picked = picked_outputs(outputs, function.output_names)
        return cls(function, checked("background", background, d), settings, players, names, picked, interactions)

    @property
    def method(self) -> str:
        """The game's name."""
        return "kme" if isinstance(self.settings, InterventionalSettings) else "cme"

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs explained."""
        return tuple(self.function.output_names[o] for o in self.picked)

    def game(self, states: Array) -> Game:
        """The game at raw states (T, d)."""
        x, b = self.function.coordinates(states), self.function.coordinates(self.background)
        coefficients = np.ascontiguousarray(self.function.coefficients[:, self.picked])
        return Game(x, b, self.function.centres, coefficients, self.function.kernel, self.players)

    def choose_nodes(self, states: Array) -> Nodes | None:
        """The number of nodes for these states, which `with_nodes` uses for others; none in the other game."""
        if isinstance(self.settings, ObservationalSettings):
            return None
        return settled_nodes(self.game(states), self.settings)

    def with_nodes(self, nodes: Nodes | None) -> Prepared:
        """The same with a number of nodes that was chosen beforehand."""
        return replace(self, nodes=nodes)

    def __call__(self, states: Array, progress: bool | None) -> Explanation:
        """The explanation of finite raw states (T, d)."""
        game, players, offset = self.game(states), self.players, self.function.offset
        mean = game.function(game.background).mean(axis=0)
        if isinstance(self.settings, InterventionalSettings):
            played = play_interventional(game, self.settings, mean, self.interactions, progress, self.nodes)
        else:
            played = play_observational(game, self.settings, self.interactions, progress)
        if played.gap is None:
            residual = played.values.sum(axis=1) - (game.function(game.states) - mean)
        else:
            residual = played.gap + mean
        pairs = played.interactions
        return Explanation(
            values=played.values,
            base_values=played.base + (0.0 if offset is None else offset[self.picked]),
            data=states if players is None else np.column_stack([states[:, p].mean(axis=1) for p in players]),
            feature_names=self.feature_names,
            output_names=self.output_names,
            efficiency_residual=residual,
            game=played.statement,
            std_error=played.std_error,
            interactions=None if pairs is None else _shap_convention(pairs, played.values),
        )


def _shap_convention(indices: Array, values: Array) -> Array:
    """Phi_ij = I_ij / 2 and Phi_ii = phi_i - sum_{j != i} Phi_ij: symmetric, rows add up to the values."""
    pairs = indices / 2
    i = np.arange(values.shape[1])
    pairs[:, i, i] = values - pairs.sum(axis=2)
    return pairs

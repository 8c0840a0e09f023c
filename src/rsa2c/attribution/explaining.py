"""One entry for both games: `explain` turns a kernel expansion, states and a background into an `Explanation`.

States and background are in raw units; the function's normaliser maps them feature by feature to kernel inputs, so the
game among raw features is the game among normalised ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.cme import DEFAULT_PERMUTATIONS, ENUMERATE, choose_ridge, cme_interactions, cme_values
from rsa2c.attribution.embedding import APPROXIMATIONS, EMBEDDINGS
from rsa2c.attribution.explanation import Explanation
from rsa2c.attribution.inputs import Groups, checked, named_features, named_players, one_of, picked_outputs, positive
from rsa2c.attribution.kme import choose_nodes, exact_nodes, interaction_product, shapley_product
from rsa2c.attribution.progress import reporter
from rsa2c.errors import ConfigError

if TYPE_CHECKING:
    from rsa2c.kernel.kernels import ProductKernel

Array = NDArray[np.float64]
METHODS = ("kme", "cme")
DEFAULT_TOLERANCE = 1e-9
STATE_BYTES = 60_000_000
LONG_GAME = 10**10


class KernelFunction(Protocol):
    """What can be explained: f(s) = offset + sum_j k(normaliser(s), centre_j) coefficients_j, as `RKHSFunction`."""

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
    @property
    def normaliser(self) -> Any: ...


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
    tolerance: float | None = None,
    nodes: int | str | None = None,
    embedding: str = "intercept",
    ridge: float | str = 1e-3,
    permutations: int | None = None,
    approximation: str | None = None,
    rank: int = 64,
    rng: np.random.Generator | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Shapley values of every output at every state.

    `method="kme"`, interventional: exact. Quadrature nodes follow from `tolerance` (relative to each output's largest
    value, 1e-9 unless given), or are a number, or `"exact"` for ceil(d/2).

    `method="cme"`, observational: enumerated up to ten players, above that sampled with standard errors by
    `permutations` orders, or until `tolerance` is reached, drawn from `rng` (seeded with 0 unless given);
    `embedding`, `ridge` (a number, or `"auto"` to choose it by held-out error), `approximation` and `rank` as
    in `embedding.py`.

    `groups` maps names to features that join coalitions together, one player each; features in no group stay players
    of their own. `progress` shows a line with the time left; None shows it for long jobs at a terminal.
    """
    one_of("method", method, METHODS)
    one_of("embedding", embedding, EMBEDDINGS)
    if approximation is not None:
        one_of("approximation", approximation, APPROXIMATIONS)
    d = function.kernel.dimension
    states, background = checked("states", states, d), checked("background", background, d)
    names = named_features(feature_names, d)
    players, player_names = named_players(groups, names)
    picked = picked_outputs(outputs, function.output_names)
    rng = np.random.default_rng(0) if rng is None else rng
    x, b = function.normaliser(states), function.normaliser(background)
    coefficients = np.ascontiguousarray(function.coefficients[:, picked])
    offset = np.zeros(len(picked)) if function.offset is None else function.offset[picked]
    parts = (x, b, function.centres, coefficients, function.kernel)
    at, average = _evaluated(x, *parts[2:]), _evaluated(b, *parts[2:]).mean(axis=0)
    if method == "kme":
        values, pairs, game = _kme(parts, players, tolerance, nodes, interactions, progress)
        error, base = None, np.broadcast_to(average, at.shape)
    else:
        settings = {"embedding": embedding, "approximation": approximation, "rank": rank}
        values, error, base, pairs, game = _cme(
            parts, players, tolerance, ridge, permutations, interactions, rng, progress, settings
        )
    if pairs is not None:
        pairs = _shap_convention(pairs, values)
    data = states if players is None else np.column_stack([states[:, p].mean(axis=1) for p in players])
    return Explanation(
        values=values,
        base_values=base + offset,
        data=data,
        feature_names=player_names,
        output_names=tuple(function.output_names[o] for o in picked),
        efficiency_residual=values.sum(axis=1) - (at - average),
        game=game,
        std_error=error,
        interactions=pairs,
    )


def _kme(
    parts: tuple[Array, Array, Array, Array, ProductKernel],
    players: list[NDArray[np.intp]] | None,
    tolerance: float | None,
    nodes: int | str | None,
    interactions: bool,
    show: bool | None,
) -> tuple[Array, Array | None, str]:
    x, background, centres, _, _ = parts
    d = x.shape[1] if players is None else len(players)
    most, error, word = exact_nodes(d), 0.0, "exact"
    if nodes is None:
        tolerance = DEFAULT_TOLERANCE if tolerance is None else tolerance
        positive("tolerance", tolerance)
        count, error = choose_nodes(*parts, tolerance, players)
        word = "exact" if count == most else f"exact to {tolerance:.0e} (two more nodes change {error:.0e})"
    elif nodes == "exact":
        count = most
    elif isinstance(nodes, int | np.integer) and nodes > 0:
        count = int(nodes)
        word = "exact" if count >= most else "precision not checked"
    else:
        raise ConfigError(f"nodes must be a positive number, 'exact' or None, got {nodes!r}.")
    work = len(x) * len(centres) * len(background) * d * count * (d if interactions else 1)
    estimate = 0.0
    if work > LONG_GAME:
        started = time.perf_counter()
        shapley_product(x[:1], *parts[1:], count, players)
        estimate = (time.perf_counter() - started) * len(x) * (d if interactions else 1)
    report = reporter(show, f"KME values of {len(x)} states, {numba.get_num_threads()} threads", estimate)
    values = shapley_product(*parts, count, players, (lambda done: report(done / 2)) if interactions else report)
    pairs = None
    if interactions:
        # Interactions vary a little more than values do, hence two more nodes where they are not exact anyway.
        enough = max(1, min(exact_nodes(d - 1), count + 2))
        pairs = interaction_product(*parts, enough, players, lambda done: report(0.5 + done / 2))
    return values, pairs, f"KME, interventional, {len(background)} background states, nodes={count}, {word}"


def _cme(
    parts: tuple[Array, Array, Array, Array, ProductKernel],
    players: list[NDArray[np.intp]] | None,
    tolerance: float | None,
    ridge: float | str,
    permutations: int | None,
    interactions: bool,
    rng: np.random.Generator | None,
    show: bool | None,
    settings: dict[str, Any],
) -> tuple[Array, Array | None, Array, Array | None, str]:
    x, background, centres, coefficients, kernel = parts
    if permutations is not None and permutations < 4:
        raise ConfigError(
            f"permutations must be at least 4, two antithetic pairs, for a standard error; got {permutations}."
        )
    if tolerance is not None:
        positive("tolerance", tolerance)
    if settings["rank"] < 1:
        raise ConfigError(f"rank must be at least 1, got {settings['rank']}.")
    if isinstance(ridge, str):
        one_of("ridge", ridge, ("auto",))
        chosen = choose_ridge(background, centres, coefficients, kernel, settings["embedding"])
        ridge_word = f"ridge={chosen:g} by held-out error"
    else:
        positive("ridge", ridge)
        chosen, ridge_word = float(ridge), f"ridge={ridge:g}"
    count = x.shape[1] if players is None else len(players)
    enumerated = permutations is None and count <= ENUMERATE
    if interactions and not enumerated:
        raise ConfigError(
            f"CME interactions are enumerated, for at most {ENUMERATE} players; there are {count}"
            f"{'' if permutations is None else ' and permutations is set'}. Use groups, or method='kme'."
        )
    blocks = _state_blocks(len(x), len(centres) + 2 * len(background))
    orders = DEFAULT_PERMUTATIONS if permutations is None else permutations
    coalitions = 2**count if enumerated else orders * count
    started = time.perf_counter()
    cme_values(x[blocks[0]], *parts[1:], players=[np.arange(x.shape[1])], ridge=chosen, rng=rng, **settings)
    estimate = (time.perf_counter() - started) / 2 * coalitions * len(blocks)
    report = reporter(show, f"CME values of {len(x)} states", estimate)
    results, pairs = [], []
    for number, block in enumerate(blocks):

        def partly(done: float, number: int = number) -> None:
            report((number + done) / len(blocks))

        options: dict[str, Any] = {"players": players, "ridge": chosen, "progress": partly, "rng": rng, **settings}
        if interactions:
            *result, pair = cme_interactions(x[block], *parts[1:], **options)
            pairs.append(pair)
        else:
            result = list(cme_values(x[block], *parts[1:], permutations=permutations, tolerance=tolerance, **options))
        results.append(result)
    values, base = (np.concatenate([r[i] for r in results]) for i in (0, 2))
    error = None if enumerated else np.concatenate([r[1] for r in results])
    how = "enumerated" if enumerated else "sampled in antithetic pairs of permutations"
    extra = "" if settings["approximation"] is None else f", {settings['approximation']} rank {settings['rank']}"
    game = (
        f"CME, observational, {settings['embedding']} embedding, {len(background)} background states, "
        f"{ridge_word}{extra}, {how}"
    )
    return values, error, base, np.concatenate(pairs) if pairs else None, game


def _evaluated(x: Array, centres: Array, coefficients: Array, kernel: ProductKernel) -> Array:
    """f without its offset, (T, m), in blocks of states."""
    size = max(1, STATE_BYTES // (16 * max(1, len(centres))))
    return np.concatenate([kernel(x[t : t + size], centres) @ coefficients for t in range(0, len(x), size)])


def _shap_convention(indices: Array, values: Array) -> Array:
    """Phi_ij = I_ij / 2 and Phi_ii = phi_i - sum_{j != i} Phi_ij: symmetric, rows add up to the values."""
    pairs = indices / 2
    i = np.arange(values.shape[1])
    pairs[:, i, i] = values - pairs.sum(axis=2)
    return pairs


def _state_blocks(states: int, width: int) -> list[slice]:
    """Slices of states such that a dozen arrays (states, width) stay within `STATE_BYTES`."""
    size = max(1, STATE_BYTES // (12 * 8 * width))
    return [slice(t, min(t + size, states)) for t in range(0, states, size)]

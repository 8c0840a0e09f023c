"""Playing a game: its values at all states, with the progress line, and how they were computed, in words."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from rsa2c.attribution.cme import DEFAULT_PERMUTATIONS, ENUMERATE, choose_ridge, cme_interactions, cme_values
from rsa2c.attribution.cuda import FEW_PLAYERS, device, shapley_product_cuda
from rsa2c.attribution.game import Game, spread
from rsa2c.attribution.kme import choose_nodes, exact_nodes, interaction_product, shapley_product
from rsa2c.attribution.progress import Progress, reporter
from rsa2c.attribution.settings import DEFAULT_RANK, InterventionalSettings, ObservationalSettings, Settings
from rsa2c.errors import ConfigError

Array = NDArray[np.float64]
STATE_BYTES = 60_000_000
LONG_GAME = 10**10
CHOICE_STATES = 2048
"""Of the states that go to a GPU or come from a file, those among which the number of nodes is chosen."""


class Nodes(NamedTuple):
    """How many quadrature nodes, and how precise the values then are, in words."""

    number: int
    precision: str


class Played(NamedTuple):
    """A game's result; base (T, m) is without the function's offset, and `statement` says how it was computed."""

    values: Array
    base: Array
    std_error: Array | None
    interactions: Array | None
    statement: str
    gap: Array | None = None
    """(T, m): the values' sums over players minus the function at the states, where computed on the way."""


def play_interventional(
    game: Game,
    settings: InterventionalSettings,
    mean: Array,
    interactions: bool,
    show: bool | None,
    nodes: Nodes | None,
) -> Played:
    """The game `kme`; `mean` (m,) is the function's mean over the background, from which all its values start."""
    if settings.device == "cuda":
        return _on_gpu(game, settings, mean, show, nodes)
    count, precision = nodes or settled_nodes(game, settings)
    d, states = game.player_count, len(game.states)
    times = d if interactions else 1
    estimate = 0.0
    if states * len(game.centres) * len(game.background) * d * count * times > LONG_GAME:
        started = time.perf_counter()
        shapley_product(game.at(game.states[:1]), count)
        estimate = (time.perf_counter() - started) * states * times
    report = reporter(show, f"KME values of {states} states, {numba.get_num_threads()} threads", estimate)
    values = shapley_product(game, count, (lambda done: report(done / 2)) if interactions else report)
    pairs = None
    if interactions:
        # Interactions vary a little more than values do, hence two more nodes where they are not exact anyway.
        enough = max(1, min(exact_nodes(d - 1), count + 2))
        pairs = interaction_product(game, enough, lambda done: report(0.5 + done / 2))
    base = np.broadcast_to(mean, (states, game.outputs))
    statement = f"KME, interventional, {len(game.background)} background states, nodes={count}, {precision}"
    return Played(values, base, None, pairs, statement)


def check_device(settings: Settings, interactions: bool) -> None:
    """Refuse a GPU that is not there, and what is not computed on one."""
    if isinstance(settings, InterventionalSettings) and settings.device == "cuda":
        if interactions:
            raise ConfigError(
                "interactions are computed on the processor: leave out device='cuda', or interactions=True."
            )
        device()


def _on_gpu(
    game: Game, settings: InterventionalSettings, mean: Array, show: bool | None, nodes: Nodes | None
) -> Played:
    states = len(game.states)
    if game.player_count <= FEW_PLAYERS:
        count, how = exact_nodes(game.player_count), "all coalitions, exact"
    else:
        count, precision = nodes or settled_nodes(game.at(game.states[spread(states, CHOICE_STATES)]), settings)
        how = f"nodes={count}, {precision}, {settings.precision}"
    report = reporter(show, f"KME values of {states} states, GPU", 0.0)
    values, gap = shapley_product_cuda(game, count, settings.precision, report)
    base = np.broadcast_to(mean, (states, game.outputs))
    statement = f"KME, interventional, {len(game.background)} background states, {how}"
    return Played(values, base, None, None, statement, gap)


def settled_nodes(game: Game, settings: InterventionalSettings) -> Nodes:
    """The number of nodes that was asked for, or the one that the tolerance needs at the states of the game."""
    most = exact_nodes(game.player_count)
    if settings.nodes is None:
        count, error = choose_nodes(game, settings.aim)
        return Nodes(count, "exact" if count == most else f"estimated error {error:.0e} (tolerance {settings.aim:.0e})")
    count = most if settings.nodes == "exact" else int(settings.nodes)
    return Nodes(count, "exact" if count >= most else "error not estimated")


def play_observational(game: Game, settings: ObservationalSettings, interactions: bool, show: bool | None) -> Played:
    ridge, ridge_word = _ridge(game, settings)
    enumerated = settings.permutations is None and game.player_count <= ENUMERATE
    if interactions and not enumerated:
        raise ConfigError(
            f"CME interactions are enumerated, for at most {ENUMERATE} players; there are {game.player_count}"
            f"{'' if settings.permutations is None else ' and permutations is set'}. Use groups, or method='kme'."
        )
    options: dict[str, Any] = {
        "embedding": settings.embedding,
        "ridge": ridge,
        "approximation": settings.approximation,
        "rank": DEFAULT_RANK if settings.rank is None else settings.rank,
    }
    drawing = np.random.default_rng(0) if settings.rng is None else settings.rng
    seed = int(drawing.integers(2**63))  # every block of states is explained with the same draws
    blocks = [game.at(game.states[block]) for block in _state_blocks(game)]
    orders = DEFAULT_PERMUTATIONS if settings.permutations is None else settings.permutations
    coalitions = 2**game.player_count if enumerated else orders * game.player_count
    started = time.perf_counter()
    everybody = [np.arange(game.states.shape[1])]
    cme_values(replace(blocks[0], players=everybody), **options, rng=np.random.default_rng(seed))
    estimate = (time.perf_counter() - started) / 2 * coalitions * len(blocks)
    report = reporter(show, f"CME values of {len(game.states)} states", estimate)
    if not interactions:
        options |= {"permutations": settings.permutations, "tolerance": settings.tolerance}
    parts = []
    for number, block in enumerate(blocks):
        play = cme_interactions if interactions else cme_values
        rng = np.random.default_rng(seed)
        parts.append(play(block, **options, rng=rng, progress=_part(report, number, len(blocks))))
    columns = list(zip(*parts, strict=True))
    how = "enumerated" if enumerated else "sampled in antithetic pairs of permutations"
    extra = "" if settings.approximation is None else f", {settings.approximation} rank {options['rank']}"
    return Played(
        np.concatenate(columns[0]),
        np.concatenate(columns[2]),
        None if enumerated else np.concatenate(columns[1]),
        np.concatenate(columns[4]) if interactions else None,
        f"CME, observational, {settings.embedding} embedding, {len(game.background)} background states, "
        f"{ridge_word}{extra}, {how}",
    )


def _ridge(game: Game, settings: ObservationalSettings) -> tuple[float, str]:
    if isinstance(settings.ridge, str):
        chosen = choose_ridge(game, settings.embedding)
        return chosen, f"ridge={chosen:g} by held-out error"
    return float(settings.ridge), f"ridge={settings.ridge:g}"


def _part(report: Progress, number: int, parts: int) -> Progress:
    """Progress of one part of several as progress of the whole."""
    return lambda done: report((number + done) / parts)


def _state_blocks(game: Game) -> list[slice]:
    """Slices of states such that a dozen arrays (states, centres and twice the background) stay in `STATE_BYTES`."""
    states, width = len(game.states), len(game.centres) + 2 * len(game.background)
    size = max(1, STATE_BYTES // (12 * 8 * width))
    return [slice(t, min(t + size, states)) for t in range(0, states, size)]

"""What an epoch costs: floating-point operations phase by phase, and memory, from sizes and settings alone.

An addition, a multiplication, a division, a square root and an elementary function are one operation each;
comparisons, copies and conversions none, and neither is what the environment computes. Phi^T Phi counts half, because
BLAS computes one triangle. The terms follow the code of `learner.py` in its order, small ones left out where they do
not grow with the dictionary; the tests count the operations of real epochs and hold these formulas to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rsa2c.algorithm.guidance import enumerates
from rsa2c.algorithm.learner import HELD_OUT, PHASES, REPROJECTION_STATES
from rsa2c.algorithm.schedules import Sizes
from rsa2c.attribution.simd import LANES
from rsa2c.config import Config


@dataclass(frozen=True)
class Basis:
    """A dictionary of so many states, and whether its Gram matrix and Cholesky factor are there already."""

    states: int
    gram: bool = True
    factor: bool = True


@dataclass(frozen=True)
class Growth:
    """A dictionary offered candidates: `admitted` of them joined, after `removed` states had to leave."""

    basis: Basis
    outputs: int
    candidates: int
    admitted: int
    removed: int = 0


@dataclass(frozen=True)
class Attribution:
    """Shapley values of an expansion on so many centres; `samples` and `candidates` fitted it, zero if given."""

    centres: int
    features: int
    outputs: int
    samples: int = 0
    candidates: int = 0


@dataclass(frozen=True)
class Reprojection:
    """A function moved to new feature weights: of `old` states `kept` stay, `states` is what it has afterwards."""

    old: int
    kept: int
    states: int
    points: int
    outputs: int
    held_out: int = 0


@dataclass(frozen=True)
class Epoch:
    """The sizes of one epoch: N transitions on N + S points, d features, m action dimensions, and what happened."""

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
    growths: tuple[Growth, ...] = ()
    attribution: Attribution | None = None
    reprojections: tuple[Reprojection, ...] = ()


def flops(config: Config, epoch: Epoch) -> dict[str, float]:
    """Operations of each phase of an epoch."""
    d, m = epoch.features, epoch.outputs
    steps, per_step = Sizes.of(config).epoch_steps, 2 * epoch.policy.states * m + 5 * m + 2 * d
    counts = {
        "collect": _kernel(config, steps, epoch.policy.states, d) + steps * per_step,
        "admit": sum(_growth(config, growth, d) for growth in epoch.growths),
        "value": _value(config, epoch),
        "attribute": 0.0,
        "advantage": _advantage(config, epoch),
        "actor": _actor(config, epoch),
    }
    if epoch.attribution is not None:
        counts["attribute"] += _attribution(config, epoch.attribution)
    if epoch.reprojections:
        q, held = epoch.reprojections[0].old, epoch.reprojections[0].held_out
        counts["attribute"] += _kernel(config, held, q, d) + held * (2 * q + 1) * m
        counts["attribute"] += sum(_reprojection(config, moved, d) for moved in epoch.reprojections)
    return {phase: float(counts[phase]) for phase in PHASES}


def typical_epoch(config: Config, features: int, outputs: int, states: int) -> Epoch:
    """An epoch of a settled configuration with dictionaries of `states` states, in which everything that can be due is.

    Below capacity candidates are screened and none is admitted; at capacity the most are replaced. Weights change once.
    """
    sizes = Sizes.of(config)
    n = sizes.epoch_steps
    candidates = min(config.admission_candidates, n)
    full = states >= sizes.capacity and config.replacement != "none"
    replaced = min(config.replacement_limit, states) if full else 0
    value = Basis(states, gram=not full) if config.baseline == "value" else None
    owners = (outputs,) if value is None else (outputs, 1)
    growth = Growth(Basis(states, factor=not full), outputs, candidates, replaced, replaced)
    offered = full or states < sizes.capacity
    growths = tuple(replace(growth, outputs=owner) for owner in owners) if offered else ()
    epoch = Epoch(n, n + sizes.n_envs, features, outputs, Basis(states), Basis(states, gram=not full), value, growths)
    if config.attribution in ("none", "uniform"):
        return epoch
    drawn, held = min(REPROJECTION_STATES * sizes.capacity, n), held_out(config, n)
    moved = Reprojection(states, states, states, states + drawn - held, outputs, held)
    if config.attribution_critic == "value":
        explained = Attribution(states, features, 1)
    else:
        samples = min(n, config.attribution_samples)
        pool = min(samples, 5 * config.attribution_centres)
        sources = {"value": 1, "value+advantage": 1 + outputs, "value+policy": 1 + outputs}[config.guide]
        width = features + config.shadow_features
        explained = Attribution(config.attribution_centres, width, sources, samples, pool)
    return replace(epoch, attribution=explained, reprojections=(moved,))


def held_out(config: Config, transitions: int) -> int:
    """States on which a change of weights is judged."""
    return math.ceil(min(REPROJECTION_STATES * Sizes.of(config).capacity, transitions) * HELD_OUT)


def mean_flops(config: Config, features: int, outputs: int, states: int) -> dict[str, float]:
    """Operations of each phase an epoch, on average: of `typical_epoch`, each thing as often as it is due."""
    counts = flops(config, typical_epoch(config, features, outputs, states))
    full = states >= Sizes.of(config).capacity
    counts["admit"] /= config.replacement_every if full else config.admission_every
    counts["attribute"] /= config.attribution_every
    return counts


def peak_bytes(config: Config, epoch: Epoch) -> dict[str, float]:
    """Largest memory of arrays in each phase: the batch, the dictionaries' matrices, and what the phase needs.

    An epoch keeps the dictionaries it began with until it is whole, beside those it makes.
    """
    single = 4 if config.precision == "float32" else 8
    n, points, d, m = epoch.transitions, epoch.points, epoch.features, epoch.outputs
    q, v = epoch.actor.states, epoch.value.states if epoch.value else 0
    batch = single * (points * d + 2 * n * m) + 8 * 2 * n
    grams = 8 * (q * q + v * v)
    screened, changed = bool(epoch.growths), any(growth.admitted for growth in epoch.growths)
    held = batch + grams * (1 + screened + changed)
    # Traces, differences and features with a constant beside the features themselves; sweeps need the features alone.
    copies = 4 if config.value_fit == "closed" else 1
    admit = max((g.candidates * (3 * g.basis.states + config.admission_limit) for g in epoch.growths), default=0)
    attribute, critic = 0, 0
    for moved in epoch.reprojections:
        arrays = moved.points * (2 * moved.states + moved.old) if config.reproject else 2 * moved.held_out * moved.old
        attribute = max(attribute, arrays)
    if (explained := epoch.attribution) is not None:
        critic = explained.samples * (explained.centres + 2 * explained.features) * single
        if config.phi_estimator == "permutation":
            states = config.attribution_states + 2 * config.attribution_background
            attribute = max(attribute, states * explained.centres * explained.features)
    return {
        "collect": 2 * batch + grams,
        "admit": held + 8 * admit,
        "value": held + single * copies * points * (v + 1) + 8 * 2 * v * v,
        "attribute": held + max(8 * attribute, critic),
        "advantage": held + single * n * (q + d) + 8 * 3 * q * q,
        "actor": held + 8 * q * q,
    }


def _kernel(config: Config, n: int, q: int, d: int) -> int:
    """k(x, y) of n states and q centres."""
    if config.kernel == "laplace":
        return n * q * (3 * d + 1) + (n + q) * d
    return n * q * (2 * d + 3) + (3 * d + 1) * (n + q)


def _cholesky(n: int) -> float:
    return n**3 / 3 + n**2 / 2 + n / 6


def _triangular_inverse(n: int) -> float:
    return n**3 / 3 + 2 * n / 3


def _lu(n: int, right: int) -> float:
    """Factorisation of an n x n matrix and solution for so many right sides."""
    return 2 * n**3 / 3 - n**2 / 2 - n / 6 + right * (2 * n**2 - n)


def _moment(n: int, q: int) -> int:
    """Phi^T Phi / N."""
    return n * q * (q + 1) + q * q


def _ridge_solve(config: Config, q: int, right: int, d: int, gram: bool) -> float:
    """Cholesky solution for a second moment plus ridge times the Gram matrix."""
    return (0 if gram else _kernel(config, q, q, d)) + 2 * q * q + _cholesky(q) + 2 * q * q * right


def _factor(config: Config, basis: Basis, d: int) -> float:
    """Gram matrix, jitter and factor of a dictionary, as far as they are missing."""
    if basis.factor or not basis.states:
        return 0.0
    q = basis.states
    return (0 if basis.gram else _kernel(config, q, q, d)) + 2 * q * q + _cholesky(q)


def _pivots(config: Config, n: int, basis: Basis, admitted: int, d: int) -> float:
    """Greedy pivoted Cholesky of n candidates on a dictionary."""
    q = basis.states
    count = _factor(config, basis, d) + n
    if q:
        count += _kernel(config, n, q, d) + n * q * q + 2 * n * q
    rows = admitted * q + admitted * (admitted - 1) // 2
    return count + admitted * (_kernel(config, n, 1, d) + 4 * n) + 2 * n * rows


def _growth(config: Config, growth: Growth, d: int) -> float:
    q, n, r, m = growth.basis.states, growth.candidates, growth.removed, growth.outputs
    if not r:
        return _pivots(config, n, growth.basis, growth.admitted, d)
    inverse = _triangular_inverse(q) + q * q * (q + 1)
    count = _pivots(config, n, growth.basis, r, d)
    if config.replacement == "removal-cost":
        count += _kernel(config, n, q, d) + _moment(n, q) + inverse + 4 * q**3
        count += r * (6 * q * q + 4 * q * m + 4 * q)
    count += inverse + _lu(r, m) + (2 * r + 1) * (q - r) * m
    return count + _pivots(config, n, Basis(q - r, gram=False, factor=False), growth.admitted, d)


def _value(config: Config, epoch: Epoch) -> float:
    n, d = epoch.transitions, epoch.features
    if epoch.value is None:
        return 2.0 * n
    q = epoch.value.states
    count: float = _kernel(config, epoch.points, q, d) + epoch.points * (2 * q + 1) + 10 * n
    if config.value_fit == "closed":
        size = q + 1
        gram = 0 if epoch.value.gram else _kernel(config, q, q, d)
        return count + gram + n * size * (4 + 2 * size + 2) + 4 * q * q + _lu(size, 1)
    if config.value_fit == "td":
        return count + config.value_sweeps * n * (9 * q + 4)
    return count + 2 * epoch.points * q + 2 * n + config.value_sweeps * n * (7 * q + 4)


def _attribution(config: Config, explained: Attribution) -> float:
    k, w, o = explained.centres, explained.features, explained.outputs
    count = 0.0
    if explained.samples:
        n = explained.samples
        count += _pivots(config, explained.candidates, Basis(0), k, w) + _kernel(config, n, k, w) + _moment(n, k)
        count += n * o * (2 * k + 16) + _ridge_solve(config, k, o, w, gram=False)
    states, background = config.attribution_states, config.attribution_background
    if config.attribution == "cme":
        return count + _cme(config, explained)
    if config.phi_estimator == "permutation":
        steps = k * w * (5 * (states + background) + 2 * background + 1 + states * (2 + 2 * o))
        return count + steps + states * (k * (1 + 2 * o) + w * o)
    exact = -(-w // 2)
    return count + shapley_flops(
        states, background, k, w, o, min(config.attribution_nodes or exact, exact), config.kernel == "rbf"
    )


def shapley_flops(
    states: int, background: int, centres: int, players: int, outputs: int, nodes: int, gaussian: bool = True
) -> float:
    """Exact values of the product game (`attribution/games.py`), without padding and without skipped products.

    A node costs two operations a factor each way and two to add up, a group of four or two nodes two more. A factor is
    a difference, its size, a sum and an exponential, and the background's are scaled.
    """
    nodes += nodes % 2
    groups = nodes // 4 + (nodes % 4) // 2
    pair = players * (6 * nodes + 2 * groups) + 3 * nodes - groups
    factor = 5 if gaussian else 4
    once = players * (factor * (states + background) + background + states * (nodes + LANES + 2))
    return float(centres * (states * background * pair + once + 2 * outputs * states * players))


def _cme(config: Config, explained: Attribution) -> float:
    """The observational game: a regression for each coalition that is new."""
    k, w, o = explained.centres, explained.features, explained.outputs
    states, n = config.attribution_states, config.attribution_background
    pairs = (config.cme_permutations + 1) // 2
    tables = n * n + n * states + states * k + n * k
    joins, values, update = 2 * pairs * w, 2 + 2 * pairs * (w - 1), 14 * pairs * w * states * o
    if enumerates(w, config):
        joins, values, update = 2**w - 1, 2**w, 3 * w * 2 ** (w - 1) * states * o
    value = tables + n + states * k + _cholesky(n) + 2 * n * n * (states + 1) + 2 * states * k * (n + o)
    if config.cme_embedding != "paper":
        value += 3 * n * states
    return w * 3 * tables + (w - 1) * n * k + joins * 4 * tables + values * value + update


def _reprojection(config: Config, moved: Reprojection, d: int) -> float:
    m, held = moved.outputs, moved.held_out
    at_held_out = _kernel(config, held, moved.states, d) + held * (2 * moved.states * m + 3 * m)
    if not config.reproject:
        return at_held_out
    count = _pivots(config, moved.old, Basis(0), moved.kept, d)
    refill = min(moved.points, config.admission_candidates)
    kept = Basis(moved.kept, gram=False, factor=False)
    if moved.kept < Sizes.of(config).capacity:
        count += _pivots(config, refill, kept, moved.states - moved.kept, d)
    x, q = moved.points, moved.states
    count += _kernel(config, x, q, d) + _kernel(config, x, moved.old, d) + 2 * x * m * (2 * q + moved.old) + x * m
    return count + _moment(x, q) + _ridge_solve(config, q, m, d, gram=False) + at_held_out


def _advantage(config: Config, epoch: Epoch) -> float:
    n, d, m, q = epoch.transitions, epoch.features, epoch.outputs, epoch.actor.states
    gradient = _lu(m, n) + n * m + 2 * n * q * m
    count = _kernel(config, n, q, d) + _moment(n, q) + gradient + n * (m + 7) + 4 * q * m * m + q * q
    count += _ridge_solve(config, q, m, d, epoch.actor.gram)
    if config.smooth_advantage:
        count += gradient + 2 * n * q * m + _lu(m, n) + 2 * n * m
    return count


def _actor(config: Config, epoch: Epoch) -> float:
    m, q = epoch.outputs, epoch.actor.states
    kl = 2 * q * q * m + 2 * q * m * m + _lu(m, m)
    count = 2 * q * m + kl + q * m + (kl if config.step_rule == "kl" else 2 * q * m)
    if config.metric == "rkhs":
        count += 2 * q * q * m + _factor(config, replace(epoch.actor, gram=True), epoch.features)
    return count

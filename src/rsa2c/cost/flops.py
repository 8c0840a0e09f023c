"""What an epoch costs: floating-point operations phase by phase, and memory, from sizes and settings alone.

An addition, a multiplication, a division, a square root and an elementary function are one operation each;
comparisons, copies, conversions and the environment's own work count as none. Phi^T Phi counts half, because
BLAS computes one triangle. The terms follow the code of `epoch.py` in its order, small ones left out where they do
not grow with the dictionary; the tests count the operations of real epochs and hold these formulas to them.
"""

from __future__ import annotations

from dataclasses import replace

from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.epoch import PHASES
from rsa2c.algorithm.guidance import CME_PERMUTATIONS, NODES, enumerates
from rsa2c.algorithm.influence import LAGS
from rsa2c.algorithm.work import Attribution, Basis, Growth, Reprojection, Work
from rsa2c.attribution.kme import exact_nodes
from rsa2c.attribution.settings import DEFAULT_RANK
from rsa2c.attribution.simd import LANES
from rsa2c.config import (
    CME,
    LSTD,
    TD,
    AgreementGuidance,
    Config,
    CriticGuidance,
    FilteredMeasurements,
    FollowingScale,
    KLStep,
    NoisyTraining,
    ReleasedAdvantage,
    RemovalCost,
    SmoothPolicy,
)
from rsa2c.config.released import MonteCarlo
from rsa2c.cost.operations import (
    cholesky,
    coordinates,
    eigen,
    factor,
    kernel,
    lu,
    moment,
    pivoted_cholesky,
    pivots,
    ridge_solve,
)
from rsa2c.kernel.kernels import KERNELS, RBF
from rsa2c.kernel.rowwise import LANES as ROW_LANES


def flops(config: Config, epoch: Work) -> dict[str, float]:
    """Operations of each phase of an epoch."""
    d, m = epoch.features, epoch.outputs
    counts = {
        "collect": _collect(config, epoch),
        "admit": sum(_growth(config, growth, d) for growth in epoch.growths),
        "value": _value(config, epoch),
        "attribute": 0.0,
        "advantage": _advantage(config, epoch),
        "actor": _actor(config, epoch),
    }
    if isinstance(config.scale, FollowingScale):
        counts["admit"] += (4 * epoch.transitions + 12) * d + _moves(config, epoch.followed, d, m)
        counts["admit"] += coordinates(config, epoch.points, d) if epoch.followed else 0
    counts["attribute"] += sum(_attribution(config, each) for each in epoch.attribution)
    if epoch.attribution and isinstance(config.guidance, AgreementGuidance):
        counts["attribute"] += _influence(config, epoch)
    counts["attribute"] += _moves(config, epoch.reprojections, d, m)
    return {phase: float(counts[phase]) for phase in PHASES}


def _collect(config: Config, epoch: Work) -> float:
    """A policy acts row by row (`kernel/rowwise.py`), where a Gaussian exponent takes one addition less."""
    steps, q, d, m = epoch.steps, epoch.policy.states, epoch.features, epoch.outputs
    count = kernel(config, steps, q, d) - (steps * q if config.kernel == RBF.name else 0)
    if isinstance(config.robust, NoisyTraining):
        count += 2 * steps * d
    elif isinstance(config.robust, FilteredMeasurements):
        count += 3 * steps * d
    return count + steps * (2 * q * m + (ROW_LANES + 6) * m + coordinates(config, 1, d))


def _growth(config: Config, growth: Growth, d: int) -> float:
    q, n, r, m = growth.basis.states, growth.candidates, growth.removed, growth.outputs
    if not r:
        return pivots(config, n, growth.basis, growth.admitted, d)
    count = pivots(config, n, growth.basis, r, d) + (0 if growth.basis.inverse else q * q * (q + 1))
    if isinstance(config.replacement, RemovalCost):
        count += coordinates(config, n, d) + kernel(config, n, q, d) + moment(n, q) + 4 * q**3
        count += r * (6 * q * q + 4 * q * m + 4 * q)
    count += lu(r, m) + (growth.functions - 1) * lu(r, 0) + (2 * r + 1) * (q - r) * m
    return count + pivots(config, n, Basis.new(q - r), growth.admitted, d)


def _value(config: Config, epoch: Work) -> float:
    n, d = epoch.transitions, epoch.features
    if epoch.value is None:
        return 18.0 * n
    q = epoch.value.states
    count: float = kernel(config, epoch.points, q, d) + epoch.points * (2 * q + 1) + 22 * n
    fit = config.value
    if isinstance(fit, LSTD):
        size = q + 1
        gram = 0 if epoch.value.gram else kernel(config, q, q, d)
        count += gram + n * size * (4 + 2 * size + 2) + 4 * q * q + lu(size, 1)
        if fit.value_damping and epoch.number:  # previous values, the features' second moment and its right-hand side
            count += epoch.points * (2 * q + 1) + n * size * (size + 3) + 3 * size * (size + 1)
        return count
    if isinstance(fit, TD):
        return count + fit.value_sweeps * n * (9 * q + 4)
    assert isinstance(fit, MonteCarlo), "there is a Value Critic"
    return count + 2 * epoch.points * q + 2 * n + fit.value_sweeps * n * (7 * q + 4)


def _attribution(config: Config, explained: Attribution) -> float:
    k, w, o = explained.centres, explained.features, explained.outputs
    count = 0.0
    if explained.samples:
        n = explained.samples
        count += pivots(config, explained.candidates, Basis(0), k, w) + kernel(config, n, k, w) + moment(n, k)
        count += n * o * (4 * k + 9) + ridge_solve(config, k, o, w, gram=False)
    rule = config.guidance
    assert isinstance(rule, AgreementGuidance | CriticGuidance), "attributions guide"
    if isinstance(rule, AgreementGuidance) and rule.importance != "shapley":
        return count  # a control: only what it shares with Shapley values is counted
    states, background = rule.attribution_states, rule.attribution_background
    if isinstance(rule.game, CME):
        return count + _cme(rule.game, states, background, explained)
    if rule.phi_estimator == "permutation":
        steps = k * w * (5 * (states + background) + 2 * background + 1 + states * (2 + 2 * o))
        return count + steps + states * (k * (1 + 2 * o) + w * o)
    nodes = min(NODES, exact_nodes(w))
    return count + shapley_flops(states, background, k, w, o, nodes, KERNELS[config.kernel].factor_operations)


def _influence(config: Config, epoch: Work) -> float:
    """What actions move: sums over the batch for each lag, and a prediction from d features and a one."""
    n, d, m = epoch.transitions, epoch.features, epoch.outputs
    segments, correlated = epoch.points - n, config.correlation > 0
    count = 2.0 * n * m + (3 * (n - segments) * m if correlated else 0)
    for lag in LAGS:
        starts = max(n - (lag - 1 + correlated) * segments, 0)
        count += starts * (3 * d + 2 * m * d + 2 * (1 + d) * (d + m) + (1 + d) * (2 + d))
        count += 2 * (1 + d) ** 2 + cholesky(1 + d) + 2 * (1 + d) ** 2 * d + 2 * (1 + d) * d * (1 + m) + (3 * m + 6) * d
    return count


def shapley_flops(
    states: int, background: int, centres: int, players: int, outputs: int, nodes: int, factor: int
) -> float:
    """Exact values of the product game (`attribution/quadrature.py`), without padding and without skipped products.

    A node costs two operations per factor in each direction and two to add up, and a group of four or two nodes two
    more. A factor takes `factor` operations to compute, and one more to scale if it is the background's.
    """
    nodes += nodes % 2
    groups = nodes // 4 + (nodes % 4) // 2
    pair = players * (6 * nodes + 2 * groups) + 3 * nodes - groups
    once = players * (factor * (states + background) + background + states * (nodes + LANES + 2))
    return float(centres * (states * background * pair + once + 2 * outputs * states * players))


def _cme(game: CME, states: int, n: int, explained: Attribution) -> float:
    """The observational game: one regression for each new coalition."""
    k, w, o = explained.centres, explained.features, explained.outputs
    pairs = (CME_PERMUTATIONS + 1) // 2
    joins, values, update = 2 * pairs * w, 2 + 2 * pairs * (w - 1), 14 * pairs * w * states * o
    if enumerates(w):
        joins, values, update = 2**w - 1, 2**w, 3 * w * 2 ** (w - 1) * states * o
    tables, entry, regression = _regression(game, states, n)
    centres = states * k + n * k
    value = regression + centres + states * k + 2 * states * k * (n + o)
    if game.cme_embedding != "paper":
        value += 3 * n * states
    factors = entry * tables + 3 * centres
    return w * factors + (w - 1) * n * k + joins * (factors + tables + centres) + values * value + update


def _regression(game: CME, states: int, n: int) -> tuple[int, int, float]:
    """Of the regression on a coalition's features: the entries of the tables that its log factors or phases fill, the
    operations that one entry of one feature takes, and those of the weights of n background states.

    Nystroem's landmarks are taken to be independent; features that leave them dependent cost less.
    """
    if game.cme_approximation is None:
        tables = n * n + n * states
        return tables, 3, tables + n + cholesky(n) + 2 * n * n * (states + 1)
    r = DEFAULT_RANK if game.cme_rank is None else game.cme_rank
    if game.cme_approximation == "nystroem":
        r = min(r, n)
        tables, entry = r * r + n * r + r * states, 3
        features = tables + eigen(r) + r * r + r + 2 * r * r * (n + states)
    else:
        tables, entry = n * r + states * r, 1
        features = 3 * tables
    system = n * r * (r + 1) + r + cholesky(r)
    return tables, entry, features + system + 2 * (r * r + n * r) * (states + 1) + n * r + 2 * n


def _moves(config: Config, moves: tuple[Reprojection, ...], d: int, m: int) -> float:
    """Everything that a change of the metric takes."""
    if not moves:
        return 0.0
    q, held = moves[0].old, moves[0].held_out
    before = coordinates(config, held, d) + kernel(config, held, q, d) + held * (2 * q + 1) * m
    return before + sum(_reprojection(config, moved, d) for moved in moves)


def _reprojection(config: Config, moved: Reprojection, d: int) -> float:
    m, held = moved.outputs, moved.held_out
    at_held_out = coordinates(config, held, d) + kernel(config, held, moved.states, d)
    at_held_out += held * (2 * moved.states * m + 4 * m)
    if isinstance(config.guidance, CriticGuidance) and not config.guidance.reproject:
        return at_held_out + coordinates(config, moved.states, d)
    old, kept = moved.old, moved.kept
    count = coordinates(config, old, d) + kernel(config, old, old, d) + pivoted_cholesky(old, kept) + kept
    refill, room = min(moved.points, config.admission.admission_candidates), kept < Sizes.of(config).capacity
    if room:
        count += pivots(config, refill, Basis.new(kept), moved.states - kept, d)
    else:
        count += coordinates(config, refill, d)
    x, q = moved.points, moved.states
    count += 2 * coordinates(config, x, d) + kernel(config, x, q, d) + kernel(config, x, old, d)
    count += 2 * x * m * (2 * q + old) + x * m
    unchanged = room and moved.states == kept  # looked for more and found none: its Gram matrix is there
    return count + moment(x, q) + ridge_solve(config, q, m, d, gram=unchanged) + at_held_out


def _advantage(config: Config, epoch: Work) -> float:
    n, d, m, q = epoch.transitions, epoch.features, epoch.outputs, epoch.actor.states
    gradient = lu(m, n) + n * m + 2 * n * q * m
    count = kernel(config, n, q, d) + moment(n, q) + gradient + n * (m + 2) + 4 * q * m * m + q * q
    count += ridge_solve(config, q, m, d, epoch.actor.gram) + 5 * n * m
    count += (epoch.deviations - 1) * (3 * q * q + cholesky(q))
    if isinstance(config.advantage, ReleasedAdvantage) and config.advantage.smooth_advantage:
        count += gradient + 2 * n * q * m + lu(m, n) + 2 * n * m
    if isinstance(config.robust, SmoothPolicy):  # a perturbed copy, its features, N M C, and one more right-hand side
        count += coordinates(config, n, d) + 2 * n * d + kernel(config, n, q, d) + n * q * (1 + 4 * m)
        count += 2 * q * q * m + 4 * q * m * m + 3 * q * m
    return count


def _actor(config: Config, epoch: Work) -> float:
    m, q = epoch.outputs, epoch.actor.states
    kl = 2 * q * q * m + 2 * q * m * m + lu(m, m)
    count = 2 * q * m + kl + q * m + (kl if isinstance(config.step, KLStep) else 2 * q * m)
    count += q * m if isinstance(config.robust, SmoothPolicy) else 0
    if isinstance(config.step, KLStep) and config.step.policy_decay and epoch.number:  # the first policy is zero
        count += q * m
    if isinstance(config.step, KLStep) and config.step.kl_largest is not None:
        count += 2 * epoch.transitions * q * m + lu(m, epoch.transitions) + 2 * epoch.transitions * m
    if config.metric == "rkhs":
        count += 2 * q * q * m + factor(config, replace(epoch.actor, gram=True), epoch.features)
    return count

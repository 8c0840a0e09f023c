"""The fits of an epoch in JAX: the same sums and systems as `algorithm/critics.py` and `algorithm/estimates.py`.

A rollout of n environments over `steps` steps is a grid, time first: an array (steps, n, ...) holds the states, another
the states that they led to. A segment ends where an episode does, and at the last step.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve

from rsa2c.gpu.arrays import Array, Centres, Coordinates, features, filled, gram, measured
from rsa2c.kernel.dictionary import JITTER
from rsa2c.kernel.linalg import ROUNDING


class Grid(NamedTuple):
    """What a rollout leaves behind, each (steps, n, ...)."""

    states: Array
    after: Array
    """The states that followed, before any reset."""
    means: Array
    latents: Array
    rewards: Array
    terminated: Array
    truncated: Array


class ValueFit(NamedTuple):
    """Coefficients (capacity,) and constant of the Value Critic, its values before and after each step (steps, n)."""

    weights: Array
    constant: Array
    values: Array
    following: Array
    reached: Array
    """Its lowest and highest value, (2,)."""
    known: Array
    """Those of the previous fit, (2,)."""


def _extremes(phi: Array, behind: Array, solution: Array) -> Array:
    values, following = phi @ solution, behind @ solution
    return jnp.stack([jnp.minimum(values.min(), following.min()), jnp.maximum(values.max(), following.max())])


def moments(states: Array) -> tuple[Array, Array]:
    """Means and variances of raw states, (d,) each."""
    rows = states.reshape(-1, states.shape[-1]).astype(jnp.float64)
    return rows.mean(axis=0), rows.var(axis=0)


def second_moment(phi: Array) -> Array:
    """`kernel.linalg.second_moment`: Phi^T Phi / N with the rounding of its precision on the diagonal."""
    moment = phi.T @ phi / len(phi)
    return moment + ROUNDING * jnp.finfo(phi.dtype).eps * moment.diagonal().max() * jnp.eye(len(moment))


def _with_one(phi: Array) -> Array:
    return jnp.concatenate([phi, jnp.ones((*phi.shape[:-1], 1), phi.dtype)], axis=-1)


def _going_on(grid: Grid) -> Array:
    """(steps, n): one where the next step belongs to the same episode."""
    return 1.0 - (grid.terminated | grid.truncated).astype(jnp.float64)


@jax.jit
def fit_value(
    grid: Grid, centres: Centres, metric: Coordinates, gamma: Any, lam: Any, ridge: Any, damping: Any, old: Array
) -> ValueFit:
    """`critics.lstd_solution` on a grid; `old` (capacity + 1,) are coefficients and constant of the previous fit,
    towards whose values it is damped."""
    phi, behind = (_with_one(features(measured(each.astype(jnp.float64), metric), centres))
                   for each in (grid.states, grid.after))  # fmt: skip
    terminated, going = grid.terminated.astype(jnp.float64), _going_on(grid)

    def trace(carried: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        here, on = now
        reached = here + gamma * lam * carried
        return reached * on[:, None], reached

    _, traces = jax.lax.scan(trace, jnp.zeros(phi.shape[1:]), (phi, going))
    width, count = phi.shape[-1], grid.rewards.size
    rows, traces = phi.reshape(count, width), traces.reshape(count, width)
    differences = gamma * (1.0 - terminated).reshape(-1, 1) * behind.reshape(count, width) - rows
    system = -(traces.T @ differences) / count
    system = system.at[:-1, :-1].add(ridge * gram(centres) + jnp.diag(1.0 - centres.mask))
    system += damping * (rows.T @ rows) / count
    right = traces.T @ grid.rewards.astype(jnp.float64).ravel() / count + damping * (rows.T @ (rows @ old)) / count
    solution = jnp.linalg.solve(system, right)
    extremes = (_extremes(phi, behind, each) for each in (solution, old))
    return ValueFit(solution[:-1], solution[-1], phi @ solution, behind @ solution, *extremes)


@jax.jit
def advantages(grid: Grid, fit: ValueFit, gamma: Any, lam: Any) -> Array:
    """(steps, n): GAE(lambda), `estimates.advantages` on a grid."""
    ongoing = gamma * (1.0 - grid.terminated.astype(jnp.float64))
    errors = grid.rewards.astype(jnp.float64) + ongoing * fit.following - fit.values
    return _backwards(errors, gamma * lam * _going_on(grid))


@jax.jit
def returns(grid: Grid, fit: ValueFit, gamma: Any) -> Array:
    """(steps, n): discounted returns to go, `estimates.discounted_returns` on a grid."""
    rewards, going = grid.rewards.astype(jnp.float64), _going_on(grid)
    last = jnp.zeros_like(rewards).at[-1].set(1.0)
    ends = jnp.maximum(1.0 - going, last) * (1.0 - grid.terminated.astype(jnp.float64))
    return _backwards(rewards + gamma * ends * fit.following, gamma * going)


def _backwards(terms: Array, decay: Array) -> Array:
    """y_t = terms_t + decay_t y_{t+1}, from the last step on."""

    def add(ahead: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        term, factor = now
        total = term + factor * ahead
        return total, total

    return jax.lax.scan(add, jnp.zeros(terms.shape[1:]), (terms, decay), reverse=True)[1]


@jax.jit
def penalty(
    grid: Grid, centres: Centres, metric: Coordinates, coefficients: Array, deviations: Array, key: Array
) -> Array:
    """(capacity, m): M C of `robust.py` from one perturbed copy of the states; `coefficients` are C (capacity, m),
    `deviations` (d,) those of the errors."""
    rows = grid.states.reshape(-1, grid.states.shape[-1]).astype(jnp.float64)
    perturbed = rows + deviations * jax.random.normal(key, rows.shape, rows.dtype)
    change = features(measured(perturbed, metric), centres) - features(measured(rows, metric), centres)
    return change.T @ (change @ coefficients) / len(rows)


@jax.jit
def fit_advantage(
    grid: Grid,
    centres: Centres,
    metric: Coordinates,
    advantage: Array,
    sigma: Array,
    ridge: Any,
    against: Array | None = None,
) -> tuple[Array, Array, Array, Array, Array | None]:
    """`critics.advantage_solution`: second moment G, gradient g, weights w_A, the natural gradient of log sigma, and
    the gradient `against` (capacity, m) of a penalty in the metric of w_A."""
    d, m = grid.states.shape[-1], sigma.shape[0]
    phi = features(measured(grid.states.reshape(-1, d).astype(jnp.float64), metric), centres)
    noise = (grid.latents.astype(jnp.float64) - grid.means.astype(jnp.float64)).reshape(-1, m)
    target = advantage.reshape(-1, 1)
    moment = second_moment(phi)
    gradient = phi.T @ (target * noise / sigma**2) / len(phi)
    damped = ridge * gram(centres)
    right = gradient[None] if against is None else jnp.stack([gradient, against])

    def solved(each: tuple[Array, Array]) -> Array:
        variance, columns = each
        return cho_solve(cho_factor(filled(moment / variance + damped, centres.mask)), columns)

    weights = jnp.transpose(jax.lax.map(solved, (sigma**2, jnp.transpose(right, (2, 1, 0)))), (2, 1, 0))
    spread = jnp.mean(target * (noise**2 / sigma**2 - 1.0), axis=0) / 2
    return moment, gradient, weights[0], spread, None if against is None else weights[1]


def _factor(centres: Centres) -> Array:
    """The Cholesky factor of K_DD + jitter."""
    return jnp.linalg.cholesky(filled(gram(centres) + JITTER * jnp.diag(centres.mask), centres.mask))


@partial(jax.jit, static_argnames="limit")
def pivots(x: Array, count: Any, centres: Centres, threshold: Any, most: Any, limit: int) -> tuple[Array, Array]:
    """`Dictionary._pivots`: at most `most` positions in scaled coordinates x (N, d), of which the first `count` are
    candidates, and residuals, largest first; (limit,) each, with positions of -1 after the last."""
    half = jax.scipy.linalg.solve_triangular(_factor(centres), features(x, centres).T, lower=True)
    capacity = len(half)
    half = jnp.concatenate([half, jnp.zeros((limit, len(x)))])
    residual = jnp.where(jnp.arange(len(x)) < count, 1.0 - jnp.sum(half**2, axis=0), -1.0)

    def going(carried: tuple[Array, ...]) -> Array:
        row, _, residual, *_ = carried
        return (row < jnp.minimum(limit, most)) & (residual.max() > threshold)

    def admit(carried: tuple[Array, ...]) -> tuple[Array, ...]:
        row, half, residual, positions, errors = carried
        pivot = residual.argmax()
        error = residual[pivot]
        column = features(x, Centres(x[pivot][None], jnp.ones(1)))[:, 0] - half[:, pivot] @ half
        column = column / jnp.sqrt(error)
        return (row + 1, half.at[capacity + row].set(column), (residual - column**2).at[pivot].set(0.0),
                positions.at[row].set(pivot), errors.at[row].set(error))  # fmt: skip

    start = (0, half, residual, jnp.full(limit, -1), jnp.zeros(limit))
    *_, positions, errors = jax.lax.while_loop(going, admit, start)
    return positions, errors


@jax.jit
def values(states: Array, centres: Centres, metric: Coordinates, coefficients: Array) -> Array:
    """(N, m): a function, without its offset, at raw states (N, d)."""
    return features(measured(states, metric), centres) @ coefficients


@jax.jit
def projected(
    states: Array, weights: Array, targets: Array, centres: Centres, metric: Coordinates, start: Array, ridge: Any
) -> Array:
    """`RKHSFunction.project`: coefficients (capacity, m) whose function agrees best with targets (N, m) at raw states
    (N, d); rows of weight zero are padding."""
    phi = features(measured(states, metric), centres) * weights[:, None]
    error, count = (targets - phi @ start) * weights[:, None], weights.sum()
    moment = phi.T @ phi / count
    moment += ROUNDING * jnp.finfo(phi.dtype).eps * moment.diagonal().max() * jnp.eye(len(moment))
    system = filled(moment + ridge * gram(centres), centres.mask)
    return start + cho_solve(cho_factor(system), phi.T @ error / count)


@jax.jit
def regressed(
    x: Array, weights: Array, targets: Array, centres: Centres, scales: Array, ridge: Any
) -> tuple[Array, Array]:
    """`kernel.linalg.ridge_regression` on coordinates x (N, d), and what it gives there: (capacity, m) and (N, m)."""
    zero = jnp.zeros_like(scales)
    metric = Coordinates(zero, zero + 1.0, jnp.inf, jnp.inf, scales)
    start = jnp.zeros((len(centres.mask), targets.shape[1]))
    coefficients = projected(x, weights, targets, centres, metric, start, ridge)
    return coefficients, values(x, centres, metric, coefficients)


@jax.jit
def attributed(grid: Grid, fit: ValueFit, rows: Array, metric: Coordinates) -> tuple[Array, Array, Array, Array]:
    """Of the transitions at some rows of the grid: states (k, d) in the metric's coordinates, values (k,), means (k, m)
    and the actions' noise (k, m)."""

    def taken(each: Array) -> Array:
        return each.reshape(grid.rewards.size, *each.shape[2:])[rows].astype(jnp.float64)

    means = taken(grid.means)
    return measured(taken(grid.states), metric), taken(fit.values), means, taken(grid.latents) - means


@partial(jax.jit, static_argnames="lag")
def influence_sums(grid: Grid, metric: Coordinates, sigma: Array, correlation: Any, lag: int) -> tuple[Array, ...]:
    """`influence.influence_sums` on a grid, for one lag."""
    states, after = (measured(each.astype(jnp.float64), metric) for each in (grid.states, grid.after))
    noise, going = (grid.latents.astype(jnp.float64) - grid.means.astype(jnp.float64)) / sigma, _going_on(grid)
    before = jnp.concatenate([jnp.zeros_like(going[:1]), going[:-1]])
    carried = jnp.concatenate([jnp.zeros_like(noise[:1]), noise[:-1]])
    noise = (noise - correlation * carried) / jnp.sqrt(1.0 - correlation**2)
    starts = jnp.where(correlation > 0, before, 1.0)
    count = max(len(states) - lag + 1, 0)
    for k in range(lag - 1):
        starts = starts[:count] * going[k : k + count]
    within = starts[:count, :, None]

    def rows(each: Array) -> Array:
        return (each * within).reshape(-1, each.shape[-1])

    x, e = rows(_with_one(states[:count])), rows(noise[:count])
    change = rows(after[len(after) - count :] - states[:count])
    return jnp.square(change).sum(axis=0), e.T @ change, x.T @ change, x.T @ e, x.T @ x


@partial(jax.jit, static_argnames="limit")
def removals(x: Array, centres: Centres, coefficients: Array, excess: Any, limit: int) -> tuple[Array, Array]:
    """`dictionary.cheapest_removals` on scaled coordinates x (N, d), `excess` times, and the coefficients
    (capacity, m) of the function without those states; positions that were not asked for are -1."""
    factor = _factor(centres)
    triangular = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(factor)), lower=True)
    inverse = triangular.T @ triangular
    effect = inverse @ second_moment(features(x, centres)) @ inverse

    def remove(k: Array, carried: tuple[Array, ...]) -> tuple[Array, ...]:
        inverse, effect, coefficients, alive, positions = carried
        diagonal = jnp.where(alive, jnp.diag(inverse), 1.0)
        squared = jnp.sum(coefficients**2, axis=1)
        j = jnp.where(alive, squared * jnp.diag(effect) / diagonal**2, jnp.inf).argmin()
        direction = inverse[:, j] / inverse[j, j]
        coefficients = coefficients - jnp.outer(direction, coefficients[j])
        inverse = inverse - jnp.outer(direction, inverse[j])
        effect = effect - jnp.outer(direction, effect[j])
        effect = effect - jnp.outer(effect[:, j], direction)
        return inverse, effect, coefficients, alive.at[j].set(False), positions.at[k].set(j)

    start = (inverse, effect, coefficients, centres.mask > 0, jnp.full(limit, -1))
    _, _, coefficients, _, positions = jax.lax.fori_loop(0, jnp.minimum(excess, limit), remove, start)
    return positions, coefficients

"""What actions move: exploration noise is an experiment that runs anyway.

The noise e_t of an action is drawn independently of all that was before it. Let r_i be the change of feature i within
some steps, less what the state predicts of it linearly (least squares over the batch). Then

    T_i = mean_j (sum_t e_tj r_ti)^2 / sum_t r_ti^2

has the mean one for a feature that no action moves, however slowly it changes and whatever else drives it, and a
variance of 2 / m at most. Where an action moves the feature more often in one direction than in the other, T_i grows
with the batch: on robots it is ten to a thousand. Where the direction changes with the state, as with the cosine of a
pendulum's angle, it cancels. Nothing of it needs rewards or a critic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm.batch import Batch
from rsa2c.algorithm.samples import Block
from rsa2c.kernel.linalg import solve_positive

LAGS = range(1, 9)
"""Steps within which a feature may move: at once, a step later, as a position that follows its velocity, or after the
delay of a plant. What repeats the input of k steps ago moves within exactly k steps, so none is left out."""
RIDGE = 1e-8
"""Ridge of the prediction, relative to the states' mean square: features may be multiples of each other."""
PREDICTED = 1e-8
"""Share of a change that rounding may leave of it where the state predicts all."""
LagSums = tuple[NDArray[np.float64], ...]
"""With D changes within a lag, E noise and X states beside a one: sum D^2 (d,), E^T D (m, d), X^T D (d + 1, d),
X^T E (d + 1, m) and X^T X (d + 1, d + 1)."""


def influence_sums(block: Block, sigma: NDArray, correlation: float) -> tuple[LagSums, ...]:
    """The block's sums for each lag; `sigma` (m,) is the noise's standard deviation, `correlation` that from one step
    to the next, of which the fresh part is the experiment."""
    batch = block.batch
    noise, starts = (batch.latents.astype(np.float64) - batch.means) / sigma, np.arange(batch.n)
    if correlation > 0:  # what an episode's first noise followed on is not known
        starts = 1 + np.flatnonzero(batch.segment[1:] == batch.segment[:-1])
        noise[starts] = (noise[starts] - correlation * noise[starts - 1]) / np.sqrt(1.0 - correlation**2)
    return tuple(_lag_sums(batch, noise, starts, lag) for lag in LAGS)


def _lag_sums(batch: Batch, noise: NDArray, starts: NDArray[np.intp], lag: int) -> LagSums:
    starts = starts[starts + lag <= batch.n]
    starts = starts[batch.segment[starts + lag - 1] == batch.segment[starts]]
    rows, e = starts + batch.segment[starts], noise[starts]
    states = batch.points[rows].astype(np.float64)
    change = batch.points[rows + lag] - states
    x = np.ones((len(states), states.shape[1] + 1))
    x[:, :-1] = states
    return np.square(change).sum(axis=0), e.T @ change, x.T @ change, x.T @ e, x.T @ x


def influence(sums: tuple[LagSums, ...]) -> NDArray[np.float64]:
    """(d,): (T_i - 1) sqrt(m / 2), the mean over lags. For a feature that no action moves its mean is zero and its
    standard deviation one at most; zero where a feature does not change, or all of its change is predicted."""
    return np.mean([standardised(*_unpredicted(*each)) for each in sums], axis=0)


def _unpredicted(
    squares: NDArray, together: NDArray, changes: NDArray, noise: NDArray, gram: NDArray
) -> tuple[NDArray, NDArray]:
    """(d,), (m, d): what `squares` and `together` are of changes less their linear prediction; zero where that takes
    all but rounding."""
    system = gram + RIDGE * max(1.0, float(np.trace(gram)) / len(gram)) * np.eye(len(gram))
    remedy = "Bring the observations to ordinary sizes"
    predictors = solve_positive(system, changes, "the prediction of changes", remedy)
    rest = squares - np.sum(predictors * changes, axis=0)
    return np.where(rest > PREDICTED * squares, rest, 0.0), together - noise.T @ predictors


def standardised(squares: NDArray, together: NDArray) -> NDArray[np.float64]:
    """(d,): (T - 1) sqrt(m / 2) from sums of r^2 (d,) and of e r (m, d)."""
    products = np.square(together).mean(axis=0)
    found = np.divide(products, squares, out=np.ones_like(squares), where=squares > 0)
    return (found - 1.0) * np.sqrt(len(together) / 2)

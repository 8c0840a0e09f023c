"""The action box: what squashing does to contributions."""

from __future__ import annotations

import numpy as np
import pytest

from rsa2c.algorithm.actor import ActionBounds

STARTS = np.array([[-2.0], [-0.3], [0.0], [0.4], [0.4], [1.5]])
ENDS = np.array([[1.7], [-0.3], [1e-9], [0.4 + 1e-5], [3.0], [2.0]])


@pytest.mark.parametrize("squash", ["tanh", "clip", "none"])
def test_the_mean_slope_is_the_integral_of_the_slope(squash):
    """Also where both ends meet, and where clipping leaves nothing."""
    box = ActionBounds(np.array([-1.0]), np.array([3.0]), squash)
    t = (np.arange(200_000) + 0.5) / 200_000
    expected = box.slope(STARTS + (ENDS - STARTS) * t).mean(axis=1, keepdims=True)
    assert np.allclose(box.mean_slope(STARTS, ENDS), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("squash", ["tanh", "clip", "none"])
def test_contributions_times_the_mean_slope_add_up_to_the_change_of_the_action(squash):
    rng = np.random.default_rng(0)
    box = ActionBounds(np.array([-1.0, 0.0]), np.array([3.0, 0.5]), squash)
    start, contributions = rng.normal(0, 1, (50, 2)), rng.normal(0, 1, (50, 4, 2))
    end = start + contributions.sum(axis=1)
    shown = contributions * box.mean_slope(start, end)[:, None, :]
    assert np.allclose(box.action(start) + shown.sum(axis=1), box.action(end), rtol=0, atol=1e-14)

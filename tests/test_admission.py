"""Dictionaries of actor and Value Critic grow together exactly as each would alone."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from rsa2c.algorithm.admission import admit
from rsa2c.config import make_config
from rsa2c.kernel.algebra import Algebra
from rsa2c.kernel.dictionary import Dictionary
from rsa2c.kernel.kernels import RBF
from rsa2c.kernel.metric import Metric
from rsa2c.kernel.rkhs import RKHSFunction

D, OUTPUTS = 3, {"mean": ("u0", "u1"), "value": ("value",)}


class Counting(Algebra):
    """Counts how often dictionaries grow."""

    def __init__(self):
        self.grows = 0

    def grown(self, *arguments):
        self.grows += 1
        return super().grown(*arguments)


def both(kernel, value_kernel, seed=0):
    """Actor's mean and Value Critic with random coefficients on the same 20 states."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(20, D))
    dictionaries = (Dictionary(each, states, np.linspace(0.1, 1.0, 20)) for each in (kernel, value_kernel))
    pairs = zip(dictionaries, OUTPUTS.values(), strict=True)
    return [RKHSFunction(each, rng.normal(size=(20, len(names))), names) for each, names in pairs]


def admitted(mean, value, capacity, algebra, preset="paper"):
    config = make_config("Pendulum-v1", preset, "rsa2c-kme", horizon=200, capacity=capacity, replacement_every=1)
    candidates = 2.0 * np.random.default_rng(1).normal(size=(60, D))
    samples = SimpleNamespace(thinned=lambda count, rng: candidates, algebra=algebra)
    return admit(mean, value, samples, config, 0, np.random.default_rng(2))


def contents(function):
    return function.remembered_states, function.dictionary.errors, function.coefficients


@pytest.mark.parametrize("capacity, calls", [(100, 1), (20, 2)])
def test_functions_of_one_dictionary_grow_with_it_as_each_would_alone(capacity, calls):
    kernel, algebra = RBF(1.0, np.ones(D)), Counting()
    mean, value = both(kernel, RBF(1.0, np.ones(D)))
    together = admitted(mean, value, capacity, algebra)
    assert algebra.grows == calls and len(together[2]) == 1
    assert together[0].dictionary is together[1].dictionary and together[0].dictionary.size > 19
    for function, one in zip(together, (mean, value), strict=False):
        for found, expected in zip(
            contents(function), contents(admitted(one, None, capacity, algebra)[0]), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("preset, weights", [("paper", [1.0, 2.0, 1.0]), ("default", [1.0, 1.0, 1.0])])
def test_functions_that_part_grow_apart(preset, weights):
    """On kernels of different weights, and where each loses the states that are cheapest to itself."""
    algebra = Counting()
    mean, value = both(RBF(1.0, np.array(weights)), RBF(1.0, np.ones(D)))
    grown, valued, growths = admitted(mean, value, 20, algebra, preset)
    assert algebra.grows == 4 and len(growths) == 2
    assert grown.dictionary is not valued.dictionary


def test_dictionaries_are_equal_in_everything_or_not():
    metric = Metric(np.zeros(D), np.ones(D), 5.0, np.ones(D), 2.0)
    one = Dictionary(RBF(1.0, metric), np.eye(D), np.ones(D))
    assert one.equals(Dictionary(RBF(1.0, replace(metric)), np.eye(D), np.ones(D)))
    others = [
        RBF(2.0, metric),
        *(RBF(1.0, replace(metric, **{name: 3.0 * np.ones(D)})) for name in ("mean", "weights")),
    ]
    others += [RBF(1.0, replace(metric, clip=4.0)), RBF(1.0, replace(metric, knee=None))]
    assert not any(one.equals(Dictionary(kernel, np.eye(D), np.ones(D))) for kernel in others)
    assert not one.equals(Dictionary(one.kernel, 2 * np.eye(D), np.ones(D)))
    assert not one.equals(Dictionary(one.kernel, np.eye(D), 2 * np.ones(D)))

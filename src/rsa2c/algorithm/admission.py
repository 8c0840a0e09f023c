"""Dictionaries grow with what a batch shows that they cannot express; at capacity, states are replaced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import released, schedules
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.samples import Samples
from rsa2c.algorithm.work import Basis, Growth
from rsa2c.config import AnnealedAdmission, Config, LargestError, NoReplacement, RemovalCost
from rsa2c.kernel.algebra import Algebra
from rsa2c.kernel.rkhs import RKHSFunction

ADMISSION_LIMIT = 64
"""Most states admitted per epoch: more would be chosen for a policy that the next step changes."""


def admit(
    mean: RKHSFunction,
    value: RKHSFunction | None,
    samples: Samples,
    config: Config,
    epoch: int,
    rng: np.random.Generator,
) -> tuple[RKHSFunction, RKHSFunction | None, tuple[Growth, ...]]:
    """Actor's mean and Value Critic on dictionaries that have seen the samples."""
    if isinstance(config.admission, AnnealedAdmission) and epoch % config.admission.admission_every:
        return mean, value, ()
    candidates = samples.thinned(config.admission.admission_candidates, rng)
    growths: list[Growth | None] = []
    grown: list[RKHSFunction] = []
    for together in _by_dictionary(mean, value, config):
        functions, growth = _grown(together, candidates, config, epoch, samples.algebra)
        grown.extend(functions)
        growths.append(growth)
    found = tuple(growth for growth in growths if growth is not None)
    return grown[0], grown[1] if value is not None else None, found


def _by_dictionary(mean: RKHSFunction, value: RKHSFunction | None, config: Config) -> list[tuple[RKHSFunction, ...]]:
    """Actor's mean and Value Critic, together where they have the same dictionary and will go on with the same one.

    They begin with one. They part where attributions change the actor's kernel, or where each loses the states that it
    can do without most easily.
    """
    if value is None:
        return [(mean,)]
    if isinstance(config.replacement, RemovalCost) or not value.dictionary.equals(mean.dictionary):
        return [(mean,), (value,)]
    return [(mean, replace(value, dictionary=mean.dictionary))]


def threshold_at(config: Config, epoch: int) -> float:
    """Admission threshold of an epoch."""
    admission = config.admission
    if isinstance(admission, AnnealedAdmission):
        start, end = admission.admission_threshold, admission.admission_threshold_final
        return schedules.geometric(start, end, epoch, admission.admission_epochs)
    return admission.admission_threshold


def limit_of(config: Config) -> int:
    """Most states admitted per epoch and dictionary."""
    admission = config.admission
    return admission.admission_limit if isinstance(admission, AnnealedAdmission) else ADMISSION_LIMIT


def _grown(
    functions: tuple[RKHSFunction, ...], candidates: NDArray, config: Config, epoch: int, algebra: Algebra
) -> tuple[tuple[RKHSFunction, ...], Growth | None]:
    """Functions of one dictionary, on one that was offered the candidates, and what that changed; None if nothing was
    due."""
    dictionary = functions[0].dictionary
    basis, outputs = Basis.of(dictionary), sum(len(function.output_names) for function in functions)
    count = len(functions)
    threshold, room = threshold_at(config, epoch), Sizes.of(config).capacity - basis.states
    if room > 0:
        grown = algebra.grown(dictionary, candidates, threshold, min(room, limit_of(config)))
        growth = Growth(basis, outputs, len(candidates), grown.size - basis.states, functions=count)
        return tuple(function.grow(grown) for function in functions), growth
    rule = config.replacement
    if isinstance(rule, NoReplacement) or epoch % rule.replacement_every:
        return functions, None
    offered = algebra.grown(dictionary, candidates, threshold, min(rule.replacement_limit, dictionary.size))
    excess = offered.size - Sizes.of(config).capacity
    if excess <= 0:
        return functions, Growth(basis, outputs, len(candidates), 0, functions=count)
    pruned = _pruned(functions, candidates, excess, rule, algebra)
    rest = pruned[0].dictionary
    grown = algebra.grown(rest, candidates, threshold, excess)
    growth = Growth(basis, outputs, len(candidates), grown.size - rest.size, excess, count)
    return tuple(function.grow(grown) for function in pruned), growth


def _pruned(
    functions: tuple[RKHSFunction, ...],
    candidates: NDArray,
    count: int,
    rule: RemovalCost | LargestError,
    algebra: Algebra,
) -> tuple[RKHSFunction, ...]:
    """Functions of one dictionary without `count` of its states."""
    if isinstance(rule, LargestError):
        positions = released.largest_errors(functions[0].dictionary, count)
        return tuple(function.prune(positions) for function in functions)
    (function,) = functions  # which states are cheapest to remove depends on the function
    return (algebra.pruned(function, candidates, count),)

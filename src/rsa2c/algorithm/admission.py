"""Dictionaries grow with what a batch shows that they cannot express; at capacity, states are replaced."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rsa2c.algorithm import released, schedules
from rsa2c.algorithm.automatic import Sizes
from rsa2c.algorithm.samples import Samples
from rsa2c.algorithm.work import Basis, Growth
from rsa2c.config import AnnealedAdmission, Config, LargestError, NoReplacement
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
    mean, growth = _grown(mean, candidates, config, epoch, samples.algebra)
    growths = [growth]
    if value is not None:
        value, growth = _grown(value, candidates, config, epoch, samples.algebra)
        growths.append(growth)
    return mean, value, tuple(growth for growth in growths if growth is not None)


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
    function: RKHSFunction, candidates: NDArray, config: Config, epoch: int, algebra: Algebra
) -> tuple[RKHSFunction, Growth | None]:
    """The function on a dictionary that was offered the candidates, and what that changed; None if nothing was due."""
    basis, outputs = Basis.of(function.dictionary), len(function.output_names)
    threshold, room = threshold_at(config, epoch), Sizes.of(config).capacity - basis.states
    if room > 0:
        grown = function.grow(algebra.grown(function.dictionary, candidates, threshold, min(room, limit_of(config))))
        admitted = grown.dictionary.size - basis.states
        return grown, Growth(basis, outputs, len(candidates), admitted)
    rule = config.replacement
    if isinstance(rule, NoReplacement) or epoch % rule.replacement_every:
        return function, None
    dictionary = function.dictionary
    offered = algebra.grown(dictionary, candidates, threshold, min(rule.replacement_limit, dictionary.size))
    excess = offered.size - Sizes.of(config).capacity
    if excess <= 0:
        return function, Growth(basis, outputs, len(candidates), 0)
    if isinstance(rule, LargestError):
        pruned = function.prune(released.largest_errors(dictionary, excess))
    else:
        pruned = algebra.pruned(function, candidates, excess)
    grown = pruned.grow(algebra.grown(pruned.dictionary, candidates, threshold, excess))
    admitted = grown.dictionary.size - pruned.dictionary.size
    return grown, Growth(basis, outputs, len(candidates), admitted, excess)

"""Choices that bring their own settings: each alternative is a dataclass with the settings that it alone reads.

The settings of the released code, which the preset `paper` uses, are in `released.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rsa2c.config.rules import BELOW_ONE, NOT_NEGATIVE, POSITIVE, UNIT

Auto = Literal["auto"]


@dataclass(frozen=True)
class FollowingScale:
    """Means and standard deviations of the kernel's inputs follow the states that the policy visits."""


@dataclass(frozen=True)
class FrozenScale:
    """Means and standard deviations of the kernel's inputs are fixed before training."""

    normaliser: Literal["warmup", "starts"] = "warmup"
    """Fit them to the states of the warm-up, or to start states only."""
    length_scale_factor: Annotated[float, POSITIVE] = 0.6
    """With length_scale auto: the length scale is this factor times sqrt(E|x - x'|^2 / 2) over warm-up states."""


@dataclass(frozen=True)
class LearnedSigma:
    """The policy's standard deviations are learned, one for each action dimension."""

    sigma_initial: Annotated[float | Auto, POSITIVE] = 0.5
    """Standard deviation of u in the first epoch; auto: 0.7, or less where that fells what would stand without
    noise."""
    noise_correlation: Annotated[float | Auto, NOT_NEGATIVE, BELOW_ONE] = 0.0
    """Correlation of the exploration noise from one step to the next; auto: 0.9 where rewards say nothing about the
    states that an untrained policy visits, or where states are slow and it earns more, else 0."""


@dataclass(frozen=True)
class ScheduledSigma:
    """The policy's standard deviation follows a linear schedule."""

    sigma_initial: Annotated[float | Auto, POSITIVE] = 0.5
    """Standard deviation of u in the first epoch; auto: 0.7, or less where that fells what would stand without
    noise."""
    sigma_final: Annotated[float, POSITIVE] = 0.2
    """Standard deviation of u after `sigma_epochs`."""
    sigma_epochs: Annotated[int, POSITIVE] = 150
    """Epochs over which the standard deviation anneals."""


@dataclass(frozen=True)
class ConstantAdmission:
    """Admit states whose distance to the dictionary exceeds a constant threshold."""

    admission_threshold: Annotated[float, POSITIVE, BELOW_ONE] = 1e-2
    """Squared RKHS distance to the dictionary's span above which a state is admitted (approximate linear
    dependence)."""
    admission_candidates: Annotated[int, POSITIVE] = 4000
    """Batch states considered for admission; larger batches are thinned at random."""


@dataclass(frozen=True)
class RemovalCost:
    """At capacity, replace the states whose removal changes the function least on the batch."""

    replacement_every: Annotated[int, POSITIVE] = 5
    """Epochs between replacements."""
    replacement_limit: Annotated[int, NOT_NEGATIVE] = 16
    """Most states replaced at a time, per dictionary."""


@dataclass(frozen=True)
class NoReplacement:
    """At capacity, keep the dictionary as it is."""


@dataclass(frozen=True)
class LSTD:
    """Ridge LSTD(lambda), solved in closed form."""

    value_lambda: Annotated[float, UNIT] = 0.95
    """Trace decay of the value fit."""
    value_ridge: Annotated[float, POSITIVE] = 1e-4
    """Weight of the squared RKHS norm in the value fit."""
    value_damping: Annotated[float, NOT_NEGATIVE] = 0.0
    """Weight of the mean squared change from the previous epoch's values in the value fit."""


@dataclass(frozen=True)
class NoValue:
    """No Value Critic: a single compatible critic on returns (RKHS-AC)."""


@dataclass(frozen=True)
class ClosedAdvantage:
    """Compatible ridge regression on generalised advantage estimates, in closed form."""

    gae_lambda: Annotated[float, UNIT] = 0.95
    """Lambda of the generalised advantage estimate; 1 gives return minus value."""
    advantage_ridge: Annotated[float, POSITIVE] = 1e-3
    """Weight of the squared RKHS norm in the advantage fit: the damping of the natural gradient."""


@dataclass(frozen=True)
class KLStep:
    """Size the actor's step by its mean KL divergence."""

    kl: Annotated[float | Auto, POSITIVE] = "auto"
    """Mean KL of a step, in nats per state, summed over action dimensions."""
    kl_final: Annotated[float | None, POSITIVE] = None
    """KL reached after `kl_epochs`; unset keeps it constant."""
    kl_epochs: Annotated[int, POSITIVE] = 300
    """Epochs over which the KL target anneals."""
    kl_halving: Annotated[int | None, POSITIVE] = None
    """Environment steps after which the KL of a step is half the first, and a third after twice as many."""
    kl_largest: Annotated[float | Auto | None, POSITIVE] = None
    """Largest KL of a step at any state of the batch; unset does not bound it; auto: 1 for up to 7 features, else
    unset."""
    policy_decay: Annotated[float, NOT_NEGATIVE, BELOW_ONE] = 0.0
    """Share of the policy's mean that each epoch takes away; it keeps squashed actions off their bounds."""


@dataclass(frozen=True)
class NoRobustness:
    """Train for measurements as they are."""


@dataclass(frozen=True)
class MeasurementErrors:
    """Random errors of measurement that a policy is made for, independent for every step and feature."""

    robust_noise: Annotated[float, POSITIVE] = 0.1
    """Standard deviation of the errors: in the features' own units with robust="scale", of the largest ones with
    robust="noise", which mixes levels."""


@dataclass(frozen=True)
class WiderScale(MeasurementErrors):
    """The kernel's standard deviations include the errors: it does not tell apart what they may have changed."""


@dataclass(frozen=True)
class GrowingErrors(MeasurementErrors):
    """Errors that have a part in training, from small to their full size."""

    robust_units: Literal["normalised", "raw"] = "normalised"
    """Unit of robust_noise: the standard deviation of each feature in the policy's metric, or the feature's own."""
    robust_ramp: Annotated[int, POSITIVE] = 1_000_000
    """Environment steps over which the noise, or the penalty, grows linearly from zero to its full size."""


@dataclass(frozen=True)
class NoisyTraining(GrowingErrors):
    """Noise on the observations while training: some environments stay clean, the others have a mixture of levels."""

    robust_clean: Annotated[float, UNIT] = 0.5
    """Share of the environments that stay clean in each epoch; the levels of the others are spread evenly up to the
    largest."""


@dataclass(frozen=True)
class SmoothPolicy(GrowingErrors):
    """A penalty on what errors delta change of the policy's mean: rho / (2 sigma^2) E|h(s + delta) - h(s)|^2."""

    robust_penalty: Annotated[float, POSITIVE] = 0.1
    """Weight rho of the penalty, beside advantages of unit variance."""


@dataclass(frozen=True)
class FilteredMeasurements:
    """A low-pass filter in front of policy and critics: y = x at the start of an episode, then y + w (x - y)."""

    robust_filter: Annotated[float, POSITIVE, BELOW_ONE] = 0.5
    """Weight w of the newest measurement in what policy and critics see; the rest is what they saw one step before."""


@dataclass(frozen=True)
class KME:
    """The interventional game: exact Shapley values of the kernel mean embedding."""


@dataclass(frozen=True)
class CME:
    """The observational game: Shapley values of the conditional mean embedding."""

    cme_embedding: Literal["intercept", "marginal", "paper"] = "intercept"
    """How background states are weighted given the observed features."""
    cme_ridge: Annotated[float, POSITIVE] = 1e-3
    """Ridge of the conditional mean embedding, multiplied by the number of background states."""
    cme_approximation: Literal["nystroem", "fourier"] | None = None
    """Features in place of the background's Gram matrix: Nystroem's, of some of its states, or random Fourier ones;
    unset: none."""
    cme_rank: Annotated[int | None, POSITIVE] = None
    """How many of these states or features, with `cme_approximation`; unset: 64."""


@dataclass(frozen=True)
class AgreementGuidance:
    """Equal kernel weights for features that actions move, or on whose importance critics of two halves of the episodes
    agree, and hardly any for the others."""

    game: KME | CME = KME()
    shuffle_weights: bool = False
    """Placebo: permute the weights over features each time."""
    importance: Literal[
        "shapley", "permutation", "gradient", "correlation", "mutual-information", "ard", "random", "oracle", "none"
    ] = "shapley"
    """What the halves are to agree on: Shapley values, or, for comparison, permutation importance, gradients,
    correlation, mutual information, relevance to a Gaussian process (ARD), random numbers, the same throughout, whether
    the feature is a distractor (oracle, which leaves out what actions move), or nothing besides what they move."""
    guide: Literal["value", "value+advantage", "value+policy"] = "value"
    """What is attributed to obtain the weights."""
    phi_estimator: Literal["exact", "permutation"] = "exact"
    """Exact Shapley values, or one sampled permutation."""
    attribution_every: Annotated[int, POSITIVE] = 4
    """Epochs between attributions."""
    attribution_warmup: Annotated[int, POSITIVE] = 2
    """Attributions taken before weights are first set."""
    attribution_states: Annotated[int, POSITIVE] = 64
    """States explained each time."""
    attribution_background: Annotated[int, POSITIVE] = 48
    """Background states of the game."""
    attribution_centres: Annotated[int, POSITIVE] = 200
    """Centres of each attribution critic."""
    moment_decay: Annotated[float, UNIT] = 0.94
    """Decay of the moving average of importances."""
    weight_floor: Annotated[float, POSITIVE, BELOW_ONE] = 0.02
    """Share of equal weights mixed in where the value is explained in full; it is more where less is explained."""
    value_kernel: Literal["plain", "guided"] = "guided"
    """Whether the Value Critic's kernel takes the feature weights too."""
    trust_region: Annotated[float, POSITIVE] = 0.02
    """Largest mean KL that a change of weights may cause on held-out states."""


@dataclass(frozen=True)
class UniformGuidance:
    """Equal weights, as the paper's ablation Uniform SHAP: weights that sum to d and are equal are all one."""


@dataclass(frozen=True)
class NoGuidance:
    """The kernel keeps equal weights."""

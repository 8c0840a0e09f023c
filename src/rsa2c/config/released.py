"""Choices that only the preset `paper` makes: the rules of the paper's released code (`algorithm/released.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rsa2c.config.choices import CME, KME
from rsa2c.config.rules import BELOW_ONE, NOT_NEGATIVE, POSITIVE, UNIT


@dataclass(frozen=True)
class AnnealedAdmission:
    """Admit states whose distance to the dictionary exceeds a threshold that falls over the epochs."""

    admission_threshold: Annotated[float, POSITIVE, BELOW_ONE] = 1e-2
    """Squared RKHS distance to the dictionary's span above which a state is admitted (approximate linear
    dependence)."""
    admission_candidates: Annotated[int, POSITIVE] = 4000
    """Batch states considered for admission; larger batches are thinned at random."""
    admission_threshold_final: Annotated[float, POSITIVE, BELOW_ONE] = 1e-3
    """Threshold reached after `admission_epochs`."""
    admission_epochs: Annotated[int, POSITIVE] = 300
    """Epochs over which the threshold anneals geometrically."""
    admission_limit: Annotated[int, POSITIVE] = 64
    """Most states admitted per epoch, per dictionary."""
    admission_every: Annotated[int, POSITIVE] = 1
    """Epochs between admissions."""
    newcomers: Literal["zero", "printed", "gradient"] = "zero"
    """Coefficient of a state that the epoch admitted to the actor's dictionary, from its transition's score
    c = A Sigma^-1 (u - h): zero; c divided by the states in the dictionary, as in the paper's appendix, where h is the
    mean over them; or the step along c as the gradient of one transition, the actor's step size times c / N."""


@dataclass(frozen=True)
class LargestError:
    """At capacity, replace the states that were admitted with the largest projection error."""

    replacement_every: Annotated[int, POSITIVE] = 5
    """Epochs between replacements."""
    replacement_limit: Annotated[int, NOT_NEGATIVE] = 16
    """Most states replaced at a time, per dictionary."""


@dataclass(frozen=True)
class TD:
    """TD(lambda) sweeps over the batch."""

    value_lambda: Annotated[float, UNIT] = 0.95
    """Trace decay of the value fit."""
    value_ridge: Annotated[float, POSITIVE] = 1e-4
    """Weight of the squared RKHS norm in the value fit."""
    value_step: Annotated[float, POSITIVE] = 1e-2
    """Step size of the sweeps; with `step_rule="polynomial"` it is b0 of b0 (t+1)^-1/2."""
    value_sweeps: Annotated[int, POSITIVE] = 2
    """Passes over the batch."""


@dataclass(frozen=True)
class MonteCarlo:
    """Gradient sweeps of kernel ridge regression on Monte-Carlo returns."""

    value_ridge: Annotated[float, POSITIVE] = 1e-4
    """Weight of the squared RKHS norm in the value fit."""
    value_step: Annotated[float, POSITIVE] = 1e-2
    """Step size of the sweeps; with `step_rule="polynomial"` it is b0 of b0 (t+1)^-1/2."""
    value_sweeps: Annotated[int, POSITIVE] = 2
    """Passes over the batch."""


@dataclass(frozen=True)
class ReleasedAdvantage:
    """The closed form on clipped advantages, and optionally its fit in their place."""

    gae_lambda: Annotated[float, UNIT] = 0.95
    """Lambda of the generalised advantage estimate; 1 gives return minus value."""
    advantage_ridge: Annotated[float, POSITIVE] = 1e-3
    """Weight of the squared RKHS norm in the advantage fit: the damping of the natural gradient."""
    advantage_clip: Annotated[float | None, POSITIVE] = None
    """Standardised advantages are clipped to this magnitude."""
    smooth_advantage: bool = False
    """Let the Advantage Critic's fit, not the estimate itself, weigh the scores (not with metric fisher)."""


@dataclass(frozen=True)
class ConstantStep:
    """Actor steps of a constant size."""

    step_size: Annotated[float, POSITIVE] = 1.0
    """Step size, or a0 of a0 (t+1)^-3/4 with `step_rule="polynomial"`."""
    gradient_clip: Annotated[float | None, POSITIVE] = None
    """Largest Euclidean norm of the step direction."""


@dataclass(frozen=True)
class PolynomialStep(ConstantStep):
    """The theorem's step sizes: a0 (t+1)^-3/4 for the actor, b0 (t+1)^-1/2 for the Value Critic's sweeps."""

    batch_power: Annotated[float, NOT_NEGATIVE] = 0.0
    """Epoch t is about (t+1)^batch_power times as long as the first; the theorem asks for 1.5. Zero keeps all epochs
    alike."""


@dataclass(frozen=True)
class CriticGuidance:
    """Kernel weights from attributions of the Value Critic itself."""

    game: KME | CME = KME()
    shuffle_weights: bool = False
    """Placebo: permute the weights over features each time."""
    attribution_every: Annotated[int, POSITIVE] = 10
    """Epochs between attributions."""
    attribution_warmup: Annotated[int, POSITIVE] = 2
    """Attributions taken before weights are first set."""
    attribution_states: Annotated[int, POSITIVE] = 64
    """States explained each time."""
    attribution_background: Annotated[int, POSITIVE] = 48
    """Background states of the game."""
    moment_decay: Annotated[float, UNIT] = 0.9
    """Decay of the moving average of importances."""
    phi_statistic: Literal["signed", "absolute"] = "signed"
    """Mean over states that measures a feature's importance."""
    phi_estimator: Literal["exact", "permutation"] = "permutation"
    """Exact Shapley values, or one sampled permutation."""
    weight_floor: Annotated[float, POSITIVE, BELOW_ONE] = 0.3
    """Smallest importance."""
    reproject: bool = False
    """Re-project the policy on the new kernel when weights change."""
    trust_region: Annotated[float, POSITIVE] = 0.02
    """Largest mean KL that a change of weights may cause on held-out states."""


@dataclass(frozen=True)
class ReleasedGuidance(CriticGuidance):
    """The released code's rule: ratios of length scales."""

    ratio_mix: Annotated[float, POSITIVE] = 0.25
    """Share of the ratio in each new length scale."""
    ratio_range: Annotated[float, POSITIVE] = 2.0
    """Ratios of length scales stay in [1/range, range]."""
    ratio_features: Annotated[int | None, POSITIVE] = None
    """Only this many features, those that deviate most, change; unset means all."""


@dataclass(frozen=True)
class PrintedGuidance(CriticGuidance):
    """The rule that the paper prints (Definition 3.1): W = diag(max(phi, eps0)), with eps0 the weight floor.

    Its importances are not negative, so they are means of absolute values, exact as in the text.
    """

    phi_statistic: Literal["signed", "absolute"] = "absolute"
    phi_estimator: Literal["exact", "permutation"] = "exact"

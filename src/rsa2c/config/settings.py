"""All settings of a training run, as one frozen dataclass.

`Config` holds what every run has, and one object for each choice that brings settings of its own (`choices.py`). Users
see one flat list of names, the same in Python, on the command line and in files: `value_fit="td", value_step=0.05`.
`Config.of` reads such a list, `Config.settings` writes it. A setting that would do nothing, because its choice was not
made, is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from rsa2c.config.choices import (
    CME,
    LSTD,
    AgreementGuidance,
    Auto,
    ClosedAdvantage,
    ConstantAdmission,
    FilteredMeasurements,
    FollowingScale,
    FrozenScale,
    GrowingErrors,
    KLStep,
    LearnedSigma,
    NoGuidance,
    NoisyTraining,
    NoReplacement,
    NoRobustness,
    NoValue,
    RemovalCost,
    ScheduledSigma,
    SmoothPolicy,
    UniformGuidance,
    WiderScale,
)
from rsa2c.config.flat import CHOICES, built, check_fields, flattened
from rsa2c.config.released import (
    TD,
    AnnealedAdmission,
    ConstantStep,
    LargestError,
    MonteCarlo,
    PolynomialStep,
    PrintedGuidance,
    ReleasedAdvantage,
    ReleasedGuidance,
)
from rsa2c.config.rules import BELOW_ONE, NOT_NEGATIVE, POSITIVE, UNIT
from rsa2c.errors import ConfigError


@dataclass(frozen=True)
class Config:
    """Settings of one RSA2C agent. `"auto"` is replaced by a number once the environment is known."""

    # Task
    seed: Annotated[int, NOT_NEGATIVE] = 0
    """Seed of every random generator of the run."""
    backend: Literal["auto", "arrays", "envpool", "gymnasium"] = "auto"
    """What steps the training environments: arrays (Pendulum-v1 and rsa2c/LQR-v0 only), EnvPool or Gymnasium; auto
    takes the first of these that has the environment."""
    device: Literal["cpu", "cuda", "jax-cpu"] = "cpu"
    """What trains: the processor, or an NVIDIA GPU, where thousands of environments step side by side. jax-cpu runs the
    GPU's program on the processor, slowly, to try it."""
    noise_variance: Annotated[float, NOT_NEGATIVE] = 0.0
    """Variance of Gaussian noise added to the observations during training, in raw units."""
    distractors: Annotated[int, NOT_NEGATIVE] = 0
    """Number of useless features appended to the observation."""
    distractor_kind: Literal["noise", "drift", "copies", "permuted", "twin", "jumps"] = "noise"
    """What useless features show: standard normal noise, a drift as slow as the true features, true features with noise
    on them, true features at another time, the state of another instance, or constants that jump now and then."""

    # Budget of an epoch
    n_envs: Annotated[int | Auto, POSITIVE] = "auto"
    """Environments stepped side by side."""
    horizon: Annotated[int | Auto, POSITIVE] = "auto"
    """Steps of each environment per epoch; auto is the environment's episode limit."""
    batch_doubling: Annotated[int | None, POSITIVE] = None
    """Environment steps after which an epoch is twice as long as the first, and three times after twice as many, up to
    20 times; unset keeps all epochs alike."""
    restart_p: Annotated[float, NOT_NEGATIVE, BELOW_ONE] = 0.0
    """Probability per step that an episode is cut and restarted (the paper's restart kernel)."""
    gamma: Annotated[float | Auto, UNIT] = 0.99
    """Discount factor; auto: 0.993, or less where episodes are shorter than 143 steps."""

    # Kernel and dictionaries
    scale: FollowingScale | FrozenScale = FrozenScale()
    kernel: Literal["rbf", "laplace"] = "rbf"
    """Product kernel of actor and critics."""
    length_scale: Annotated[float | Auto, POSITIVE] = "auto"
    """Kernel length scale on normalised states."""
    capacity: Annotated[int | Auto, POSITIVE] = "auto"
    """Most states in each dictionary."""
    initial_centres: Annotated[int, POSITIVE] = 128
    """Most states admitted from the warm-up."""
    admission: ConstantAdmission | AnnealedAdmission = ConstantAdmission()
    replacement: RemovalCost | LargestError | NoReplacement = RemovalCost()

    # Critics
    value: LSTD | TD | MonteCarlo | NoValue = LSTD()
    advantage: ClosedAdvantage | ReleasedAdvantage = ClosedAdvantage()

    # Actor
    squash: Literal["tanh", "clip", "none"] = "tanh"
    """How the Gaussian variable u becomes an action inside the bounds."""
    exploration: LearnedSigma | ScheduledSigma = ScheduledSigma()
    metric: Literal["fisher", "rkhs", "euclidean"] = "fisher"
    """Metric of the actor's step: natural gradient, RKHS gradient, or plain gradient on coefficients."""
    step: KLStep | ConstantStep | PolynomialStep = KLStep()

    keep: Literal["last", "best"] = "last"
    """The policy that acts after training: the last, or the best so far by trials without exploration noise (their
    steps are not counted); a policy made for errors of measurement is tried with a mixture of levels of them."""

    # Robustness
    robust: NoRobustness | WiderScale | NoisyTraining | SmoothPolicy | FilteredMeasurements = NoRobustness()

    # Guidance
    guidance: AgreementGuidance | ReleasedGuidance | PrintedGuidance | UniformGuidance | NoGuidance = (
        AgreementGuidance()
    )

    # Running
    epochs_between_evaluations: Annotated[int, POSITIVE] = 5
    """Epochs between evaluations while training in a run folder."""
    evaluation_episodes: Annotated[int, POSITIVE] = 20
    """Fixed-seed episodes of those evaluations."""
    step_timeout: Annotated[float | None, POSITIVE] = 300.0
    """Seconds that one step or reset of all environments may take before the run is stopped; unset means no limit."""
    diagnostics: bool = False
    """Record quantities of the convergence theory each epoch: zeta_a, lambda_F, kernel drift, distance to the
    dictionaries."""
    precision: Literal["float32", "float64"] = "float32"
    """Precision of batch features and their Gram products; factorisations are always float64."""
    threads: Annotated[int, POSITIVE] = 1
    """Threads of BLAS and Numba; equal threads and seed give equal bytes."""

    def __post_init__(self) -> None:
        check_fields(self)
        if getattr(self.advantage, "smooth_advantage", False) and self.metric == "fisher":
            raise ConfigError(
                "smooth_advantage=True does nothing with metric='fisher', which uses the fit already. "
                "Leave one of them out."
            )

        _check_noise(self.robust, self.scale)
        _check_game(self.guidance, self.game)

    def __repr__(self) -> str:
        settings, plain, tags = self.settings(), flattened(Config()), {choice.tag for choice in CHOICES.values()}
        usual = flattened(built(Config, {name: value for name, value in settings.items() if name in tags}, {}))
        changed = {name: x for name, x in settings.items() if x != (plain if name in tags else usual).get(name)}
        return f"Config.of({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None = None, **more: Any) -> Config:
        """The configuration with these settings, by their flat names; unset ones take their defaults."""
        return built(cls, {}, {**(settings or {}), **more})

    @classmethod
    def built(cls, base: Mapping[str, Any], asked: Mapping[str, Any]) -> Config:
        """From flat settings of a preset, which are dropped where they have no effect, and what was asked for."""
        return built(cls, base, asked)

    def settings(self) -> dict[str, Any]:
        """Flat name -> value of every setting that has an effect."""
        return flattened(self)

    def updated(self, **changes: Any) -> Config:
        """The same configuration with some settings changed, by their flat names.

        Settings of a choice that `changes` replaces by another are dropped with it.
        """
        return built(type(self), self.settings(), changes)

    @property
    def has_value(self) -> bool:
        """Whether there is a Value Critic."""
        return not isinstance(self.value, NoValue)

    @property
    def correlation(self) -> float:
        """Correlation of the exploration noise from one step to the next; zero before an "auto" is settled."""
        rule = self.exploration
        return rule.noise_correlation if isinstance(rule, LearnedSigma) and rule.noise_correlation != "auto" else 0.0

    @property
    def game(self) -> str | None:
        """The Shapley game that guides, "kme" or "cme"; None where attributions do not guide."""
        return flattened(self).get("attribution")


def _check_game(guidance: Any, game: str | None) -> None:
    importance = getattr(guidance, "importance", "shapley")
    if importance != "shapley" and game == "cme":
        raise ConfigError(
            f"attribution='cme' has no effect with importance={importance!r}: it is a game of Shapley values. "
            "Leave one of them out."
        )
    rule = getattr(guidance, "game", None)
    if isinstance(rule, CME) and rule.cme_rank is not None and rule.cme_approximation is None:
        raise ConfigError(
            f"cme_rank={rule.cme_rank} has no effect without an approximation. Set cme_approximation='nystroem' or "
            "'fourier', or leave cme_rank out."
        )


def _check_noise(rule: Any, scale: FollowingScale | FrozenScale) -> None:
    if isinstance(rule, WiderScale) and not isinstance(scale, FollowingScale):
        raise ConfigError(
            "robust='scale' needs scaling='following', got scaling='frozen': standard deviations that are fixed before "
            "training cannot include the errors. Use scaling='following', or robust='noise'."
        )
    if isinstance(rule, GrowingErrors) and rule.robust_units == "normalised" and rule.robust_noise >= 1:
        raise ConfigError(
            f"robust_noise must be below 1 with robust_units='normalised', got {rule.robust_noise}: standard "
            "deviations include the errors, and with errors as large as themselves they would grow without end. Use "
            "less, or robust_units='raw'."
        )

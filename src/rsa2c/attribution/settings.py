"""Settings of the two games, checked at construction; a setting of the other game is refused by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rsa2c.attribution.embedding import APPROXIMATIONS, EMBEDDINGS
from rsa2c.attribution.inputs import one_of, positive
from rsa2c.errors import ConfigError, did_you_mean

DEFAULT_TOLERANCE, DEFAULT_RIDGE, DEFAULT_RANK = 1e-9, 1e-3, 64
FLOAT32_TOLERANCE = 1e-6
DEVICES, PRECISIONS = ("cpu", "cuda"), ("float64", "float32")


@dataclass(frozen=True, kw_only=True)
class InterventionalSettings:
    """Settings of the game `kme`: the number of quadrature nodes, and where and how precisely to compute."""

    tolerance: float | None = None
    """Estimated error to stay below, relative to each output's largest value; unless given 1e-9, 1e-6 in float32."""
    nodes: int | str | None = None
    """The number of nodes, or "exact" for ceil(d/2); None chooses it by `tolerance`."""
    device: str = "cpu"
    """"cuda" computes on an NVIDIA GPU (extra `gpu`)."""
    precision: str = "float64"
    """"float32" takes about half the time on the GPU; values agree with float64's to about 1e-6."""

    def __post_init__(self) -> None:
        one_of("device", self.device, DEVICES)
        one_of("precision", self.precision, PRECISIONS)
        if self.precision != "float64" and self.device == "cpu":
            raise ConfigError(
                f"precision={self.precision!r} needs device='cuda': the processor computes in float64. "
                "Leave precision out, or pass device='cuda'."
            )
        if self.tolerance is not None:
            positive("tolerance", self.tolerance)
        if self.nodes is None or self.nodes == "exact":
            pass
        elif isinstance(self.nodes, bool) or not isinstance(self.nodes, int | np.integer) or self.nodes < 1:
            raise ConfigError(f"nodes must be a positive number, 'exact' or None, got {self.nodes!r}.")
        if self.nodes is not None and self.tolerance is not None:
            raise ConfigError(
                f"tolerance chooses the number of nodes, but nodes={self.nodes!r} already sets it: pass one of the two."
            )

    @property
    def aim(self) -> float:
        """The tolerance, or its default in this precision."""
        if self.tolerance is not None:
            return self.tolerance
        return DEFAULT_TOLERANCE if self.precision == "float64" else FLOAT32_TOLERANCE


@dataclass(frozen=True, kw_only=True)
class ObservationalSettings:
    """Settings of the game `cme`: the regression on observed features, and which coalitions are valued."""

    tolerance: float | None = None
    """Standard error, relative to each output's largest value, at which sampling stops."""
    embedding: str = "intercept"
    ridge: float | str = DEFAULT_RIDGE
    """A number, or "auto" to choose it by held-out error."""
    permutations: int | None = None
    """Orders sampled; None enumerates all coalitions of up to ten players."""
    approximation: str | None = None
    rank: int | None = None
    """Landmarks or random features of the approximation; 64 unless given."""
    rng: np.random.Generator | None = None
    """Draws orders, landmarks and features; seeded with 0 unless given."""

    def __post_init__(self) -> None:
        one_of("embedding", self.embedding, EMBEDDINGS)
        if self.approximation is not None:
            one_of("approximation", self.approximation, APPROXIMATIONS)
        elif self.rank is not None:
            raise ConfigError(f"rank={self.rank} needs an approximation: {' or '.join(map(repr, APPROXIMATIONS))}.")
        if self.rank is not None and self.rank < 1:
            raise ConfigError(f"rank must be at least 1, got {self.rank}.")
        if self.permutations is not None and self.permutations < 4:
            raise ConfigError(
                f"permutations must be at least 4, two antithetic pairs, for a standard error; got {self.permutations}."
            )
        if self.tolerance is not None:
            positive("tolerance", self.tolerance)
        if isinstance(self.ridge, str):
            one_of("ridge", self.ridge, ("auto",))
        else:
            positive("ridge", self.ridge)


Settings = InterventionalSettings | ObservationalSettings
SETTINGS: dict[str, type[Settings]] = {"kme": InterventionalSettings, "cme": ObservationalSettings}


WITHOUT_USE = {
    "nsamples": "nothing is sampled; method='cme' has permutations",
    "l1_reg": "no feature is left out",
    "check_additivity": "efficiency_residual has how far values are from adding up",
    "link": "what is explained is the model's own output, a decision function or a latent mean for classifiers",
    "silent": "progress=False shows no progress",
}
"""Options of shap's explainers, and why there is none."""


def check_shap_options(options: Collection[str]) -> None:
    """Refuse what shap's explainers take and these have no use for."""
    for name, reason in WITHOUT_USE.items():
        if name in options:
            raise ConfigError(f"explain has no option {name!r}: {reason}. Leave it out.")


def settings_of(method: str, options: dict[str, Any]) -> Settings:
    """The settings of a game; options of the other game, and unknown ones, are refused."""
    one_of("method", method, tuple(SETTINGS))
    check_shap_options(options)
    known = {name: {field.name for field in fields(settings)} for name, settings in SETTINGS.items()}
    for option in options:
        if option in known[method]:
            continue
        owners = [name for name, names in known.items() if option in names]
        if owners:
            raise ConfigError(
                f"{option} is a setting of method={owners[0]!r} and would do nothing with method={method!r}. "
                f"Leave it out, or pass method={owners[0]!r}."
            )
        names = sorted(known[method])
        hint = did_you_mean(option, names)
        raise ConfigError(f"explain has no option {option!r}; those of method={method!r} are {', '.join(names)}.{hint}")
    return SETTINGS[method](**options)

"""Settings: what they are, what they may be, and the names under which users know sets of them."""

from rsa2c.config.choices import (
    CME,
    KME,
    LSTD,
    ClosedAdvantage,
    ConstantAdmission,
    KLStep,
    NoGuidance,
    NoReplacement,
    NoValue,
    RemovalCost,
    ShadowGuidance,
    UniformGuidance,
)
from rsa2c.config.flat import Setting, all_settings
from rsa2c.config.released import (
    TD,
    AnnealedAdmission,
    ConstantStep,
    LargestError,
    MonteCarlo,
    PolynomialStep,
    ReleasedAdvantage,
    ReleasedGuidance,
)
from rsa2c.config.settings import Config
from rsa2c.config.upgrade import upgraded_settings
from rsa2c.config.variants import ALGORITHMS, algorithm_name, default_timesteps, make_config, preset_names

__all__ = [
    "ALGORITHMS",
    "CME",
    "KME",
    "LSTD",
    "TD",
    "AnnealedAdmission",
    "ClosedAdvantage",
    "Config",
    "ConstantAdmission",
    "ConstantStep",
    "KLStep",
    "LargestError",
    "MonteCarlo",
    "NoGuidance",
    "NoReplacement",
    "NoValue",
    "PolynomialStep",
    "ReleasedAdvantage",
    "ReleasedGuidance",
    "RemovalCost",
    "Setting",
    "ShadowGuidance",
    "UniformGuidance",
    "algorithm_name",
    "all_settings",
    "default_timesteps",
    "make_config",
    "preset_names",
    "upgraded_settings",
]

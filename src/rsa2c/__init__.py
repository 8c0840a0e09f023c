"""Kernel actor-critic policies for continuous control that explain themselves.

Public names are imported when they are first used, so that `import rsa2c` and the command line's help are quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.attribution import Explanation, KernelExplainer
    from rsa2c.closed_loop import explain_policy
    from rsa2c.config import ALGORITHMS, Config, make_config
    from rsa2c.envs import Distractors, ObservationNoise, make_env
    from rsa2c.evaluate import EvaluationResult, Policy, evaluate
    from rsa2c.kernel.kernels import RBF, Laplace
    from rsa2c.kernel.rkhs import Normaliser, RKHSFunction

__version__ = "0.1.0"

_MODULES = {
    "ALGORITHMS": "config",
    "RBF": "kernel.kernels",
    "RSA2C": "agent",
    "Config": "config",
    "Distractors": "envs",
    "EvaluationResult": "evaluate",
    "Explanation": "attribution",
    "KernelExplainer": "attribution",
    "Laplace": "kernel.kernels",
    "Normaliser": "kernel.rkhs",
    "ObservationNoise": "envs",
    "Policy": "evaluate",
    "RKHSFunction": "kernel.rkhs",
    "evaluate": "evaluate",
    "explain_policy": "closed_loop",
    "make_config": "config",
    "make_env": "envs",
}
"""The module of each public name."""

__all__ = list(_MODULES)  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'rsa2c' has no attribute {name!r}")
    value = getattr(import_module(f"rsa2c.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})

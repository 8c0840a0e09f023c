"""Kernel actor-critic policies for continuous control that explain themselves.

Public names are imported when they are first used, so that `import rsa2c` and the command line's help are quick.
"""

from typing import TYPE_CHECKING

from rsa2c.envs.plugin import register_when_imported
from rsa2c.lazy import lazy

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.attribution import Explanation, KernelExplainer
    from rsa2c.closed_loop import explain_policy
    from rsa2c.config import ALGORITHMS, Config, make_config
    from rsa2c.envs import Distractors, ObservationNoise, make_env
    from rsa2c.evaluation import EvaluationResult, Policy, evaluate
    from rsa2c.kernel.kernels import RBF, Laplace
    from rsa2c.kernel.metric import Metric
    from rsa2c.kernel.rkhs import RKHSFunction
    from rsa2c.runs.source import load

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "RBF",
    "RSA2C",
    "Config",
    "Distractors",
    "EvaluationResult",
    "Explanation",
    "KernelExplainer",
    "Laplace",
    "Metric",
    "ObservationNoise",
    "Policy",
    "RKHSFunction",
    "evaluate",
    "explain_policy",
    "load",
    "make_config",
    "make_env",
]

register_when_imported()

__getattr__, __dir__ = lazy(
    __name__,
    {
        "agent": ["RSA2C"],
        "attribution": ["Explanation", "KernelExplainer"],
        "closed_loop": ["explain_policy"],
        "config": ["ALGORITHMS", "Config", "make_config"],
        "envs": ["Distractors", "ObservationNoise", "make_env"],
        "evaluation": ["EvaluationResult", "Policy", "evaluate"],
        "kernel.kernels": ["RBF", "Laplace"],
        "kernel.metric": ["Metric"],
        "kernel.rkhs": ["RKHSFunction"],
        "runs.source": ["load"],
    },
)

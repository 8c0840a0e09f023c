"""Kernel actor-critic policies for continuous control that explain themselves."""

from rsa2c.agent import RSA2C
from rsa2c.attribution import Explanation, KernelExplainer
from rsa2c.attribution.surrogate import explain_policy
from rsa2c.config import ALGORITHMS, Config, make_config
from rsa2c.envs import Distractors, ObservationNoise, make_env
from rsa2c.evaluate import EvaluationResult, Policy, evaluate
from rsa2c.kernel.kernels import RBF, Laplace
from rsa2c.kernel.rkhs import Normaliser, RKHSFunction

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
    "Normaliser",
    "ObservationNoise",
    "Policy",
    "RKHSFunction",
    "evaluate",
    "explain_policy",
    "make_config",
    "make_env",
]

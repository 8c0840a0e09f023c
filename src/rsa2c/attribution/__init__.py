"""Attribution: Shapley values of kernel functions, exact where that is possible, with error bars where it is not."""

from rsa2c.attribution.explainer import KernelExplainer
from rsa2c.attribution.explaining import explain
from rsa2c.attribution.explanation import Explanation
from rsa2c.attribution.prototypes import Prototypes, prototypes

__all__ = ["Explanation", "KernelExplainer", "Prototypes", "explain", "prototypes"]

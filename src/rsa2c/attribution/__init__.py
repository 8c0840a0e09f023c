"""Attribution: Shapley values of kernel functions, exact where that is possible, with error bars where it is not.

Nothing here depends on an environment; what needs one is in `rsa2c.closed_loop`.
"""

from rsa2c.attribution.dataset import explain_dataset
from rsa2c.attribution.explained import ExplainedDataset
from rsa2c.attribution.explainer import KernelExplainer
from rsa2c.attribution.explaining import explain
from rsa2c.attribution.explanation import Explanation
from rsa2c.attribution.prototypes import Prototypes, prototypes
from rsa2c.attribution.surrogate import PolicyExplanation

__all__ = [
    "ExplainedDataset",
    "Explanation",
    "KernelExplainer",
    "PolicyExplanation",
    "Prototypes",
    "explain",
    "explain_dataset",
    "prototypes",
]

"""`KernelExplainer`: exact Shapley values of any product-kernel model, called as shap's explainers are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.explaining import explain
from rsa2c.attribution.explanation import Explanation
from rsa2c.attribution.inputs import check_columns, checked, picked_outputs
from rsa2c.attribution.models import Expansion, expansions
from rsa2c.attribution.settings import check_shap_options

Array = NDArray[np.float64]


class KernelExplainer:
    """Explains scikit-learn's SVR, SVC, KernelRidge and Gaussian processes, GPyTorch's exact GPs, `RKHSFunction`s.

        explainer = rsa2c.KernelExplainer(model, background)
        explanation = explainer(X)

    `background` (B, d) are the states absent features are drawn from, in the units of X, as in shap. Models inside a
    Pipeline of scalers, a ColumnTransformer of them among these, are explained in the Pipeline's units; of a search
    such as GridSearchCV, the best estimator is explained. A classifier is explained by its decision function or
    latent mean, one output per class or pair of classes. `model` may also be a tuple (centres, coefficients,
    length_scales), with `kernel` "rbf" or "laplace". Columns of a data frame name the features: those of the
    background, or of the table the model was fitted to. Further options are those of `rsa2c.attribution.explain` and
    can be changed in each call.
    """

    def __init__(
        self,
        model: Any,
        background: ArrayLike,
        feature_names: Sequence[str] | None = None,
        kernel: str = "rbf",
        **options: Any,
    ) -> None:
        check_shap_options(options)
        self.expansions = expansions(model, kernel)
        self.options = options
        fitted = [str(name) for name in getattr(model, "feature_names_in_", ())]
        if fitted:
            check_columns("background", background, fitted, "the columns the model was fitted to,")
        self.columns = [str(column) for column in getattr(background, "columns", ())] or fitted
        self.feature_names = feature_names if feature_names is not None else self.columns or None
        self.background = checked("background", background, self.expansions[0].kernel.dimension)

    def __repr__(self) -> str:
        rows, d = self.background.shape
        return f"KernelExplainer({d} features -> {', '.join(self.output_names)}; {rows} background states)"

    @property
    def summands(self) -> list[list[Expansion]]:
        """The expansions by the outputs they belong to: those of a list add up."""
        return [list(group) for _, group in groupby(self.expansions, lambda expansion: expansion.output_names)]

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs explained."""
        return tuple(name for group in self.summands for name in group[0].output_names)

    @property
    def expected_value(self) -> float | Array:
        """Mean of what is explained over the background: a number, or (m,) for several outputs, as shap has it."""
        picked = picked_outputs(self.options.get("outputs"), self.output_names)
        mean = self.predict(self.background).mean(axis=0)[picked]
        return float(mean[0]) if len(mean) == 1 else np.asarray(mean)

    def predict(self, x: ArrayLike) -> Array:
        """What is explained, (N, m): predictions, decision functions or latent means."""
        rows = self._rows(x)
        return np.column_stack([np.sum([part(rows) for part in group], axis=0) for group in self.summands])

    def __call__(self, x: ArrayLike, **options: Any) -> Explanation:
        """Shapley values of the rows of X, in the model's units."""
        rows = self._rows(x)
        options = {"feature_names": self.feature_names, **self.options, **options}
        parts = [
            Explanation.summed([explain(expansion, rows, self.background, **options) for expansion in group])
            for group in self.summands
        ]
        return Explanation.joined(parts)

    def _rows(self, x: ArrayLike) -> Array:
        if self.columns:
            check_columns("X", x, self.columns, "the background's columns")
        return checked("X", x, self.expansions[0].kernel.dimension)

    def shap_values(self, x: ArrayLike, **options: Any) -> Array:
        """Values alone, (T, d, m), or (T, d) for a single output, as shap returns them."""
        values = self(x, **options).values
        return values[..., 0] if values.shape[2] == 1 else values

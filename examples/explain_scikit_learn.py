"""For users of shap: exact Shapley values of a Gaussian process behind a scaler, checked by enumeration.

Needs `pip install 'rsa2c[explain]'`. Takes some seconds.
"""

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rsa2c

FEATURES = ["age", "bmi", "bp", "s1", "s5"]


def enumerated(predict, row, background):
    """Shapley values of one row by all 2^d coalitions, as the definition says."""
    d = len(row)

    def value(coalition):
        mixed = background.copy()
        mixed[:, coalition] = row[list(coalition)]
        return predict(mixed).mean()

    values = np.zeros(d)
    for i in range(d):
        others = [j for j in range(d) if j != i]
        for size in range(d):
            for coalition in combinations(others, size):
                gain = value((*coalition, i)) - value(coalition)
                values[i] += gain / (d * comb(d - 1, size))
    return values


def main() -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X[FEATURES]
    kernel = RBF(np.full(len(FEATURES), 3.0)) + WhiteKernel(0.5)
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True)).fit(
        X, y
    )
    background = X[::9]

    explanation = rsa2c.KernelExplainer(model, background)(X)
    for name, importance in explanation.top(len(FEATURES)):
        print(f"  {name:4} {importance:6.2f}")

    def predict(rows):
        return model.predict(pd.DataFrame(rows, columns=FEATURES))

    by_definition = enumerated(predict, X.to_numpy()[0], background.to_numpy())
    error = np.abs(explanation.values[0, :, 0] - by_definition).max()
    print(f"largest difference to enumeration: {error:.1e}")
    assert error < 1e-8


if __name__ == "__main__":
    main()

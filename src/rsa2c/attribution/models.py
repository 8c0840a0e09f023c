"""Other libraries' kernel models, read as expansions f(x) = offset + sum_j k(x, c_j) coefficients_j.

scikit-learn's SVR, SVC, KernelRidge and Gaussian processes, alone, at the end of a Pipeline of scalers or found by a
search such as GridSearchCV, and GPyTorch's exact GPs. Models are recognised by the names of their classes: none of
those libraries is imported. What has no product kernel, nor a sum of them, is refused: its exact Shapley values would
take too long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rsa2c.attribution.preprocessing import preprocessing
from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.kernels import RBF, Laplace, ProductKernel, kernel_from_name
from rsa2c.kernel.metric import Metric

Array = NDArray[np.float64]
Transform = Callable[[Array], Array]
REMEDY = "Fit it with an RBF kernel, or use one of shap's sampling explainers."
FROM_GAMMA: dict[str, Callable[[float, int], ProductKernel]] = {
    "rbf": lambda gamma, d: RBF(1.0, np.full(d, 2.0 * gamma)),
    "laplacian": lambda gamma, d: Laplace(1.0, np.full(d, gamma**2)),
}
"""scikit-learn's exp(-gamma |x - y|^2) and exp(-gamma |x - y|_1) of d features."""


def _unchanged(x: Array) -> Array:
    return x


@dataclass(frozen=True, eq=False)
class Expansion:
    """A kernel expansion of another library's model; `coordinates` maps the user's units to the kernel's."""

    kernel: ProductKernel
    centres: Array
    coefficients: Array
    offset: Array
    output_names: tuple[str, ...]
    coordinates: Transform = _unchanged

    def __call__(self, x: ArrayLike) -> Array:
        z = self.coordinates(np.asarray(x, dtype=np.float64))
        return np.asarray(self.kernel(z, self.centres) @ self.coefficients + self.offset)


def expansions(model: Any, kernel: str = "rbf") -> list[Expansion]:
    """The model as expansions, one for each kernel it has: together they hold its outputs in order.

    Neighbours with the same output names are summands of those outputs: a sum of kernels has one for each.

    A tuple (centres, coefficients, length scales) is an expansion with the product kernel called `kernel`.
    """
    if isinstance(model, tuple):
        return [_raw(model, kernel)]
    if all(hasattr(model, name) for name in ("kernel", "centres", "coefficients", "coordinates", "output_names")):
        return [model]
    family = {base.__name__: base.__module__.split(".")[0] for base in type(model).__mro__}
    for name, read in READERS.items():
        if family.get(name) in ("sklearn", "gpytorch"):
            return read(model)
    if (owner := getattr(model, "__self__", None)) is not None:
        raise ConfigError(
            f"KernelExplainer reads the model itself, not a function that predicts; got {type(owner).__name__}."
            f"{model.__name__}. Write KernelExplainer(model, background)."
        )
    models = [name for name in READERS if name not in ("Pipeline", "BaseSearchCV")]
    raise ConfigError(
        f"KernelExplainer reads {', '.join(models)}, Pipelines of scalers and one of them, searches such as "
        "GridSearchCV over them, RKHSFunction, or (centres, coefficients, length_scales); "
        f"got {type(model).__name__}. {REMEDY}"
    )


def _raw(parts: tuple[Any, ...], kernel: str) -> Expansion:
    if len(parts) != 3:
        raise DataError(f"a raw model is (centres, coefficients, length_scales), got {len(parts)} parts.")
    centres, coefficients, scales = (np.asarray(part, dtype=np.float64) for part in parts)
    coefficients = coefficients.reshape(len(coefficients), -1)
    if centres.ndim != 2 or len(coefficients) != len(centres) or scales.shape not in ((), (centres.shape[1],)):
        raise DataError(
            "a raw model needs centres (q, d), coefficients (q,) or (q, m) and one or d length scales; "
            f"got shapes {centres.shape}, {coefficients.shape} and {scales.shape}."
        )
    if not all(np.all(np.isfinite(part)) for part in (centres, coefficients, scales)):
        raise DataError("a raw model must be finite, got NaN or infinity among centres, coefficients or length scales.")
    weights = np.broadcast_to(1.0 / scales**2, centres.shape[1:])
    m = coefficients.shape[1]
    return Expansion(kernel_from_name(kernel, 1.0, weights), centres, coefficients, np.zeros(m), _numbered(m))


def _pipeline(model: Any) -> list[Expansion]:
    """Steps that act feature by feature do not change the game: they become the map to coordinates."""
    *steps, (_, last) = model.steps
    before = preprocessing(steps)
    return [
        replace(
            expansion,
            kernel=expansion.kernel.on(Metric.weighted(before.in_order(expansion.kernel.weights, absent=1.0))),
            centres=before.in_order(expansion.centres),
            coordinates=before.then(expansion.coordinates),
        )
        for expansion in expansions(last)
    ]


def _search(model: Any) -> list[Expansion]:
    """GridSearchCV and its relatives: the best estimator, fitted to all the data."""
    if hasattr(model, "cv_results_") and not hasattr(model, "best_estimator_"):
        raise ConfigError(f"{type(model).__name__} has refit=False and keeps no estimator: fit it with refit=True.")
    _fitted(model, "best_estimator_")
    return expansions(model.best_estimator_)


def _support_vectors(model: Any) -> list[Expansion]:
    """SVR, NuSVR, OneClassSVM, SVC and NuSVC (decision functions, one against one for more than two classes)."""
    _fitted(model, "support_vectors_")
    _named_kernel(model, model.kernel, ("rbf",))
    vectors = model.support_vectors_
    vectors = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors, dtype=np.float64)
    dual = model.dual_coef_
    dual = np.asarray(dual.toarray() if hasattr(dual, "toarray") else dual)
    kernel = FROM_GAMMA["rbf"](model._gamma, vectors.shape[1])
    classes = getattr(model, "classes_", None)
    if classes is None:
        return [Expansion(kernel, vectors, dual.T.copy(), np.array(model.intercept_), ("prediction",))]
    if len(classes) == 2:
        return [Expansion(kernel, vectors, dual.T.copy(), np.array(model.intercept_), (f"decision {classes[1]}",))]
    # Row r of dual_coef_ holds, for a vector of class c, its coefficient against the r-th of the other classes.
    owner = np.repeat(np.arange(len(classes)), model.n_support_)
    columns, names = [], []
    for i in range(len(classes)):
        for j in range(i + 1, len(classes)):
            columns.append(np.where(owner == i, dual[j - 1], np.where(owner == j, dual[i], 0.0)))
            names.append(f"{classes[i]} against {classes[j]}")
    return [Expansion(kernel, vectors, np.column_stack(columns), np.array(model.intercept_), tuple(names))]


def _kernel_ridge(model: Any) -> list[Expansion]:
    _fitted(model, "dual_coef_")
    name = _named_kernel(model, model.kernel, tuple(FROM_GAMMA))
    centres = np.asarray(model.X_fit_, dtype=np.float64)
    d = centres.shape[1]
    gamma = 1.0 / d if model.gamma is None else float(model.gamma)
    kernel = FROM_GAMMA[name](gamma, d)
    coefficients = np.asarray(model.dual_coef_).reshape(len(centres), -1)
    m = coefficients.shape[1]
    return [Expansion(kernel, centres, coefficients, np.zeros(m), _numbered(m))]


def _process_regressor(model: Any) -> list[Expansion]:
    """Posterior mean, in the units of y."""
    _fitted(model, "alpha_")
    centres = np.asarray(model.X_train_, dtype=np.float64)
    alpha = np.asarray(model.alpha_).reshape(len(centres), -1)
    scaled = alpha * np.broadcast_to(model._y_train_std, alpha.shape[1:])
    offset = np.broadcast_to(model._y_train_mean, alpha.shape[1:])
    return _summands(model.kernel_, centres, scaled, offset, _numbered(alpha.shape[1]))


def _process_classifier(model: Any) -> list[Expansion]:
    """Latent means: one for two classes, else one per class or pair of classes, each with a kernel of its own."""
    _fitted(model, "base_estimator_")
    base, classes = model.base_estimator_, model.classes_
    pairs = [(i, j) for i in range(len(classes)) for j in range(i + 1, len(classes))]
    if len(classes) == 2:
        machines, names = [base], [f"latent {classes[1]}"]
    else:
        machines = list(base.estimators_)
        names = [f"latent {c}" for c in classes]
        if model.multi_class == "one_vs_one":
            names = [f"{classes[j]} against {classes[i]}" for i, j in pairs]
    result: list[Expansion] = []
    for machine, name in zip(machines, names, strict=True):
        centres = np.asarray(machine.X_train_, dtype=np.float64)
        slope = np.asarray(machine.y_train_ - machine.pi_)[:, None]
        result += _summands(machine.kernel_, centres, slope, np.zeros(1), (name,))
    return result


def _exact_gp(model: Any) -> list[Expansion]:
    """GPyTorch: constant or zero mean and an RBF kernel, scaled or not; posterior mean by one solve."""

    def numbers(tensor: Any) -> Array:
        return np.asarray(tensor.detach().cpu().double().numpy())

    covariance, amplitude = model.covar_module, 1.0
    if type(covariance).__name__ == "ScaleKernel":
        amplitude, covariance = float(numbers(covariance.outputscale)), covariance.base_kernel
    if type(covariance).__name__ != "RBFKernel":
        raise ConfigError(f"KernelExplainer needs an RBFKernel, got {type(covariance).__name__}. {REMEDY}")
    mean = type(model.mean_module).__name__
    if mean not in ("ConstantMean", "ZeroMean"):
        raise ConfigError(f"KernelExplainer needs a ConstantMean or ZeroMean, got {mean}: detrend the targets first.")
    offset = float(numbers(model.mean_module.constant)) if mean == "ConstantMean" else 0.0
    centres = numbers(model.train_inputs[0])
    scales = np.broadcast_to(numbers(covariance.lengthscale).ravel(), centres.shape[1:])
    kernel = RBF(1.0, 1.0 / scales**2)
    gram = amplitude * kernel(centres, centres)
    gram[np.diag_indices_from(gram)] += float(numbers(model.likelihood.noise).ravel()[0])
    alpha = np.asarray(np.linalg.solve(gram, numbers(model.train_targets) - offset), dtype=np.float64)
    return [Expansion(kernel, centres, amplitude * alpha[:, None], np.array([offset]), ("prediction",))]


READERS: dict[str, Callable[[Any], list[Expansion]]] = {
    "Pipeline": _pipeline,
    "BaseSearchCV": _search,
    "SVR": _support_vectors,
    "NuSVR": _support_vectors,
    "SVC": _support_vectors,
    "NuSVC": _support_vectors,
    "OneClassSVM": _support_vectors,
    "KernelRidge": _kernel_ridge,
    "GaussianProcessRegressor": _process_regressor,
    "GaussianProcessClassifier": _process_classifier,
    "ExactGP": _exact_gp,
}


def _summands(tree: Any, centres: Array, weights: Array, offset: Array, names: tuple[str, ...]) -> list[Expansion]:
    """offset + sum_j k(x, c_j) weights_j with a sum k of product kernels: one expansion each, offset in the first."""
    constant, kernels = _covariance(tree, centres.shape[1])
    offsets = [offset + constant * weights.sum(axis=0), *[np.zeros_like(offset)] * (len(kernels) - 1)]
    return [
        Expansion(kernel, centres, amplitude * weights, at, names)
        for (amplitude, kernel), at in zip(kernels, offsets, strict=True)
    ]


def _covariance(tree: Any, d: int) -> tuple[float, list[tuple[float, RBF]]]:
    """A scikit-learn covariance as constant + sum of amplitude * RBF; white noise is zero between different points."""
    constant, kernels = 0.0, []
    for term in _terms(tree):
        factor, precision, white = 1.0, np.zeros(d), False
        for part in _leaves(term):
            name = type(part).__name__
            if name == "ConstantKernel":
                factor *= part.constant_value
            elif name == "WhiteKernel":
                white = True
            elif name == "RBF" or (name == "Matern" and np.isinf(part.nu)):
                precision = precision + 1.0 / np.broadcast_to(part.length_scale, (d,)) ** 2
            else:
                known = "sums and products of RBF, ConstantKernel and WhiteKernel"
                raise ConfigError(f"the covariance {tree} contains {name}; exact values need {known}. {REMEDY}")
        if white:
            continue
        if not precision.any():
            constant += factor
        else:
            kernels.append((factor, RBF(1.0, precision)))
    if not kernels:
        raise ConfigError(f"the covariance {tree} has no RBF part, so nothing depends on the features.")
    return constant, kernels


def _terms(tree: Any) -> list[Any]:
    """The summands of a covariance, with sums inside products multiplied out."""
    name = type(tree).__name__
    if name == "Sum":
        return _terms(tree.k1) + _terms(tree.k2)
    if name == "Product":
        return [[*_leaves(u), *_leaves(v)] for u in _terms(tree.k1) for v in _terms(tree.k2)]
    return [tree]


def _leaves(term: Any) -> list[Any]:
    return term if isinstance(term, list) else [term]


def _named_kernel(model: Any, kernel: Any, known: tuple[str, ...]) -> str:
    if kernel not in known:
        name = kernel if isinstance(kernel, str) else "a function or an object"
        raise ConfigError(
            f"{type(model).__name__} has the kernel {name!r}; exact values need a product kernel: "
            f"{' or '.join(map(repr, known))}. {REMEDY}"
        )
    return str(kernel)


def _fitted(model: Any, attribute: str) -> None:
    if not hasattr(model, attribute):
        raise DataError(f"{type(model).__name__} is not fitted yet: call fit before explaining it.")


def _numbered(m: int) -> tuple[str, ...]:
    return ("prediction",) if m == 1 else tuple(f"prediction {i}" for i in range(m))

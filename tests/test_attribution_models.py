"""KernelExplainer: every supported model is read exactly, explained in its own units, and others are refused."""

from __future__ import annotations

import numpy as np
import pytest

import rsa2c
from rsa2c.attribution import KernelExplainer
from rsa2c.errors import ConfigError, DataError
from rsa2c.kernel.dictionary import Dictionary

sklearn = pytest.importorskip("sklearn")
from sklearn.datasets import load_diabetes, load_iris  # noqa: E402
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor  # noqa: E402
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel  # noqa: E402
from sklearn.kernel_ridge import KernelRidge  # noqa: E402
from sklearn.linear_model import LinearRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler  # noqa: E402
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM  # noqa: E402


@pytest.fixture(scope="module")
def table():
    data = load_diabetes(scaled=False)
    return data.data[:150], data.target[:150]


@pytest.fixture(scope="module")
def flowers():
    data = load_iris()
    return data.data[::2], data.target[::2]


def check(model, x, reference, outputs):
    explainer = KernelExplainer(model, x[:40])
    reference = np.asarray(reference).reshape(len(x), -1)
    scale = np.abs(reference).max()
    np.testing.assert_allclose(explainer.predict(x), reference, atol=1e-8 * scale)
    explanation = explainer(x[50:54])
    assert explanation.values.shape == (4, x.shape[1], outputs)
    assert len(explanation.output_names) == outputs
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, reference[50:54], atol=1e-8 * scale)
    assert np.abs(explanation.efficiency_residual).max() < 1e-9 * scale
    return explanation


@pytest.mark.parametrize("machine", [SVR(C=100), SVR(C=10, gamma=0.02), NuSVR(C=50), SVR(C=10, gamma="auto")])
@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()])
def test_support_vector_regression_in_a_pipeline(table, machine, scaler):
    x, y = table
    model = make_pipeline(scaler, machine).fit(x, y)
    explanation = check(model, x, model.predict(x), 1)
    np.testing.assert_array_equal(explanation.data, x[50:54])


def test_kernel_ridge_with_several_outputs_and_both_kernels(table):
    x, y = table
    x = StandardScaler().fit_transform(x)
    targets = np.column_stack([y, np.sin(y)])
    for kernel, gamma in (("rbf", None), ("rbf", 0.05), ("laplacian", 0.05), ("laplacian", None)):
        model = KernelRidge(kernel=kernel, gamma=gamma, alpha=0.1).fit(x, targets)
        check(model, x, model.predict(x), 2)


def test_gaussian_process_regression_with_constants_noise_and_normalised_targets(table):
    x, y = table
    x = StandardScaler().fit_transform(x)
    d = x.shape[1]
    kernels = (
        RBF(3.0),
        ConstantKernel(2.0) * RBF(np.linspace(2, 5, d)) + WhiteKernel(0.5),
        WhiteKernel(0.3) + ConstantKernel(2.0) * (RBF(3.0) * RBF(6.0) + ConstantKernel(0.4)),
        Matern(3.0, nu=np.inf),
    )
    for kernel in kernels:
        for normalise in (False, True):
            model = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None, normalize_y=normalise).fit(x, y)
            check(model, x, model.predict(x), 1)


def test_classifiers(flowers):
    x, y = flowers
    for machine in (SVC(C=3.0), NuSVC(nu=0.2)):
        two = machine.set_params(decision_function_shape="ovo").fit(x[y < 2], y[y < 2])
        check(two, x, two.decision_function(x), 1)
        three = machine.fit(x, y)
        names = check(three, x, three.decision_function(x), 3).output_names
        assert names == ("0 against 1", "0 against 2", "1 against 2")
    outlier = OneClassSVM().fit(x)
    check(outlier, x, outlier.decision_function(x), 1)


def test_gaussian_process_classifier_explains_the_latent_mean(flowers):
    x, y = flowers
    two = GaussianProcessClassifier(2.0 * RBF([1.0, 2.0, 1.0, 2.0]), optimizer=None).fit(x[y > 0], y[y > 0])
    machine = two.base_estimator_
    latent = machine.kernel_(machine.X_train_, x).T @ (machine.y_train_ - machine.pi_)
    explanation = check(two, x, latent, 1)
    assert explanation.output_names == ("latent 2",)
    for scheme, names in (("one_vs_rest", "latent 0"), ("one_vs_one", "1 against 0")):
        three = GaussianProcessClassifier(1.0 * RBF(1.0), multi_class=scheme, optimizer=None).fit(x, y)
        parts = [m.kernel_(m.X_train_, x).T @ (m.y_train_ - m.pi_) for m in three.base_estimator_.estimators_]
        assert check(three, x, np.column_stack(parts), 3).output_names[0] == names


def test_raw_models_and_rkhs_functions_agree():
    rng = np.random.default_rng(0)
    centres, coefficients = rng.normal(size=(20, 4)), rng.normal(size=(20, 2))
    scales = np.array([1.0, 2.0, 0.5, 3.0])
    x = rng.normal(size=(3, 4))
    raw = KernelExplainer((centres, coefficients, scales), centres)
    kernel = rsa2c.RBF(1.0, 1 / scales**2)
    dictionary = Dictionary(kernel, centres, np.ones(20))
    function = rsa2c.RKHSFunction(dictionary, coefficients, ("u", "v"))
    ours = KernelExplainer(function, centres)
    np.testing.assert_allclose(raw(x).values, ours(x).values, rtol=1e-12)
    laplace = KernelExplainer((centres, coefficients[:, 0], 1.5), centres, kernel="laplace")
    assert laplace.shap_values(x).shape == (3, 4)


def test_gpytorch_posterior_means():
    torch, gpytorch = pytest.importorskip("torch"), pytest.importorskip("gpytorch")

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(60, 3)))
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Process(x, torch.sin(x[:, 0]) + x[:, 1] ** 2, likelihood).double()
    model.covar_module.base_kernel.lengthscale = torch.tensor([[1.0, 2.0, 3.0]])
    model.mean_module.constant.data.fill_(0.7)
    model.eval()
    with torch.no_grad():
        reference = model(torch.tensor(x.numpy() + 0.1)).mean.numpy()
    check(model, x.numpy() + 0.1, reference, 1)


def test_names_come_from_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = load_diabetes(as_frame=True, scaled=False).data[:60]
    model = make_pipeline(StandardScaler(), SVR()).fit(frame.to_numpy(), frame["bmi"])
    explainer = KernelExplainer(model, frame[:10])
    assert explainer(frame[:2]).feature_names == tuple(frame.columns)
    with pytest.raises(DataError, match="same order"):
        explainer(frame[frame.columns[::-1]])
    assert isinstance(frame, pandas.DataFrame)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SVR(kernel="poly"), "kernel 'poly'"),
        (SVR(kernel="linear"), "kernel 'linear'"),
        (KernelRidge(kernel=lambda u, v: u @ v), "function or an object"),
        (GaussianProcessRegressor(Matern(nu=1.5), optimizer=None), "contains Matern; exact values need"),
        (GaussianProcessRegressor(RBF(1.0) + Matern(nu=1.5), optimizer=None), "contains Matern; exact values need"),
        (GaussianProcessRegressor(RBF(1.0) ** 2, optimizer=None), "contains Exponentiation; exact values need sums"),
        (make_pipeline(PolynomialFeatures(), SVR()), "PolynomialFeatures"),
        (LinearRegression(), "got LinearRegression"),
    ],
)
def test_models_without_product_kernel_are_refused(model, message):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3))
    with pytest.raises(ConfigError, match=message):
        KernelExplainer(model.fit(x, x[:, 0]), x)


def test_unfitted_models_and_bad_tuples_are_refused():
    x = np.ones((5, 2))
    with pytest.raises(DataError, match="not fitted"):
        KernelExplainer(SVR(), x)
    with pytest.raises(DataError, match="got 2 parts"):
        KernelExplainer((x, x), x)
    with pytest.raises(DataError, match=r"shapes \(5, 2\)"):
        KernelExplainer((x, np.ones(4), 1.0), x)
    with pytest.raises(ConfigError, match=r"got SVR.predict. Write KernelExplainer\(model, background"):
        KernelExplainer(SVR().fit(x, x[:, 0]).predict, x)
    with pytest.raises(ConfigError, match="Did you mean 'laplace'"):
        KernelExplainer((x, np.ones(5), 1.0), x, kernel="laplac")


def test_support_vector_regression_on_a_real_table_agrees_with_shap_run_to_convergence(table):
    shap = pytest.importorskip("shap")
    x, y = table
    model = make_pipeline(StandardScaler(), SVR(C=100)).fit(x, y)
    explanation = KernelExplainer(model, x[:20])(x[30:32])
    # All 2^10 - 2 coalitions: shap's regression is then exact.
    converged = shap.KernelExplainer(model.predict, x[:20]).shap_values(x[30:32], nsamples=2**10, silent=True)
    np.testing.assert_allclose(explanation.values[..., 0], converged, atol=1e-6 * np.abs(converged).max())


def test_a_pipeline_fitted_to_a_data_frame_is_explained_without_warnings(table, recwarn):
    pandas = pytest.importorskip("pandas")
    x, y = table
    frame = pandas.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])])
    model = make_pipeline(StandardScaler(), SVR()).fit(frame, y)
    explanation = KernelExplainer(model, frame[:10])(frame[10:12])
    assert explanation.feature_names[0] == "c0" and not list(recwarn)
    with pytest.raises(DataError, match=r"background must be numbers of the shape \(N, 10\), got str"):
        KernelExplainer(model, "a")

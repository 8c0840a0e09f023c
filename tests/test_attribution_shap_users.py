"""What users of scikit-learn and shap bring: column transformers, searches, sums of kernels, and shap's plots."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rsa2c
from rsa2c.attribution import Explanation, KernelExplainer
from rsa2c.attribution.settings import WITHOUT_USE
from rsa2c.errors import ConfigError, DataError

pytest.importorskip("sklearn")
shap = pytest.importorskip("shap")
pandas = pytest.importorskip("pandas")
from sklearn.base import clone  # noqa: E402
from sklearn.compose import ColumnTransformer, make_column_transformer  # noqa: E402
from sklearn.experimental import enable_halving_search_cv  # noqa: E402, F401
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor  # noqa: E402
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR  # noqa: E402

NAMES = ("heat", "flow", "age", "dose", "tank")
KERNEL = ConstantKernel(2.0) * RBF([1.0, 2.0, 0.7, 3.0, 1.5]) + RBF(0.8) + ConstantKernel(0.3) + WhiteKernel(0.2)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)) * [1.0, 3.0, 0.5, 2.0, 1.0] + [0.0, 5.0, 1.0, -2.0, 0.0]
    return pandas.DataFrame(x, columns=NAMES), np.sin(x[:, 0]) * x[:, 1] + x[:, 2] * x[:, 3] + 0.5 * x[:, 4] ** 2


def enumerated(predict, background, x):
    """shap's own values of all 2^d coalitions, (T, d) or (T, d, m)."""
    return shap.ExactExplainer(predict, shap.maskers.Independent(background, max_samples=len(background)))(x).values


def with_names(model):
    """What shap can call: it passes arrays, and ColumnTransformer selects columns by name."""
    return lambda x: model.predict(pandas.DataFrame(x, columns=NAMES))


def by_names():
    return make_column_transformer((StandardScaler(), ["dose", "heat"]), ("passthrough", ["age", "tank", "flow"]))


@pytest.mark.parametrize(
    "columns",
    [
        by_names(),
        make_column_transformer((MinMaxScaler(), [3, 1]), remainder="passthrough"),
        make_column_transformer((make_pipeline(StandardScaler(), MinMaxScaler()), slice("flow", "dose"))),
        ColumnTransformer([("a", "passthrough", ["tank"]), ("b", "drop", ["flow"])], remainder=StandardScaler()),
        make_column_transformer((StandardScaler(), lambda frame: ["tank", "age"]), remainder="passthrough"),
    ],
)
def test_column_transformers_agree_with_enumeration_in_the_order_of_x(table, columns, recwarn):
    x, y = table
    process = GaussianProcessRegressor(KERNEL.k1.k1.k2, alpha=0.1, optimizer=None)
    for last in (SVR(C=10), process):
        if last is process and columns.fit_transform(x).shape[1] != 5:
            continue
        model = make_pipeline(columns, last).fit(x, y)
        explainer = KernelExplainer(model, x[:12])
        np.testing.assert_allclose(explainer.predict(x)[:, 0], model.predict(x), atol=1e-9)
        explanation = explainer(x[20:23])
        exact = enumerated(with_names(model), x[:12].to_numpy(), x[20:23].to_numpy())
        np.testing.assert_allclose(explanation.values[..., 0], exact, atol=1e-9)
        assert explanation.feature_names == NAMES
        np.testing.assert_array_equal(explanation.data, x[20:23])


def test_a_dropped_column_has_the_value_zero(table):
    x, y = table
    model = make_pipeline(make_column_transformer((StandardScaler(), ["tank", "heat"])), SVR()).fit(x, y)
    for method in ("kme", "cme"):
        values = KernelExplainer(model, x[:12], method=method)(x[:3]).values[..., 0]
        np.testing.assert_allclose(values[:, 1:4], 0.0, atol=1e-9)
        assert np.abs(values[:, [0, 4]]).min() > 1e-6


def test_steps_before_and_after_a_column_transformer_and_a_pipeline_within(table):
    x, y = table
    columns = make_column_transformer((MinMaxScaler(), [4, 2]), remainder="passthrough")
    inside = make_pipeline(make_column_transformer(("passthrough", [1, 0]), remainder=StandardScaler()), SVR(C=10))
    model = make_pipeline(StandardScaler(), columns, StandardScaler(), inside).fit(x, y)
    explainer = KernelExplainer(model, x[:12])
    np.testing.assert_allclose(explainer.predict(x)[:, 0], model.predict(x), atol=1e-9)
    exact = enumerated(with_names(model), x[:12].to_numpy(), x[20:22].to_numpy())
    np.testing.assert_allclose(explainer.shap_values(x[20:22]), exact, atol=1e-9)


def test_names_come_from_the_table_the_model_was_fitted_to(table):
    x, y = table
    model = make_pipeline(by_names(), SVR()).fit(x, y)
    assert KernelExplainer(model, x[:5].to_numpy())(x[:1].to_numpy()).feature_names == NAMES
    with pytest.raises(DataError, match="columns the model was fitted to, in the same order, heat, flow"):
        KernelExplainer(model, x[list(NAMES[::-1])])


def test_a_data_frame_is_compared_by_its_columns_and_may_be_shown_under_other_names(table):
    x, y = table
    explainer = KernelExplainer(SVR().fit(x, y), x[:10], feature_names=list("abcde"))
    assert explainer(x[:2]).feature_names == tuple("abcde"), "names to show are not columns to find"
    for call in (explainer, explainer.predict):
        with pytest.raises(DataError, match=r"X must have the background's columns .*; got them in another order"):
            call(x[list(NAMES[::-1])])
        with pytest.raises(DataError, match="got them without age and with years"):
            call(x.rename(columns={"age": "years"}))
    with pytest.raises(DataError, match=r"got nan in row 1, feature 2 \(age\)"):
        explainer(x[:3].assign(age=[0.0, np.nan, np.nan]))
    with pytest.raises(DataError, match=r"got DenseData .*Give an array or a data frame of numbers"):
        KernelExplainer(SVR().fit(x, y), shap.kmeans(x, 3))


def test_an_agent_compares_columns_with_its_features():
    agent = rsa2c.load("zoo:Pendulum-v1")
    good = pandas.DataFrame(agent.background[:4], columns=agent.feature_names)
    mixed = good[list(agent.feature_names[::-1])]
    explained = agent.explain(good, of="action", background=good).values
    np.testing.assert_array_equal(explained, agent.explain(agent.background[:4], "action", background=good).values)
    np.testing.assert_array_equal(agent.predict(good)[0], agent.predict(pandas.DataFrame(good.to_numpy()))[0])
    for call in (
        agent.explain, agent.predict, agent.familiarity, agent.linearise, agent.prototypes,
        lambda states: agent.certify(states, 0.1), lambda states: agent.certified_radius(states, 0.1),
        lambda states: agent.explain(good, background=states),
    ):  # fmt: skip
        with pytest.raises(DataError, match=r"must have the agent's features as columns .* got them in another order"):
            call(mixed)


@pytest.mark.parametrize("option", WITHOUT_USE)
def test_options_of_shap_are_refused_with_the_reason(table, option):
    x, y = table
    model = SVR().fit(x, y)
    says = f"explain has no option '{option}': .*Leave it out"
    with pytest.raises(ConfigError, match=says):
        KernelExplainer(model, x[:5], **{option: 1})
    with pytest.raises(ConfigError, match=says):
        KernelExplainer(model, x[:5]).shap_values(x[:2], **{option: 1})


@pytest.mark.parametrize(
    "steps",
    [
        (SimpleImputer(), StandardScaler()),
        (PowerTransformer(), QuantileTransformer(n_quantiles=20)),
        (make_column_transformer((PowerTransformer(), ["dose", "heat"]), remainder=SimpleImputer()),),
    ],
)
def test_steps_that_change_each_column_by_itself_agree_with_enumeration(table, steps):
    x, y = table
    model = make_pipeline(*steps, SVR(C=10)).fit(x, y)
    exact = enumerated(with_names(model), x[:12].to_numpy(), x[20:22].to_numpy())
    np.testing.assert_allclose(KernelExplainer(model, x[:12]).shap_values(x[20:22]), exact, atol=1e-9)


def test_an_imputer_that_adds_or_drops_columns_is_refused(table):
    x, y = table
    holes = x.assign(age=np.where(np.arange(60) % 2, np.nan, 1.0))
    with pytest.raises(ConfigError, match=r"\(SimpleImputer\) makes 6 columns of 5"):
        KernelExplainer(make_pipeline(SimpleImputer(add_indicator=True), SVR()).fit(holes, y), x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn says that it drops a column
        dropping = make_pipeline(SimpleImputer(), SVR()).fit(x.assign(age=np.nan), y)
    with pytest.raises(ConfigError, match=r"\(SimpleImputer\) makes 4 columns of 5"):
        KernelExplainer(dropping, x)


def test_other_transformers_are_refused(table):
    x, y = table
    for columns, message in (
        (make_column_transformer((OneHotEncoder(), ["tank"])), "'onehotencoder' of pipeline step.*explain the last"),
        (make_column_transformer((StandardScaler(), [0, 1]), ("passthrough", [1])), "got column 1 in several"),
    ):
        with pytest.raises(ConfigError, match=message):
            KernelExplainer(make_pipeline(columns, SVR()).fit(x, y), x.to_numpy())
    with pytest.raises(DataError, match=r"\(ColumnTransformer\) is not fitted"):
        KernelExplainer(make_pipeline(by_names(), SVR()), x)


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV])
def test_a_search_is_explained_by_its_best_estimator(table, search):
    x, y = table
    options = {"n_iter": 2} if search is RandomizedSearchCV else {}
    found = search(make_pipeline(by_names(), SVR()), {"svr__C": [0.1, 10.0]}, cv=2, **options)
    with pytest.raises(DataError, match="is not fitted yet"):
        KernelExplainer(found, x)
    found.fit(x, y)
    best = KernelExplainer(found.best_estimator_, x[:10])(x[20:22])
    ours = KernelExplainer(found, x[:10])(x[20:22])
    np.testing.assert_array_equal(ours.values, best.values)
    assert ours.feature_names == NAMES
    with pytest.raises(ConfigError, match="fit it with refit=True"):
        KernelExplainer(clone(found).set_params(refit=False).fit(x, y), x)


def test_a_sum_of_kernels_is_the_sum_of_its_parts(table):
    x, y = table
    x = x.to_numpy() / x.to_numpy().std(axis=0)
    targets = np.column_stack([y, np.cos(y)])
    model = GaussianProcessRegressor(KERNEL, optimizer=None, normalize_y=True).fit(x, targets)
    explainer = KernelExplainer(model, x[:10])
    np.testing.assert_allclose(explainer.predict(x), model.predict(x), atol=1e-9)
    explanation = explainer(x[20:23], nodes="exact", interactions=True)
    np.testing.assert_allclose(explanation.values, enumerated(model.predict, x[:10], x[20:23]), atol=1e-9)
    np.testing.assert_allclose(explanation.interactions.sum(axis=2), explanation.values, atol=1e-9)
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, model.predict(x[20:23]), atol=1e-9)
    assert explanation.output_names == ("prediction 0", "prediction 1")
    assert explanation.game.startswith("sum of 2 product kernels: KME")
    sampled = explainer(x[:2], method="cme", permutations=4)
    parts = [KernelExplainer(part, x[:10], method="cme", permutations=4)(x[:2]) for part in explainer.expansions]
    np.testing.assert_allclose(sampled.std_error, parts[0].std_error + parts[1].std_error, rtol=1e-12)


def test_classifiers_with_sums_of_kernels(table):
    x, y = table
    x, labels = x.to_numpy(), np.digitize(y, np.quantile(y, [0.3, 0.6]))
    model = GaussianProcessClassifier(1.0 * RBF(2.0) + RBF(5.0), optimizer=None).fit(x, labels)
    machines = model.base_estimator_.estimators_
    latent = np.column_stack([m.kernel_(m.X_train_, x).T @ (m.y_train_ - m.pi_) for m in machines])
    explainer = KernelExplainer(model, x[:10])
    np.testing.assert_allclose(explainer.predict(x), latent, atol=1e-9)
    explanation = explainer(x[:3])
    assert explanation.output_names == ("latent 0", "latent 1", "latent 2")
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, latent[:3], atol=1e-9)


def test_the_expected_value_is_shaps(table):
    x, y = table
    x = x.to_numpy()
    model = SVR().fit(x, y)
    ours, theirs = KernelExplainer(model, x[:10]), shap.KernelExplainer(model.predict, x[:10])
    assert isinstance(ours.expected_value, float)
    np.testing.assert_allclose(ours.expected_value, theirs.expected_value, rtol=1e-12)
    np.testing.assert_allclose(ours(x[:2]).base_values, ours.expected_value, rtol=1e-9)
    several = SVC(decision_function_shape="ovo").fit(x, np.digitize(y, np.quantile(y, [0.3, 0.6])))
    ours, theirs = KernelExplainer(several, x[:10]), shap.KernelExplainer(several.decision_function, x[:10])
    np.testing.assert_allclose(ours.expected_value, theirs.expected_value, atol=1e-9)
    one = KernelExplainer(several, x[:10], outputs=["0 against 2"])
    assert one.expected_value == ours.expected_value[1]


@pytest.fixture(scope="module")
def explanations(table) -> tuple[Explanation, Explanation]:
    x, y = table
    single = KernelExplainer(SVR().fit(x, y), x[:10])(x[:20])
    classes = SVC().fit(x, np.digitize(y, np.quantile(y, [0.3, 0.6])))
    return single, KernelExplainer(classes, x[:10])(x[:20])


def test_shaps_index_gives_what_shaps_plots_expect(explanations):
    single, several = explanations
    assert single.shape == (20, 5, 1)
    for index, picked in (
        (np.s_[...], single.values[..., 0]),
        (np.s_[..., 0], single.values[..., 0]),
        (np.s_[3, :], single.values[3, :, 0]),
        (np.s_[:, "age"], single.values[:, 2, 0]),
        (np.s_[:5, [0, 2]], single.values[:5, [0, 2], 0]),
    ):
        np.testing.assert_array_equal(single[index].values, picked)
    one = several[3, :, "0 against 2"]
    np.testing.assert_array_equal(one.values, several.values[3, :, 1])
    assert one.base_values == several.base_values[3, 1] and list(one.feature_names) == list(NAMES)
    np.testing.assert_array_equal(one.data, several.data[3])
    assert several[...].shape == (20, 5, 3)
    np.testing.assert_array_equal(several[..., -1].abs.mean(0).values, several.importances[:, 2])
    with pytest.raises(DataError, match=r"Unknown feature 'ages'.*Did you mean 'age'"):
        single[:, "ages"]
    with pytest.raises(DataError, match="Unknown output 'w'"):
        several[..., "w"]
    with pytest.raises(DataError, match="third index must be one output"):
        several[..., [0, 1]]
    with pytest.raises(DataError, match="three axes"):
        single[0, 0, 0, 0]


@pytest.mark.parametrize(
    ("plot", "index"),
    [
        ("waterfall", np.s_[0, :, 0]),
        ("waterfall", np.s_[0, ..., 0]),
        ("beeswarm", np.s_[..., 0]),
        ("bar", np.s_[..., 0]),
        ("bar", np.s_[0, :, 0]),
        ("scatter", np.s_[:, "age", 0]),
        ("heatmap", np.s_[..., 0]),
        ("violin", np.s_[..., 0]),
    ],
)
def test_shap_draws_every_plot(explanations, plot, index):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for explanation in explanations:
        with warnings.catch_warnings():
            # shap's own: it draws with interfaces that NumPy and matplotlib have deprecated.
            warnings.filterwarnings("ignore", module=r"shap\..*")
            getattr(shap.plots, plot)(explanation[index], show=False)
        assert pyplot.gcf().axes
        pyplot.close("all")
